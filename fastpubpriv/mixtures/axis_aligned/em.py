"""Fits of mixtures to noisy counts of cells of a line, and to public rows by expectation-maximization (EM); and the task, method
and result classes of axis-aligned mixtures. Nothing here reads private rows but the final choice and the count of the fit.

The counts are of cells that cover the line, each with independent noise of one known standard deviation. They are fitted by damped
Gauss-Newton steps on the weighted squares: EM would need counts clipped at zero, which add mass to every empty cell.

If many rows share a value (counts, answers, constants), a density is a poor model, and a reason reports it. Ties cost no extra
release: differences of pairs of rows are counted in dyadic bins, which exclude zero, so that pairs missing from the released
counts, beyond what a threshold may hide, are ties. Public rows show their ties directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.estimators.output_bounds import Box
from fastpubpriv.mechanisms.selection import HypothesisChoice, law_for, prepare
from fastpubpriv.mechanisms.stable_histograms import StableRelease
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.fit import (
    BLIND,
    CHANCE,
    MOST_OPEN,
    MeasuredFit,
    measure,
)
from fastpubpriv.mixtures.mixture import Mixture, joined, slices
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.results.mixture import ROUNDING
from fastpubpriv.results.reasons import PartReasons, Reason, first_of
from fastpubpriv.session import Method, Session

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


def cell_masses(mixtures: Mixture, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def masses(mixtures: Mixture, edges: FloatArray) -> FloatArray:
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

    mixtures: Mixture
    score: FloatArray  # misfit of each
    # (size, p, p), a factor of the approximate covariance of log weights, means and log stds
    spread: FloatArray


def _normal_equations(
    mixtures: Mixture,
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


def moved(mixtures: Mixture, step: FloatArray, *, least: float, fixed_std: bool) -> Mixture:
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
    return Mixture(weights / weights.sum(axis=1, keepdims=True), means, stds)


def refine(
    cells: CellHistogram, mixtures: Mixture, *, steps: int, fixed_std: bool = False
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


def _refined(cells: CellHistogram, start: Mixture, steps: int, fixed_std: bool) -> RefinedFit:
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
        Mixture(weights, means, stds), mass, cells, np.arange(start.size), fixed_std
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
            Mixture(weights[live], means[live], stds[live]), step, least=least, fixed_std=fixed_std
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
        Mixture(weights, means, stds), score, root / np.sqrt(np.maximum(diagonal, 1.0))[:, :, None]
    )


# Randomness of public computations needs no secrecy; a fixed seed gives the same list for the same rows.
PUBLIC_SEED = 20_240_607


# ---- The last stage of the learners: a private choice among the candidates -------------------------------------------


def choose(
    run: Session,
    listed: Mixture,
    *,
    reason: Reason | None = None,
    diagnostics: dict[str, Any],
    share: Fraction = Fraction(1),
) -> LearnedMixture:
    """Select a candidate by the rows of a run at this share of its budget; without candidates, return the public N(0, 1)."""
    hypotheses = listed.hypotheses
    facts = {**diagnostics, "candidates": hypotheses.size}
    dim = run.rows.dim
    if hypotheses.size == 0:
        return nothing_found(dim, facts)
    index = 0
    if hypotheses.size > 1:
        account = run.account
        law = law_for(account)
        epsilon = account.of_choices.part(share).choice_epsilon(law)
        method, evaluation = prepare(hypotheses, run.rows.n, threads=run.executor.threads)
        choice = HypothesisChoice(evaluation=evaluation, size=hypotheses.size, law=law)
        index = run.release(choice, name="choice", cost=epsilon, method=method).index
    facts["chosen"] = int(hypotheses.positions[index])
    present = hypotheses.weights[index] > 0.0
    at = Mixture(
        hypotheses.weights[index][present],
        hypotheses.means[index][present],
        np.sqrt(hypotheses.spreads[index][present]),
    )
    return LearnedMixture(at=at, reason=reason, diagnostics=facts)


def measured(
    task: Task, learned: LearnedMixture, run: Session, *, cost: Spending | None = None
) -> LearnedMixture:
    """Return the mixture with a released count of its fit, by the rows of a run; see `measure` for the cost."""
    public = np.zeros((0, run.rows.dim)) if task.public is None else task.public
    fit = measure(run, task.bounded(learned.at), public=public, cost=cost)
    return replace(learned, fit=fit)


def fit_of_cells(
    cells: CellHistogram,
    step: float,
    at: Mixture,
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


# ---- Run times of the methods on one core of a small shared machine, fitted to measurements; accurate to an order of
# magnitude.
# All take (n, dim, components, size), where `size` is the length of the list.

SEARCH_SECONDS = 0.25  # seconds of the candidate search for one column, per component
ROW_SECONDS = 4e-9  # seconds of a pass, per computed number of a row
PAIR_SECONDS = 5e-8  # seconds of the comparison of two candidates on the line
_DENSITY_SECONDS = 2.5e-11  # seconds of a product of densities in several columns


def choice_rows(n: int, shares: tuple[int, ...]) -> int:
    """Return the number of rows in the last block, which are used for the choice among candidates."""
    return max(1, n * shares[-1] // sum(shares))


def density_seconds(dim: int, components: int, size: int, rows: int) -> float:
    """Return the run time of a choice by densities."""
    return (
        2.0 * (size * size / 2.0) * components * (dim + 4) * (1024 + rows / 2.0) * _DENSITY_SECONDS
    )


def choosing(
    n: int, dim: int, components: int, size: int, *, shares: tuple[int, ...] = (1,)
) -> float:
    """Return the run time of a list and the choice from it."""
    if dim == 1:
        return 0.3 + (size * size / 2.0 * PAIR_SECONDS + 60.0 * n * ROW_SECONDS)
    return 0.3 + density_seconds(dim, components, size, choice_rows(n, shares))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A call with checked arguments. Everything here is public except the rows of `run`."""

    run: Session
    n_components: int
    min_weight: float
    failure_prob: float
    accuracy: float | None = None
    public: FloatArray | None = None
    box: Box | None = None  # bounds of the columns, in data units
    # bounds of the columns of the rows of `run`, where these are the range
    range_box: Box | None = None
    # lower root of a known covariance: data units of the rows of `run`
    factor: FloatArray | None = None
    # what a warning of too few rows for a private start calls it
    start_name: str = "method='sketch'"

    @property
    def known_std(self) -> bool:
        """Whether every component has standard deviation one in every coordinate of the rows of `run`."""
        return self.factor is not None

    def bounded(self, at: Mixture) -> Mixture:
        """Return the mixture within bounds, as the caller gets it: that is what a count of the fit is compared with."""
        if self.box is None or self.factor is None:
            return at.within(self.box)
        clipped = np.clip(at.means @ self.factor.T, *self.box)
        return replace(at, means=solve_triangular(self.factor, clipped.T, lower=True).T)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMethod(Method[...]):
    """A method of `learn_axis_aligned_mixture`.

    learn(task: Task) -> Learned; draws(n, dim, components, *, known_std); prepare(n, components, dim, accuracy, budget,
    failure_prob, *, known_std); predict(n, dim, components, n_pub, budget) -> (error, details), None if the error is that of the
    choice.
    """

    draws: Callable[..., int]
    # rough run time for n, dim, components and the length of the list
    seconds: Callable[[int, int, int, int], float]
    candidates: int = 0  # default length of the list
    # relative numbers of rows by stage; the last stage chooses among the candidates
    shares: tuple[int, ...] = (1,)
    columns: Literal["any", "one", "several"] = "any"  # numbers of columns
    # whether the range comes from public rows, or else from releases that need a delta
    range_from_public: bool = False
    # whether the range may come from finite bounds in place of releases that need a delta
    range_from_bounds: bool = False
    refuses_inaccurate: bool = False  # `prepare` raises if the desired accuracy is not guaranteed
    # details for `plan` without public rows, from components and budget
    details: Callable[[int, ApproxDP], dict[str, float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedMixture:
    """A learned mixture in the coordinates of the rows that the method read, and what is known about it."""

    at: Mixture
    # SHORTLIST, or FALLBACK if a stage found nothing, from released values only
    reason: Reason | None = None
    nothing: bool = False  # whether nothing was found, and this is the public N(0, 1)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    unseen: BoolArray | None = None  # (k,): narrower than the cells of a released histogram
    low: BoolArray | None = None  # (k,): hidden by noise
    # (k,): predicted total variation errors from noise and sampling
    predicted: FloatArray | None = None
    fit: MeasuredFit | None = None


def nothing_found(dim: int, facts: dict[str, Any]) -> LearnedMixture:
    """Return the public N(0, 1), which stands for a mixture that was not found."""
    at = Mixture(np.ones(1), np.zeros((1, dim)), np.ones((1, dim)))
    return LearnedMixture(at=at, reason=Reason.FALLBACK, nothing=True, diagnostics=facts)


def ties_of(
    released: StableRelease, pairs: int, components: int
) -> tuple[list[float], list[float]]:
    """Return for each column the share of tied pairs, from released dyadic bins of their differences, 0 if not significant; and an
    upper bound on the step between values, the end of the finest released bin, inf without bins.
    """
    shares = []
    steps = []
    for histogram in released.histograms:
        hidden = tuning.HIDDEN_BINS * released.threshold * components
        hidden += tuning.HIDDEN_STDS * released.noise_std * math.sqrt(max(1, len(histogram.counts)))
        missing = pairs - float(np.sum(histogram.counts))
        shares.append(missing / pairs if missing > hidden else 0.0)
        keys = histogram.keys
        steps.append(math.ldexp(1.0, min(int(np.min(keys)) + 1, 1023)) if len(keys) else math.inf)
    return shares, steps


def component_reasons(
    learned: LearnedMixture,
    tied: list[float],
    steps: list[float],
    *,
    known_std: bool = False,
    asked: int | None = None,
) -> PartReasons:
    """Return the reasons of each component: TIES, the method's reason, UNRESOLVED if noise hides it, WIDE, or those of its fit.

    `asked` is the requested number of components; None if all were found.
    """
    weights = learned.at.normalized.weights
    means = learned.at.means
    stds = learned.at.stds
    if learned.nothing:
        return ((Reason.FALLBACK,),) * len(means)
    if learned.reason == Reason.FEW_PUBLIC_ROWS:
        # Equal public rows show no scale, and suggest that many private rows share their value.
        return ((Reason.FEW_PUBLIC_ROWS, Reason.TIES),) * len(means)
    # In a column with ties components represent values that many rows share: those not much wider than the step between values, or
    # all if rounding to that step does not explain the ties. For a component many steps wide, a density is an adequate model.
    atoms = np.zeros(len(weights), dtype=bool)
    for share, step, mean, std in zip(tied, steps, means.T, stds.T, strict=True):
        if share > 0.0:
            # The share of tied pairs if values are rounded to multiples of the step.
            spread = np.maximum(np.hypot(std[:, None], std), 1e-300)
            apart = np.minimum(np.abs(mean[:, None] - mean) / spread, 40.0)
            same = np.minimum(
                step * np.exp(-0.5 * apart**2) / (math.sqrt(2.0 * math.pi) * spread), 1.0
            )
            explained = float(weights @ same @ weights)
            atoms |= (std < tuning.STEPS_WIDE * step) | (
                share > tuning.MOST_UNEXPLAINED * explained
            )
    if learned.reason == Reason.FALLBACK and learned.unseen is not None:
        # Neither pairs of rows nor cells of any size showed the width of these components.
        atoms = atoms | learned.unseen
    size = np.abs(means).max(axis=0)
    narrow = np.any((stds * tuning.NARROW < stds.max(axis=0)) | (stds < ROUNDING * size), axis=1)
    if learned.unseen is not None and not known_std:
        narrow = narrow | learned.unseen
    low = np.zeros(len(means), dtype=bool) if learned.low is None else learned.low
    predicted = np.zeros(len(means)) if learned.predicted is None else learned.predicted
    reasons = first_of(
        [
            (atoms, Reason.TIES),
            (learned.reason is not None, learned.reason),
            (low, Reason.UNRESOLVED),
            (narrow, Reason.TIES),
            (predicted > MOST_OPEN, Reason.WIDE),
        ],
        len(means),
    )
    if learned.fit is None:
        return reasons
    return learned.fit.all_reasons(reasons, predicted, asked=len(means) if asked is None else asked)
