"""How well a released mixture fits the private rows: one noisy histogram, and the words for each component that follow from it.

Every row has one of a few dozen codes: its likeliest component, the shell of its distance from it, whether another component is
nearly as likely, and where it lies along the component's leading axis. Counts are compared with public draws of the mixture.
Half of what they differ by, beyond what chance explains, is a lower bound of the total variation between the rows and the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtrc

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.linalg import lower_powers, spectrum
from fastpubpriv.kernels.mixture_rows import NormalTable, likeliest, prepare
from fastpubpriv.mechanisms.cells import CodeCounts
from fastpubpriv.public_draws import chi2_quantiles, draw_normals
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Session
from fastpubpriv.sources.views import interleave_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaussians:
    """A mixture laid out for passes over rows: `roots` (k, dim, dim) are lower triangular, `table` is that of the kernels."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    roots: FloatArray
    table: NormalTable

    @classmethod
    def of(cls, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> Gaussians:
        """From weights (k,), means (k, dim) and positive definite covariances (k, dim, dim)."""
        roots, inverses = np.empty_like(covariances), np.empty_like(covariances)
        for place, covariance in enumerate(covariances):
            # In standard deviations of the columns, whose units may be far apart.
            scale = np.sqrt(np.diag(covariance))
            root, inverse = lower_powers(covariance / np.outer(scale, scale))
            roots[place], inverses[place] = scale[:, None] * root, np.tril(inverse) / scale
        constants = np.log(weights) - np.log(np.einsum("kii->ki", roots)).sum(axis=1)
        return cls(
            weights=weights, means=means, covariances=covariances, roots=roots,
            table=NormalTable(means, inverses, constants),
        )  # fmt: skip

    @property
    def dim(self) -> int:
        """Columns."""
        return int(self.means.shape[1])


# ---- Columns of rounded values: public rows show them.

# The share of pairs of public rows that tie in a column of atoms, and the fewest that show it.
PUBLIC_SHARE = 0.05
LEAST_TIED = 3
# A width below this share of the mean's size is the rounding of numbers.
ROUNDING = 1e-9


def public_ties(x_pub: FloatArray) -> tuple[list[float], list[float]]:
    """For each column the share of pairs of public rows that tie, 0 below what chance and rounding may do, and the least step."""
    tied, steps = _ties(x_pub)
    shares = tied / max(1.0, len(x_pub) * (len(x_pub) - 1.0) / 2.0)
    return np.where((tied >= LEAST_TIED) & (shares > PUBLIC_SHARE), shares, 0.0).tolist(), steps.tolist()


def _ties(x_pub: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pairs of rows that tie, and the least step between values, of each column (dim,)."""
    found = []
    for column in x_pub.T:
        values, counts = np.unique(column, return_counts=True)
        gaps = np.diff(values)
        gaps = gaps[gaps > ROUNDING * float(np.abs(values).max())]
        found.append((np.sum(counts * (counts - 1.0)) / 2.0, gaps.min(initial=np.inf)))
    tied, steps = np.array(found).T
    return tied, steps


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Steps between the values of the columns (dim,), infinite for a column of numbers without ties, and one value of each."""

    steps: FloatArray
    origin: FloatArray

    @classmethod
    def of(cls, public: FloatArray) -> Lattice:
        """As public rows show it: of numbers without a lattice no two are equal."""
        tied, steps = _ties(public)
        return cls(np.where(tied >= LEAST_TIED, steps, np.inf), public[0])

    def rounded(self, rows: FloatArray) -> FloatArray:
        """Rows rounded to the values that such columns have."""
        known = np.isfinite(self.steps)
        origin, steps = self.origin[known], self.steps[known]
        rows[:, known] = origin + np.round((rows[:, known] - origin) / steps) * steps
        return rows


# ---- The histogram.

SHARE, PURE_SHARE = Fraction(1, 50), Fraction(1, 20)  # of the budget, with Gaussian and with Laplace noise
SHELLS = (0.5, 0.95, 0.999)  # shares of a component within its shells
SURE = 0.9  # a row with a smaller largest responsibility lies between components
BANDS = (0.45, 1.15)  # ends of the bands along the leading axis, in standard deviations
CELLS = (len(SHELLS) + 1, 2, len(BANDS) + 1)
DRAWS, LEAST_DRAWS, DRAWN_NUMBERS, DRAWN_AT_ONCE = 100_000, 20_000, 1 << 22, 1 << 17
MOST_COUNTED = 200_000  # rows, spread over all: more would cost time and hardly show more
SEED = 20_227
# Mean of max(|Z| - 1, 0) / 2: what a perfect fit gives of the cells' standard deviations.
CHANCE = 0.5 * 0.1666
# A gap that exceeds chance by this much is a poor fit, if chance gives its sum of squares in one of so many answers. Where chance
# itself gives more than BLIND of the shells, the count can say nothing.
POOR, FALSE_ALARMS, BLIND = 0.005, 1e-3, 0.03
LEAST_SHARE = 1e-3  # of a component: gaps of lighter ones are not told in their own unit
MOST_OPEN = 0.1  # predicted total variation of a component beyond which it needs a reason


def gaussian_tv(mean_errors: FloatArray, covariance_errors: FloatArray) -> FloatArray:
    """Total variation of a Gaussian from one off by l2 errors of the mean and Frobenius ones of the covariance, to first order."""
    # Half of the mean size of a centered score, nearly normal, of variance m^2 + F^2 / 2.
    found = np.sqrt((np.square(mean_errors) + np.square(covariance_errors) / 2.0) / (2.0 * math.pi))
    return np.minimum(found, 1.0)


def leading_axes(at: Gaussians) -> FloatArray:
    """Unit directions (k, dim) of whitened rows: leading axes, along which two components that were taken for one lie apart."""
    axes = np.empty_like(at.means)
    scale = np.exp(0.5 * np.log(np.einsum("kii->ki", at.covariances)).mean(axis=0))
    for place, covariance in enumerate(at.covariances):
        _, vectors = spectrum(covariance / np.outer(scale, scale))
        axes[place] = at.roots[place].T @ (vectors[:, -1] / scale)
        axes[place] /= np.linalg.norm(axes[place])
    return axes


def cell_codes(chunk: Any, *, at: Gaussians, axes: FloatArray) -> list[IntArray]:
    """Code of each row (n,): component, shell, ambiguity and band; -1 for a row that is not finite."""
    top, (square, share, along) = likeliest(chunk, at.table, axes)
    shell = np.searchsorted(chi2_quantiles(SHELLS, at.dim), square)
    band = np.searchsorted(BANDS, np.abs(along))
    code = ((top * CELLS[0] + shell) * CELLS[1] + (share < SURE)) * CELLS[2] + band
    return [np.where(np.isfinite(chunk).all(axis=1), code, -1)]


def expected_cells(at: Gaussians, axes: FloatArray, lattice: Lattice | None = None) -> tuple[FloatArray, int]:
    """Shares (cells,) of rows of the mixture in the cells, from public draws, rounded as the columns are; and how many."""
    size = min(DRAWS, max(LEAST_DRAWS, DRAWN_NUMBERS // at.dim))
    ends = np.round(np.cumsum(at.weights) / at.weights.sum() * size).astype(int).tolist()
    counts, block = np.zeros(len(at.weights) * math.prod(CELLS), dtype=np.int64), max(64, DRAWN_AT_ONCE // at.dim)
    for number, begin in enumerate(range(0, size, block)):
        rows = draw_normals((min(block, size - begin), at.dim), random_state=SEED + number)
        for place, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            own = rows[max(first - begin, 0) : max(last - begin, 0)]
            own[:] = at.means[place] + own @ at.roots[place].T
        (codes,) = cell_codes(rows if lattice is None else lattice.rounded(rows), at=at, axes=axes)
        counts += np.bincount(codes[codes >= 0], minlength=len(counts))
    return counts / size, size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentFit:
    """What the count says of each component, (k,)."""

    gaps: FloatArray  # in total variation
    nulls: FloatArray  # what chance alone gives of them
    outer: FloatArray  # what shells alone show of them
    beyond: FloatArray  # shares of rows outside the last shell that the mixture does not explain
    shares: FloatArray  # of the rows, by the mixture
    poor: BoolArray  # whether chance does not explain the gap
    blind: bool = False  # whether noise hides even the shells
    floor: float = POOR  # gap beyond chance below which a fit is not called poor

    @property
    def gap(self) -> float:
        """Of the whole mixture."""
        return float(self.gaps.sum())

    @property
    def null(self) -> float:
        """What a perfect fit would show."""
        return float(self.nulls.sum())

    def reasons(self, place: int, before: Reasons, predicted: float = 0.0) -> Reasons:
        """The reasons of a component that has those of `before` without the count, and this predicted total variation."""
        if before and before != (Reason.WIDE,):
            return before
        if self.blind:
            return before or (Reason.FEW_ROWS,)
        excess = self.gaps[place] - self.nulls[place]
        # Of what was predicted to be off, cells show about half; a reason given for it covers the whole.
        explained = predicted if before else max(self.floor, predicted / 2.0)
        if not (self.poor[place] and excess > explained * self.shares[place]):
            return before
        return (Reason.NOT_GAUSSIAN if self.outer[place] > 0.5 * self.gaps[place] else Reason.POOR_FIT,)

    def facts_in(self, order: Any = slice(None)) -> dict[str, Any]:
        """For the diagnostics of a result whose components are in this order."""
        return {
            "fit_gap": self.gap,
            "fit_null": self.null,
            "fit_gaps": (self.gaps / np.maximum(self.shares, LEAST_SHARE))[order].tolist(),
            "unexplained": float(self.beyond.sum()),
        }


def compared(
    counts: FloatArray, n: int, noise_std: float, expected: FloatArray, draws: int, parts: int, *, pure: bool = False
) -> ComponentFit:
    """Released counts (cells,) of n rows against the shares of the mixture; `parts` components; `pure` for Laplace noise."""
    # Rows that are not finite are in no cell: where they are more than chance explains, the rest is the whole.
    seen = float(counts.sum())
    if seen < n - 4.0 * noise_std * math.sqrt(len(counts)):
        n = max(1, round(seen))

    def spread(share: FloatArray) -> FloatArray:
        """Standard deviation of the found share of joined cells."""
        noise = (noise_std / n) ** 2 * (len(counts) / share.size)
        return np.sqrt(noise + (share * (1.0 - share) + 1.0 / draws) * (1.0 / n + 1.0 / draws))

    found, share = (each.reshape(parts, *CELLS) for each in (counts / n, expected))
    cells, wanted = (each.reshape(parts, -1) for each in (found, share))
    std, off = spread(wanted), np.abs(cells - wanted)
    gaps, nulls = np.maximum(off - std, 0.0).sum(axis=1) / 2.0, CHANCE * std.sum(axis=1)
    # Squares of Laplace noise vary 2.5 times as much as those of normal noise.
    wider = 2.5 if pure else 1.0
    chance = chdtrc(wanted.shape[1] / wider, np.square(off / std).sum(axis=1) / wider)
    shells, wanted = (each.sum(axis=(2, 3)) for each in (found, share))
    # Shells are judged within their component: a wrong weight is no wrong shape.
    wanted = wanted * (shells.sum(axis=1) / np.maximum(wanted.sum(axis=1), 1e-12))[:, None]
    off, std = shells - wanted, spread(np.clip(wanted, 0.0, 1.0))
    return ComponentFit(
        gaps=gaps,
        nulls=nulls,
        outer=np.maximum(np.abs(off) - std, 0.0).sum(axis=1) / 2.0,
        beyond=np.maximum(off[:, -1] - std[:, -1], 0.0),
        shares=share.sum(axis=(1, 2, 3)),
        poor=chance < FALSE_ALARMS / parts,
        blind=CHANCE * float(std.sum()) > BLIND,
    )


def count_share(*, pure: bool) -> Fraction:
    """Share of the budget for the count."""
    return PURE_SHARE if pure else SHARE


def measure(
    run: Session, weights: FloatArray, means: FloatArray, covariances: FloatArray, *, public: FloatArray
) -> ComponentFit:
    """Release the count of the rows of a run in the cells of a mixture, at `count_share` of its allowance, and compare."""
    at, pure, k = Gaussians.of(weights, means, covariances), run.account.pure, len(weights)
    cost = run.account.allowance * count_share(pure=pure)
    if run.rows.n > MOST_COUNTED:
        run = run.on(interleave_rows(run.rows, MOST_COUNTED, run.rows.n - MOST_COUNTED)[0])
    prepare(run.rows.n, k * at.dim**2)
    axes = leading_axes(at)
    expected, draws = expected_cells(at, axes, Lattice.of(public))
    cells = count_draws(k)
    counted = run.release(
        CodeCounts(
            codes=partial(cell_codes, at=at, axes=axes),
            cells=[cells],
            row_cost=at.means.size * at.dim // 8,
            gaussian=not pure,
        ),
        name="fit",
        cost=cost,
        cells=cells,
    )
    return compared(counted.value, run.rows.n, counted.noise_std, expected, draws, k, pure=pure)


def with_fit(run: Session, result: MixtureResult, public: FloatArray, predicted: Any = None) -> MixtureResult:
    """The result with what a count says of its fit, in its reasons and its diagnostics; `predicted` (k,) total variations."""
    predicted = np.zeros(len(result.weights)) if predicted is None else predicted
    fit = measure(run, result.weights, result.means, result.covariances, public=public)
    return replace(
        result,
        part_reasons=tuple(fit.reasons(place, own, predicted[place]) for place, own in enumerate(result.part_reasons)),
        diagnostics={**result.diagnostics, **fit.facts_in()},
        **run.fields(result.n_pub),
    )


def count_draws(n_components: int) -> int:
    """Noise draws of the count."""
    return n_components * math.prod(CELLS)
