"""Rounds of expectation-maximization on private rows, pooled with public ones: two E steps that release, and one M step.

An E step weighs rows by their responsibilities under the current mixture and releases, for all components at the price of one,
Gram matrices of whitened rows (full covariances, `mechanisms/notes/soft_gram.md`) or first and second moments of single columns.
The M step changes means and covariances by these moments, as far as they can be distinguished from noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.kernels.densities import RowStatistic
from fastpubpriv.kernels.mixture_rows import NormalTable, soft_parts
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms.sums import SoftGrams, StatisticSum
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.separated.search_state import Clustering
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.results.public_draws import chi2_quantile
from fastpubpriv.rowwise.row_maps import RowTree
from fastpubpriv.session import Session

LAST = "last round"
FINE = 2.0**24  # grid steps per standard deviation for public rows, which get no noise

# ---- The state between rounds.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartState:
    """State of one start: its mixture, the number of completed rounds, and the search that gave it, if any."""

    name: str
    at: GaussianMixture
    known_std: bool = False  # whether axis-aligned components have deviations of one
    rounds: int = 0
    clustering: Clustering | None = None
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


# ---- E step for full covariances.


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


class EStep(NamedTuple):
    """Released moments of the components (k,), pooled with those of public rows, and the noise of their counts."""

    moments: list[RoundMoments]
    count_std: float


def full_e_step(
    run: Session, public: FloatArray, state: StartState, *, share: Fraction, name: str
) -> EStep:
    """Release Gram matrices of whitened rows, weighted by their responsibilities under the state's mixture."""
    at = state.at
    k = len(at.weights)
    wider = tuning.EARLY_CLIP if state.rounds < tuning.EARLY_ROUNDS and name != LAST else 1.0
    labels = None if name == LAST else state.labels
    clip = RowClip.of(at.dim, wider)
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
        blocks = []
        for parts, _ in rows_of(public, FINE):
            blocks.append([(rows.T @ rows) / FINE**2 for rows in parts])
        grams = [np.sum(each, axis=0) for each in zip(*blocks, strict=True)]
    on_diagonal = released.noise_std / run.account.spending.on_diagonal
    noise = (released.noise_std, on_diagonal)
    sizes = {"n": run.rows.n, "m": len(public)}
    moments = [
        pooled_moments(gram, known, weight, sigma=noise, clip=clip, **sizes)
        for gram, known, weight in zip(released.value, grams, at.weights.tolist(), strict=True)
    ]
    return EStep(moments, released.noise_std / clip.lift)


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


def private_share(noise: float, rows: float, public: float) -> float:
    """Inverse-variance weight of a mean of private rows with this noise, beside one of so many public rows."""
    private = 1.0 / (noise**2 + 1.0 / rows)
    return private / (private + public)


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
    count = float(gram[-1, -1]) / clip.lift
    count_noise = sigma[0] / clip.lift
    held = weighed_count(count, count_noise, n_pub, weight, n=n, m=m)
    factor = clip.factor(dim)
    on = sigma[0] / held
    off = sigma[1] / held
    mean_noise = off / lift
    on = factor * on
    off = factor * off
    first = gram[:-1, -1] / (lift * held)
    second = factor * gram[:-1, :-1] / held
    if known is not None and n_pub is not None:
        shares = []
        for noise, least in ((mean_noise, 1.0), (off, tuning.POOLED_ROWS * dim)):
            shares.append(private_share(noise, held, n_pub if n_pub >= least else 0.0))
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


# ---- E step for axis-aligned components.

_BLOCK = 1 << 17  # maximum entries of one (dim, rows) array


@dataclass(frozen=True, slots=True)
class Radii:
    """Clip radii of the three parts of a row's statistic; public functions of the dimension."""

    share: float
    first: float
    second: float

    @classmethod
    def of(cls, dim: int, *, known_std: bool, wider: float = 1.0) -> Radii:
        """Return radii a little above the norm of a standard normal, about sqrt(dim), times `wider`."""
        first = wider * (math.sqrt(dim) + 2.0)
        return cls(first / 2.0, first, 0.0 if known_std else wider * (math.sqrt(dim) + 3.0))

    @property
    def total(self) -> float:
        """Bound on the norm of a row's statistic, whose shares add up to one."""
        return math.sqrt(self.share**2 + self.first**2 + self.second**2)


def statistic_dim(components: int, dim: int, *, known_std: bool) -> int:
    """Return the length of a row's statistic."""
    return components * (1 + dim * (1 if known_std else 2))


def lost_in_noise(weights: FloatArray, dim: int, n: int, n_pub: int, count_std: float) -> BoolArray:
    """Return which components (k,) have too large errors of means or widths from noise and sampling; `count_std` is in rows."""
    noise = count_std * Radii.of(dim, known_std=True).share / n
    precision = 1.0 / (weights / n + noise**2) + n_pub / weights
    return 1.0 / (weights * np.sqrt(precision)) > min(tuning.MOST_HIDDEN, math.sqrt(2.0 / dim))


def check_axis_rounds(
    account: Account, n: int, dim: int, components: int, *, known_std: bool, shares: list[Fraction]
) -> None:
    """Raise before the debit if an axis-aligned round with this number of components has no integer grid."""
    width = statistic_dim(1, dim, known_std=known_std)
    for share in shares:
        account.spending.part(share).grid("parts", width, n, parts=components)


def whole_noise(
    dim: int, spending: Spending, *, known_std: bool = False, wider: float = 1.0
) -> float:
    """Return the standard deviation of the noise on a sum of statistics that costs the whole of a budget."""
    radius = Radii.of(dim, known_std=known_std, wider=wider).total
    return radius * spending.std("sum", statistic_dim(1, dim, known_std=known_std))


def row_statistic(chunk: Any, at: GaussianMixture, radii: Radii) -> FloatArray:
    """Return the statistic of each row of a chunk (n, dim), (n, statistic_dim): shares, first, then second moments by component."""
    # With r_c the posterior of component c, and z_c the standardized row: r_c times (a, z_c,
    # (z_c^2 - 1) / sqrt 2), the last two clipped; zeros where an entry is not finite. Sums have one fixed order, so that the
    # statistic of a row does not depend on other rows.
    count, dim = chunk.shape
    with_second = radii.second > 0.0
    out = np.empty((count, statistic_dim(len(at.weights), dim, known_std=not with_second)))
    rows = RowStatistic(np.ascontiguousarray(at.means), np.ascontiguousarray(at.stds))
    size = max(1, _BLOCK // dim)
    with np.errstate(all="ignore"):
        constants = np.log(at.weights) - np.log(at.stds).sum(axis=1)
        for begin in range(0, count, size):
            part = chunk[begin : begin + size]
            distances = rows.distances(
                part if part.strides[1] == part.itemsize else np.ascontiguousarray(part)
            )
            joint = constants[:, None] - 0.5 * distances[0]
            share = np.exp(joint - np.maximum.reduce(joint, axis=0))
            share /= group_covariances.total(share)
            rows.moments(
                distances,
                share,
                (radii.share, radii.first, radii.second),
                out[begin : begin + size],
            )
    return out


def axis_e_step(
    run: Session, public: FloatArray, state: StartState, *, share: Fraction, name: str
) -> EStep:
    """Release first and second moments of the columns, weighted by responsibilities under the state's mixture."""
    at = state.at.normalized
    known_std = state.known_std
    k, dim = at.means.shape
    wider = tuning.AXIS_EARLY_CLIP if state.rounds < tuning.EARLY_ROUNDS else 1.0
    radii = Radii.of(dim, known_std=known_std, wider=wider)
    statistic = partial(row_statistic, at=at, radii=radii)
    # The component of each entry of a row's statistic; norms of components' entries sum to at most the radius.
    component_of = np.concatenate(
        [np.arange(k), np.tile(np.repeat(np.arange(k), dim), 1 if known_std else 2)]
    )
    released = run.release(
        StatisticSum(
            statistic=statistic,
            dim=len(component_of),
            radius=radii.total,
            row_cost=12 * k * dim + 20 * k,
            part_of=component_of,
        ),
        name=name,
        cost=run.account.allowance * share,
        clip_radius=radii.total,
    )
    totals = statistic(public).sum(axis=0)
    m = len(public)
    count_std = released.noise_std / radii.share
    counts = released.value[:k] / radii.share
    joins = totals[:k] / radii.share
    sums, known = (each[k:].reshape(-1, k, dim) for each in (released.value, totals))
    moments = []
    for j, (count, joined, weight) in enumerate(
        zip(counts, joins, at.weights.tolist(), strict=True)
    ):
        held = weighed_count(
            float(count), count_std, joined if m else None, weight, n=run.rows.n, m=m
        )
        share_of = private_share(released.noise_std / held, held, joined)
        noise = share_of * released.noise_std / held
        own = share_of * sums[:, j] / held + (1.0 - share_of) * known[:, j] / max(joined, 1e-12)
        own *= noise <= tuning.MOST_HIDDEN  # components hidden by noise do not change
        second = None if known_std else np.diag(1.0 + math.sqrt(2.0) * own[1] - own[0] ** 2)
        on = math.sqrt(2.0) * noise
        moments.append(
            RoundMoments(
                rows=held, public=joined, first=own[0], second=second, mean_noise=noise, on=on
            )
        )
    return EStep(moments, count_std)


# ---- M step, and a round.


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


def m_step(state: StartState, released: EStep) -> StartState:
    """Return the state after a round that released moments of rows whitened by it, whose noise shrinks the changes."""
    moments = released.moments
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
    after = GaussianMixture(counts / counts.sum(), means, covariances)
    return replace(
        state,
        at=after if at.is_full else after.axis_aligned,
        rounds=state.rounds + 1,
        noise=noise,
        counts=counts,
        count_std=released.count_std,
        errors=errors,
        moved=moved,
    )


def advance(
    run: Session, public: FloatArray, state: StartState, *, share: Fraction, name: str
) -> StartState:
    """Run one private round on private and public rows, by the E step for the structure of the components."""
    e_step = full_e_step if state.at.is_full else axis_e_step
    return m_step(state, e_step(run, public, state, share=share, name=name))
