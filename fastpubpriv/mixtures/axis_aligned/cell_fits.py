"""Fits of mixtures to noisy counts of cells of a line.

The counts are of cells that cover the line, each with independent noise of one known standard deviation. They are fitted by damped
Gauss-Newton steps on the weighted squares: EM would need counts clipped at zero, which add mass to every empty cell. The same
counts show how well a mixture fits, at no further cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned.gauss_newton import Equations, damped_steps
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
    *,
    fixed_std: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return curvature (size, p, p) and gradient (size, p) of mixtures with these `cell_masses`, by `flat` parameters' steps."""
    inside, z = masses
    shares = mixtures.weights[:, :, None]
    # Differences of phi(z) and of z phi(z) between edges give the first two derivatives of masses.
    with np.errstate(all="ignore"):
        phi = _ROOT_TWO_PI * np.exp(-0.5 * z * z)
        density = np.diff(phi)
        tilted = np.diff(np.where(np.abs(z) < _FARTHEST, z, 0.0) * phi)
    mass = np.sum(shares * inside, axis=1)
    blocks = [shares * (inside - mass[:, None, :]), -shares * density]
    if not fixed_std:
        blocks.append(-shares * tilted)
    # Derivatives of masses in log weights, means in standard deviations, and log stds, (size, p, cells).
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
    pin[:, :components] = mixtures.weights * math.sqrt(cells.total)
    curvature += pin[:, :, None] * pin[:, None, :]
    return curvature, gradient


def flat(mixtures: GaussianMixture) -> FloatArray:
    """Return the weights, means and standard deviations of each mixture, (size, 3 components)."""
    return np.concatenate([mixtures.weights, mixtures.means, mixtures.stds], axis=1)


def unpacked(parameters: FloatArray) -> GaussianMixture:
    """Return the mixtures of `flat` parameters."""
    return GaussianMixture(*np.split(parameters, 3, axis=1))


def moved(parameters: FloatArray, step: FloatArray, *, least: float) -> FloatArray:
    """Return `flat` parameters after a step in log weights, means over stds, and log stds, if any; its entries are clipped."""
    at = unpacked(parameters)
    components = at.weights.shape[1]
    weights = at.weights * np.exp(np.clip(step[:, :components], -1.0, 1.0))
    weights = np.maximum(weights / weights.sum(axis=1, keepdims=True), tuning.LEAST_WEIGHT)
    weights /= weights.sum(axis=1, keepdims=True)
    means = at.means + at.stds * np.clip(step[:, components : 2 * components], -1.0, 1.0)
    stds = at.stds
    if step.shape[1] > 2 * components:
        stds = np.maximum(stds * np.exp(np.clip(step[:, 2 * components :], -0.5, 0.5)), least)
    return flat(GaussianMixture(weights, means, stds))


def refine(
    cells: CellHistogram, mixtures: GaussianMixture, *, steps: int, fixed_std: bool = False
) -> RefinedFit:
    """Return the mixtures after damped Gauss-Newton steps on the weighted squares, and their standard errors."""
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
    """Return the fits of one batch."""

    def evaluate(parameters: FloatArray) -> tuple[FloatArray, Equations]:
        at = unpacked(parameters)
        masses = cell_masses(at, cells.edges)
        score = misfit(cells, np.einsum("sk,skg->sg", at.weights, masses[0]))

        def equations(rows: BoolArray) -> tuple[FloatArray, FloatArray]:
            inside, z = masses
            return _normal_equations(at[rows], (inside[rows], z[rows]), cells, fixed_std=fixed_std)

        return score, equations

    fit = damped_steps(
        flat(start),
        evaluate,
        partial(moved, least=0.25 * cells.resolution),
        steps=steps,
        damping=1e-2,
        ridge=1e-6,
        settled=1e-4,
    )
    diagonal = np.einsum("spp->sp", fit.curvature)
    values, vectors = np.linalg.eigh(
        fit.curvature / np.sqrt(diagonal[:, :, None] * diagonal[:, None, :] + 1e-300)
    )
    # Directions that the counts do not determine get a bounded spread.
    roots = 1.0 / np.sqrt(np.maximum(values, 1e-3))
    # The symmetric root, since signs and order of eigenvectors may differ between processors.
    root = np.matmul(vectors * roots[:, None, :], vectors.transpose(0, 2, 1))
    spread = root / np.sqrt(np.maximum(diagonal, 1.0))[:, :, None]
    return RefinedFit(unpacked(fit.parameters), fit.score, spread)


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
