"""Mixture on the line: one histogram of cells for any budget, and a free search for the mixture that fits it.

With public rows the cells are fine where these lie, and all private rows are counted in them. Without, two blocks of interleaved
rows show scales and places by stable histograms, which need a delta, and the other rows are counted in cells that are fine there.
All that follows the counts is post-processing: many starts, from which Gauss-Newton steps climb the likelihood of the noisy counts
and of the counts of public rows together. The same cells test the fit. Privacy note: `mechanisms/notes/cell_counts.md`.

Kernel density estimates choose widths in the same way as the cells around public rows: a window holds a fixed share of the rows
(Loftsgaarden and Quesenberry 1965).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.estimators.output_bounds import Box
from fastpubpriv.mechanisms.cells import CellCounts
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method, bounded_range, candidates, cell_fits
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.axis_aligned.bounded_range import MOST_EDGES
from fastpubpriv.mixtures.axis_aligned.cell_fits import CellHistogram
from fastpubpriv.mixtures.axis_aligned.places import (
    BoundedRange,
    CellSize,
    ColumnRange,
    HistogramRange,
    octaves,
)
from fastpubpriv.mixtures.fit import (
    count_draws,
    count_share,
    counted_rows,
    gaussian_tv,
    public_ties,
)
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.mixtures.list_decoding.results import SCALE_MASS
from fastpubpriv.privacy import ApproxDP, Budget
from fastpubpriv.privacy.calibrated_budget import has_delta, without_delta
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.privacy.spending import Spending, spending_of
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources import Rows

# ---- Cells around public rows.


def lattice_step(values: FloatArray) -> float:
    """Return the step of the coarsest lattice that holds ascending distinct values; 0 for two of them, or for that of doubles."""
    gaps = np.diff(values)
    if len(gaps) < 2:
        return 0.0
    least = tuning.LATTICE_ERROR * float(np.abs(values).max())
    step = float(gaps[0])
    for gap in gaps[1:].tolist():
        # Euclid's algorithm, with remainders nearest to zero.
        while gap > least:
            step, gap = gap, abs(step - round(step / gap) * gap)
    return step if step > tuning.LEAST_LATTICE * least else 0.0


def local_scales(values: FloatArray, k: int) -> FloatArray:
    """Return for each of the ascending values half of the shortest interval around it that holds one LOCAL_SHARE k-th of them."""
    near = math.ceil(len(values) / (tuning.LOCAL_SHARE * k))
    spans = np.full(len(values) + near, np.inf)
    spans[near:-near] = values[near:] - values[:-near]
    windows = np.lib.stride_tricks.sliding_window_view(spans, near + 1)
    gaps = np.diff(values)
    scales: FloatArray = np.maximum(windows.min(axis=1) / 2.0, gaps[gaps > 0.0].min())
    # A row far from all others shows no scale of its own: widths double from the smallest of the others.
    is_alone = scales > max(tuning.ALONE * np.median(scales), np.ptp(values) / tuning.ALONE)
    return np.where(is_alone, scales.min(), scales)


def cells_near(values: FloatArray, scales: FloatArray, fineness: float, step: float) -> FloatArray:
    """Return ascending edges whose distances are `fineness` times the scales of the values near, and double far from all.

    Where `step` is above zero, edges lie half way between the multiples of it from the first value on.
    """
    first = float(values[0])
    start = first - step / 2.0

    def following(at: float, sign: float) -> float:
        beyond = np.maximum(np.abs(at - values) - tuning.NEAR_SCALES * scales, 0.0)
        width = float(np.min(fineness * scales + beyond))
        edge = at + sign * max(width, step, 4.0 * float(np.spacing(abs(at))))
        if step > 0.0:
            edge = first + step * (math.floor((edge - first) / step) + 0.5)
        return edge

    upward = [start]
    end = float(values[-1]) + 2.0**tuning.PUBLIC_DOUBLINGS * float(scales[-1])
    while upward[-1] < end:
        upward.append(following(upward[-1], 1.0))
    downward = [start]
    end = first - 2.0**tuning.PUBLIC_DOUBLINGS * float(scales[0])
    while downward[-1] > end:
        downward.append(following(downward[-1], -1.0))
    return np.unique(downward + upward)


def public_edges(
    public: FloatArray, k: int, wanted: float, *, step: float, known_std: bool
) -> FloatArray:
    """Return edges of cells that cover the line, at most about `wanted` of them among the public rows (m,); 1 is a `known_std`."""
    values = np.sort(public)
    most = tuning.LOCAL_ROWS * k
    if len(values) > most:
        spread = np.rint(np.linspace(0, len(values) - 1, most))
        values = values[spread.astype(np.int64)]
    scales = np.ones(len(values)) if known_std else local_scales(values, k)
    fineness = tuning.FINEST
    while True:
        edges = cells_near(values, scales, fineness, step)
        distances = np.abs(edges[:, None] - values)
        fine = np.count_nonzero((distances <= tuning.NEAR_SCALES * scales).any(axis=1))
        is_coarse = fineness > tuning.COARSEST and len(edges) < MOST_EDGES
        if fine <= wanted or is_coarse:
            break
        fineness *= tuning.COARSER
    return np.concatenate([[-np.inf], edges, [np.inf]])


def edges_without_scale(value: float) -> FloatArray:
    """Return edges of cells that cover the line, of all sizes around one value."""
    unit = 2.0 ** math.ceil(math.log2(max(abs(value), 1.0)))
    return np.unique(value + unit * octaves())


def cells_wanted(n: int, m: int, k: int, noise_std: float) -> float:
    """Return the number of cells in which n private rows stand out from the noise, or m public rows are within apart."""
    visible = max(n / (tuning.CELL_STDS * noise_std), m / tuning.PUBLIC_ROWS_PER_CELL)
    return max(min(visible, tuning.PUBLIC_CELLS), tuning.LEAST_CELLS * k)


# ---- The budget.


def spent_on_cells(budget: Budget, draws: int) -> Budget:
    """Return the epsilon of an ApproxDP where Laplace noise on counts is below Gaussian noise, else the whole budget."""
    if not has_delta(budget):
        return budget
    epsilon = without_delta(budget)
    try:
        noise_std = spending_of(epsilon, draws).std("count")
    except BudgetError:
        # Tails of Laplace noise would add a delta: a large epsilon cannot be kept as pure privacy.
        return budget
    with_delta = spending_of(budget, draws).std("count")
    return epsilon if noise_std < with_delta else budget


def cost_of_cells(spending: Spending) -> Spending:
    """Return what the cells around public rows may cost; the rest is for a count of the fit."""
    return spending.part(1 - count_share(spending))


def most_draws(n: int, dim: int, components: int, *, known_std: bool) -> int:
    """Return an upper bound on the noise draws of a run: pairs and places of one histogram a scale, cells, and the count."""
    return (tuning.LINE_SCALES + 1) * n + 2 * MOST_EDGES + count_draws(components)


# ---- The fit of the cells.


def counted_cells(
    run: Session, edges: FloatArray, cost: Spending, public: FloatArray | None = None
) -> CellHistogram:
    """Release the counts of the rows of a run in cells; `public` are those of public rows."""
    cells = len(edges) - 1
    measured = CellCounts(edges=[edges[1:-1]])
    counted = run.release(measured, name="cells", cost=cost, cells=cells)
    total = counted_rows(counted.value, counted.noise_std, run.rows.n)
    return CellHistogram(edges, counted.value, counted.noise_std, total, public)


def fit_of(task: Task, cells: CellHistogram) -> LearnedMixture:
    """Return the best fit to counts of cells, with the predicted errors of its components; the public N(0, 1) without any fit."""
    std = 1.0 if task.known_std else None
    heads = candidates.searched(cells, task.n_components, std=std)
    facts: dict[str, Any] = {"starts": len(heads)}
    if not heads:
        return axis_method.nothing_found(1, facts)
    rows = cells.total + round(float(cells.of_public.sum()))
    fits, spread = candidates.best_fit(heads, rows, fixed_std=task.known_std)
    best = fits[0]
    k = len(best.weights)
    # Standard errors of log weights, of means in standard deviations, and of log standard deviations.
    errors = np.linalg.norm(spread, axis=1)
    of_means = errors[k : 2 * k]
    of_stds = np.zeros(k) if task.known_std else errors[2 * k :]
    at = GaussianMixture(best.weights, best.means[:, None], best.stds[:, None])
    predicted = gaussian_tv(of_means, 2.0 * of_stds)
    return LearnedMixture(at=at, diagnostics=facts, predicted=predicted)


def with_fit_of_cells(
    task: Task, learned: LearnedMixture, cells: CellHistogram, step: float, *, smooth: bool
) -> LearnedMixture:
    """Return the mixture with its fit by the cells that it is from, at no cost; it is not graded if values are not `smooth`."""
    fit = cell_fits.fit_of_cells(
        cells,
        step,
        task.bounded(learned.at),
        rows_per_person=task.run.account.rows_per_person,
        smooth=smooth,
    )
    return replace(learned, fit=fit)


def learn_near_public(task: Task, public: FloatArray) -> LearnedMixture:
    """Count all rows in cells around the public rows (m, 1); return the best fit to both."""
    run = task.run
    account = run.account
    k = task.n_components
    n = run.rows.n
    values = np.unique(public)
    has_scale = shows_range(public, known_std=task.known_std)
    tied, (gap,) = public_ties(public)
    step = 0.0
    if not task.known_std:
        step = gap if tied[0] > 0.0 and len(values) == 2 else lattice_step(values)
    cost = cost_of_cells(account.spending)
    if has_scale:
        wanted = cells_wanted(n, len(public), k, cost.std("count"))
        edges = public_edges(public[:, 0], k, wanted, step=step, known_std=task.known_std)
    else:
        edges = edges_without_scale(float(values[0]))
    cost.grid("count", len(edges) - 1, n)
    for_count = account.spending.part(count_share(account.spending))
    for_count.grid("count", count_draws(k), n)
    account.open()
    place = np.searchsorted(edges[1:-1], public[:, 0], side="right")
    of_public = np.bincount(place, minlength=len(edges) - 1).astype(np.float64)
    cells = counted_cells(run, edges, cost, of_public)
    comb = 0.0
    if not task.known_std and step == 0.0:
        cells, comb = candidates.without_comb(cells, gap)
    learned = fit_of(task, cells)
    if learned.nothing:
        return axis_method.measured(task, learned, run)
    if not has_scale:
        learned = replace(learned, reason=Reason.FEW_PUBLIC_ROWS)
    at = learned.at
    stds = at.stds[:, 0]
    unseen = candidates.unseen(cells, at.means[:, 0], stds) | (stds < tuning.STEPS_WIDE * step)
    learned = replace(learned, unseen=unseen)
    # Edges lie between the values of a lattice, so that its cells show no comb.
    learned = with_fit_of_cells(
        task, learned, cells, 0.0 if step > 0.0 else gap, smooth=comb == 0.0
    )
    assert learned.fit is not None
    return learned if learned.fit.graded else axis_method.measured(task, learned, run)


def in_the_middle(learned: LearnedMixture, cells: CellHistogram, box: Box) -> LearnedMixture:
    """Return the mixture with components that are narrower than their cell in the middle of it, as far as it is within the box.

    Counts do not show where in the cell they are, and a bound may cut it.
    """
    (low,), (high,) = box
    means = learned.at.means[:, 0]
    stds = learned.at.stds[:, 0]
    place = np.clip(np.searchsorted(cells.edges, means, side="right") - 1, 1, len(cells.edges) - 3)
    left = cells.edges[place]
    right = cells.edges[place + 1]
    is_inside = ndtr((right - means) / stds) - ndtr((left - means) / stds) > tuning.IN_A_CELL
    left = np.maximum(left, low)
    right = np.minimum(right, high)
    moves = candidates.unseen(cells, means, stds) & is_inside & (left < right)
    means = np.where(moves, (left + right) / 2.0, means)
    stds = np.where(moves, (right - left) / tuning.CELL_OVER_STD, stds)
    return replace(learned, at=GaussianMixture(learned.at.weights, means[:, None], stds[:, None]))


def range_of(task: Task) -> HistogramRange | BoundedRange:
    """Return how the range of the column is found without public rows."""
    run = task.run
    if task.range_box is not None:
        return BoundedRange(task.range_box, run.rows, run.account.spending)
    shares = tuning.LINE_KNOWN_SHARES if task.known_std else tuning.LINE_SHARES
    # If no scale is found, rows are few or equal; cells of widely spaced sizes then locate them.
    return HistogramRange.of(run.rows, shares, tuning.LINE_SCALES, tuning.ANY_SCALES)


def learn_on_private(task: Task) -> LearnedMixture:
    """Find the range, count the rows that are left in cells that are fine there; return the best fit."""
    run = task.run
    account = run.account
    search = range_of(task)
    search.check(run)
    if task.range_box is None:
        cost = account.beside
        size = CellSize(tuning.ROWS_PER_CELL, tuning.LINE_CELLS)
    else:
        cost = account.spending.part(1 - search.looks)
        size = CellSize(tuning.CELL_STDS * cost.std("count"), tuning.LINE_CELLS)
    cost.grid("count", MOST_EDGES, search.rest.n)
    account.open()
    (column,) = search.release_edges(run, task.n_components, size)
    if task.range_box is not None:
        cost = account.spending.at(account.allowance - account.charged)
    counted = counted_cells(search.on_rest(run), column.edges, cost)
    known = candidates.smoothed(counted, column, known_std=task.known_std)
    learned = fit_of(task, known.cells)
    facts: dict[str, Any] = {"tied_share": [known.tied], "step": [known.step]}
    if task.range_box is None:
        facts |= {"scales": column.scales, "places": column.places}
    learned = replace(learned, diagnostics=facts | learned.diagnostics)
    if not learned.nothing:
        learned = with_unseen(task, learned, known.cells, column)
    # Edges of cells need not lie between rounded values, so that these are not graded, nor if few rows hide the step.
    step = known.step if task.range_box is None else 0.0
    return with_fit_of_cells(task, learned, known.cells, step, smooth=known.smooth)


def with_unseen(
    task: Task, learned: LearnedMixture, cells: CellHistogram, column: ColumnRange
) -> LearnedMixture:
    """Return the mixture, with which components are narrower than their cell, and a reason if the range was not search."""
    # Wide cells cannot show the width of a component; without a scale, only the narrowest cells indicate single values.
    widest = math.inf
    if not (column.located or column.scales):
        widest = max(
            tuning.CELLS_PER_SCALE * tuning.ANY_SCALES[0],
            8.0 * float(np.spacing(np.abs(learned.at.means).max())),
        )
    at = learned.at
    unseen = candidates.unseen(cells, at.means[:, 0], at.stds[:, 0], widest=widest)
    if task.range_box is not None and not task.known_std:
        learned = in_the_middle(learned, cells, task.range_box)
    return replace(learned, unseen=unseen, reason=None if column.located else Reason.FALLBACK)


def learn(task: Task) -> LearnedMixture:
    """Release the counts of cells around public rows, within bounds or around released places; return the best fit."""
    if task.public is not None:
        return learn_near_public(task, task.public)
    return learn_on_private(task)


# ---- Before the debit.


def shows_range(public: FloatArray, *, known_std: bool) -> bool:
    """Return whether public rows (m, 1) show where cells should be fine, which takes two different values or a known deviation."""
    return known_std or float(np.ptp(public)) > 0.0


def finds_range(rows: Rows, budget: Budget) -> bool:
    """Return whether private rows can show the range: this takes a delta, some rows, and no rows that pad persons."""
    is_enough = rows.n >= tuning.LINE_LEAST_ROWS
    return has_delta(budget) and is_enough and not rows.may_be_absent


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: Budget
) -> tuple[float, dict[str, float]]:
    """Return the expected error of the mean of an average separated component, in its standard deviations, and comparisons."""
    draws = most_draws(n, dim, components, known_std=False)
    if n_pub:
        spending = spending_of(spent_on_cells(budget, draws), draws)
        noise_std = cost_of_cells(spending).std("count")
        counted = float(n)
        wanted = cells_wanted(n, n_pub, components, noise_std)
    elif not has_delta(budget):
        spending = spending_of(budget, draws)
        left = spending.part(1 - bounded_range.share_of_looks(spending))
        noise_std = left.std("count")
        counted = float(n)
        wanted = tuning.LINE_CELLS
    else:
        # Of an ideal sampler, since a large epsilon has none that keeps pure privacy.
        noise_std = spending_of(without_delta(budget), 0).std("count")
        counted = n * tuning.LINE_SHARES[-1] / sum(tuning.LINE_SHARES)
        wanted = tuning.LINE_CELLS
    rows = counted / components
    # Fisher information of the mean in counts of equal cells over the six deviations that hold nearly all rows.
    edges = np.linspace(-3.0, 3.0, max(2, round(wanted / components)) + 1)
    middles = (edges[1:] + edges[:-1]) / 2.0
    density = np.exp(-0.5 * middles**2) / math.sqrt(2.0 * math.pi)
    held = rows * density * (edges[1] - edges[0])
    information = float(np.sum((held * middles) ** 2 / (noise_std**2 + held)))
    information += n_pub / components
    details = {"rows_of_cells": counted, "without_privacy": math.sqrt(components / (n + n_pub))}
    if n_pub:
        details["public_rows_alone"] = math.sqrt(components / n_pub)
    return 1.0 / math.sqrt(max(information, 1e-300)), details


def rows_for_distant(components: int, budget: ApproxDP) -> int:
    """Return about how many rows show the scales of equal components: a bin with SCALE_MASS of the pairs within is released."""
    event = stable_event(budget.epsilon, budget.delta, histograms=1, n=10**6, draws=10**6)
    pairs = event.count_threshold * components**2 / SCALE_MASS
    return math.ceil(2.0 * pairs * sum(tuning.LINE_SHARES) / tuning.LINE_SHARES[0])


METHOD = AxisMethod(
    name="cells",
    learn=learn,
    draws=most_draws,
    predict=predict,
    details=lambda components, budget: {
        "distant_components_rows": float(rows_for_distant(components, budget))
    },
    seconds=lambda n, dim, components: (
        axis_method.SEARCH_SECONDS * components + 60.0 * n * axis_method.ROW_SECONDS
    ),
    columns="one",
    range_from_public=True,
    range_from_bounds=True,
)
