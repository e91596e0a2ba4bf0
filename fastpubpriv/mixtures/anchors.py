"""Axis-aligned mixtures in several columns from private rows alone: modes of columns, their combinations, noisy EM.

Six disjoint blocks of rows, so each stage has the whole budget: scales of every column, where its values are, how many lie in each
of its cells, which combinations of modes occur, EM started at these combinations, and the choice among what EM went through.

Limits: components are told apart on at most four columns, in at least one of which two of them must be modes with a clear valley
between them. Components that overlap in every column, or are concentric, come out as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.cells import release_cell_counts, release_code_counts
from fastpubpriv.mechanisms.stable import Partition, release_histograms
from fastpubpriv.mixtures import dp_em
from fastpubpriv.mixtures.binned_em import Cells, Mixtures
from fastpubpriv.mixtures.candidates import Scale, best_fit, partition
from fastpubpriv.mixtures.choosing import choose, hypotheses_of
from fastpubpriv.mixtures.dp_em import Parameters
from fastpubpriv.mixtures.histogram import note
from fastpubpriv.mixtures.learned import Learned, Task
from fastpubpriv.mixtures.public_em import PUBLIC_SEED
from fastpubpriv.mixtures.univariate import CELLS_PER_SCALE, kept_scales, place_partition
from fastpubpriv.sources import Rows
from fastpubpriv.sources.pairs import pair_rows
from fastpubpriv.sources.slices import split_rows

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]

SHARES = (15, 15, 20, 10, 25, 15)  # of the rows: scales, places, cells, combinations, EM, choice
LEAST_ROWS = 32
MOST_ANCHORS = 4
MOST_COMBINATIONS = 256
STEPS = 4
_SCALES = 3  # of a column
_CELLS = 96  # of a column, about
_LAPLACE_COLUMNS = 6  # up to so many, Laplace noise on joint counts is smaller than Gaussian noise
_CONFUSED = 0.1  # of the lighter side may be on the wrong side of a cut
_EVIDENCE = 6.0  # standard deviations of the noise above which a combination is believed


def draws(n: int, dim: int, n_components: int, *, known_std: bool) -> int:
    """A bound on the noise draws of a run."""
    em = dp_em.draws(n_components, dim, known_std=known_std, steps=STEPS)
    return (_SCALES + 1) * n * dim + 2**12 * dim + MOST_COMBINATIONS + em + 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What the first three stages found about a column: a mixture on the line, and cuts in valleys between its modes."""

    fit: Mixtures
    cuts: FloatArray
    confused: float

    def moments(self, label: int | None) -> tuple[float, float]:
        """Mean and standard deviation of the fit, or of its components between two cuts."""
        weights, means, stds = self.fit.weights[0], self.fit.means[0], self.fit.stds[0]
        mine = weights > 0.0
        if label is not None:
            mine = mine & (np.searchsorted(self.cuts, means, side="right") == label)
        if not mine.any():
            return 0.0, 1.0
        share = weights[mine] / weights[mine].sum()
        mean = float(share @ means[mine])
        return mean, math.sqrt(float(share @ (stds[mine] ** 2 + (means[mine] - mean) ** 2)))


def valleys(fit: Mixtures, least_weight: float) -> tuple[FloatArray, float]:
    """Cuts between neighbouring modes that leave few rows on the wrong side, and the worst confused share."""
    weights, means, stds = fit.weights[0], fit.means[0], fit.stds[0]
    order = np.argsort(means)
    weights, means, stds = weights[order], means[order], stds[order]
    cuts: list[float] = []
    worst = 0.0
    for left in range(len(means) - 1):
        if weights[left] <= 0.0 or weights[left + 1] <= 0.0 or not means[left] < means[left + 1]:
            continue
        points = np.linspace(means[left], means[left + 1], 129)[1:-1]
        below = ndtr((points[:, None] - means) / stds) * weights
        wrong = (below[:, left + 1 :]).sum(axis=1) + (weights[: left + 1] - below[:, : left + 1]).sum(axis=1)
        best = int(np.argmin(wrong))
        lighter = min(float(weights[: left + 1].sum()), float(weights[left + 1 :].sum()))
        if lighter >= least_weight and wrong[best] < _CONFUSED * lighter:
            cuts.append(float(points[best]))
            worst = max(worst, float(wrong[best]) / lighter)
    return np.array(cuts), worst


def marginals(task: Task, scale_rows: Rows | None, place_rows: Rows, cell_rows: Rows) -> list[Column]:
    """The first three stages."""
    run, dim = task.run, task.run.rows.dim
    account = run.account
    scales: list[list[float]] = [[1.0]] * dim
    if scale_rows is not None:
        dyadic = [Partition((column,), (BinRule(),)) for column in range(dim)]
        found = release_histograms(account.block(), pair_rows(scale_rows), dyadic, name="scales", passes=run.passes)
        note(run, "scales", found)
        scales = [kept_scales(each.keys, each.counts, _SCALES) for each in found.histograms]
    places: list[list[Scale]] = [[] for _ in range(dim)]
    pairs = [(column, scale) for column, listed in enumerate(scales) for scale in listed]
    if pairs:
        partitions = [place_partition(column, scale) for column, scale in pairs]
        released = release_histograms(account.block(), place_rows, partitions, name="places", passes=run.passes)
        note(run, "places", released)
        for (column, scale), histogram in zip(pairs, released.histograms, strict=True):
            if len(histogram.keys):
                places[column].append(Scale(CELLS_PER_SCALE * scale, histogram.keys[:, 0], histogram.counts))
    purse = account.block()
    gaussian = dim > _LAPLACE_COLUMNS
    cost = purse.allowance if gaussian else purse.approx_left[0]
    # Roughly what a count will carry; the release says exactly.
    noise = math.sqrt(dim / float(cost)) if gaussian else 2.0 * math.sqrt(2.0) * dim / float(cost)
    edges = [partition(each, seen=place_rows.n, total=cell_rows.n, least=4.0 * noise, most=_CELLS) for each in places]
    counts = release_cell_counts(
        purse, cell_rows, [each[1:-1] for each in edges], name="cells", cost=cost, passes=run.passes, gaussian=gaussian
    )
    run.note("cells", counts, cells=len(counts.value))
    ends = np.cumsum([len(each) - 1 for each in edges])[:-1]
    columns = []
    for each, value in zip(edges, np.split(counts.value, ends), strict=True):
        cells = Cells(each, value, counts.noise_std, cell_rows.n)
        fit = best_fit(cells, task.n_components, std=1.0 if task.known_std else None)
        cuts, confused = valleys(fit, task.min_weight / 2.0) if fit.size else (np.zeros(0), 0.0)
        columns.append(Column(fit, cuts, confused))
    return columns


def anchor_columns(columns: list[Column]) -> list[int]:
    """Up to MOST_ANCHORS columns with cuts: the most cuts first, then the clearest."""
    order = sorted(
        (j for j, column in enumerate(columns) if len(column.cuts)),
        key=lambda j: (-len(columns[j].cuts), columns[j].confused, j),
    )
    chosen: list[int] = []
    cells = 1
    for j in order:
        if len(chosen) < MOST_ANCHORS and cells * (len(columns[j].cuts) + 1) <= MOST_COMBINATIONS:
            chosen.append(j)
            cells *= len(columns[j].cuts) + 1
    return chosen


def codes(chunk: Any, chosen: list[int], columns: list[Column]) -> IntArray:
    """Number of the combination of modes that each row is in; -1 where an entry is not finite."""
    code = np.zeros(len(chunk), dtype=np.int64)
    whole = np.ones(len(chunk), dtype=bool)
    for j in chosen:
        value = chunk[:, j].astype(np.float64)
        code = code * (len(columns[j].cuts) + 1) + np.searchsorted(columns[j].cuts, value, side="right")
        whole &= np.isfinite(value)
    return np.where(whole, code, -1)


def labels_of(code: int, chosen: list[int], columns: list[Column]) -> dict[int, int]:
    """The mode of each anchor column in a combination."""
    labels = {}
    for j in reversed(chosen):
        code, labels[j] = divmod(code, len(columns[j].cuts) + 1)
    return labels


def started(columns: list[Column], combinations: list[tuple[dict[int, int], float]], *, known_std: bool) -> Parameters:
    """One component for each combination: moments of its modes on the anchors, of the whole column elsewhere."""
    moments = np.array(
        [[column.moments(labels.get(j)) for j, column in enumerate(columns)] for labels, _ in combinations]
    )
    weights = np.array([count for _, count in combinations])
    stds = np.ones(moments.shape[:2]) if known_std else moments[:, :, 1]
    return Parameters(weights / weights.sum(), moments[:, :, 0], stds)


def around(at: Parameters, noise: FloatArray, size: int, *, known_std: bool) -> list[Parameters]:
    """Points about a standard error away; `noise` is that of a mean in standard deviations, for each component."""
    components, dim = at.means.shape
    normal = stats.norm.rvs(size=(size, components, 2 * dim + 1), random_state=PUBLIC_SEED + 6)
    found = []
    for each in normal:
        weights = at.weights * np.exp(np.clip(noise * each[:, -1], -1.0, 1.0))
        means = at.means + at.stds * noise[:, None] * each[:, :dim]
        stds = at.stds if known_std else at.stds * np.exp(noise[:, None] * each[:, dim : 2 * dim] / math.sqrt(2.0))
        found.append(Parameters(weights / weights.sum(), means, stds))
    return found


def learn(task: Task) -> Learned:
    """All six stages."""
    run = task.run
    run.account.open()
    scale_rows: Rows | None
    if task.known_std:
        scale_rows = None
        place_rows, cell_rows, code_rows, em_rows, choice_rows = split_rows(run.rows, *SHARES[1:])
    else:
        scale_rows, place_rows, cell_rows, code_rows, em_rows, choice_rows = split_rows(run.rows, *SHARES)
    columns = marginals(task, scale_rows, place_rows, cell_rows)
    chosen = anchor_columns(columns)
    status = "ok" if all(column.fit.size for column in columns) else "empty"
    combinations: list[tuple[dict[int, int], float]] = [({}, 1.0)]
    if chosen and task.n_components > 1:
        cells = math.prod(len(columns[j].cuts) + 1 for j in chosen)
        purse = run.account.block()
        released = release_code_counts(
            purse,
            code_rows,
            lambda chunk: codes(chunk, chosen, columns),
            cells,
            name="combinations",
            cost=purse.approx_left[0],
            row_cost=20 * len(chosen) + 8,
            passes=run.passes,
        )
        run.note("combinations", released, cells=cells)
        least = max(task.min_weight / 2.0 * code_rows.n, _EVIDENCE * released.noise_std)
        heavy = [int(code) for code in np.argsort(-released.value, kind="stable") if released.value[code] > least]
        if heavy:
            combinations = [
                (labels_of(code, chosen, columns), float(released.value[code])) for code in heavy[: task.n_components]
            ]
    at = started(columns, combinations, known_std=task.known_std)
    floor = np.array([max(column.moments(None)[1], 1e-300) for column in columns]) * 1e-9
    with np.errstate(all="ignore"):
        path, _ = dp_em.iterate(task, run.account.block(), em_rows, at, floor, steps=STEPS)
        # Noise of a mean in standard deviations, and sampling.
        per_row = float(run.log[-1]["noise_std"]) / em_rows.n
        noise = np.hypot(per_row / path[-1].weights, 1.0 / np.sqrt(em_rows.n * path[-1].weights))
        listed = [
            *path[::-1],
            at,
            *around(path[-1], noise, max(task.candidates - len(path) - 1, 0), known_std=task.known_std),
        ]
    hypotheses = hypotheses_of(
        np.array([each.weights for each in listed]),
        np.array([each.means for each in listed]),
        np.array([each.stds for each in listed]),
    )
    facts = {"anchors": chosen, "combinations": len(combinations), "cuts": [len(column.cuts) for column in columns]}
    return choose(task, run.account.block(), choice_rows, hypotheses, status=status, diagnostics=facts)
