"""Rounds of private soft expectation-maximization for separated mixtures, from several starts.

The starts are fits to public rows, or the leaves of one private search. Each of several starts gets a few small rounds; a private
choice among them, small rounds of the winner, and one large round follow. A round releases, for each
component, the Gram matrix of the rows weighted by their responsibilities, all components at the price of one
(`mechanisms/notes/soft_gram.md`). Changes that cannot be distinguished from noise are shrunk to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms.scores import LogRatios
from fastpubpriv.mechanisms.selection import HypothesisChoice, NoisyScores
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.em_rounds import LAST, RowClip, StartState, advance, public_errors
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, joined
from fastpubpriv.mixtures.public_em import (
    ComponentShape,
    grouped_fit,
    labeled_fit,
    public_fits,
    responsibilities,
)
from fastpubpriv.mixtures.separated.searches import (
    SearchMethod,
    Shape,
    find_components,
    search_share,
)
from fastpubpriv.privacy.spending import WHOLE, Spending
from fastpubpriv.results.reasons import PartReasons, Reason, first_of
from fastpubpriv.session import Session
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.views import interleave_rows

# ---- Noise and budget of the rounds, from public numbers only.

MOST_ROUNDS = 4 * tuning.EARLY_ROUNDS + tuning.MOST_MORE + 1
# maximum values (rows times columns) that are copied into memory before several passes
MOST_GATHERED = 1 << 21


def round_noise(
    dim: int, clip: RowClip, spending: Spending, share: Fraction = WHOLE
) -> tuple[float, float]:
    """Standard deviations of the noise on and off the diagonal in a round that costs a share of what is left."""
    on = clip.total * spending.std("shared", dim + 1, share)
    return on, on / spending.on_diagonal


def budget_noise(dim: int, k: int, n: int, spending: Spending) -> float:
    """Relative Frobenius noise of the covariance of a k-th of n rows, if the whole budget went into one early round."""
    on, off = round_noise(dim, RowClip.of(dim, tuning.EARLY_CLIP), spending)
    return math.sqrt(dim * on**2 + dim * (dim - 1) * off**2) * k / n


def predicted_errors(dim: int, rows: float, spending: Spending, share: Fraction) -> Prediction:
    """Predict the errors of a component of `rows` rows after a last round of this share, by noise and sampling."""
    clip = RowClip.of(dim)
    on, off = (std / rows for std in round_noise(dim, clip, spending, share))
    covariance = clip.factor(dim) * math.sqrt(dim * on**2 + dim * (dim - 1) * off**2)
    mean = off * math.sqrt(dim / clip.lift)
    return Prediction(
        math.hypot(covariance, math.sqrt(dim * (dim + 1) / rows)),
        math.hypot(mean, math.sqrt(dim / rows)),
    )


def early_share(noise: float, spending: Spending, *, diagonal: bool) -> float:
    """Share of an early round for the `budget_noise` that its noise may have, within bounds."""
    ratio = min(noise / spending.by_tail(*tuning.EARLY_NOISES), 1.0)  # its square does not overflow
    wanted = spending.share_at(ratio**2)
    most = spending.by_tail(*tuning.MOST_EARLY)
    if diagonal:
        most *= spending.by_tail(*tuning.DIAGONAL_EARLY)
    return min(max(wanted, tuning.LEAST_EARLY), most)


class EarlyRounds(NamedTuple):
    """Maximum numbers of early rounds: of each start before the choice, and of the chosen one."""

    race: int
    more: int


def rounds_of_starts(share: float, starts: int, *, noisy: bool, exempt: bool) -> EarlyRounds:
    """Early rounds of this share where the noise falls with its root, so that the starts race."""
    if noisy:
        return EarlyRounds(0, tuning.EARLY_ROUNDS)
    race = 0
    if starts > 1:
        affordable = [
            rounds
            for rounds in range(1, tuning.EARLY_ROUNDS + 1)
            if (starts * rounds + 1) * share <= tuning.BEFORE_LAST
        ]
        race = max(affordable, default=0)
    left = int(tuning.BEFORE_LAST / share) - starts * race
    return EarlyRounds(race, min(max(tuning.EARLY_ROUNDS - race, left), tuning.MOST_MORE))


def rounds_of_choice(share: float, starts: int, *, noisy: bool, exempt: bool) -> EarlyRounds:
    """Early rounds of this share where the noise falls with the share itself, so that only the chosen start has any.

    There are none if they would be too noisy, unless they are `exempt`.
    """
    before = tuning.BEFORE_LAST if exempt else 0.0
    return EarlyRounds(0, min(int(before / share), tuning.MOST_MORE))


def count_public_starts(shape: Shape) -> int:
    """Number of starts from public rows: fits of full and of diagonal covariances, and of k-means groups if rows are few."""
    has_groups = (
        shape.n_components > 1 and shape.n_pub < tuning.KMEANS_START_ROWS * shape.n_components
    )
    return 3 if has_groups else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EmRoundPlan:
    """Budget shares and numbers of rounds, from public numbers."""

    noise: float  # `budget_noise`
    starts: int  # number of starts
    search: Fraction  # share of the search that gives the only start
    early: Fraction  # share of one early round
    race: int  # early rounds of each start, before the choice
    more: int  # maximum number of early rounds of the chosen start
    choice: Fraction  # share of the choice of a start
    last: Fraction  # share of the last round
    noisy: bool  # whether `noise` is above tuning.NOISY
    spending: Spending  # the whole budget
    early_rows: int  # rows of an early round, spread over all n
    choice_rows: int  # rows that score the starts, spread over all n

    @property
    def rounds(self) -> int:
        """Maximum number of rounds before the last one."""
        return self.starts * self.race + self.more

    def predicted(self, dim: int, rows: float) -> Prediction:
        """Predict the errors of a component of `rows` rows after the last round, by noise and sampling."""
        return predicted_errors(dim, rows, self.spending, self.last)

    @classmethod
    def of(cls, method: SearchMethod, shape: Shape, n: int, spending: Spending) -> EmRoundPlan:
        """Return the plan of full covariances, from the sizes and the budget."""
        dim = shape.dim
        k = shape.n_components
        noise = budget_noise(dim, k, n, spending)
        starts = count_public_starts(shape) if method.soft else 1
        search = search_share(method, shape)
        entries = k * dim * (dim + 1)
        return cls.of_noise(noise, starts, n=n, entries=entries, spending=spending, search=search)

    @classmethod
    def of_noise(
        cls,
        noise: float,
        starts: int,
        *,
        n: int,
        entries: int,
        spending: Spending,
        search: Fraction = Fraction(0),
        diagonal: bool = False,
    ) -> EmRoundPlan:
        """Return the plan for a `budget_noise`; `entries` is the number of entries of all covariances."""
        noisy = noise > tuning.NOISY
        share = early_share(noise, spending, diagonal=diagonal)
        early = Fraction(share).limit_denominator(10**6)
        exempt = diagonal or noise <= spending.by_tail(*tuning.EARLY_NOISES)
        early_rounds = spending.by_tail(rounds_of_starts, rounds_of_choice)
        race, more = early_rounds(share, starts, noisy=noisy, exempt=exempt)
        choice = tuning.CHOICE if starts > 1 else Fraction(0)
        left = 1 - search - choice - fit.count_share(spending)
        if noisy:
            left -= choice  # among the start and the last rounds
        rows_by_noise = noise * n / (tuning.EARLY_NOISES[0] * math.sqrt(early))
        rows_by_entries = tuning.EARLY_ROWS_PER_ENTRY * entries
        early_rows = max(tuning.LEAST_EARLY_ROWS, math.ceil(max(rows_by_noise, rows_by_entries)))
        choice_cost = float(spending.allowance) * tuning.CHOICE
        rows_by_choice = math.ceil(tuning.CHOICE_STDS * math.sqrt(8 * starts / choice_cost))
        return cls(
            noise=noise,
            starts=starts,
            search=search,
            early=early,
            race=race,
            more=more,
            choice=choice,
            last=left - (starts * race + more) * early,
            noisy=noisy,
            spending=spending,
            early_rows=min(n, early_rows),
            choice_rows=min(n, max(tuning.CHOICE_ROWS, rows_by_choice)),
        )


def soft_draws(dim: int, k: int) -> int:
    """Upper bound on the number of noise draws of the rounds, the choices and the count, without those of the searches."""
    return MOST_ROUNDS * k * (dim + 1) ** 2 + 16 + fit.count_draws(k)


def check_choice(plan: EmRoundPlan, n: int) -> None:
    """Raise, before the debit, if noisy scores of starts have no integer grid; a selection needs none."""
    has_scores = plan.spending.by_tail(True, False)
    if has_scores and plan.starts > 1:
        for candidates in (3, plan.starts):
            share = tuning.CHOICE / (8 * candidates)
            plan.spending.part(share).grid("count", candidates, 4 * n)


def check_soft_grids(plan: EmRoundPlan, shape: Shape, n: int) -> None:
    """Raise, before the debit, if a round, a choice or the count has no integer grid."""
    check_choice(plan, n)
    k = shape.n_components
    for share in (plan.early, plan.last):
        plan.spending.part(share).grid("shared", shape.dim + 1, n, parts=k)
    counted = plan.spending.part(fit.count_share(plan.spending))
    counted.grid("count", fit.count_draws(k), n)


# ---- Starts, race, choice, rounds.


def public_starts(public: FloatArray, shape: Shape) -> list[StartState]:
    """Return the starts from public rows, which spend no budget. Raise if all rows are equal."""
    k = shape.n_components
    with np.errstate(all="ignore"):  # values of any magnitude
        full, diagonal = public_fits(public, k, shape.min_weight)
        starts = [
            public_start("public", full, public),
            public_start("public, axis-aligned", diagonal, public),
        ]
        if count_public_starts(shape) > len(starts):
            # Of few rows per component the likeliest fit is often a wrong one.
            groups = grouped_fit(public, k, ComponentShape.FULL)
            starts.append(public_start("public, k-means", groups, public))
    return starts


def public_start(name: str, at: GaussianMixture, public: FloatArray) -> StartState:
    """Return a start of full covariances at a fit to public rows."""
    errors = public_errors(at.weights, *public.shape)
    return StartState(name=name, at=at.full, errors=errors)


def correlation_excess(public: FloatArray, at: GaussianMixture) -> tuple[float, float]:
    """Return the excess over chance of the squared correlations of public rows within components of `at`, and its deviation."""
    share = responsibilities(public, at.axis_aligned)[0].T
    dim = public.shape[1]
    total = 0.0
    count = len(share) * dim * (dim - 1) / 2.0
    for own, mean in zip(share, at.means, strict=True):
        gaps = (public - mean) / np.sqrt(np.maximum(own @ np.square(public - mean), 1e-300))
        total += float(own.sum() * np.square((gaps.T * own @ gaps)[np.triu_indices(dim, 1)]).sum())
    return total - count, math.sqrt(2.0 * count)


def start_of_search(
    run: Session, public: FloatArray, shape: Shape, method: SearchMethod, plan: EmRoundPlan
) -> StartState:
    """Return the start from the leaves of a private search."""
    cost = run.account.allowance * plan.search
    clustering = find_components(run, public, shape, method, cost)
    labels = np.empty(len(public), dtype=np.int32)
    tree_assign(public, clustering.tree.routes(clustering.leaves), labels)
    with np.errstate(all="ignore"):  # values of any magnitude
        at = labeled_fit(public, labels, len(clustering.leaves), ComponentShape.FULL)
    return replace(public_start(method.name, at, public), clustering=clustering)


def least_score(run: Session, evaluation: LogRatios, size: int, name: str, cost: Fraction) -> int:
    """Return the index of the least noisy score."""
    scores = NoisyScores(evaluation=evaluation, size=size)
    released = run.release(scores, name=name, cost=cost, candidates=size)
    return int(np.argmin(released.value))


def select_start(run: Session, evaluation: LogRatios, size: int, name: str, cost: Fraction) -> int:
    """Return the index that permute-and-flip selects."""
    choice = HypothesisChoice(evaluation=evaluation, size=size, law="permute_and_flip")
    return run.release(choice, name=name, cost=cost, candidates=size).index


def choose_start(
    run: Session, states: list[StartState], *, share: Fraction, name: str
) -> StartState:
    """Choose privately the state with the largest clipped log density at the private rows, for a share of the budget."""
    if len(states) == 1:
        return states[0]
    listed = joined([state.at[None] for state in states]).hypotheses
    evaluation = LogRatios.prepare(listed, clip=tuning.CLIP_NATS)
    # An account that adds up the costs of Gaussian noise cannot charge a selection in epsilon.
    pick = run.account.spending.by_tail(least_score, select_start)
    picked = pick(run, evaluation, listed.size, name, run.account.allowance * share)
    return states[int(listed.positions[picked])]


def without_noise_correlations(state: StartState) -> StartState:
    """Shrink correlations that noise and sampling explain (post-processing), for components of covariance noise up to 0.5."""
    at = state.at
    covariances = state.at.covariances.copy()
    errors = state.errors.copy()
    dim = at.means.shape[1]
    count = dim * (dim - 1) / 2.0
    for j, covariance in enumerate(at.covariances):
        if dim == 1 or state.noise[j] > 0.5:
            continue
        scale = np.sqrt(np.diag(covariance))
        correlations = covariance / np.outer(scale, scale)
        length = float(np.square(correlations[np.triu_indices(dim, 1)]).sum())
        expected = count * (
            float(state.noise[j]) ** 2 / dim**2 + 1.0 / max(float(state.counts[j]), 1.0)
        )
        left = (
            0.0
            if length < expected * (1.0 + 2.0 * math.sqrt(2.0 / count))
            else 1.0 - expected / length
        )
        if left <= 0.9:
            correlations *= left
            np.fill_diagonal(correlations, 1.0)
            covariances[j] = correlations * np.outer(scale, scale)
            # The error of the variances is unchanged.
            errors[1, j] *= math.sqrt(
                min(1.0, 2.0 / (dim + 1) + max(left, 2.0 * math.sqrt(2.0 / count)))
            )
    return replace(state, at=replace(at, scale=covariances), errors=errors)


def some_rows(run: Session, count: int) -> Session:
    """Return the session on `count` rows, spread over all; few rows in memory are copied once, since many passes read them."""
    left = run.rows.n - count
    if left <= 0:
        return run
    few = interleave_rows(run.rows, count, left)[0]
    if run.rows.in_memory is not None and few.n * few.dim <= MOST_GATHERED:
        few = ArrayRows(few.block(0, few.n), few.kind, few.columns)
    return run.on(few)


def run_rounds(
    run: Session, public: FloatArray, plan: EmRoundPlan, starts: list[StartState]
) -> tuple[StartState, dict[str, Any]]:
    """Make all releases but those of a search and the count of the fit; return the final state and its diagnostics."""
    if plan.noisy and starts[0].clustering is None and plan.early_rows <= len(public):
        return unchanged(plan, starts)
    few = some_rows(run, plan.early_rows)
    states = starts
    for turn in range(plan.race):
        states = [
            advance(few, public, state, share=plan.early, name=f"start {number}, round {turn + 1}")
            for number, state in enumerate(states, start=1)
        ]
    scored = some_rows(run, plan.choice_rows)
    state = start = choose_start(scored, states, share=plan.choice, name="start")
    for _ in range(plan.more):
        if not plan.noisy and state.moved < tuning.SETTLED:
            break
        state = advance(few, public, state, share=plan.early, name=f"round {state.rounds + 1}")
    before = state
    state = advance(run, public, state, share=plan.last, name=LAST)
    guarded = False
    if plan.noisy and plan.starts > 1:
        picked = choose_start(few, [start, before, state], share=plan.choice, name="guard")
        guarded = picked is not state
        state = replace(state, at=picked.at, errors=picked.errors)
    if state.at.is_full and not guarded:
        state = without_noise_correlations(state)
    if start.clustering is not None:
        state = with_public_gaussians(state, start)
    return state, {
        "start": state.name,
        "starts": [each.name for each in states],
        "guarded": guarded,
    }


def with_public_gaussians(state: StartState, start: StartState) -> StartState:
    """Return the state, with the Gaussians of the start, fitted to public rows, for components that are `low`."""
    low = state.low[:, None]
    means = np.where(low, start.at.means, state.at.means)
    covariances = np.where(low[:, :, None], start.at.covariances, state.at.covariances)
    errors = np.where(state.low, start.errors, state.errors)
    at = GaussianMixture(state.at.weights, means, covariances)
    return replace(state, at=at, errors=errors)


def unchanged(plan: EmRoundPlan, starts: list[StartState]) -> tuple[StartState, dict[str, Any]]:
    """Return the first public fit as the final state, where few and noisy rows would not improve on it, and its diagnostics."""
    start = starts[0]
    weights = start.at.weights
    noise = np.full(len(weights), plan.noise)
    state = replace(start, noise=noise, counts=weights / weights.sum() * plan.early_rows)
    names = [each.name for each in starts]
    return state, {"start": state.name, "starts": names, "guarded": True}


def component_reasons(state: StartState, *, guarded: bool) -> PartReasons:
    """Return each component's reasons before the count of the fit; `low` components of a search fall back to public rows."""
    searched = state.clustering is not None
    lost = (state.errors[0] > 1.0) | state.low  # a mean may be off by a deviation
    wide = guarded | (fit.gaussian_tv(*state.errors) > fit.MOST_OPEN)
    choices = [
        (state.low & searched, Reason.FALLBACK),
        (lost, Reason.UNRESOLVED),
        (wide, Reason.WIDE),
    ]
    return first_of(choices, len(lost))
