"""Mixtures on the line: one histogram of cells for any budget, fitted by a free search.

With public rows the cells are fine where these lie, and all private rows are counted. Without, two blocks of interleaved rows show
scales and places (Algorithms 3 and 2 of paper C, by stable histograms, which need no range but a delta), and the others are counted
in cells that are fine there. Everything after the counts is post-processing: a search for subsets of atoms, and steps from many
starts on the counts and the public rows together. Cells finer than the rounding of values are alternately full and empty; they are
merged. Privacy note: `mechanisms/notes/cell_counts.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError
from fastpubpriv.mechanisms.cells import CellCounts
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import candidates, em
from fastpubpriv.mixtures.axis_aligned.em import (
    AxisMethod,
    CellHistogram,
    LearnedMixture,
    Mixtures,
    RefinedFit,
    Task,
)
from fastpubpriv.mixtures.fit import MOST_OPEN, count_draws, count_share, gaussian_tv, public_ties
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.calibrated_budget import has_delta, without_delta
from fastpubpriv.privacy.spending import Spending, spending_of
from fastpubpriv.results.reasons import Reason
from fastpubpriv.session import Session
from fastpubpriv.sources.views import DistantPairs, interleave_rows

# ---- Cells around public rows.


def local_scales(values: FloatArray, k: int, least: float) -> FloatArray:
    """Return for each of the ascending values half of the narrowest interval around it that holds a given share of them."""
    near = math.ceil(len(values) / (tuning.LOCAL_SHARE * k))
    spans = np.full(len(values) + near, np.inf)
    spans[near:-near] = values[near:] - values[:-near]
    windows = np.lib.stride_tricks.sliding_window_view(spans, near + 1)
    scales: FloatArray = np.maximum(windows.min(axis=1) / 2.0, least)
    return scales


def cells_near(values: FloatArray, scales: FloatArray, fineness: float, step: float) -> FloatArray:
    """Return ascending edges whose distances are `fineness` times the scales of the values near, and double far from all.

    Where `step` is above zero, edges lie half way between the multiples of it from the first value on.
    """

    def following(at: float, sign: float) -> float:
        beyond = np.maximum(np.abs(at - values) - tuning.NEAR_SCALES * scales, 0.0)
        width = float(np.min(fineness * scales + beyond))
        edge = at + sign * max(width, step, 4.0 * float(np.spacing(abs(at))))
        if step > 0.0:
            between = math.floor((edge - values[0]) / step) + 0.5
            edge = float(values[0] + step * between)
        return edge

    first = float(values[0])
    last = float(values[-1])
    if step > 0.0:
        first -= step / 2.0
    upward = [first]
    reach = last + 2.0**tuning.PUBLIC_DOUBLINGS * float(scales[-1])
    while upward[-1] < reach:
        upward.append(following(upward[-1], 1.0))
    downward = [first]
    reach = first - 2.0**tuning.PUBLIC_DOUBLINGS * float(scales[0])
    while downward[-1] > reach:
        downward.append(following(downward[-1], -1.0))
    return np.array(downward[:0:-1] + upward)


def public_edges(
    public: FloatArray, k: int, *, noise_std: float, n: int, known_std: bool, step: float
) -> FloatArray:
    """Return edges of cells that cover the line and are fine where the public rows (m,) are, as far as counts of n rows allow."""
    values = np.sort(public)
    most = tuning.LOCAL_ROWS * k
    if len(values) > most:
        values = values[np.rint(np.linspace(0, len(values) - 1, most)).astype(np.int64)]
    gaps = np.diff(values)
    least = max(step, float(gaps[gaps > 0.0].min(initial=np.inf)))
    scales = np.ones(len(values))
    if not known_std:
        scales = local_scales(values, k, least)
    wanted = max(min(n / (tuning.CELL_STDS * noise_std), tuning.PUBLIC_CELLS), 8.0 * k)
    fineness = tuning.FINEST
    while True:
        edges = cells_near(values, scales, fineness, step)
        inside = np.count_nonzero((edges > values[0]) & (edges < values[-1]))
        if inside <= wanted or fineness > 8.0:
            break
        fineness *= 1.4
    return np.concatenate([[-np.inf], edges, [np.inf]])


# ---- The learner.


def spent_on_cells(budget: Budget, draws: int) -> Budget:
    """Return the epsilon of an ApproxDP where Laplace noise on counts is below Gaussian noise, else the whole budget."""
    if not has_delta(budget):
        return budget
    pure = without_delta(budget)
    gaussian = spending_of(budget, draws).std("count")
    try:
        laplace = spending_of(pure, draws).std("count")
    except BudgetError:
        # a large epsilon cannot be kept as pure privacy
        return budget
    return pure if laplace < gaussian else budget


def found(
    task: Task,
    run: Session,
    cells: CellHistogram,
    step: float,
    starts: list[Mixtures],
) -> tuple[LearnedMixture, CellHistogram, bool]:
    """Return the best fit to counts of cells, the cells without a comb, and whether they had one."""
    k = task.n_components
    rounded = False
    if not task.known_std:
        cells, rounded = candidates.without_comb(cells, step)
    # Rows with missing values are in no cell.
    present = float(cells.counts.sum())
    if present < cells.total - 4.0 * cells.noise_std * math.sqrt(len(cells.counts)):
        cells = replace(cells, total=max(1, round(present)))
    std = 1.0 if task.known_std else None
    heads = candidates.searched(cells, k, std=std, starts=starts)
    return best(heads, cells, fixed_std=task.known_std), cells, rounded


def best(heads: list[RefinedFit], cells: CellHistogram, *, fixed_std: bool) -> LearnedMixture:
    """Return the best fit by a criterion, with the predicted errors of its components; the public N(0, 1) without fits."""
    facts: dict[str, Any] = {"starts": sum(head.mixtures.size for head in heads)}
    if not heads:
        return LearnedMixture(
            weights=np.ones(1), means=np.zeros((1, 1)), stds=np.ones((1, 1)),
            reason=Reason.FALLBACK, nothing=True, diagnostics=facts,
        )
    rows = cells.total + round(cells.of_public.sum())
    fit, spread = candidates.best_fit(heads, rows, fixed_std=fixed_std)
    k = fit.weights.shape[1]
    errors = np.sqrt(np.einsum("pq,pq->p", spread, spread))
    off_mean = errors[k : 2 * k]
    off_std = np.zeros(k) if fixed_std else errors[2 * k :]
    at = fit[0]
    return LearnedMixture(
        weights=at.weights,
        means=at.means[:, None],
        stds=at.stds[:, None],
        diagnostics=facts,
        predicted=gaussian_tv(off_mean, 2.0 * off_std),
    )


def learn(task: Task) -> LearnedMixture:
    """Release the cells and fit them."""
    if task.public is None:
        return learn_anywhere(task)
    return learn_near_public(task, task.public)


def learn_near_public(task: Task, public: FloatArray) -> LearnedMixture:
    """Release counts of all rows in cells around public rows; return the best fit to both."""
    run = task.run
    account = run.account
    k = task.n_components
    tied, steps = public_ties(public)
    step = steps[0] if tied[0] > 0.0 and not task.known_std else 0.0
    cost = account.spending.part(1 - count_share(account.spending))
    edges = public_edges(
        public[:, 0], k, noise_std=cost.std("count"), n=run.rows.n, known_std=task.known_std, step=step
    )
    cost.grid("count", len(edges) - 1, run.rows.n)
    account.open()
    counted = run.release(
        CellCounts(edges=[edges[1:-1]]), name="cells", cost=cost, cells=len(edges) - 1
    )
    joined = np.bincount(
        np.searchsorted(edges[1:-1], public[:, 0], side="right"), minlength=len(edges) - 1
    )
    cells = CellHistogram(edges, counted.value, counted.noise_std, run.rows.n, joined * 1.0)
    starts: list[Mixtures] = []
    learned, cells, rounded = found(task, run, cells, steps[0] if not step else 0.0, starts)
    at = learned
    fit = None
    if not rounded and not learned.nothing:
        fit = em.fit_of_cells(cells, 0.0 if step else steps[0], at.weights, at.means[:, 0], at.stds[:, 0])
    if fit is None:
        return em.measured(task, learned)
    few = len(at.weights) < k and fit.most > MOST_OPEN
    return replace(learned, fit=replace(fit, blind=fit.blind or few))


def public_starts(public: FloatArray, k: int, *, known_std: bool) -> list[Mixtures]:
    """Return fits to the public rows of 1, 2, ... k components."""
    from fastpubpriv.mixtures.axis_aligned import dp_em
    out = []
    for fewer in range(1, k + 1):
        fits, _ = dp_em.public_starts(public, fewer, known_std=known_std)
        fits = [f for f in fits]
        out.append(em.joined([Mixtures(f.weights[None], f.means[None, :, 0], f.stds[None, :, 0]) for f in fits]))
    return out


def learn_anywhere(task: Task) -> LearnedMixture:
    """Release scales, places and counts of cells on three blocks of rows; return the best fit."""
    run = task.run
    account = run.account
    shares = tuning.LINE_KNOWN_SHARES if task.known_std else tuning.LINE_SHARES
    *before, place_rows, cell_rows = interleave_rows(run.rows, *shares)
    pairs = DistantPairs(before[0]) if before else None
    candidates.check_stages(run, pairs, place_rows, tuning.LINE_SCALES)
    account.beside.grid("count", 1, cell_rows.n)
    account.open()
    (scales,), tied, steps = candidates.shown_scales(run, pairs, tuning.LINE_SCALES, task.n_components)
    # If no scale is found, rows are few or equal; cells of widely spaced sizes then locate them.
    (places,) = candidates.shown_places(run.block(place_rows), [scales or tuning.ANY_SCALES])
    edges = candidates.partition(places, counted=place_rows.n, total=cell_rows.n)
    edges = edges if scales else np.union1d(edges, candidates.octaves())
    run = run.block(cell_rows)
    counted = run.release(
        CellCounts(edges=[edges[1:-1]]), name="cells", cost=run.account.beside, cells=len(edges) - 1
    )
    cells = CellHistogram(edges, counted.value, counted.noise_std, cell_rows.n)
    learned, cells, rounded = found(task, run, cells, steps[0], [])
    tied = [max(tied[0], candidates.tied_in(cells))] if rounded else tied
    reason = None if scales and places else Reason.FALLBACK
    if learned.nothing:
        reason = learned.reason
    facts = {
        "tied_share": tied,
        "step": steps,
        "scales": scales,
        "places": sum(len(place.index) for place in places),
        **learned.diagnostics,
    }
    # Wide cells cannot show the width of a component; without a scale, only the narrowest cells indicate single values.
    widest = math.inf
    if not scales:
        widest = max(
            tuning.CELLS_PER_SCALE * tuning.ANY_SCALES[0],
            8.0 * float(np.spacing(np.abs(learned.means).max())),
        )
    at = learned
    narrow = candidates.unseen(cells, at.means[:, 0], at.stds[:, 0], widest=widest)
    fit = None
    # The fit is not tested for rounded values, since cell edges need not lie between them, nor if few rows hide the step.
    if reason is None and not rounded and not tied[0] > 0.0:
        fit = em.fit_of_cells(cells, steps[0], at.weights, at.means[:, 0], at.stds[:, 0])
    return replace(learned, unseen=narrow, fit=fit, reason=reason, diagnostics=facts)


METHOD = AxisMethod(
    name="cells",
    learn=learn,
    draws=lambda n, dim, components, known_std: (tuning.LINE_SCALES + 1) * n + 2**16,
    details=lambda components, budget: {
        "distant_components_rows": float(candidates.rows_for_distant(components, budget))
    },
    seconds=lambda n, dim, components, size: (
        em.SEARCH_SECONDS * components + 60.0 * n * em.ROW_SECONDS
    ),
    one_column=True,
    least_rows=1,
)
