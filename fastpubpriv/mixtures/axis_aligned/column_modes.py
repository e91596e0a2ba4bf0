"""Axis-aligned mixtures in several columns from private rows alone: modes of columns, their combinations, noisy EM.

Seven disjoint blocks of interleaved rows, so that each stage has the whole budget: scales of every column, locations of its
values, counts of its cells, combinations of modes on the anchor columns, the matching modes of the other columns, EM from there,
and the choice among the iterates of EM and perturbations of the last one.

Limits: components are distinguished on at most four anchor columns; two of them must be modes with a clear valley between them in
at least one of these. Components that overlap in every column, or are concentric, are merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import warn
from fastpubpriv.mechanisms.cells import CellCounts, CodeCounts
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import candidates, dp_em, em
from fastpubpriv.mixtures.axis_aligned.em import (
    AxisMethod,
    CellHistogram,
    LearnedMixture,
    Mixtures,
    Task,
)
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.release.account import Account
from fastpubpriv.results.public_draws import draw_normals
from fastpubpriv.results.reasons import Reason
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import DistantPairs, interleave_rows
from fastpubpriv.threads.pool import share_out

# ---- Fit of one column: a mixture on the line, and cuts in the valleys between its modes ------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModes:
    """Fit of one column: a mixture on the line, cuts in the valleys between its modes, share of ties, step between values."""

    fit: Mixtures
    cuts: FloatArray
    confused: float
    has_cells: bool = True  # whether cells that hold rows were released
    tied: float = 0.0
    step: float = math.inf
    cells: CellHistogram | None = None  # the released counts

    def modes(self, label: int | None, least: float) -> FloatArray:
        """Return weights, means and stds (modes, 3) of the fit's components between two cuts, without those below `least`."""
        if not self.fit.size:
            return np.zeros((0, 3))
        weights, means, stds = (
            part[0] for part in (self.fit.weights, self.fit.means, self.fit.stds)
        )
        mine = weights > 0.0
        if label is not None:
            mine = mine & (np.searchsorted(self.cuts, means, side="right") == label)
        mine = mine & (weights >= min(least, float(weights[mine].max(initial=0.0))))
        listed: FloatArray = np.column_stack([weights, means, stds])[mine]
        return np.asarray(listed[np.argsort(listed[:, 1])])


def moments_of(modes: FloatArray) -> tuple[float, float]:
    """Return the mean and standard deviation of a mixture (modes, 3) on the line; (0, 1) if it is empty."""
    if not len(modes):
        return 0.0, 1.0
    share = modes[:, 0] / modes[:, 0].sum()
    mean = float(share @ modes[:, 1])
    return mean, math.sqrt(float(share @ (modes[:, 2] ** 2 + (modes[:, 1] - mean) ** 2)))


def valleys(fit: Mixtures, least_weight: float) -> tuple[FloatArray, float]:
    """Return cuts between neighboring modes with few misclassified rows, and the largest misclassified share."""
    weights = fit.weights[0]
    means = fit.means[0]
    stds = fit.stds[0]
    order = np.argsort(means)
    weights = weights[order]
    means = means[order]
    stds = stds[order]
    cuts: list[float] = []
    worst = 0.0
    for left in range(len(means) - 1):
        if weights[left] <= 0.0 or weights[left + 1] <= 0.0 or not means[left] < means[left + 1]:
            continue
        points = np.linspace(means[left], means[left + 1], 129)[1:-1]
        below = ndtr((points[:, None] - means) / stds) * weights
        wrong = (below[:, left + 1 :]).sum(axis=1) + (
            weights[: left + 1] - below[:, : left + 1]
        ).sum(axis=1)
        best = int(np.argmin(wrong))
        lighter = min(float(weights[: left + 1].sum()), float(weights[left + 1 :].sum()))
        if lighter >= least_weight and wrong[best] < tuning.CONFUSED * lighter:
            cuts.append(float(points[best]))
            worst = max(worst, float(wrong[best]) / lighter)
    return np.array(cuts), worst


def most_draws(n: int, dim: int, n_components: int, *, known_std: bool) -> int:
    """Return an upper bound on the noise draws of a run."""
    steps = tuning.ANCHOR_STEPS * dp_em.statistic_dim(n_components, dim, known_std=known_std)
    matching = n_components * n_components  # of a column: combinations times modes
    scales = (tuning.COLUMN_SCALES + 1) * n * dim
    return (
        scales + (candidates.MOST_EDGES + matching) * dim + tuning.MOST_COMBINATIONS + steps + 2**16
    )


def check(
    task: Task,
    pairs: Rows | None,
    places: Rows,
    cells: Rows,
    coded: tuple[Rows, Rows],
    em_rows: Rows,
    choice: Rows,
) -> None:
    """Raise before the debit if a stage has no noise grid or memory; warn if rows are too few, all by public numbers."""
    # Checked for the maximum numbers: fewer histograms or components need less.
    account = task.run.account
    dim = task.run.rows.dim
    event = candidates.check_stages(task.run, pairs, places, dim * tuning.COLUMN_SCALES)
    each_column = Fraction(1, dim)
    of_cells(account, dim).part(each_column).grid("count", 1, cells.n)
    for rows in coded:
        account.beside.part(each_column).grid("count", 1, rows.n)
    for components in range(1, task.n_components + 1):
        shares = dp_em.iteration_shares(tuning.ANCHOR_STEPS)
        dp_em.check(account, em_rows.n, dim, components, known_std=task.known_std, shares=shares)
    check_rows(choice.n, dim)
    # Then not even all rows in one cell would reach the threshold.
    needed = event.count_threshold + 2.0 * event.count_noise_std
    if places.n < needed:
        n = task.run.rows.n
        warn(
            f"learn_axis_aligned_mixture: {n} rows in {dim} columns are too few for method='anchors' here: it takes about "
            f"{math.ceil(needed * n / places.n)} in one place for it to show; pass more rows, a larger budget, fewer columns, or "
            "public rows (x_pub)",
        )


def of_cells(account: Account, dim: int) -> Spending:
    """Return the spending with the least noise on joint counts of the columns."""
    return min(account.beside, account.spending, key=lambda spending: spending.std("counts", dim))


def marginals(
    task: Task, pairs: Rows | None, place_rows: Rows, cell_rows: Rows
) -> list[ColumnModes]:
    """Run the first three stages; return the fit of each column."""
    run = task.run
    dim = task.run.rows.dim
    scales, tied, steps = candidates.shown_scales(
        run, pairs, tuning.COLUMN_SCALES, task.n_components
    )
    places = candidates.shown_places(run.block(place_rows), scales)
    spending = of_cells(run.account, dim)
    noise = spending.std("counts", dim)
    edges = [
        candidates.partition(
            each,
            counted=place_rows.n,
            total=cell_rows.n,
            least=4.0 * noise,
            most=tuning.COLUMN_CELLS,
        )
        for each in places
    ]
    measured = CellCounts(edges=[each[1:-1] for each in edges])
    counts = run.block(cell_rows).release(
        measured, name="cells", cost=spending, cells=sum(len(each) - 1 for each in edges)
    )
    values = [of_column for (of_column,) in measured.parted(counts.value)]
    columns: dict[int, ColumnModes] = {}

    def fit_column(j: int) -> None:
        # the error state is per thread, and released numbers may be of any size
        with np.errstate(all="ignore"):
            cells = CellHistogram(edges[j], values[j], counts.noise_std, cell_rows.n)
            rounded = False
            if not task.known_std:
                cells, rounded = candidates.without_comb(cells, steps[j])
            blind = (
                not places[j]
                and float(cells.counts.max(initial=0.0)) < tuning.EVIDENCE * cells.noise_std
            )
            std = 1.0 if task.known_std else None
            heads = [] if blind else candidates.searched(cells, task.n_components, std=std)
            fit = candidates.best_fit(heads, cells.total, fixed_std=task.known_std)
            cuts, confused = valleys(fit, task.min_weight / 2.0) if fit.size else (np.zeros(0), 0.0)
            share = max(tied[j], candidates.tied_in(cells)) if rounded else tied[j]
            smooth = None if rounded or share > 0.0 else cells
            columns[j] = ColumnModes(fit, cuts, confused, bool(places[j]), share, steps[j], smooth)

    # A search takes tens of milliseconds, two thirds of which without the GIL.
    share_out(fit_column, dim, threads=run.executor.threads)
    return [columns[j] for j in range(dim)]


def anchor_columns(columns: list[ColumnModes]) -> list[int]:
    """Return up to MOST_ANCHORS columns with cuts, preferring many cuts, then small misclassified shares."""
    order = sorted(
        (j for j, column in enumerate(columns) if len(column.cuts)),
        key=lambda j: (-len(columns[j].cuts), columns[j].confused, j),
    )
    chosen: list[int] = []
    cells = 1
    for j in order:
        if (
            len(chosen) < tuning.MOST_ANCHORS
            and cells * (len(columns[j].cuts) + 1) <= tuning.MOST_COMBINATIONS
        ):
            chosen.append(j)
            cells *= len(columns[j].cuts) + 1
    return chosen


def codes(chunk: Any, *, chosen: list[int], columns: list[ColumnModes]) -> list[IntArray]:
    """Return the code of each row's combination of modes on the chosen columns; -1 if an entry is not finite."""
    code = np.zeros(len(chunk), dtype=np.int64)
    whole = np.ones(len(chunk), dtype=bool)
    for j in chosen:
        value = chunk[:, j].astype(np.float64)
        code = code * (len(columns[j].cuts) + 1) + np.searchsorted(
            columns[j].cuts, value, side="right"
        )
        whole &= np.isfinite(value)
    return [np.where(whole, code, -1)]


def paired_codes(
    chunk: Any,
    *,
    chosen: list[int],
    others: list[int],
    columns: list[ColumnModes],
    number: IntArray,
    order: IntArray,
) -> list[IntArray]:
    """Return for each column of `others` the code of a row's (combination, mode there); -1 if the former is not in `number`."""
    (code,) = codes(chunk, chosen=chosen, columns=columns)
    place = np.minimum(np.searchsorted(number[order], code), len(number) - 1)
    mine = np.where(number[order][place] == code, order[place], -1)
    paired = []
    for j in others:
        value = chunk[:, j].astype(np.float64)
        pair = mine * (len(columns[j].cuts) + 1) + np.searchsorted(
            columns[j].cuts, value, side="right"
        )
        paired.append(np.where((mine >= 0) & np.isfinite(value), pair, -1))
    return paired


@dataclass(slots=True, eq=False)
class Start:
    """Initial component: its weight, its mode on each anchor, and its modes on columns where these were narrowed or split."""

    weight: float
    labels: dict[int, int]
    halves: dict[int, FloatArray]

    def modes(self, j: int, column: ColumnModes, least: float) -> FloatArray:
        """Return the possible modes of the component on a column."""
        return self.halves[j] if j in self.halves else column.modes(self.labels.get(j), least)


def find_matching_modes(
    task: Task,
    rows: Rows,
    columns: list[ColumnModes],
    chosen: list[int],
    heavy: list[int],
    starts: list[Start],
) -> None:
    """Release which modes of non-anchor columns occur with each combination, and restrict the starts to them, in place."""
    others = [j for j, column in enumerate(columns) if len(column.cuts) and j not in chosen]
    if not others or not heavy:
        return
    number = np.array(heavy, dtype=np.int64)
    order = np.argsort(number)
    sizes = [len(heavy) * (len(columns[j].cuts) + 1) for j in others]
    released = task.run.block(rows).release(
        CodeCounts(
            codes=partial(
                paired_codes,
                chosen=chosen,
                others=others,
                columns=columns,
                number=number,
                order=order,
            ),
            cells=sizes,
            row_cost=30 * (len(chosen) + len(others)),
        ),
        name="matching_modes",
        cost=task.run.account.beside,
        cells=sum(sizes),
    )
    place = 0
    for j in others:
        labels = len(columns[j].cuts) + 1
        for start in starts:
            counts = released.value[place : place + labels]
            place += labels
            strong = counts >= max(
                tuning.MATCHING * float(counts.max()), tuning.EVIDENCE * released.noise_std
            )
            modes = columns[j].modes(None, task.min_weight / 2.0)
            mine = modes[strong[np.searchsorted(columns[j].cuts, modes[:, 1], side="right")]]
            if len(mine):
                start.halves[j] = mine


def labels_of(code: int, chosen: list[int], columns: list[ColumnModes]) -> dict[int, int]:
    """Return the mode of each anchor column in a combination."""
    labels = {}
    for j in reversed(chosen):
        code, labels[j] = divmod(code, len(columns[j].cuts) + 1)
    return labels


def split(starts: list[Start], columns: list[ColumnModes], most: int, least: float) -> list[Start]:
    """Split components at the widest gap between neighboring modes of a column until there are `most` of them."""
    # The gap need not be a valley, since EM reassigns the rows afterwards.
    starts = list(starts)
    while len(starts) < most:
        best: tuple[float, int, int, int] | None = None
        for i, start in enumerate(starts):
            for j, column in enumerate(columns):
                modes = start.modes(j, column, least)
                for left in range(len(modes) - 1):
                    apart = (modes[left + 1, 1] - modes[left, 1]) / (
                        modes[left + 1, 2] + modes[left, 2]
                    )
                    if best is None or apart * start.weight > best[0]:
                        best = (float(apart * start.weight), i, j, left)
        if best is None:
            return starts
        _, i, j, left = best
        whole = starts.pop(i)
        modes = whole.modes(j, columns[j], least)
        for half in (modes[: left + 1], modes[left + 1 :]):
            share = float(half[:, 0].sum() / modes[:, 0].sum())
            starts.append(Start(whole.weight * share, whole.labels, {**whole.halves, j: half}))
    return starts


def started(
    columns: list[ColumnModes], starts: list[Start], least: float, *, known_std: bool
) -> Mixtures:
    """Return the initial parameters of EM: moments of each component's modes."""
    moments = np.array(
        [
            [moments_of(start.modes(j, column, least)) for j, column in enumerate(columns)]
            for start in starts
        ]
    )
    weights = np.array([start.weight for start in starts])
    stds = np.ones(moments.shape[:2]) if known_std else np.maximum(moments[:, :, 1], 1e-300)
    return Mixtures(weights / weights.sum(), moments[:, :, 0], stds)


def learn(task: Task) -> LearnedMixture:
    """Run all seven stages."""
    run = task.run
    *before, place_rows, cell_rows, code_rows, matching_rows, em_rows, choice_rows = (
        interleave_rows(
            run.rows, *(tuning.ANCHOR_SHARES[1:] if task.known_std else tuning.ANCHOR_SHARES)
        )
    )
    pairs = DistantPairs(before[0]) if before else None
    check(task, pairs, place_rows, cell_rows, (code_rows, matching_rows), em_rows, choice_rows)
    run.account.open()
    columns = marginals(task, pairs, place_rows, cell_rows)
    if not any(column.fit.size for column in columns):
        return em.choose(run.block(choice_rows), candidates.nothing(), diagnostics={"anchors": []})
    chosen = anchor_columns(columns)
    reason = (
        None if all(column.has_cells and column.fit.size for column in columns) else Reason.FALLBACK
    )
    least_mode = task.min_weight / 2.0
    combinations = [Start(1.0, {}, {})]
    if chosen and task.n_components > 1:
        cells = math.prod(len(columns[j].cuts) + 1 for j in chosen)
        released = run.block(code_rows).release(
            CodeCounts(
                codes=partial(codes, chosen=chosen, columns=columns),
                cells=[cells],
                row_cost=20 * len(chosen) + 8,
            ),
            name="combinations",
            cost=run.account.beside,
            cells=cells,
        )
        least = max(task.min_weight / 2.0 * code_rows.n, tuning.EVIDENCE * released.noise_std)
        heavy = [
            int(code)
            for code in np.argsort(-released.value, kind="stable")
            if released.value[code] > least
        ]
        if heavy:
            total = float(released.value[heavy].sum())
            combinations = [
                Start(float(released.value[code]) / total, labels_of(code, chosen, columns), {})
                for code in heavy[: task.n_components]
            ]
            find_matching_modes(
                task, matching_rows, columns, chosen, heavy[: task.n_components], combinations
            )
    starts = split(combinations, columns, task.n_components, least_mode)
    at = started(columns, starts, least_mode, known_std=task.known_std)
    floor = (
        np.array([max(moments_of(column.modes(None, least_mode))[1], 1e-300) for column in columns])
        * em.STD_FLOOR
    )
    with np.errstate(all="ignore"):
        steps = dp_em.iterate(task, run.block(em_rows), at, floor, steps=tuning.ANCHOR_STEPS)
        path = [dp_em.mixtures_of(step.at) for step in steps]
        # Error of a mean in standard deviations, from noise and sampling.
        own = steps[-1].noise / math.sqrt(2.0 * task.run.rows.dim)
        noise = np.hypot(own, 1.0 / np.sqrt(em_rows.n * path[-1].weights))
        more = max(task.candidates - len(path) - 1, 0)
        normal = draw_normals(
            (more, len(noise), 2 * run.rows.dim + 1), random_state=em.PUBLIC_SEED + 6
        )
        more_of = em.perturbed(path[-1], noise, normal, known_std=task.known_std)
        listed = em.joined([*(each[None] for each in (*path[::-1], at)), more_of])
    facts = {"anchors": chosen, "combinations": len(combinations), "starts": len(starts)}
    facts["tied_share"], facts["step"] = (
        [column.tied for column in columns],
        [column.step for column in columns],
    )
    facts["cuts"] = [len(column.cuts) for column in columns]
    learned = em.choose(run.block(choice_rows), listed, reason=reason, diagnostics=facts)
    low = dp_em.lost_in_noise(learned.weights, run.rows.dim, em_rows.n, 0, steps[-1].count_std)
    # The fit of the column whose cells differ most from the mixture beyond chance; none if all have rounded values.
    fits = [
        em.fit_of_cells(
            column.cells, column.step, learned.weights, learned.means[:, j], learned.stds[:, j]
        )
        for j, column in enumerate(columns)
        if column.cells is not None and learned.reason is None
    ]
    worst = max(filter(None, fits), key=lambda fit: fit.gap - fit.null, default=None)
    return replace(learned, low=low, fit=worst)


def seconds(n: int, dim: int, components: int, size: int) -> float:
    """Return the run time of a search on each column, EM, and a choice by densities."""
    work = tuning.ANCHOR_STEPS * n * components * dim * 3.0 * em.ROW_SECONDS
    search = dim * em.SEARCH_SECONDS * components / 2.0
    return (
        search
        + work
        + em.density_seconds(dim, components, size, em.choice_rows(n, tuning.ANCHOR_SHARES))
    )


METHOD = AxisMethod(
    name="anchors",
    learn=learn,
    draws=most_draws,
    seconds=seconds,
    candidates=60,
    shares=tuning.ANCHOR_SHARES,
    needs_delta=True,
    least_rows=tuning.ANCHOR_LEAST_ROWS,
)
