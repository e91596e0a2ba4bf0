"""Goodness of fit of a released mixture to the private rows: one noisy histogram, and the resulting reasons of components.

The code of a row, one of a few dozen per component, is its likeliest component, the shell of its distance, whether another
component is nearly as likely, and its band along the component's leading axis. Counts are compared with draws of the mixture.
Half of the l1 difference beyond chance is a lower bound on the total variation between the rows' distribution and the mixture.
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
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.mixture import ROUNDING, MixtureResult
from fastpubpriv.results.public_draws import chi2_quantiles, draw_normals
from fastpubpriv.results.reasons import Reason, Reasons
from fastpubpriv.session import Session
from fastpubpriv.sources.views import interleave_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaussians:
    """A mixture prepared for passes over rows: `roots` (k, dim, dim) are lower Cholesky factors, `table` is for the kernels."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    roots: FloatArray
    table: NormalTable

    @classmethod
    def of(cls, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> Gaussians:
        """Return the mixture of weights (k,), means (k, dim) and positive definite covariances (k, dim, dim)."""
        roots = np.empty_like(covariances)
        inverses = np.empty_like(covariances)
        for place, covariance in enumerate(covariances):
            # Columns are scaled to unit variance, since their units may differ by many orders of magnitude.
            scale = np.sqrt(np.diag(covariance))
            root, inverse = lower_powers(covariance / np.outer(scale, scale))
            roots[place], inverses[place] = scale[:, None] * root, np.tril(inverse) / scale
        constants = np.log(weights) - np.log(np.einsum("kii->ki", roots)).sum(axis=1)
        return cls(
            weights=weights,
            means=means,
            covariances=covariances,
            roots=roots,
            table=NormalTable(means, inverses, constants),
        )

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.means.shape[1])


# ---- Columns of rounded values, detected by ties among public rows.

# Minimum share, and number, of tied pairs of public rows in a column of rounded values.
PUBLIC_SHARE = 0.05
LEAST_TIED = 3


def public_ties(x_pub: FloatArray) -> tuple[list[float], list[float]]:
    """Return for each column the share of tied pairs of public rows, 0 if possibly chance or rounding, and the least step."""
    tied, steps = _ties(x_pub)
    shares = tied / max(1.0, len(x_pub) * (len(x_pub) - 1.0) / 2.0)
    return np.where(
        (tied >= LEAST_TIED) & (shares > PUBLIC_SHARE), shares, 0.0
    ).tolist(), steps.tolist()


def _ties(x_pub: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the number of tied pairs of rows, and the least step between values, of each column (dim,)."""
    ties = []
    for column in x_pub.T:
        values, counts = np.unique(column, return_counts=True)
        gaps = np.diff(values)
        gaps = gaps[gaps > ROUNDING * float(np.abs(values).max(initial=0.0))]
        ties.append((np.sum(counts * (counts - 1.0)) / 2.0, gaps.min(initial=np.inf)))
    tied, steps = np.array(ties).T
    return tied, steps


# ---- The histogram.

# shares of the budget for noise with the tails of a Gaussian, and with exponential ones
COUNT_SHARES = Fraction(1, 50), Fraction(1, 20)
# variance of the squared noise over that of a squared normal, for the same tails
SQUARE_SPREADS = 1.0, 2.5
SHELLS = (0.5, 0.95, 0.999)  # probabilities of a component within its shells
SURE = 0.9  # largest responsibility below which a row lies between components
BANDS = (0.45, 1.15)  # ends of the bands along the leading axis, in standard deviations
CELLS = (len(SHELLS) + 1, 2, len(BANDS) + 1)
DRAWS = 100_000
LEAST_DRAWS = 20_000
DRAWN_NUMBERS = 1 << 22
DRAWN_AT_ONCE = 1 << 17
# maximum rows that are counted, spread over all: more take time and hardly increase the power
MOST_COUNTED = 200_000
SEED = 20_227
# Mean of max(|Z| - 1, 0) / 2: expected gap of a perfect fit, in standard deviations of the cells.
CHANCE = 0.5 * 0.1666
# A fit is poor if its gap exceeds chance by POOR and a chi-square test rejects at level FALSE_ALARMS. If the expected gap of
# shells by chance exceeds BLIND, the count is uninformative.
POOR = 0.005
FALSE_ALARMS = 1e-3
BLIND = 0.03
LEAST_SHARE = 1e-3  # minimum share of a component by which its gap is divided
MOST_OPEN = 0.1  # predicted total variation of a component above which it gets a reason


def gaussian_tv(mean_errors: FloatArray, covariance_errors: FloatArray) -> FloatArray:
    """Return the first-order total variation between Gaussians for l2 errors of the mean and Frobenius errors of the covariance."""
    # Half the mean absolute value of a centered score, which is nearly normal with variance m^2 + F^2 / 2.
    distance = np.sqrt(
        (np.square(mean_errors) + np.square(covariance_errors) / 2.0) / (2.0 * math.pi)
    )
    return np.minimum(distance, 1.0)


def leading_axes(at: Gaussians) -> FloatArray:
    """Return the leading axes as unit directions (k, dim) of whitened rows; two components merged into one differ along them."""
    axes = np.empty_like(at.means)
    scale = np.exp(0.5 * np.log(np.einsum("kii->ki", at.covariances)).mean(axis=0))
    for place, covariance in enumerate(at.covariances):
        _, vectors = spectrum(covariance / np.outer(scale, scale))
        axes[place] = at.roots[place].T @ (vectors[:, -1] / scale)
        axes[place] /= np.linalg.norm(axes[place])
    return axes


def cell_codes(chunk: Any, *, at: Gaussians, axes: FloatArray) -> list[IntArray]:
    """Return the code of each row (n,): component, shell, ambiguity and band; -1 for a row with a non-finite entry."""
    top, (square, share, along) = likeliest(chunk, at.table, axes)
    shell = np.searchsorted(chi2_quantiles(SHELLS, at.dim), square)
    band = np.searchsorted(BANDS, np.abs(along))
    code = ((top * CELLS[0] + shell) * CELLS[1] + (share < SURE)) * CELLS[2] + band
    return [np.where(np.isfinite(chunk).all(axis=1), code, -1)]


def expected_cells(at: Gaussians, axes: FloatArray, public: FloatArray) -> tuple[FloatArray, int]:
    """Return the mixture's cell probabilities (cells,), from draws rounded as ties of public rows show, and their number."""
    tied, steps = _ties(public)
    known = (tied >= LEAST_TIED) & np.isfinite(steps)  # without a lattice, values would be distinct
    origin = public[0, known] if len(public) else np.zeros(0)
    steps = steps[known]
    size = min(DRAWS, max(LEAST_DRAWS, DRAWN_NUMBERS // at.dim))
    ends = np.round(np.cumsum(at.weights) / at.weights.sum() * size).astype(int).tolist()
    counts = np.zeros(len(at.weights) * math.prod(CELLS), dtype=np.int64)
    block = max(64, DRAWN_AT_ONCE // at.dim)
    for number, begin in enumerate(range(0, size, block)):
        rows = draw_normals((min(block, size - begin), at.dim), random_state=SEED + number)
        for place, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            own = rows[max(first - begin, 0) : max(last - begin, 0)]
            own[:] = at.means[place] + own @ at.roots[place].T
        rows[:, known] = origin + np.round((rows[:, known] - origin) / steps) * steps
        (codes,) = cell_codes(rows, at=at, axes=axes)
        counts += np.bincount(codes[codes >= 0], minlength=len(counts))
    return counts / size, size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentFit:
    """Goodness of fit of each component, (k,), from the count."""

    gaps: FloatArray  # differences between rows and mixture in total variation
    nulls: FloatArray  # expected gaps of a perfect fit
    outer: FloatArray  # gaps of the shells alone
    beyond: FloatArray  # excess shares of rows outside the last shell
    shares: FloatArray  # shares of the rows by the mixture
    poor: BoolArray  # whether the test rejects that the gap is due to chance
    blind: bool = False  # whether noise hides even the shells
    floor: float = POOR  # minimum gap beyond chance of a poor fit

    @property
    def gap(self) -> float:
        """Gap of the whole mixture."""
        return float(self.gaps.sum())

    @property
    def null(self) -> float:
        """Expected gap of a perfect fit."""
        return float(self.nulls.sum())

    @property
    def most(self) -> float:
        """About the largest total variation, as far as the cells show it, that the count does not exclude."""
        # Gaps leave out up to one standard deviation of each cell, whose sum is null / CHANCE: half of it in total variation.
        return self.gap + self.null / (2.0 * CHANCE)

    def reasons(self, place: int, before: Reasons, predicted: float = 0.0) -> Reasons:
        """Return the reasons of a component with reasons `before` without the count, and `predicted` total variation error."""
        if before not in ((), (Reason.WIDE,), (Reason.TIES,)):
            return before
        if self.blind:
            return before or (Reason.FEW_ROWS,)
        excess = self.gaps[place] - self.nulls[place]
        # Cells show about half of a predicted error; if the component already has a reason for it, the whole is explained.
        explained = predicted if before == (Reason.WIDE,) else max(self.floor, predicted / 2.0)
        if not (self.poor[place] and excess > explained * self.shares[place]):
            return before
        if before == (Reason.TIES,):  # shells of atoms say nothing about tails
            return (Reason.POOR_FIT, Reason.TIES)
        return (
            Reason.NOT_GAUSSIAN if self.outer[place] > 0.5 * self.gaps[place] else Reason.POOR_FIT,
        )

    def facts_in(self, order: Any = slice(None)) -> dict[str, Any]:
        """Return the diagnostics of a result whose components are in this order."""
        return {
            "fit_gap": self.gap,
            "fit_null": self.null,
            "fit_gaps": (self.gaps / np.maximum(self.shares, LEAST_SHARE))[order].tolist(),
            "unexplained": float(self.beyond.sum()),
        }


def compared(
    counts: FloatArray,
    n: int,
    noise_std: float,
    expected: FloatArray,
    draws: int,
    parts: int,
    *,
    square_spread: float = 1.0,
) -> ComponentFit:
    """Compare released counts (cells,) of n rows with the shares of a mixture of `parts` components.

    `square_spread` is the variance of the squared noise over that of a squared normal.
    """
    # Rows with non-finite entries are in no cell; if their number is significant, shares refer to the other rows.
    total = float(counts.sum())
    if total < n - 4.0 * noise_std * math.sqrt(len(counts)):
        n = max(1, round(total))

    def spread(share: FloatArray) -> FloatArray:
        """Return the standard deviation of an observed share of merged cells."""
        noise = (noise_std / n) ** 2 * (len(counts) / share.size)
        return np.sqrt(noise + (share * (1.0 - share) + 1.0 / draws) * (1.0 / n + 1.0 / draws))

    observed = (counts / n).reshape(parts, *CELLS)
    share = expected.reshape(parts, *CELLS)
    wanted = share.reshape(parts, -1)
    std = spread(wanted)
    off = np.abs(observed.reshape(parts, -1) - wanted)
    gaps = np.maximum(off - std, 0.0).sum(axis=1) / 2.0
    nulls = CHANCE * std.sum(axis=1)
    chi_square = np.square(off / std).sum(axis=1)
    chance = chdtrc(wanted.shape[1] / square_spread, chi_square / square_spread)
    shells = observed.sum(axis=(2, 3))
    wanted = share.sum(axis=(2, 3))
    # Shells are compared within their component, so that a wrong weight is not mistaken for a wrong shape.
    wanted = wanted * (shells.sum(axis=1) / np.maximum(wanted.sum(axis=1), 1e-12))[:, None]
    off = shells - wanted
    std = spread(np.clip(wanted, 0.0, 1.0))
    return ComponentFit(
        gaps=gaps,
        nulls=nulls,
        outer=np.maximum(np.abs(off) - std, 0.0).sum(axis=1) / 2.0,
        beyond=np.maximum(off[:, -1] - std[:, -1], 0.0),
        shares=share.sum(axis=(1, 2, 3)),
        poor=chance < FALSE_ALARMS / parts,
        blind=CHANCE * float(std.sum()) > BLIND,
    )


def count_share(spending: Spending) -> Fraction:
    """Return the share of the budget for the count."""
    return spending.by_tail(*COUNT_SHARES)


def measure(
    run: Session,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    *,
    public: FloatArray,
) -> ComponentFit:
    """Release the count of rows in the cells of a mixture, at `count_share` of the allowance, and compare it with the mixture.

    Ties of `public` rows, of which there may be none, show columns of rounded values.
    """
    at = Gaussians.of(weights, means, covariances)
    k = len(weights)
    spending = run.account.spending
    if run.rows.n > MOST_COUNTED:
        run = run.on(interleave_rows(run.rows, MOST_COUNTED, run.rows.n - MOST_COUNTED)[0])
    prepare(run.rows.n, k * at.dim**2)
    axes = leading_axes(at)
    expected, draws = expected_cells(at, axes, public)
    cells = count_draws(k)
    counted = run.release(
        CodeCounts(
            codes=partial(cell_codes, at=at, axes=axes),
            cells=[cells],
            row_cost=at.means.size * at.dim // 8,
        ),
        name="fit",
        cost=spending.part(count_share(spending)),
        cells=cells,
    )
    return compared(
        counted.value,
        run.rows.n,
        counted.noise_std,
        expected,
        draws,
        k,
        square_spread=spending.by_tail(*SQUARE_SPREADS),
    )


def with_fit(
    run: Session, result: MixtureResult, public: FloatArray, predicted: Any = None
) -> MixtureResult:
    """Return the result with reasons and diagnostics from a count of its fit; `predicted` (k,) are total variation errors."""
    predicted = np.zeros(len(result.weights)) if predicted is None else predicted
    fit = measure(run, result.weights, result.means, result.covariances, public=public)
    return replace(
        result,
        part_reasons=tuple(
            fit.reasons(place, own, predicted[place])
            for place, own in enumerate(result.part_reasons)
        ),
        diagnostics={**result.diagnostics, **fit.facts_in()},
        **run.fields(result.n_pub),
    )


def count_draws(n_components: int) -> int:
    """Return the number of noise draws of the count."""
    return n_components * math.prod(CELLS)
