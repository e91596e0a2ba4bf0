"""The two stages of list decoding on an account: scales from differences of pairs, means from bins as wide as a scale."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import AccuracyWarning, BudgetError, InputError
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.kernels.bins import BinRule
from fastpubpriv.mechanisms.histograms import Partition, StableHistograms, check_memory
from fastpubpriv.mixtures.list_decoding import sizes
from fastpubpriv.mixtures.list_decoding.sizes import (
    DYADIC_SCALES,
    MEAN_MASS,
    SCALE_MASS,
    mean_list_bound,
    scale_list_bound,
)
from fastpubpriv.privacy import ApproxDP, Budget, StableHistogramEvent, stable_event
from fastpubpriv.run import Run
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views.pairs import pair_rows

# ---- What the list decoders do before they read: constants, checks, the account --------------------------------------

MAX_SCALES = 12
LEAST_WEIGHT = 1e-9  # of a component; fewer rows than one in a billion are none that a count with noise would show


def thresholds_of(min_weight: Any, mode: Mode, max_scales: Any) -> Thresholds:
    """The constants that the arguments ask for, checked."""
    theory = validation.choice("mode", mode, ("practical", "theory")) == "theory"
    weight = validation.positive("min_weight", min_weight)
    if not LEAST_WEIGHT <= weight <= 1.0:
        raise InputError(f"min_weight must lie in [{LEAST_WEIGHT:g}, 1], got {min_weight!r}")
    most = validation.integer("max_scales", max_scales, minimum=1, maximum=sizes.DYADIC_SCALES)
    return Thresholds(min_weight=weight, theory=theory, max_scales=most)


def start(
    name: str, rows: Rows, budget: Budget, partitions: Sequence[tuple[Sequence[Partition], int]], **options: Any
) -> Any:
    """The run, after every check that public numbers allow: one stage for each (partitions, rows)."""
    if not isinstance(budget, ApproxDP):
        raise BudgetError(f"{name} has no range to rely on, so it needs a delta: pass ApproxDP(epsilon=..., delta=...)")
    slots = [sum(len(part.levels) * part.slots(n) for part in parts) for parts, n in partitions]
    run = running.start(name, rows, budget, draws=sum(slots), **options)
    for (parts, n), draws in zip(partitions, slots, strict=True):
        stable_event(*run.account.approx_left, histograms=len(parts), n=n, draws=draws)
        check_memory(parts, n, run.executor)
    return run


def warn_few(name: str, thresholds: Thresholds, needed: int, n: int) -> None:
    """Warn, from public numbers, when the theorem asks for more rows than there are."""
    if thresholds.theory and n < needed:
        warnings.warn(
            f"{name}: the theorem asks for {needed} rows at this weight and budget, and there are {n}; pass more rows, a larger "
            "budget, or mode='practical'",
            AccuracyWarning,
            stacklevel=3,
        )


def common_fields(run: running.Run, thresholds: Thresholds, columns: Any) -> dict[str, Any]:
    """The fields that the results of all decoders share."""
    return {
        "mode": "theory" if thresholds.theory else "practical",
        "min_weight": thresholds.min_weight,
        "columns": columns,
        **run.fields(0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What share of the rows a bin must hold to be kept, and how many are kept. Public; privacy does not depend on it."""

    min_weight: float  # w = 1 - gamma: Gaussians of at least this weight are to be found
    # the paper's constants (w^2 / 8 and w / 8, and an empty list when more than 12 / w^2 or 12 / w bins are above),
    # or half of the mass that the best bin of such a Gaussian has
    theory: bool = False
    max_scales: int = 12  # practical constants only: the largest noisy counts are kept

    @property
    def scale_share(self) -> float:
        """Least share of the pairs."""
        return self.min_weight**2 * (0.125 if self.theory else 0.5 * SCALE_MASS)

    @property
    def mean_share(self) -> float:
        """Least share of the rows."""
        return self.min_weight * (0.125 if self.theory else 0.5 * MEAN_MASS)

    @property
    def scale_bound(self) -> int:
        """Most scales of one column that stage one returns."""
        return min(DYADIC_SCALES, scale_list_bound(self.min_weight)) if self.theory else self.max_scales


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaleList:
    """Coarse scales of one column: for every Gaussian that is found, one lies in [sigma, 2 sigma).

    `scales` (t,) powers of two, ascending; `counts` (t,) noisy counts of pairs; `status` "ok" or "empty".
    """

    scales: FloatArray
    counts: FloatArray
    status: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanList:
    """Coarse means of one column at one scale: for every Gaussian of that scale that is found, one lies within sigma of its mean.

    `means` (c,) midpoints of bins, ascending; `counts` (c,) noisy counts of rows; `status` "ok" or "empty".
    """

    scale: float
    means: FloatArray
    counts: FloatArray
    status: str


def scale_partitions(dim: int) -> list[Partition]:
    """The dyadic histogram of each column."""
    return [Partition((column,), (BinRule(),)) for column in range(dim)]


def mean_partitions(scales: Sequence[Sequence[float]]) -> list[Partition]:
    """One histogram for each column and scale, with bins as wide as the scale around its multiples."""
    return [Partition((column,), (BinRule(scale),)) for column, listed in enumerate(scales) for scale in listed]


def release_scales(
    run: Run, thresholds: Thresholds, *, cost: tuple[Fraction, Fraction] | None = None
) -> list[ScaleList]:
    """Algorithm 3 on every column at once: dyadic bins of |x - x'| / sqrt(2) over pairs of neighbouring positions.

    One row is in one pair, so replacing it replaces a pair. `cost` None is all that the account of the run has left.
    """
    pairs = pair_rows(run.rows)
    released = run.on(pairs).release(
        StableHistograms(partitions=scale_partitions(pairs.dim)), name="scales", cost=cost or run.account.approx_left
    )
    found = []
    for histogram in released.histograms:
        kept = np.flatnonzero(histogram.counts / pairs.n > thresholds.scale_share)
        if thresholds.theory and len(kept) > thresholds.scale_bound:
            kept = kept[:0]  # line 6: too many bins for the theorem's premise
        elif len(kept) > thresholds.scale_bound:
            largest = np.argsort(-histogram.counts[kept], kind="stable")[: thresholds.scale_bound]
            kept = np.sort(kept[largest])
        exponents = histogram.keys[kept, 0].astype(np.int32) + 1
        # The last dyadic bin ends at 2^1024, which is no double, and the first ones are too narrow to be divided by.
        usable = (exponents <= 1023) & (exponents > -1022)
        found.append(
            ScaleList(
                scales=np.ldexp(1.0, exponents[usable]),
                counts=histogram.counts[kept][usable],
                status="ok" if usable.any() else "empty",
            )
        )
    return found


def release_means(
    run: Run,
    scales: Sequence[Sequence[float]],
    thresholds: Thresholds,
    *,
    event: StableHistogramEvent | None = None,
) -> list[list[MeanList]]:
    """Algorithm 2 on every column and each of its scales at once; nothing is released if there is no scale.

    All that the account of the run has left, or what `event` costs.
    """
    partitions = mean_partitions(scales)
    if not partitions:
        return [[] for _ in scales]
    released = run.release(
        StableHistograms(partitions=partitions, event=event), name="means", cost=run.account.approx_left
    )
    histograms = iter(released.histograms)
    bound = mean_list_bound(thresholds.min_weight)
    found: list[list[MeanList]] = []
    for listed in scales:
        column = []
        for scale in listed:
            histogram = next(histograms)
            kept = np.flatnonzero(histogram.counts / run.rows.n > thresholds.mean_share)
            if thresholds.theory and len(kept) > bound:
                kept = kept[:0]
            column.append(
                MeanList(
                    scale=float(scale),
                    means=histogram.keys[kept, 0] * float(scale),
                    counts=histogram.counts[kept],
                    status="ok" if len(kept) else "empty",
                )
            )
        found.append(column)
    return found


def paper_event(
    epsilon: Fraction, delta: Fraction, *, histograms: int, n: int, draws: int
) -> StableHistogramEvent | None:
    """The noise and thresholds of the paper's composition: each of T histograms at epsilon' = epsilon / (2 sqrt(6 T ln(2 (T + 1) /
    delta))) and delta' = delta / (2 (T + 1)), accounted for exactly at (epsilon, delta); None if that exceeds them or
    has no integer grid.
    """
    t = histograms
    each = Fraction(float(epsilon) / (2.0 * math.sqrt(6.0 * t * math.log(2.0 * (t + 1) / float(delta)))))
    try:
        single = stable_event(each, delta / (2 * (t + 1)), histograms=1, n=n, draws=0, law="laplace")
    except InputError:  # no grid so fine
        return None
    event = StableHistogramEvent("laplace", t, single.step, single.threshold, single.log2_scale, epsilon, draws)
    return event if event.delta <= delta else None
