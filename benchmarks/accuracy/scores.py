"""What measurements on held-out tables count: intervals that hold the truth, and ratios of errors."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np


def interval_counts(
    true: np.ndarray, ends: tuple[np.ndarray, np.ndarray], ok: np.ndarray
) -> dict[str, int]:
    """Return how many parts there are, have an interval, are ok, and of these and of all hold the truth."""
    lower, upper = ends
    known = np.isfinite(lower) & np.isfinite(upper)
    held = known & (lower <= true) & (true <= upper)
    return {
        "parts": len(true),
        "known": int(known.sum()),
        "held": int(held.sum()),
        "ok": int((known & ok).sum()),
        "ok held": int((held & ok).sum()),
    }


def geometric(ratios: Iterable[float]) -> float:
    """Return the geometric mean; NaN of none."""
    logs = [math.log(max(ratio, 1e-12)) for ratio in ratios]
    return math.exp(float(np.mean(logs))) if logs else math.nan
