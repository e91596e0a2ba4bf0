"""Rounds of private soft expectation-maximization for separated mixtures, from several starts.

Public fits and the labels of a cheap private search start it. A few small rounds of each start, a private choice among them, small
rounds of the winner, and one large round follow. A round releases, for each component, the Gram matrix of the rows weighted by
their responsibilities, all components at the price of one (`mechanisms/notes/soft_gram.md`). What is lost in noise stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtr, chdtrc

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder.schedule import Prediction
from fastpubpriv.kernels.mixture_rows import NormalTable, prepare, whole_parts
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms.hypotheses import Hypotheses
from fastpubpriv.mechanisms.scores import LogRatios
from fastpubpriv.mechanisms.selection import NoisyScores
from fastpubpriv.mechanisms.sums import SoftGrams, WholeParts
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures.fit import Gaussians
from fastpubpriv.mixtures.separated.public_starts import Parameters, labeled_fit, public_fits
from fastpubpriv.mixtures.separated.searches import ONE_SHOT, TREE, Shape, find_components, search_scaling
from fastpubpriv.privacy.calibration import gaussian_count_grid, gaussian_gram_grid
from fastpubpriv.public_draws import chi2_quantile
from fastpubpriv.results.reasons import PartReasons, Reason, first_of
from fastpubpriv.row_maps import RowTree
from fastpubpriv.session import Run
from fastpubpriv.sources.views import interleave_rows

# ---- What a round costs: public numbers only.

CHOICE = Fraction(1, 50)
SEARCHES: dict[str, Fraction] = {"one_shot": Fraction(2, 25), "tree": Fraction(1, 10)}
# Fewer public rows than this for each component: the tree's labels start an attempt of their own.
TREE_START_ROWS = 20
POOLED_ROWS = 3  # public rows for each component and column from which on they join the moments of a round
# Relative noise of a covariance that an early round may have, and the bounds of its share of the budget.
EARLY_NOISE, LEAST_EARLY, MOST_EARLY = 0.7, 1.0 / 60.0, 1.0 / 16.0
# Noise of the whole budget above which it is kept for the last round: starts are compared as they are, and as many early rounds as
# need a wide clip radius come before it. Where public rows join the moments, they start it better than a search does.
NOISY = 0.4
RACE, MOST_RACE_ROUNDS, BEFORE_LAST, MOST_MORE = 0.3, 2, 0.35, 8
# The clip radius is this quantile of a component's rows; early rounds, and the first one by labels, see farther.
INSIDE, EARLY_ROUNDS, EARLY_CLIP, LABELED_CLIP, LIFT = 0.95, 2, 1.6, 4.0, 0.35
CLIP_NATS = 4.0
FINE = 1 << 24  # steps of the radius for public rows, which need no noise
MOST_ROUNDS = 4 * MOST_RACE_ROUNDS + MOST_MORE + 1
# Early rounds read so many rows at least, and so many for each entry of the covariances: beyond, they cost time and show no more.
LEAST_EARLY_ROWS, EARLY_ROWS_PER_ENTRY = 50_000, 25
# The same of the rows by which a start is chosen: their sampling and the noise are then about a hundredth of a nat for each row.
CHOICE_ROWS, CHOICE_STDS = 20_000, 100.0


@dataclass(frozen=True, slots=True)
class RowClip:
    """Squared radius of the whitened rows, and the square of the constant beside them."""

    inner: float
    lift: float

    @classmethod
    def of(cls, dim: int, wider: float = 1.0) -> RowClip:
        """Public numbers of the dimension."""
        inner = wider * chi2_quantile(INSIDE, dim)
        return cls(inner, max(1.0, LIFT * inner))

    @property
    def total(self) -> float:
        """Squared norm of a stacked row."""
        return self.inner + self.lift

    def factor(self, dim: int) -> float:
        """E |z|^2 over E |clipped z|^2 of white rows."""
        kept = dim * chdtr(dim + 2, self.inner) + self.inner * chdtrc(dim, self.inner)
        return dim / float(kept)


def budget_noise(dim: int, k: int, n: int, rho: float) -> float:
    """Relative Frobenius noise of the covariance of a k-th of n rows, if the whole budget went into one early round."""
    return RowClip.of(dim, EARLY_CLIP).total / math.sqrt(rho) * math.sqrt(dim * (dim + 1) / 2.0) * k / n


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftPlan:
    """Shares of the budget and numbers of rounds, from public numbers."""

    noise: float  # `budget_noise`
    searches: tuple[str, ...]
    early: Fraction
    race: int
    more: int
    last: Fraction
    noisy: bool
    early_rows: int  # of n, spread over all of them
    choice_rows: int  # of n, by which a start is chosen

    @property
    def starts(self) -> int:
        """Two public ones, and one for each search."""
        return 2 + len(self.searches)

    @property
    def rounds(self) -> int:
        """Rounds before the last one."""
        return self.starts * self.race + self.more

    def predicted(self, dim: int, rows: float, rho: float) -> Prediction:
        """Errors of a component of so many rows after the last round: noise and sampling."""
        clip = RowClip.of(dim)
        sigma = clip.total / math.sqrt(rho * self.last) / rows
        covariance = clip.factor(dim) * sigma * math.sqrt(dim * (dim + 1) / 2.0)
        mean = sigma * math.sqrt(dim / (2.0 * clip.lift))
        return Prediction(
            math.hypot(covariance, math.sqrt(dim * (dim + 1) / rows)), math.hypot(mean, math.sqrt(dim / rows))
        )

    @classmethod
    def of(cls, dim: int, k: int, n: int, n_pub: int, rho: float) -> SoftPlan:
        """From the sizes and the allowance."""
        noise = budget_noise(dim, k, n, rho)
        share = min(max((noise / EARLY_NOISE) ** 2, LEAST_EARLY), MOST_EARLY)
        noisy = noise > NOISY
        few = n_pub < k * max(TREE_START_ROWS, POOLED_ROWS * dim * noisy)
        searches = tuple(SEARCHES)[: 0 if k == 1 else few + (not noisy)]
        starts, left = 2 + len(searches), 1 - sum((SEARCHES[name] for name in searches), CHOICE + fit.SHARE)
        early = Fraction(share).limit_denominator(10**6)
        if noisy:
            race, more, left = 0, EARLY_ROUNDS, left - CHOICE
        else:
            race = max(r for r in range(MOST_RACE_ROUNDS + 1) if r == 0 or (starts * r + 1) * share <= RACE)
            more = min(max(MOST_RACE_ROUNDS - race, int(BEFORE_LAST / share) - starts * race), MOST_MORE)
        needed = noise * n / (EARLY_NOISE * math.sqrt(early)), EARLY_ROWS_PER_ENTRY * k * dim * (dim + 1)
        return cls(
            noise=noise,
            searches=searches,
            early=early,
            race=race,
            more=more,
            last=left - (starts * race + more) * early,
            noisy=noisy,
            early_rows=min(n, max(LEAST_EARLY_ROWS, math.ceil(max(needed)))),
            choice_rows=min(n, max(CHOICE_ROWS, math.ceil(CHOICE_STDS * math.sqrt(8 * starts / (rho * CHOICE))))),
        )


def soft_draws(dim: int, k: int) -> int:
    """Upper bound on the noise draws of the rounds, the choices and the count; those of the searches are theirs."""
    return MOST_ROUNDS * k * (dim + 1) ** 2 + 16 + fit.count_draws(k)


def check_soft_grids(plan: SoftPlan, dim: int, k: int, n: int, allowance: Fraction) -> None:
    """Raise now, before the debit, if a round or a choice has no integer grid."""
    for share in (plan.early, plan.last):
        gaussian_gram_grid(allowance * share, k * (dim + 1), n)
    for candidates in (2, plan.starts):
        gaussian_count_grid(allowance * CHOICE / (8 * candidates), candidates, 4 * n)
    gaussian_count_grid(allowance * fit.SHARE, fit.count_draws(k), n)


# ---- One round.


def soft_parts(
    chunk: Any, inv_step: float, bound: int, *, table: NormalTable, clip: RowClip, labels: RowTree | None = None
) -> Iterator[Sequence[FloatArray]]:
    """For each component, root of its responsibility, or of `labels`, times (whitened clipped row, constant), as `whole_parts`."""
    reached = None
    if labels is not None:
        reached = np.empty(len(chunk), dtype=np.int32)
        tree_assign(chunk, labels, reached)
    lift = math.sqrt(clip.lift)
    return whole_parts(chunk, inv_step, bound, table=table, labels=reached, inner=clip.inner, lift=lift)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartState:
    """One start on its way: its mixture, the rounds behind it, and the labels of its first round, where a search gave them."""

    name: str
    at: Parameters
    rounds: int = 0
    labels: RowTree | None = None
    noise: FloatArray = field(default_factory=lambda: np.zeros(0))  # (k,) relative Frobenius noise of covariances
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))  # noisy rows of the last round
    count_std: float = 0.0


def kept(values: FloatArray, variance: float) -> float:
    """Positive-part James-Stein factor of numbers under noise of this variance, against "nothing changes"."""
    count, length = values.size, float(np.square(values).sum())
    if count == 0 or length <= 0.0:
        return 0.0
    if count >= 30 and not length > count * variance * (1.0 + 2.0 * math.sqrt(2.0 / count)):
        return 0.0
    lost = (0.6 * count if count <= 4 else count - 2.0) * variance / length
    return max(0.0, 1.0 - lost)


def shrunken_change(matrix: FloatArray, diagonal: float, off: float) -> FloatArray:
    """A noisy covariance of white rows pulled to the identity: its level, the rest of its diagonal, and what is off it."""
    # `diagonal` and `off` are the variances of the noise.
    dim = len(matrix)
    level = float(np.mean(np.diag(matrix))) - 1.0
    rest = np.diag(matrix) - 1.0 - level
    upper = np.triu_indices(dim, 1)
    out = matrix * kept(matrix[upper], off)
    np.fill_diagonal(
        out,
        1.0 + kept(np.array([level]), diagonal / dim) * level + kept(rest if dim > 1 else rest[:0], diagonal) * rest,
    )
    return out


def public_grams(public: FloatArray, rows_of: WholeParts, clip: RowClip) -> list[FloatArray]:
    """The Gram matrices (dim + 1, dim + 1) of public rows for each component, without noise."""
    step = math.sqrt(clip.total) / FINE
    found = rows_of(public, 1.0 / step, 2 * FINE)
    parts = [np.concatenate(each) * step for each in zip(*found, strict=True)]
    return [rows.T @ rows for rows in parts]


def advance(run: Run, public: FloatArray, state: StartState, *, share: Fraction, name: str) -> StartState:
    """One private round: responsibilities at the state's mixture, Gram matrices, and a change of each component."""
    at, k, n = Gaussians.of(state.at.weights, state.at.means, state.at.covariances), len(state.at.weights), run.rows.n
    wider = 1.0 if state.rounds >= EARLY_ROUNDS else EARLY_CLIP
    clip = RowClip.of(at.dim, LABELED_CLIP if state.labels is not None else wider)
    rows_of = partial(soft_parts, table=at.table, clip=clip, labels=state.labels)
    released = run.release(
        SoftGrams(
            rows_of=rows_of,
            parts=k,
            side=at.dim + 1,
            radius=math.sqrt(clip.total),
            row_cost=k * at.dim**2 // 8 + 20 * k,
        ),
        name=name,
        cost=run.account.allowance * share,
        clip_radius=math.sqrt(clip.inner),
    )
    m = len(public)
    grams = public_grams(public, rows_of, clip) if m >= POOLED_ROWS * at.dim * k else None
    weights, means, covariances = np.empty(k), np.empty_like(at.means), np.empty_like(at.covariances)
    noise, sigma, factor = np.empty(k), released.noise_std, clip.factor(at.dim)
    for j in range(k):
        gram, known = released.value[j], None if grams is None else grams[j]
        held = weighed_count(float(gram[-1, -1]), known, float(at.weights[j]), sigma=sigma, clip=clip, n=n, m=m)
        first, second, shares = pooled_moments(gram, known, held, sigma=sigma, clip=clip, factor=factor)
        off = factor * sigma / (math.sqrt(2.0) * held) * shares[1]
        noise[j] = off * math.sqrt(at.dim * (at.dim + 1.0))
        change = shrunken_change(second - np.outer(first, first), 2.0 * off**2, off**2)
        step = kept(first, (sigma / (math.sqrt(2.0 * clip.lift) * held) * shares[0]) ** 2)
        values, vectors = np.linalg.eigh(change)
        half = at.roots[j] @ (vectors * np.sqrt(np.clip(values, 0.1, 12.0)))
        weights[j], means[j] = held, at.means[j] + at.roots[j] @ (step * first)
        covariances[j] = half @ half.T
    return replace(
        state,
        at=Parameters(weights=weights / weights.sum(), means=means, covariances=covariances),
        rounds=state.rounds + 1,
        labels=None,
        noise=noise,
        counts=weights,
        count_std=sigma / clip.lift,
    )


def weighed_count(
    found: float, known: FloatArray | None, weight: float, *, sigma: float, clip: RowClip, n: int, m: int
) -> float:
    """Rows of a component: noisy count, "as before" and public share by inverse variances; never fewer than noise makes."""
    spread = n * weight * (1.0 - weight)
    noise = sigma / clip.lift
    values, variances = [found / clip.lift, n * weight], [noise**2 + spread, (0.2 * n) ** 2]
    if known is not None:
        values.append(n * float(known[-1, -1]) / clip.lift / m)
        variances.append(n * max(spread, 1e-12 * n) / m)
    precision = 1.0 / np.maximum(variances, 1e-12)
    return max(float(precision @ values / precision.sum()), 2.0 * noise, 1.0)


def pooled_moments(
    gram: FloatArray, known: FloatArray | None, held: float, *, sigma: float, clip: RowClip, factor: float
) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
    """First and second moments of a component's whitened rows, and the private share of each; with public rows where they join."""
    lift, dim = math.sqrt(clip.lift), len(gram) - 1
    first, second = gram[:-1, -1] / (lift * held), factor * gram[:-1, :-1] / held
    if known is None:
        return first, second, (1.0, 1.0)
    seen = float(known[-1, -1]) / clip.lift
    shares = []
    for noise, least in (
        (sigma / (math.sqrt(2.0) * lift * held), 1.0),
        (factor * sigma / (math.sqrt(2.0) * held), POOLED_ROWS * dim),
    ):
        private = 1.0 / (noise**2 + 1.0 / held)
        shares.append(private / (private + (seen if seen >= least else 0.0)))
    safe = max(seen, 1e-12)
    first = shares[0] * first + (1.0 - shares[0]) * known[:-1, -1] / (lift * safe)
    second = shares[1] * second + (1.0 - shares[1]) * factor * known[:-1, :-1] / safe
    return first, second, (shares[0], shares[1])


# ---- Starts, race, choice, rounds.


def public_starts(public: FloatArray, shape: Shape) -> list[StartState]:
    """The fits to public rows; no budget. Refuses rows that are all equal."""
    with np.errstate(all="ignore"):  # numbers of any size
        full, diagonal = public_fits(public, shape.n_components, shape.min_weight)
    return [StartState(name="public", at=full), StartState(name="public, axis-aligned", at=diagonal)]


def all_starts(run: Run, public: FloatArray, shape: Shape, plan: SoftPlan, fits: list[StartState]) -> list[StartState]:
    """The public fits, and one start for each search; where a search finds fewer components, the first fit again."""
    k, starts = shape.n_components, list(fits)
    for method in (ONE_SHOT, TREE)[: len(plan.searches)]:
        cost, scaling = run.account.allowance * SEARCHES[method.name], search_scaling(method, shape, public)
        found = find_components(run, public, shape, method, cost, scaling)
        if len(found.leaves) < k:
            starts.append(starts[0])
            continue
        routes, labels = found.tree.routes(found.leaves), np.empty(len(public), dtype=np.int32)
        tree_assign(public, routes, labels)
        starts.append(StartState(name=method.name, at=labeled_fit(public, labels, k), labels=routes))
    return starts


def choose(run: Run, states: list[StartState], *, name: str) -> StartState:
    """The state whose mixture has the largest clipped log density at the private rows, under noise."""
    listed = Hypotheses.from_arrays(
        np.stack([state.at.weights / state.at.weights.sum() for state in states]),
        np.stack([state.at.means for state in states]),
        np.stack([state.at.covariances for state in states]),
    )
    scores = run.release(
        NoisyScores(evaluation=LogRatios.prepare(listed, clip=CLIP_NATS), size=listed.size),
        name=name,
        cost=run.account.allowance * CHOICE,
        candidates=listed.size,
    )
    return states[int(listed.positions[int(np.argmin(scores.value))])]


def without_noise_correlations(state: StartState) -> Parameters:
    """Correlations pulled to zero where noise and sampling explain them; free, and only for components that noise leaves clear."""
    at, covariances = state.at, state.at.covariances.copy()
    dim = at.means.shape[1]
    count = dim * (dim - 1) / 2.0
    for j, covariance in enumerate(at.covariances):
        if dim == 1 or state.noise[j] > 0.5:
            continue
        scale = np.sqrt(np.diag(covariance))
        correlations = covariance / np.outer(scale, scale)
        length = float(np.square(correlations[np.triu_indices(dim, 1)]).sum())
        expected = count * (float(state.noise[j]) ** 2 / dim**2 + 1.0 / max(float(state.counts[j]), 1.0))
        left = 0.0 if length < expected * (1.0 + 2.0 * math.sqrt(2.0 / count)) else 1.0 - expected / length
        if left <= 0.9:
            correlations *= left
            np.fill_diagonal(correlations, 1.0)
            covariances[j] = correlations * np.outer(scale, scale)
    return replace(at, covariances=covariances)


def some_rows(run: Run, count: int) -> Run:
    """The run on so many rows, spread over all of them."""
    left = run.rows.n - count
    return run if left <= 0 else run.on(interleave_rows(run.rows, count, left)[0])


def learn_rounds(
    run: Run, public: FloatArray, shape: Shape, plan: SoftPlan, fits: list[StartState]
) -> tuple[StartState, dict[str, Any]]:
    """All releases but the count: the final state, and what happened."""
    k, all_rows = shape.n_components, run
    prepare(plan.rounds * plan.early_rows + run.rows.n, k * shape.dim**2)
    run, few = some_rows(run, plan.early_rows), some_rows(run, plan.choice_rows)
    states = all_starts(run, public, shape, plan, fits)
    for turn in range(plan.race):
        states = [
            advance(run, public, state, share=plan.early, name=f"start {number}, round {turn + 1}")
            for number, state in enumerate(states, start=1)
        ]
    state = start = choose(few, states, name="start")
    for _ in range(plan.more):
        state = advance(run, public, state, share=plan.early, name=f"round {state.rounds + 1}")
    before, state = state, advance(all_rows, public, state, share=plan.last, name="last round")
    guarded = False
    if plan.noisy:
        picked = choose(run, [start, before, state], name="guard")
        guarded, state = picked is not state, replace(state, at=picked.at)
    if not guarded:
        state = replace(state, at=without_noise_correlations(state))
    return state, {"start": state.name, "starts": [each.name for each in states], "guarded": guarded}


def component_reasons(state: StartState, floor: float, *, guarded: bool) -> PartReasons:
    """Reasons of each component before the count."""
    lost = (state.noise > 0.5) | guarded | (state.counts < max(floor, 5.0 * state.count_std))
    return first_of([(lost, Reason.UNRESOLVED)], len(lost))
