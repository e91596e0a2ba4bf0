"""Mixtures on the line from private rows alone: scales, then where, then how many, then which.

Four disjoint blocks of rows, each spread over all of them, so each stage has the whole budget. Paper C's Algorithms 3 and 2 find
scales and places with stable histograms, which need no range. From there on the range is released knowledge, so the third block is
counted in ordinary public cells, finely and without a threshold: a thresholded fine histogram would lose every bin with fewer than
some thirty rows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.cells import CellCounts
from fastpubpriv.mechanisms.histograms import Partition, StableHistograms, check_memory
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mixtures.axis_aligned.candidates import (
    Scale,
    best_fit,
    candidates,
    octaves,
    partition,
    tied_in,
    unseen,
    without_comb,
)
from fastpubpriv.mixtures.axis_aligned.em import Cells
from fastpubpriv.mixtures.axis_aligned.types import (
    AxisMethod,
    Learned,
    Task,
    choose,
    finest_differences,
    on_the_line,
    tied_shares,
)
from fastpubpriv.privacy import ApproxDP, laplace_count_grid
from fastpubpriv.privacy.calibration import stable_event
from fastpubpriv.session import Run
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import distant_pairs, interleave_rows

SHARES = (15, 15, 40, 30)  # of the rows: scales, places, cells, selection
KNOWN_SHARES = (20, 45, 35)  # without the scales, when they are known
MOST_SCALES = 6
ANY_SCALES = [2.0**exponent for exponent in (-40, -20, -4, 4, 20, 40)]  # where no scale was found
CELLS_PER_SCALE = 4.0  # width of a place in scales: nearly all of a component of that scale fits into one or two
LEAST_ROWS = 16
LEAST_MASS = 0.2718  # of the differences within a Gaussian, in the fullest dyadic bin, wherever the bins lie
SCALE_PARTITION = Partition((0,), (BinRule(),))
_EXCESS = 2.5  # standard deviations, of noise and sampling
_EXPONENTS = 500  # scales from 2^-500 to 2^500: squares are doubles, too


def draws(n: int) -> int:
    """A bound on the noise draws of a run with n rows."""
    return (MOST_SCALES + 1) * n + 2**16


def rows_for_distant(components: int, budget: ApproxDP) -> int:
    """About how many rows show the scales of equally heavy components of which no two share a scale.

    Only the pairs within a component tell its scale, and at least LEAST_MASS of them lie in one dyadic bin, which has to reach the
    threshold.
    """
    event = stable_event(budget.epsilon, budget.delta, histograms=1, n=10**6, draws=10**6)
    pairs = event.count_threshold * components**2 / LEAST_MASS
    return math.ceil(2.0 * pairs * sum(SHARES) / SHARES[0])


def kept_scales(keys: IntArray, counts: FloatArray, noise_std: float, most: int) -> list[float]:
    """Scales 2^(key + 1) of dyadic bins, ascending: at most `most` of those that hold pairs of their own.

    Differences of any smooth density fill each finer bin half as much as the one before, so a bin speaks for a scale only by what
    it holds beyond that. Of these bins the heaviest half is kept, and the finest of the others: where components are far apart, the
    differences between them make the heaviest bins, and those within them are finer.
    """
    held = dict(zip(keys[:, 0].tolist(), counts.tolist(), strict=True))
    own = [
        key
        for key, count in held.items()
        if abs(key) <= _EXPONENTS
        and count - 0.5 * held.get(key + 1, 0.0)
        > _EXCESS * math.sqrt(1.25 * noise_std**2 + max(count, 0.0) + 0.25 * max(held.get(key + 1, 0.0), 0.0))
    ]
    heavy = sorted(own, key=lambda key: (-held[key], key))
    half = most - most // 2
    return [2.0 ** (key + 1) for key in sorted([*heavy[:half], *sorted(heavy[half:])[: most // 2]])]


def place_partition(column: int, scale: float) -> Partition:
    """Cells (i w, (i + 1) w] with w a few scales: powers of two, so those of all scales are nested."""
    width = CELLS_PER_SCALE * scale
    return Partition((column,), (BinRule(width, width / 2.0),))


def check(run: Run, pairs: Rows | None, places: Rows, cells: Rows, choice: Rows) -> None:
    """Raise now, before the debit, if a stage has no integers for its rows, or no memory; fewer histograms ask for less."""
    epsilon, delta = run.account.approx_left
    if pairs is not None:
        check_memory([SCALE_PARTITION], pairs.n, run.executor)
        stable_event(epsilon, delta, histograms=1, n=pairs.n, draws=pairs.n)
    check_memory([place_partition(0, 1.0)] * MOST_SCALES, places.n, run.executor)
    stable_event(epsilon, delta, histograms=MOST_SCALES, n=places.n, draws=MOST_SCALES * places.n)
    laplace_count_grid(epsilon, 1, cells.n)
    check_rows(choice.n, 1)


def learn(task: Task) -> Learned:
    """Scales from pairs, places from bins, counts of cells, candidates, choice."""
    run = task.run
    account = run.account
    *before, place_rows, cell_rows, choice_rows = interleave_rows(
        run.rows, *(KNOWN_SHARES if task.known_std else SHARES)
    )
    pairs = distant_pairs(before[0]) if before else None
    check(run, pairs, place_rows, cell_rows, choice_rows)
    account.open()
    scales, tied, steps = [1.0], [0.0], [0.0]
    if pairs is not None:
        found = run.block(pairs).release(
            StableHistograms(partitions=[SCALE_PARTITION]), name="scales", cost=account.approx_left
        )
        scales = kept_scales(found.histograms[0].keys, found.histograms[0].counts, found.noise_std, MOST_SCALES)
        tied, steps = tied_shares(found, pairs.n, task.n_components), finest_differences(found)
    # No two rows differ by a scale that shows: they are few, or equal. Places of every size then say where.
    asked = scales or ANY_SCALES
    released = run.block(place_rows).release(
        StableHistograms(partitions=[place_partition(0, scale) for scale in asked]),
        name="places",
        cost=account.approx_left,
    )
    places = [
        Scale(CELLS_PER_SCALE * scale, histogram.keys[:, 0], histogram.counts)
        for scale, histogram in zip(asked, released.histograms, strict=True)
        if len(histogram.keys)
    ]
    status = "ok" if scales and places else "empty"
    edges = partition(places, seen=place_rows.n, total=cell_rows.n)
    cells = counted(run.block(cell_rows), edges if scales else np.union1d(edges, octaves()))
    std = 1.0 if task.known_std else None
    if std is None:
        cells, rounded = without_comb(cells, steps[0])
        tied = [max(tied[0], tied_in(cells))] if rounded else tied
    listed, facts = candidates(cells, task.n_components, size=task.candidates, std=std)
    best = best_fit(cells, task.n_components, std=std)
    if best.size and unseen(cells, best.means[0], best.stds[0])[best.weights[0] > 0.0].any():
        # Values that many rows share lie in a set or beside it as a whole, which is no way to compare densities.
        listed = best
    learned = choose(
        task, run.block(choice_rows), listed, status=status,
        diagnostics={
            "tied_share": tied, "step": steps, "scales": scales,
            "places": sum(len(place.index) for place in places), **facts,
        },
    )  # fmt: skip
    # Wide cells show no width of anything; the narrowest that are asked for where no scale was found show single values.
    widest = (
        math.inf
        if scales
        else max(CELLS_PER_SCALE * ANY_SCALES[0], 8.0 * float(np.spacing(np.abs(learned.means).max())))
    )
    return replace(learned, unseen=unseen(cells, learned.means[:, 0], learned.stds[:, 0], widest=widest))


def counted(run: Run, edges: FloatArray) -> Cells:
    """Release the counts of the cells between edges (-inf and inf at the ends)."""
    released = run.release(
        CellCounts(edges=[edges[1:-1]]), name="cells", cost=run.account.approx_left[0], cells=len(edges) - 1
    )
    return Cells(edges, released.value, released.noise_std, run.rows.n)


METHOD = AxisMethod(
    name="univariate",
    learn=learn,
    draws=lambda n, dim, components, known_std: draws(n),
    details=lambda components, budget: {"distant_components_rows": float(rows_for_distant(components, budget))},
    seconds=on_the_line,
    candidates=400,
    shares=SHARES,
    most_columns=1,
    needs_delta=True,
    least_rows=LEAST_ROWS,
)
