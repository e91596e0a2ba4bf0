"""Rounds of private soft expectation-maximization for separated mixtures, from several starts.

The starts are public fits and the labels of a cheap private search, or the leaves of one search alone. Each start gets a few small
rounds; a private choice among the starts, small rounds of the winner, and one large round follow. A round releases, for each
component, the Gram matrix of the rows weighted by their responsibilities, all components at the price of one
(`mechanisms/notes/soft_gram.md`). Changes that cannot be distinguished from noise are shrunk to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.gaussians.structures import Prediction
from fastpubpriv.kernels.mixture_rows import NormalTable, soft_parts
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms.scores import LogRatios
from fastpubpriv.mechanisms.selection import HypothesisChoice, NoisyScores
from fastpubpriv.mechanisms.sums import SoftGrams
from fastpubpriv.mixtures import fit
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.mixture import Mixture, stacked
from fastpubpriv.mixtures.public_em import Kind, labeled_fit, public_fits, responsibilities
from fastpubpriv.mixtures.separated.search_state import Clustering
from fastpubpriv.mixtures.separated.searches import (
    METHODS,
    SearchMethod,
    Shape,
    check_search_grids,
    find_components,
    tree_depth,
)
from fastpubpriv.privacy.spending import WHOLE, Spending
from fastpubpriv.results.public_draws import chi2_quantile
from fastpubpriv.results.reasons import PartReasons, Reason, first_of
from fastpubpriv.rowwise.row_maps import RowTree
from fastpubpriv.session import Session
from fastpubpriv.sources.arrays import ArrayRows
from fastpubpriv.sources.views import interleave_rows

# ---- Noise and budget of the rounds, from public numbers only.

LAST = "last round"
FINE = 2.0**24  # grid steps per standard deviation for public rows, which get no noise
MOST_ROUNDS = 4 * tuning.EARLY_ROUNDS + tuning.MOST_MORE + 1
# maximum values (rows times columns) that are copied into memory before several passes
MOST_GATHERED = 1 << 21


@dataclass(frozen=True, slots=True)
class RowClip:
    """Clipping of stacked rows (z, constant): squared radius of the whitened row z, and the squared constant."""

    inner: float
    lift: float

    @classmethod
    def of(cls, dim: int, wider: float = 1.0) -> RowClip:
        """Return both for a dimension; `wider` multiplies the squared radius."""
        inner = wider * chi2_quantile(tuning.INSIDE, dim)
        return cls(inner, max(1.0, tuning.LIFT * inner))

    @property
    def total(self) -> float:
        """Maximum squared norm of a stacked row."""
        return self.inner + self.lift

    def factor(self, dim: int) -> float:
        """E |z|^2 over E |clipped z|^2 of standard normal rows z."""
        clipped_square = dim * chdtr(dim + 2, self.inner) + self.inner * chdtrc(dim, self.inner)
        return dim / float(clipped_square)


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


def first_searches(count: int) -> dict[str, Fraction]:
    """Return the first searches that give starts, with their shares of the budget."""
    return dict(islice(tuning.SEARCHES.items(), count))


def searches_for_starts(shape: Shape, spending: Spending, *, noisy: bool) -> dict[str, Fraction]:
    """Return the searches that give starts beside the public fits, with their shares of the budget."""
    if shape.n_components == 1 or not spending.carries_trees:
        return {}
    enough = tuning.TREE_START_ROWS
    if noisy:
        enough = max(enough, tuning.POOLED_ROWS * shape.dim)
    count = 0 if noisy else 1
    if shape.n_pub < shape.n_components * enough:
        count += 1
    return first_searches(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftPlan:
    """Budget shares and numbers of rounds, from public numbers."""

    noise: float  # `budget_noise`
    fits: int  # starts from public rows
    searches: Mapping[str, Fraction]  # searches that give starts, and their budget shares
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
    def starts(self) -> int:
        """Number of starts: the public fits, and one for each search."""
        return self.fits + len(self.searches)

    @property
    def rounds(self) -> int:
        """Maximum number of rounds before the last one."""
        return self.starts * self.race + self.more

    def predicted(self, dim: int, rows: float) -> Prediction:
        """Predict the errors of a component of `rows` rows after the last round, by noise and sampling."""
        return predicted_errors(dim, rows, self.spending, self.last)

    @classmethod
    def of(cls, method: SearchMethod, shape: Shape, n: int, spending: Spending) -> SoftPlan:
        """Return the plan of full covariances, from the sizes and the budget."""
        dim = shape.dim
        k = shape.n_components
        noise = budget_noise(dim, k, n, spending)
        if method.soft:
            fits = 2
            searches = searches_for_starts(shape, spending, noisy=noise > tuning.NOISY)
        else:
            fits = 0
            share = tuning.SEARCH_SHARE if tree_depth(method, shape) else Fraction(0)
            searches = {method.name: share}
        entries = k * dim * (dim + 1)
        return cls.shared(noise, fits, searches, n=n, entries=entries, spending=spending)

    @classmethod
    def shared(
        cls,
        noise: float,
        fits: int,
        searches: Mapping[str, Fraction],
        *,
        n: int,
        entries: int,
        spending: Spending,
        diagonal: bool = False,
    ) -> SoftPlan:
        """Return the plan for a `budget_noise`; `entries` is the number of entries of all covariances."""
        noisy = noise > tuning.NOISY
        starts = fits + len(searches)
        share = early_share(noise, spending, diagonal=diagonal)
        early = Fraction(share).limit_denominator(10**6)
        exempt = diagonal or noise <= spending.by_tail(*tuning.EARLY_NOISES)
        early_rounds = spending.by_tail(rounds_of_starts, rounds_of_choice)
        race, more = early_rounds(share, starts, noisy=noisy, exempt=exempt)
        choice = tuning.CHOICE if starts > 1 else Fraction(0)
        left = 1 - sum(searches.values(), choice + fit.count_share(spending))
        if noisy:
            left -= choice  # among the start and the last rounds
        rows_by_noise = noise * n / (tuning.EARLY_NOISES[0] * math.sqrt(early))
        rows_by_entries = tuning.EARLY_ROWS_PER_ENTRY * entries
        early_rows = max(tuning.LEAST_EARLY_ROWS, math.ceil(max(rows_by_noise, rows_by_entries)))
        choice_cost = float(spending.allowance) * tuning.CHOICE
        rows_by_choice = math.ceil(tuning.CHOICE_STDS * math.sqrt(8 * starts / choice_cost))
        return cls(
            noise=noise,
            fits=fits,
            searches=searches,
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


def check_searches(plan: SoftPlan, shape: Shape, n: int) -> None:
    """Raise, before the debit, if a search or a choice has no integer grid."""
    for name, share in plan.searches.items():
        if depth := tree_depth(METHODS[name], shape):
            check_search_grids(plan.spending.part(share), depth, METHODS[name], shape.dim, n)
    if plan.starts > 1:
        choice = plan.spending.by_tail(*CHOICES)
        for candidates in (3, plan.starts):
            choice.check(plan.spending.part(tuning.CHOICE), candidates, n)


def check_soft_grids(plan: SoftPlan, shape: Shape, n: int) -> None:
    """Raise, before the debit, if a search, a round, a choice or the count has no integer grid."""
    check_searches(plan, shape, n)
    k = shape.n_components
    for share in (plan.early, plan.last):
        plan.spending.part(share).grid("shared", shape.dim + 1, n, parts=k)
    counted = plan.spending.part(fit.count_share(plan.spending))
    counted.grid("count", fit.count_draws(k), n)


# ---- One round.


def rows_in_steps(
    chunk: Any, inv_step: float, *, table: NormalTable, clip: RowClip, labels: RowTree | None = None
) -> Iterator[tuple[list[FloatArray], list[IntArray]]]:
    """Yield sqrt(responsibility) times (whitened clipped row, constant) per component; `labels` replace responsibilities."""
    reached = None
    if labels is not None:
        reached = np.empty(len(chunk), dtype=np.int32)
        tree_assign(chunk, labels, reached)
    return soft_parts(
        chunk, inv_step, table=table, labels=reached, inner=clip.inner, lift=math.sqrt(clip.lift)
    )


# A function of rows (n, dim) whose values (k, n) replace the responsibilities of the components.
RowShares = Callable[[Any], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartState:
    """State of one start: its mixture, the number of completed rounds, and the search that gave it, if any."""

    name: str
    at: Mixture
    rounds: int = 0
    clustering: Clustering | None = None
    # of an axis-aligned first round, in place of labels
    assigned: RowShares | None = None
    # Squared clip radius of a first round by labels, over that of the last round.
    labeled_clip: float = tuning.LABELED_CLIP
    # (k,) relative Frobenius noise of covariances
    noise: FloatArray = field(default_factory=lambda: np.zeros(0))
    # noisy row counts of the last round
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))
    count_std: float = 0.0
    # (2, k) predicted l2 errors of means, in deviations, and relative Frobenius errors of covariances: noise and sampling.
    errors: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    # largest change of a mean or covariance in the last round, in standard deviations
    moved: float = math.inf

    @property
    def labels(self) -> RowTree | None:
        """Labels that replace responsibilities in the first round of a start from a search; else None."""
        return (
            None
            if self.clustering is None or self.rounds
            else self.clustering.tree.routes(self.clustering.leaves)
        )

    @property
    def low(self) -> BoolArray:
        """Which components (k,) have too few rows to be distinguished from noise."""
        low: BoolArray = self.counts < max(tuning.LEAST_ROWS, tuning.LEAST_STDS * self.count_std)
        return low


def shrinkage(values: FloatArray, variance: float) -> float:
    """Positive-part James-Stein shrinkage factor, toward zero, of `values` with noise of this variance."""
    count = values.size
    length = float(np.square(values).sum())
    if count == 0 or length <= 0.0:
        return 0.0
    if count >= 30 and not length > count * variance * (1.0 + 2.0 * math.sqrt(2.0 / count)):
        return 0.0
    lost = (0.6 * count if count <= 4 else count - 2.0) * variance / length
    return max(0.0, 1.0 - lost)


def shrunken_change(matrix: FloatArray, diagonal: float, off: float) -> FloatArray:
    """Shrink a noisy covariance of whitened rows toward the identity; `diagonal` and `off` are the noise variances."""
    out = matrix * shrinkage(matrix[np.triu_indices(len(matrix), 1)], off)
    variances = np.diag(matrix)
    dim = len(matrix)
    # Variances are shrunk toward one: their mean and the rest.
    level = float(np.mean(variances)) - 1.0
    rest = variances - 1.0 - level
    common = shrinkage(np.array([level]), diagonal / dim) * level
    np.fill_diagonal(
        out, 1.0 + common + shrinkage(rest if dim > 1 else np.zeros(0), diagonal) * rest
    )
    # A change along a few directions stands out of the noise in its eigenvalues before it does in the sum of squares: the optimal
    # shrinkage of such eigenvalues replaces that of all entries where it keeps more.
    base = float(np.mean(np.diag(out))) * np.eye(len(matrix))
    values, vectors = spectrum(matrix - base)
    # squared end of the spectrum of noise alone
    noise = 4.0 * len(matrix) * max(off, diagonal / 2.0)
    left = np.sign(values) * np.sqrt(np.maximum(values**2 - noise, 0.0))
    if float(left @ left) > float(np.square(out - base).sum()):
        out = base + (vectors * left) @ vectors.T
    return out


def left_open(shrunken: FloatArray, estimate: FloatArray) -> float:
    """Share of the noise variance left after shrinkage, at least that of a change which `shrinkage` may set to zero."""
    length = max(float(np.linalg.norm(estimate)), 1e-300)
    return min(
        1.0,
        max(float(np.linalg.norm(shrunken)) / length, 2.0 * math.sqrt(2.0 / max(estimate.size, 1))),
    )


def public_errors(weights: FloatArray, m: int, dim: int, *, diagonal: bool = False) -> FloatArray:
    """Predicted errors (2, k), as in `StartState.errors`, of a fit to m public rows."""
    of_shape = 2.0 * dim if diagonal else dim * (dim + 1.0)
    return np.sqrt(np.array([[dim], [of_shape]]) / np.maximum(m * weights, 1e-12))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundMoments:
    """Moments of a component after a round: row count, mean and covariance of whitened rows, and their noise_std."""

    rows: float
    public: float  # public rows pooled with them
    first: FloatArray  # (dim,)
    second: FloatArray | None  # (dim, dim), None where covariances are known
    mean_noise: float
    on: float  # noise on and off the diagonal of `second`
    off: float = 0.0


def advance(
    run: Session, public: FloatArray, state: StartState, *, share: Fraction, name: str
) -> StartState:
    """Run one private round: responsibilities under the state's mixture, released Gram matrices, updated components."""
    at = state.at
    k = len(at.weights)
    wider = tuning.EARLY_CLIP if state.rounds < tuning.EARLY_ROUNDS and name != LAST else 1.0
    labels = None if name == LAST else state.labels
    clip = RowClip.of(at.dim, wider if labels is None else state.labeled_clip)
    rows_of = partial(rows_in_steps, table=at.table, clip=clip, labels=labels)
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
    grams: list[FloatArray | None] = [None] * k
    if len(public) >= tuning.POOLED_ROWS * at.dim * k:
        blocks = [
            [(rows.T @ rows) / FINE**2 for rows in parts] for parts, _ in rows_of(public, FINE)
        ]
        grams = [np.sum(each, axis=0) for each in zip(*blocks, strict=True)]
    noise = released.noise_std, released.noise_std / run.account.spending.on_diagonal
    sizes = {"n": run.rows.n, "m": len(public)}
    moments = [
        pooled_moments(gram, known, weight, sigma=noise, clip=clip, **sizes)
        for gram, known, weight in zip(released.value, grams, at.weights.tolist(), strict=True)
    ]
    return changed(state, moments, count_std=released.noise_std / clip.lift)


def changed(state: StartState, moments: list[RoundMoments], *, count_std: float) -> StartState:
    """Return the state after a round that released `moments` (k,) of rows whitened by it; `count_std` is the counts' noise."""
    at = state.at
    roots = at.roots
    k, dim = at.means.shape
    means = np.empty_like(at.means)
    covariances = at.covariances.copy()
    counts = np.array([own.rows for own in moments])
    noise = np.empty(k)
    errors = np.zeros((2, k))
    moved = 0.0
    diagonal = np.diag_indices(dim)
    upper = np.triu_indices(dim, 1)
    freedom = dim + 1.0 if at.is_full else 2.0
    for j, own in enumerate(moments):
        step = shrinkage(own.first, own.mean_noise**2) * own.first
        sampled = dim / (own.rows + own.public)
        errors[0, j] = math.sqrt(dim * own.mean_noise**2 * left_open(step, own.first) + sampled)
        means[j] = at.means[j] + roots[j] @ step
        moved = max(moved, float(np.linalg.norm(step)))
        noise[j] = math.sqrt(dim * own.on**2 + dim * (dim - 1) * own.off**2)
        if own.second is None:
            continue
        change = shrunken_change(own.second, own.on**2, own.off**2)
        wide = left_open(change[diagonal] - 1.0, own.second[diagonal] - 1.0)
        spread = own.on**2 * wide + (dim - 1) * own.off**2 * left_open(
            change[upper], own.second[upper]
        )
        errors[1, j] = math.sqrt(dim * spread + freedom * sampled)
        values, vectors = spectrum(change)
        moved = max(moved, float(np.linalg.norm(values - 1.0)) / math.sqrt(dim))
        half = roots[j] @ (vectors * np.sqrt(np.clip(values, *tuning.MOST_CHANGE)))
        covariances[j] = half @ half.T
    after = Mixture(counts / counts.sum(), means, covariances)
    return replace(
        state,
        at=after if at.is_full else after.axis_aligned,
        rounds=state.rounds + 1,
        noise=noise,
        counts=counts,
        count_std=count_std,
        errors=errors,
        moved=moved,
    )


def weighed_count(
    count: float, noise: float, known: float | None, weight: float, *, n: int, m: int
) -> float:
    """Inverse-variance mean of the noisy count, the previous weight and `known` of m public rows; at least twice the noise."""
    spread = n * weight * (1.0 - weight)
    values = [count, n * weight]
    variances = [noise**2 + spread, (0.2 * n) ** 2]
    if known is not None:
        values.append(n * known / m)
        variances.append(n * max(spread, 1e-12 * n) / m)
    precision = 1.0 / np.maximum(variances, 1e-12)
    return max(float(precision @ values / precision.sum()), 2.0 * noise, 1.0)


def pooled_moments(
    gram: FloatArray,
    known: FloatArray | None,
    weight: float,
    *,
    sigma: tuple[float, float],
    clip: RowClip,
    n: int,
    m: int,
) -> RoundMoments:
    """Return moments from a noisy Gram matrix, pooled with that of public rows if any; `sigma`: noise on and off the diagonal."""
    lift = math.sqrt(clip.lift)
    dim = len(gram) - 1
    n_pub = None if known is None else float(known[-1, -1]) / clip.lift
    held = weighed_count(
        float(gram[-1, -1]) / clip.lift, sigma[0] / clip.lift, n_pub, weight, n=n, m=m
    )
    factor, on, off = clip.factor(dim), *(each / held for each in sigma)
    mean_noise = off / lift
    on = factor * on
    off = factor * off
    first = gram[:-1, -1] / (lift * held)
    second = factor * gram[:-1, :-1] / held
    if known is not None and n_pub is not None:
        shares = []
        for noise, least in ((mean_noise, 1.0), (off, tuning.POOLED_ROWS * dim)):
            private = 1.0 / (noise**2 + 1.0 / held)
            shares.append(private / (private + (n_pub if n_pub >= least else 0.0)))
        safe = max(n_pub, 1e-12)
        first = shares[0] * first + (1.0 - shares[0]) * known[:-1, -1] / (lift * safe)
        second = shares[1] * second + (1.0 - shares[1]) * factor * known[:-1, :-1] / safe
        mean_noise = shares[0] * mean_noise
        on = shares[1] * on
        off = shares[1] * off
    second = second - np.outer(first, first)
    return RoundMoments(
        rows=held,
        public=n_pub or 0.0,
        first=first,
        second=second,
        mean_noise=mean_noise,
        on=on,
        off=off,
    )


# ---- Starts, race, choice, rounds.


def public_starts(public: FloatArray, shape: Shape) -> list[StartState]:
    """Return the fits to public rows, which spend no budget. Raise if all rows are equal."""
    with np.errstate(all="ignore"):  # values of any magnitude
        full, diagonal = public_fits(public, shape.n_components, shape.min_weight)
    errors = [public_errors(at.weights, *public.shape) for at in (full, diagonal)]
    return [
        StartState(name="public", at=full, errors=errors[0]),
        StartState(name="public, axis-aligned", at=diagonal.full, errors=errors[1]),
    ]


def correlation_excess(public: FloatArray, at: Mixture) -> tuple[float, float]:
    """Return the excess over chance of the squared correlations of public rows within components of `at`, and its deviation."""
    share = responsibilities(public, at.axis_aligned)[0].T
    dim = public.shape[1]
    total = 0.0
    count = len(share) * dim * (dim - 1) / 2.0
    for own, mean in zip(share, at.means, strict=True):
        gaps = (public - mean) / np.sqrt(np.maximum(own @ np.square(public - mean), 1e-300))
        total += float(own.sum() * np.square((gaps.T * own @ gaps)[np.triu_indices(dim, 1)]).sum())
    return total - count, math.sqrt(2.0 * count)


def all_starts(
    run: Session, public: FloatArray, shape: Shape, plan: SoftPlan, fits: list[StartState]
) -> list[StartState]:
    """Return the public fits and one start for each search, or the first fit again for a search with too few components."""
    starts = list(fits)
    kind = Kind.FULL if all(each.at.is_full for each in fits) else Kind.DIAGONAL
    for name, share in plan.searches.items():
        clustering = find_components(
            run, public, shape, METHODS[name], run.account.allowance * share
        )
        k = len(clustering.leaves)
        if fits and k < shape.n_components:
            starts.append(starts[0])
            continue
        labels = np.empty(len(public), dtype=np.int32)
        tree_assign(public, clustering.tree.routes(clustering.leaves), labels)
        with np.errstate(all="ignore"):  # values of any magnitude
            at = labeled_fit(public, labels, k, kind)
        errors = public_errors(at.weights, *public.shape, diagonal=not at.is_full)
        # A wide clip radius for components whose shape is wrong is worth its noise only where that is small.
        clip = tuning.EARLY_CLIP if plan.noisy else tuning.LABELED_CLIP
        starts.append(
            StartState(name=name, at=at, clustering=clustering, labeled_clip=clip, errors=errors)
        )
    return starts


@dataclass(frozen=True, slots=True)
class StartChoice:
    """A private choice among a few mixtures by their clipped log densities."""

    # (run, evaluation, number of candidates, name, cost) -> index of the chosen one
    pick: Callable[[Session, LogRatios, int, str, Fraction], int]
    # (what the choice may cost, number of candidates, private rows): raises, before the debit, without an integer grid
    check: Callable[[Spending, int, int], None]


def least_score(run: Session, evaluation: LogRatios, size: int, name: str, cost: Fraction) -> int:
    """Return the index of the least noisy score."""
    scores = NoisyScores(evaluation=evaluation, size=size)
    released = run.release(scores, name=name, cost=cost, candidates=size)
    return int(np.argmin(released.value))


def check_scores(spending: Spending, candidates: int, n: int) -> None:
    """Raise, before the debit, if the noise on scores has no integer grid."""
    spending.part(Fraction(1, 8 * candidates)).grid("count", candidates, 4 * n)


def selected(run: Session, evaluation: LogRatios, size: int, name: str, cost: Fraction) -> int:
    """Return the index that permute-and-flip selects."""
    choice = HypothesisChoice(evaluation=evaluation, size=size, law="permute_and_flip")
    return run.release(choice, name=name, cost=cost, candidates=size).index


def check_nothing(spending: Spending, candidates: int, n: int) -> None:
    """Accept any cost: a selection adds no noise to integers."""


# An account that adds up the costs of Gaussian noise cannot charge a selection in epsilon.
CHOICES = StartChoice(least_score, check_scores), StartChoice(selected, check_nothing)


def choose(run: Session, states: list[StartState], *, share: Fraction, name: str) -> StartState:
    """Choose privately the state with the largest clipped log density at the private rows, for a share of the budget."""
    if len(states) == 1:
        return states[0]
    listed = stacked([state.at for state in states]).hypotheses
    evaluation = LogRatios.prepare(listed, clip=tuning.CLIP_NATS)
    choice = run.account.spending.by_tail(*CHOICES)
    cost = run.account.allowance * share
    picked = choice.pick(run, evaluation, listed.size, name, cost)
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


# Signature of a private round of a state: (run, public, state, *, share, name).
Round = Callable[..., StartState]


def some_rows(run: Session, count: int) -> Session:
    """Return the session on `count` rows, spread over all; few rows in memory are copied once, since many passes read them."""
    left = run.rows.n - count
    if left <= 0:
        return run
    few = interleave_rows(run.rows, count, left)[0]
    if run.rows.in_memory is not None and few.n * few.dim <= MOST_GATHERED:
        few = ArrayRows(few.block(0, few.n), few.kind, few.columns)
    return run.on(few)


def learn_rounds(
    run: Session,
    public: FloatArray,
    shape: Shape,
    plan: SoftPlan,
    fits: list[StartState],
    one_round: Round,
) -> tuple[StartState, dict[str, Any]]:
    """Make all releases but the count of the fit; return the final state and its diagnostics."""
    all_rows = run
    run, few = some_rows(run, plan.early_rows), some_rows(run, plan.choice_rows)
    if fits and plan.noisy and run.rows.n <= len(public):
        # With so few rows and so much noise, neither rounds nor a choice improve on the public fit.
        k = shape.n_components
        weights = fits[0].at.weights
        state = replace(
            fits[0], noise=np.full(k, plan.noise), counts=weights / weights.sum() * run.rows.n
        )
        return state, {"start": state.name, "starts": [each.name for each in fits], "guarded": True}
    states = all_starts(run, public, shape, plan, fits)
    for turn in range(plan.race):
        states = [
            one_round(
                run, public, state, share=plan.early, name=f"start {number}, round {turn + 1}"
            )
            for number, state in enumerate(states, start=1)
        ]
    state = start = choose(few, states, share=plan.choice, name="start")
    for _ in range(plan.more):
        if not plan.noisy and state.moved < tuning.SETTLED:
            break
        state = one_round(run, public, state, share=plan.early, name=f"round {state.rounds + 1}")
    before = state
    state = one_round(all_rows, public, state, share=plan.last, name=LAST)
    guarded = False
    if plan.noisy and plan.starts > 1:
        picked = choose(run, [start, before, state], share=plan.choice, name="guard")
        guarded = picked is not state
        state = replace(state, at=picked.at, errors=picked.errors)
    if state.at.is_full and not guarded:
        state = without_noise_correlations(state)
    if not fits:  # components that are `low` keep the Gaussians of the start, fitted to public rows
        low = state.low[:, None]
        means = np.where(low, start.at.means, state.at.means)
        covariances = np.where(low[:, :, None], start.at.covariances, state.at.covariances)
        errors = np.where(state.low, start.errors, state.errors)
        state = replace(state, at=Mixture(state.at.weights, means, covariances), errors=errors)
    return state, {
        "start": state.name,
        "starts": [each.name for each in states],
        "guarded": guarded,
    }


def component_reasons(state: StartState, *, leaves: bool, guarded: bool) -> PartReasons:
    """Return each component's reasons before the count of the fit; `low` components of `leaves` fall back to public rows."""
    lost = (state.errors[0] > 1.0) | state.low  # a mean may be off by a deviation
    wide = guarded | (fit.gaussian_tv(*state.errors) > fit.MOST_OPEN)
    choices = [
        (state.low & leaves, Reason.FALLBACK),
        (lost, Reason.UNRESOLVED),
        (wide, Reason.WIDE),
    ]
    return first_of(choices, len(lost))
