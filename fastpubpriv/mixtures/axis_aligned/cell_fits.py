"""Fits of mixtures to noisy counts of cells of a line.

The counts are of cells that cover the line, each with independent noise of one known standard deviation. They are fitted by damped
Gauss-Newton steps on the weighted squares: EM would need counts clipped at zero, which add mass to every empty cell. The same
counts show how well a mixture fits, at no further cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.fit import (
    BLIND,
    CHANCE,
    MeasuredFit,
)
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture, joined, slices

_ROOT_TWO_PI = 1.0 / math.sqrt(2.0 * math.pi)
_FARTHEST = 40.0  # standard deviations beyond which z phi(z) is zero
_CELL_BATCH = 1 << 21  # maximum entries of one (starts, components, edges) array


@dataclass(frozen=True, slots=True, eq=False)
class CellHistogram:
    """Noisy counts of the cells between ascending `edges` from -inf to inf; `total` is the public number of counted rows.

    `public` are the exact counts of public rows in the same cells, none by default.
    """

    edges: FloatArray
    counts: FloatArray
    noise_std: float
    total: int
    public: FloatArray | None = None

    @property
    def of_public(self) -> FloatArray:
        """Counts of public rows, (cells,)."""
        return np.zeros(len(self.counts)) if self.public is None else self.public

    @property
    def resolution(self) -> float:
        """Width of the narrowest cell that significantly holds rows, a lower bound on resolvable scales."""
        widths = np.diff(self.edges[1:-1])
        held = widths[self.counts[1:-1] > 4.0 * self.noise_std]
        return float((held if len(held) else widths).min())


def cell_masses(mixtures: GaussianMixture, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mass of each component in each cell (size, components, cells), and standardized edges (..., cells + 1)."""
    with np.errstate(all="ignore"):
        z = (edges - mixtures.means[:, :, None]) / mixtures.stds[:, :, None]
        # From the nearer tail, to avoid cancellation.
        tail = ndtr(-np.abs(z))
        above = z > 0.0
        left = tail[..., :-1]
        right = tail[..., 1:]
        mass: FloatArray = np.where(above[..., :-1], left - right, right - left)
        around = above[..., 1:] & ~above[..., :-1]
        mass[around] = ndtr(z[..., 1:][around]) - left[around]
        return mass, z


def masses(mixtures: GaussianMixture, edges: FloatArray) -> FloatArray:
    """Return the mass of each mixture in each cell, (size, cells)."""
    mass = np.empty((mixtures.size, len(edges) - 1))
    for rows in slices(mixtures, len(edges), _CELL_BATCH):
        mass[rows] = np.einsum(
            "sk,skg->sg", mixtures.weights[rows], cell_masses(mixtures[rows], edges)[0]
        )
    return mass


def contaminated(mass: FloatArray) -> FloatArray:
    """Return masses (..., cells) of which a small share is spread over all cells: some public rows may lie anywhere."""
    spread: FloatArray = (1.0 - tuning.CONTAMINATED) * mass + tuning.CONTAMINATED / mass.shape[-1]
    return spread


def misfit(cells: CellHistogram, mass: FloatArray) -> FloatArray:
    """Return -2 log likelihood of the counts, up to a constant; `mass` is (size, cells).

    Noisy counts are approximately normal, and counts of public rows multinomial.
    """
    expected = cells.total * mass
    variance = cells.noise_std**2 + np.maximum(expected, 0.0)
    score: FloatArray = np.sum((cells.counts - expected) ** 2 / variance + np.log(variance), axis=1)
    if cells.public is not None:
        held = cells.public > 0.0
        score -= 2.0 * np.log(contaminated(mass))[:, held] @ cells.public[held]
    return np.where(np.isfinite(score), score, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class RefinedFit:
    """Refined mixtures, their misfits and approximate standard errors."""

    mixtures: GaussianMixture
    score: FloatArray  # misfit of each
    # (size, p, p), a factor of the approximate covariance of log weights, means and log stds
    spread: FloatArray


def _normal_equations(
    mixtures: GaussianMixture,
    masses: tuple[FloatArray, FloatArray],
    cells: CellHistogram,
    rows: IntArray,
    fixed_std: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return curvature (rows, p, p) and gradient (rows, p) of the mixtures `rows`; `masses` are all `cell_masses`."""
    inside, z = (part[rows] for part in masses)
    shares = mixtures.weights[rows][:, :, None]
    # Differences of phi(z) and of z phi(z) between edges give the first two derivatives of masses.
    with np.errstate(all="ignore"):
        phi = _ROOT_TWO_PI * np.exp(-0.5 * z * z)
        density = np.diff(phi)
        tilted = np.diff(np.where(np.abs(z) < _FARTHEST, z, 0.0) * phi)
    mass = np.sum(shares * inside, axis=1)
    blocks = [shares * (inside - mass[:, None, :]), -shares * density]
    if not fixed_std:
        blocks.append(-shares * tilted)
    # Derivatives of masses in the parameters of `RefinedFit`, (rows, p, cells).
    slopes = np.concatenate(blocks, axis=1)
    expected = cells.total * mass
    precision = cells.total / (cells.noise_std**2 + np.maximum(expected, 0.0) + 1e-9)
    residuals = precision * (cells.counts - expected)
    precision *= cells.total
    if cells.public is not None:
        # Scores and information of the multinomial counts of public rows.
        share = (1.0 - tuning.CONTAMINATED) / contaminated(mass)
        residuals += share * cells.public
        precision += share * (1.0 - tuning.CONTAMINATED) * cells.public.sum()
    curvature = np.matmul(slopes * precision[:, None, :], slopes.transpose(0, 2, 1))
    gradient = np.matmul(slopes, residuals[:, :, None])[:, :, 0]
    # The log weights are identified up to a constant only, so their weighted sum is fixed.
    components = mixtures.weights.shape[1]
    pin = np.zeros(curvature.shape[:2])
    pin[:, :components] = mixtures.weights[rows] * math.sqrt(cells.total)
    curvature += pin[:, :, None] * pin[:, None, :]
    return curvature, gradient


def moved(
    mixtures: GaussianMixture, step: FloatArray, *, least: float, fixed_std: bool
) -> GaussianMixture:
    """Return the mixtures after a step in the parameters of `RefinedFit`, whose entries are clipped."""
    components = mixtures.weights.shape[1]
    weights = mixtures.weights * np.exp(np.clip(step[:, :components], -1.0, 1.0))
    weights = np.maximum(weights / weights.sum(axis=1, keepdims=True), tuning.LEAST_WEIGHT)
    means = mixtures.means + mixtures.stds * np.clip(
        step[:, components : 2 * components], -1.0, 1.0
    )
    stds = mixtures.stds
    if not fixed_std:
        stds = np.maximum(stds * np.exp(np.clip(step[:, 2 * components :], -0.5, 0.5)), least)
    return GaussianMixture(weights / weights.sum(axis=1, keepdims=True), means, stds)


def refine(
    cells: CellHistogram, mixtures: GaussianMixture, *, steps: int, fixed_std: bool = False
) -> RefinedFit:
    """Run damped Gauss-Newton steps on the weighted squares; a step that fits worse is rejected and the damping raised."""
    batches = [
        _refined(cells, mixtures[rows], steps, fixed_std)
        for rows in slices(mixtures, len(cells.edges), _CELL_BATCH)
    ]
    fits = joined([batch.mixtures for batch in batches])
    return RefinedFit(
        fits,
        np.concatenate([each.score for each in batches]),
        np.concatenate([each.spread for each in batches]),
    )


def _refined(
    cells: CellHistogram, start: GaussianMixture, steps: int, fixed_std: bool
) -> RefinedFit:
    """Run `refine` for one batch. Normal equations are recomputed only after accepted steps, and a mixture whose step is rejected
    at the maximum damping is final.
    """
    least = 0.25 * cells.resolution
    weights = start.weights.copy()
    means = start.means.copy()
    stds = start.stds.copy()
    mass = cell_masses(start, cells.edges)
    score = misfit(cells, np.einsum("sk,skg->sg", weights, mass[0]))
    curvature, gradient = _normal_equations(
        GaussianMixture(weights, means, stds), mass, cells, np.arange(start.size), fixed_std
    )
    damping = np.full(start.size, 1e-2)
    live = np.arange(start.size)
    for _ in range(steps):
        diagonal = np.einsum("spp->sp", curvature[live])
        damped = curvature[live] + (damping[live, None] * diagonal + 1e-6)[:, :, None] * np.eye(
            diagonal.shape[1]
        )
        step = np.linalg.solve(damped, gradient[live][:, :, None])[:, :, 0]
        tried = moved(
            GaussianMixture(weights[live], means[live], stds[live]),
            step,
            least=least,
            fixed_std=fixed_std,
        )
        mass = cell_masses(tried, cells.edges)
        tried_score = misfit(cells, np.einsum("sk,skg->sg", tried.weights, mass[0]))
        gain = score[live] - tried_score
        better = tried_score < score[live]
        chosen = np.flatnonzero(better)
        rows = live[chosen]
        weights[rows], means[rows], stds[rows] = (
            tried.weights[chosen],
            tried.means[chosen],
            tried.stds[chosen],
        )
        score[rows] = tried_score[chosen]
        if len(rows):
            curvature[rows], gradient[rows] = _normal_equations(
                tried, mass, cells, chosen, fixed_std
            )
        stuck = ~better & (damping[live] >= tuning.MOST_DAMPING)
        damping[live] = np.where(
            better, damping[live] * 0.3, np.minimum(damping[live] * 10.0, tuning.MOST_DAMPING)
        )
        if not np.any(better & (gain > 1e-4)) and np.all(damping > 1.0):
            break
        live = live[~stuck]
    diagonal = np.einsum("spp->sp", curvature)
    values, vectors = np.linalg.eigh(
        curvature / np.sqrt(diagonal[:, :, None] * diagonal[:, None, :] + 1e-300)
    )
    # Directions that the counts do not determine get a bounded spread.
    roots = 1.0 / np.sqrt(np.maximum(values, 1e-3))
    # The symmetric root, since signs and order of eigenvectors may differ between processors.
    root = np.matmul(vectors * roots[:, None, :], vectors.transpose(0, 2, 1))
    return RefinedFit(
        GaussianMixture(weights, means, stds),
        score,
        root / np.sqrt(np.maximum(diagonal, 1.0))[:, :, None],
    )


def fit_of_cells(
    cells: CellHistogram,
    step: float,
    at: GaussianMixture,
    *,
    rows_per_person: int = 1,
    smooth: bool = True,
) -> MeasuredFit:
    """Return the fit of a mixture of one column by already released counts of cells, at no cost.

    No reason follows from it if values are not `smooth`, or if the bound `step` on the step between them is not small relative to
    every standard deviation, so that cells may show a comb. So many rows of one person may be equal.
    """
    weights = at.normalized.weights
    means = at.means[:, 0]
    stds = at.stds[:, 0]
    is_fine = step <= tuning.FINE_STEP * float(stds.min())
    below = ndtr((cells.edges[:, None] - means) / stds) * weights
    expected = np.diff(below, axis=0)
    group = np.minimum(
        (np.cumsum(expected.sum(axis=1)) * tuning.GROUPS).astype(np.int64), tuning.GROUPS - 1
    )
    _, group = np.unique(group, return_inverse=True)
    parts = np.stack([np.bincount(group, column) for column in expected.T], axis=1)
    share = parts.sum(axis=1)
    observed = np.bincount(group, cells.counts) / cells.total
    # Non-finite values are in no cell.
    total = float(cells.counts.sum())
    if total < cells.total - 4.0 * cells.noise_std * math.sqrt(len(cells.counts)):
        observed *= cells.total / max(total, 1.0)
    std = np.sqrt(
        np.bincount(group) * (cells.noise_std / cells.total) ** 2
        + share * (1.0 - share) * rows_per_person / cells.total
    )
    belongs = (parts + 1e-300) / (parts + 1e-300).sum(axis=1, keepdims=True)
    off = np.abs(observed - share)
    gaps = np.maximum(off - std, 0.0) / 2.0
    nulls = CHANCE * std
    return MeasuredFit(
        gaps=gaps @ belongs,
        nulls=nulls @ belongs,
        totals=off @ belongs / 2.0,
        outer=np.zeros(len(weights)),
        beyond=np.zeros(len(weights)),
        shares=weights,
        error=float(np.linalg.norm(std)),
        cells=len(share),
        blind=float(nulls.sum()) > BLIND,
        graded=smooth and is_fine,
    )
