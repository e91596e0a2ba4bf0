"""What the list decoders do before they read: constants, checks, the account."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from fastpubpriv import run as running
from fastpubpriv import validation
from fastpubpriv.errors import AccuracyWarning, BudgetError, InputError
from fastpubpriv.estimators.radii import Mode
from fastpubpriv.mechanisms.histograms import Partition, check_memory
from fastpubpriv.mixtures.list_decoding import sizes
from fastpubpriv.mixtures.list_decoding.stages import Thresholds
from fastpubpriv.privacy import ApproxDP, Budget, stable_event
from fastpubpriv.sources import Rows

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
