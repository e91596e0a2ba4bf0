"""Distance between a released mixture and the private rows, with an interval, from one noisy histogram; and reasons that grade it.

The code of a row, one of 24 per component, is its likeliest component, the shell of its distance, whether another component is
nearly as likely, and its band along the component's leading axis; where noise would hide even the sums over a shell, shells alone,
four per component, are counted. Shares of the rows are compared with those of draws of the mixture.
With o_i the difference in cell i, s_i its standard deviation from noise and sampling, and c = E max(|Z| - 1, 0) for a standard
normal Z,

    distance = max(0, sum max(|o_i| - s_i, 0) / 2 - c sum s_i / 2)
    lower = max(0, distance - sqrt(sum s_i^2)),    upper = sum |o_i| / 2 + sqrt(sum s_i^2).

The interval is for the total variation between the law of the rows and the mixture *as far as the cells show it*, which is at
most the whole total variation. It says nothing about classes that a user may know: they need not be Gaussian components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.linalg import spectrum
from fastpubpriv.kernels.mixture_rows import NormalTable, likeliest, prepare
from fastpubpriv.mechanisms.cells import CodeCounts
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.mixture import ROUNDING, MixtureResult
from fastpubpriv.results.public_draws import chi2_quantiles, draw_normals
from fastpubpriv.results.reasons import PartReasons, Reason, Reasons
from fastpubpriv.session import Session
from fastpubpriv.sources.views import interleave_rows

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
SHELLS = (0.5, 0.95, 0.999)  # probabilities of a component within its shells
SURE = 0.9  # largest responsibility below which a row lies between components
BANDS = (0.45, 1.15)  # ends of the bands along the leading axis, in standard deviations
CELLS = (len(SHELLS) + 1, 2, len(BANDS) + 1)
OF_SHELL = math.prod(CELLS[1:])
DRAWS = 100_000
LEAST_DRAWS = 20_000
DRAWN_NUMBERS = 1 << 22
DRAWN_AT_ONCE = 1 << 17
# maximum rows that are counted, spread over all: more take time and hardly increase the power
MOST_COUNTED = 200_000
SEED = 20_227
# Mean of max(|Z| - 1, 0) / 2 for a standard normal Z (of Laplace noise, .086): expected gap of a perfect fit, in standard
# deviations of the cells.
CHANCE = 0.5 * 0.1666
# Least lower ends of the interval from which the answer is a summary of the rows, not their law, and from which it is neither.
# Non-private expectation-maximization has .13 to .33 on real tables (`python -m benchmarks.accuracy --estimator mixture`).
ROUGH = 0.02
POOR = 0.15
# If the expected gap of shells by chance exceeds BLIND, the count is uninformative.
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


def leading_axes(at: GaussianMixture) -> FloatArray:
    """Return the leading axes as unit directions (k, dim) of whitened rows; two components merged into one differ along them."""
    axes = np.empty_like(at.means)
    covariances = at.covariances
    scale = np.exp(0.5 * np.log(np.einsum("kii->ki", covariances)).mean(axis=0))
    for place, (covariance, root) in enumerate(zip(covariances, at.roots, strict=True)):
        _, vectors = spectrum(covariance / np.outer(scale, scale))
        axes[place] = root.T @ (vectors[:, -1] / scale)
        axes[place] /= np.linalg.norm(axes[place])
    return axes


def cell_codes(
    chunk: Any, *, table: NormalTable, axes: FloatArray, merged: int = 1
) -> list[IntArray]:
    """Return the code of each row (n,): component, shell, ambiguity and band; -1 for a row with a non-finite entry.

    So many neighboring codes are `merged` into one.
    """
    top, (square, share, along) = likeliest(chunk, table, axes)
    shell = np.searchsorted(chi2_quantiles(SHELLS, axes.shape[1]), square)
    band = np.searchsorted(BANDS, np.abs(along))
    code = ((top * CELLS[0] + shell) * CELLS[1] + (share < SURE)) * CELLS[2] + band
    return [np.where(np.isfinite(chunk).all(axis=1), code // merged, -1)]


def expected_cells(
    at: GaussianMixture, axes: FloatArray, public: FloatArray
) -> tuple[FloatArray, int]:
    """Return the mixture's cell probabilities (cells,), from draws rounded as ties of public rows show, and their number."""
    tied, steps = _ties(public)
    known = (tied >= LEAST_TIED) & np.isfinite(steps)  # without a lattice, values would be distinct
    origin = public[0, known] if len(public) else np.zeros(0)
    steps = steps[known]
    size = min(DRAWS, max(LEAST_DRAWS, DRAWN_NUMBERS // at.dim))
    ends = np.round(np.cumsum(at.weights) / at.weights.sum() * size).astype(int).tolist()
    counts = np.zeros(len(at.weights) * math.prod(CELLS), dtype=np.int64)
    block = max(64, DRAWN_AT_ONCE // at.dim)
    roots = at.roots
    table = at.table
    for number, begin in enumerate(range(0, size, block)):
        rows = draw_normals((min(block, size - begin), at.dim), random_state=SEED + number)
        for place, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            own = rows[max(first - begin, 0) : max(last - begin, 0)]
            own[:] = at.means[place] + own @ roots[place].T
        rows[:, known] = origin + np.round((rows[:, known] - origin) / steps) * steps
        (codes,) = cell_codes(rows, table=table, axes=axes)
        counts += np.bincount(codes[codes >= 0], minlength=len(counts))
    return counts / size, size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredFit:
    """Difference between rows and mixture as the cells of a count show it; arrays (k,) are the parts of each component."""

    gaps: FloatArray  # half of the differences of shares beyond one standard deviation of each cell
    nulls: FloatArray  # expected gaps of a perfect fit
    totals: FloatArray  # half of all differences of shares
    outer: FloatArray  # gaps of the shells alone
    beyond: FloatArray  # excess shares of rows outside the last shell
    shares: FloatArray  # shares of the rows by the mixture
    error: float  # root sum of squares of the cells' standard deviations
    cells: int
    blind: bool = False  # whether noise hides even the shells
    graded: bool = (
        True  # whether reasons follow; not for rounded values, whose steps look like a misfit
    )

    @property
    def distance(self) -> float:
        """Total variation between rows and mixture beyond chance, as far as the cells show it."""
        return min(1.0, max(0.0, float((self.gaps - self.nulls).sum())))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends between which that total variation lies."""
        upper = float(self.totals.sum()) + self.error
        return max(0.0, self.distance - self.error), min(1.0, upper)

    @property
    def distances(self) -> FloatArray:
        """Distance of each component beyond chance over its share of the rows, (k,)."""
        excess = np.maximum(self.gaps - self.nulls, 0.0)
        return np.minimum(excess / np.maximum(self.shares, LEAST_SHARE), 1.0)

    def word(self, place: int) -> Reason | None:
        """Return the reason that grades the distance of a component; None if it is small, or that of the mixture."""
        lower, _ = self.interval
        own = self.distances[place]
        # The parts add up to the distance of the mixture: if that is above a limit, so is that of some component.
        if not self.graded or lower <= ROUGH or own <= ROUGH:
            return None
        if lower > POOR and own > POOR:
            return Reason.POOR_FIT
        if self.outer[place] > 0.5 * self.gaps[place]:
            return Reason.NOT_GAUSSIAN
        return Reason.ROUGH_FIT

    def reasons(
        self, place: int, before: Reasons, predicted: float = 0.0, *, missing: bool = False
    ) -> Reasons:
        """Return the reasons of a component with reasons `before` without the count, and `predicted` total variation error.

        `missing`: fewer components than requested were found, or may have been.
        """
        if before not in ((), (Reason.WIDE,), (Reason.TIES,)):
            return before
        word = self.word(place)
        if word is None:
            _, upper = self.interval
            unseen = self.graded and missing and upper > MOST_OPEN
            return before or ((Reason.FEW_ROWS,) if self.blind or unseen else ())
        if before == (Reason.TIES,):
            # shells of atoms say nothing about tails
            word = Reason.ROUGH_FIT if word == Reason.NOT_GAUSSIAN else word
            return (word, Reason.TIES)
        explained = word != Reason.POOR_FIT and self.distances[place] <= predicted
        return before if before and explained else (word,)

    def all_reasons(
        self,
        before: PartReasons,
        predicted: FloatArray | None = None,
        *,
        asked: int,
        may_be_merged: bool = False,
    ) -> PartReasons:
        """Return `reasons` of all components, of which `asked` were requested.

        `may_be_merged`: so few public rows gave the start that a component may stand for several.
        """
        errors = np.zeros(len(before)) if predicted is None else predicted
        # Where noise hides a component, another one may stand for its rows.
        resolved = [own for own in before if Reason.UNRESOLVED not in own]
        missing = may_be_merged or len(resolved) < asked
        return tuple(
            self.reasons(place, own, float(errors[place]), missing=missing)
            for place, own in enumerate(before)
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a result."""
        return {"fit_distance": self.distance, "fit_interval": self.interval}

    def facts_in(self, order: Any = slice(None)) -> dict[str, Any]:
        """Return the diagnostics of a result whose components are in this order."""
        return {
            "fit_cells": self.cells,
            "fit_distances": self.distances[order].tolist(),
            "unexplained": float(self.beyond.sum()),
        }


def share_std(share: FloatArray, noise_std: float, sampling: float, draws: int) -> FloatArray:
    """Return standard deviations of differences of observed and predicted shares, from noise on the former and sampling of both.

    `sampling` is the sum of one over the number of rows and one over that of draws.
    """
    variance = share * (1.0 - share) + 1.0 / draws
    return np.sqrt(noise_std**2 + variance * sampling)


def counted_rows(counts: FloatArray, noise_std: float, n: int) -> int:
    """Return the number of rows that noisy counts of cells refer to: n, unless significantly fewer are in some cell."""
    # Rows with non-finite entries are in no cell.
    total = float(counts.sum())
    if total < n - 4.0 * noise_std * math.sqrt(len(counts)):
        return max(1, round(total))
    return n


def compared(
    counts: FloatArray,
    n: int,
    noise_std: float,
    expected: FloatArray,
    draws: int,
    parts: int,
    *,
    rows_per_person: int = 1,
) -> MeasuredFit:
    """Compare released counts (cells,) of n rows with the shares of a mixture of `parts` components, from so many `draws`.

    So many rows of one person may be equal.
    """
    n = counted_rows(counts, noise_std, n)
    sampling = rows_per_person / n + 1.0 / draws
    observed = (counts / n).reshape(parts, CELLS[0], -1)
    share = expected.reshape(observed.shape)
    wanted = share.reshape(parts, -1)
    std = share_std(wanted, noise_std / n, sampling, draws)
    off = np.abs(observed.reshape(parts, -1) - wanted)
    gaps = np.maximum(off - std, 0.0).sum(axis=1) / 2.0
    totals = off.sum(axis=1) / 2.0
    nulls = CHANCE * std.sum(axis=1)
    error = float(np.linalg.norm(std))
    shells = observed.sum(axis=2)
    wanted = share.sum(axis=2)
    # Shells are compared within their component, so that a wrong weight is not mistaken for a wrong shape.
    wanted = wanted * (shells.sum(axis=1) / np.maximum(wanted.sum(axis=1), 1e-12))[:, None]
    off = shells - wanted
    merged_noise = noise_std / n * math.sqrt(len(counts) / wanted.size)
    std = share_std(np.clip(wanted, 0.0, 1.0), merged_noise, sampling, draws)
    return MeasuredFit(
        gaps=gaps,
        nulls=nulls,
        totals=totals,
        outer=np.maximum(np.abs(off) - std, 0.0).sum(axis=1) / 2.0,
        beyond=np.maximum(off[:, -1] - std[:, -1], 0.0),
        shares=share.sum(axis=(1, 2)),
        error=error,
        cells=len(counts),
        blind=CHANCE * float(std.sum()) > BLIND,
    )


def count_share(spending: Spending) -> Fraction:
    """Return the share of the budget for the count."""
    return spending.by_tail(*COUNT_SHARES)


def hides_shells(noise_std: float, n: int, parts: int) -> bool:
    """Return whether noise on the counts of all cells makes the sums over shells of so many components uninformative."""
    of_shell = noise_std / n * math.sqrt(OF_SHELL)
    return CHANCE * parts * CELLS[0] * of_shell > BLIND


def measure(
    run: Session, at: GaussianMixture, *, public: FloatArray, cost: Spending | None = None
) -> MeasuredFit:
    """Release the count of rows in the cells of a mixture, and compare it with the mixture.

    Ties of `public` rows, of which there may be none, show columns of rounded values. The cost is by default `count_share` of the
    allowance.
    """
    at = at.normalized
    k = len(at.weights)
    if cost is None:
        spending = run.account.spending
        cost = spending.part(count_share(spending))
    if run.rows.n > MOST_COUNTED:
        run = run.on(interleave_rows(run.rows, MOST_COUNTED, run.rows.n - MOST_COUNTED)[0])
    prepare(run.rows.n, k * at.dim**2)
    axes = leading_axes(at)
    expected, draws = expected_cells(at, axes, public)
    merged = OF_SHELL if hides_shells(cost.std("count"), run.rows.n, k) else 1
    expected = expected.reshape(-1, merged).sum(axis=1)
    cells = len(expected)
    counted = run.release(
        CodeCounts(
            codes=partial(cell_codes, table=at.table, axes=axes, merged=merged),
            cells=[cells],
            row_cost=at.means.size * at.dim // 8,
        ),
        name="fit",
        cost=cost,
        cells=cells,
    )
    return compared(
        counted.value,
        run.rows.n,
        counted.noise_std,
        expected,
        draws,
        k,
        rows_per_person=run.account.rows_per_person,
    )


def with_fit(
    run: Session,
    result: MixtureResult,
    public: FloatArray,
    predicted: FloatArray | None = None,
    *,
    asked: int,
    may_be_merged: bool = False,
) -> MixtureResult:
    """Return the result with the number of a count of its fit, and with the reasons that grade it, as of `MeasuredFit.all_reasons`.

    `predicted` (k,) are total variation errors, `asked` is the requested number of components.
    """
    at = GaussianMixture(result.weights, result.means, result.covariances)
    fit = measure(run, at, public=public)
    fields = {**run.fields(result.n_pub), **fit.fields}
    reasons = fit.all_reasons(
        result.part_reasons, predicted, asked=asked, may_be_merged=may_be_merged
    )
    diagnostics = {**result.diagnostics, **fit.facts_in()}
    return replace(result, part_reasons=reasons, diagnostics=diagnostics, **fields)


def count_draws(n_components: int) -> int:
    """Return the number of noise draws of the count."""
    return n_components * math.prod(CELLS)
