"""Modes of single columns, and the groups of rows that they separate.

Released counts of the cells of each column are fitted by a mixture on the line, with cuts in the valleys between its modes. Up to
four columns with cuts are anchors: rows with the same modes there form a group, and counts show which modes of the other columns
occur with each group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mechanisms.cells import CellCounts, CodeCounts
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import candidates
from fastpubpriv.mixtures.axis_aligned.axis_method import Task
from fastpubpriv.mixtures.axis_aligned.cell_fits import CellHistogram
from fastpubpriv.mixtures.axis_aligned.places import ColumnRange
from fastpubpriv.mixtures.gaussian_mixture import GaussianMixture
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.session import Session
from fastpubpriv.threads.pool import share_out

# ---- Fit of one column: a mixture on the line, and cuts in the valleys between its modes ------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModes:
    """Fit of one column: a mixture on the line, cuts in the valleys between its modes, share of ties, step between values."""

    fit: GaussianMixture
    cuts: FloatArray
    confused: float
    has_cells: bool = True  # whether cells that hold rows were released
    tied: float = 0.0
    step: float = math.inf
    smooth: bool = True  # whether neither pairs nor cells show rounded values

    @property
    def is_known(self) -> bool:
        """Whether cells that hold rows were released, and fitted."""
        return self.has_cells and bool(self.fit.size)

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


def valleys(fit: GaussianMixture, least_weight: float) -> tuple[FloatArray, float]:
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


def marginals(
    task: Task, run: Session, ranges: list[ColumnRange], cost: Spending
) -> list[ColumnModes]:
    """Release the counts of the columns' cells; return the fit of each column."""
    dim = run.rows.dim
    measured = CellCounts(edges=[each.edges[1:-1] for each in ranges])
    cells = sum(len(each.edges) - 1 for each in ranges)
    counts = run.release(measured, name="cells", cost=cost, cells=cells)
    values = [of_column for (of_column,) in measured.parted(counts.value)]
    most = task.n_components
    if dim > tuning.MANY_COLUMNS:
        most = min(most, tuning.COLUMN_MODES)
    columns: dict[int, ColumnModes] = {}

    def fit_column(j: int) -> None:
        # the error state is per thread, and released numbers may be of any size
        with np.errstate(all="ignore"):
            counted = CellHistogram(ranges[j].edges, values[j], counts.noise_std, run.rows.n)
            columns[j] = fitted_column(task, counted, ranges[j], most)

    # A search takes tens of milliseconds, two thirds of which without the GIL.
    share_out(fit_column, dim, threads=run.executor.threads)
    return [columns[j] for j in range(dim)]


def fitted_column(
    task: Task, counted: CellHistogram, column: ColumnRange, most: int
) -> ColumnModes:
    """Return the fit of at most so many components to the counts of a column's cells."""
    known = candidates.smoothed(counted, column, known_std=task.known_std)
    cells = known.cells
    heaviest = float(cells.counts.max(initial=0.0))
    is_noise = not column.located and heaviest < tuning.EVIDENCE * cells.noise_std
    std = 1.0 if task.known_std else None
    heads = [] if is_noise else candidates.searched(cells, most, std=std)
    fit = candidates.nothing()
    cuts = np.zeros(0)
    confused = 0.0
    if heads:
        fit, _ = candidates.best_fit(heads, cells.total, fixed_std=task.known_std)
        cuts, confused = valleys(fit, task.min_weight / 2.0)
    return ColumnModes(
        fit,
        cuts,
        confused,
        column.located,
        tied=known.tied,
        step=known.step,
        smooth=known.smooth,
    )


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


def members(
    chunk: Any, *, chosen: list[int], columns: list[ColumnModes], number: IntArray
) -> IntArray:
    """Return the position in `number` of each row's combination, -1 if it is not there."""
    (code,) = codes(chunk, chosen=chosen, columns=columns)
    order = np.argsort(number)
    place = np.minimum(np.searchsorted(number, code, sorter=order), len(number) - 1)
    return np.where(number[order][place] == code, order[place], -1)


def paired_codes(
    chunk: Any,
    *,
    chosen: list[int],
    others: list[int],
    columns: list[ColumnModes],
    number: IntArray,
) -> list[IntArray]:
    """Return for each column of `others` the code of a row's (combination, mode there); -1 if the former is not in `number`."""
    mine = members(chunk, chosen=chosen, columns=columns, number=number)
    paired = []
    for j in others:
        value = chunk[:, j].astype(np.float64)
        pair = mine * (len(columns[j].cuts) + 1) + np.searchsorted(
            columns[j].cuts, value, side="right"
        )
        paired.append(np.where((mine >= 0) & np.isfinite(value), pair, -1))
    return paired


def labels_of(code: int, chosen: list[int], columns: list[ColumnModes]) -> dict[int, int]:
    """Return the mode of each anchor column in a combination."""
    labels = {}
    for j in reversed(chosen):
        code, labels[j] = divmod(code, len(columns[j].cuts) + 1)
    return labels


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of rows: the combinations `number` (groups,) of modes of the `chosen` columns; all rows if none is chosen."""

    columns: list[ColumnModes]
    chosen: list[int]
    number: IntArray
    weights: FloatArray  # (groups,), of sum one
    modes: list[list[FloatArray]]  # of each group and column, (modes, 3): see `ColumnModes.modes`

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.number)

    @property
    def moments(self) -> FloatArray:
        """Means and standard deviations of the groups' modes in each column, (groups, dim, 2).

        In a column without released places, they are 0 and the median of the other columns' deviations.
        """
        moments = np.array([[moments_of(modes) for modes in each] for each in self.modes])
        known = np.array([column.is_known for column in self.columns])
        typical = np.median(moments[:, known, 1], axis=1) if known.any() else np.ones(self.size)
        moments[:, ~known, 1] = typical[:, None]
        moments[:, :, 1] = np.maximum(moments[:, :, 1], 1e-300)
        return moments

    def labels(self, chunk: Any) -> IntArray:
        """Return the group of each row (n,), -1 for a row of none; a function of that row alone."""
        return members(chunk, chosen=self.chosen, columns=self.columns, number=self.number)


def find_groups(
    task: Task, run: Session, columns: list[ColumnModes], combinations: Spending, matching: Spending
) -> Groups:
    """Release the combinations of modes, and the modes that match the heaviest, at these costs; return the groups."""
    least = task.min_weight / 2.0
    chosen = anchor_columns(columns) if task.n_components > 1 else []
    everything = [[column.modes(None, least) for column in columns]]
    whole = Groups(columns, [], np.zeros(1, dtype=np.int64), np.ones(1), everything)
    if not chosen:
        return whole
    cells = math.prod(len(columns[j].cuts) + 1 for j in chosen)
    released = run.release(
        CodeCounts(
            codes=partial(codes, chosen=chosen, columns=columns),
            cells=[cells],
            row_cost=20 * len(chosen) + 8,
        ),
        name="combinations",
        cost=combinations,
        cells=cells,
    )
    fewest = max(least * run.rows.n, tuning.EVIDENCE * released.noise_std)
    order = np.argsort(-released.value, kind="stable")
    heavy = order[released.value[order] > fewest][: task.n_components]
    if not len(heavy):
        return whole
    weights = released.value[heavy] / released.value[heavy].sum()
    modes = []
    for code in heavy.tolist():
        labels = labels_of(code, chosen, columns)
        modes.append([column.modes(labels.get(j), least) for j, column in enumerate(columns)])
    groups = Groups(columns, chosen, heavy, weights, modes)
    find_matching_modes(run, groups, matching)
    return groups


def find_matching_modes(run: Session, groups: Groups, cost: Spending) -> None:
    """Release which modes of the other columns occur with each group, and restrict the groups to them, in place."""
    columns = groups.columns
    others = [j for j, column in enumerate(columns) if len(column.cuts) and j not in groups.chosen]
    if not others:
        return
    sizes = [groups.size * (len(columns[j].cuts) + 1) for j in others]
    released = run.release(
        CodeCounts(
            codes=partial(
                paired_codes,
                chosen=groups.chosen,
                others=others,
                columns=columns,
                number=groups.number,
            ),
            cells=sizes,
            row_cost=30 * (len(groups.chosen) + len(others)),
        ),
        name="matching_modes",
        cost=cost,
        cells=sum(sizes),
    )
    by_column = np.split(released.value, np.cumsum(sizes)[:-1])
    for j, counts in zip(others, by_column, strict=True):
        for own, group in zip(counts.reshape(groups.size, -1), groups.modes, strict=True):
            fewest = max(tuning.MATCHING * float(own.max()), tuning.EVIDENCE * released.noise_std)
            cell = np.searchsorted(columns[j].cuts, group[j][:, 1], side="right")
            mine = group[j][own[cell] >= fewest]
            if len(mine):
                group[j] = mine
