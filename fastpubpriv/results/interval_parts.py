"""Half-widths of intervals for means by their source: noise, sampling, clipping, and undetected rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.results import result_tables
from fastpubpriv.results.result_tables import TableColumn

PARTS = ("noise", "sampling", "clipping", "undetected rows")
# Maximum number of means whose parts a summary shows, a line for each; a data frame has all of them.
MOST_SHOWN = 6


def half_widths(
    z: float, noise: FloatArray, sampling: FloatArray, clipping: Any, undetected: Any
) -> FloatArray:
    """Return half-widths (..., 4), in the order of `PARTS`, from standard deviations and the shift by undetected rows."""
    with np.errstate(over="ignore"):
        widths = np.broadcast_arrays(z * noise, z * sampling, z * clipping, undetected)
    return np.stack(widths, axis=-1)


def width_columns(parts: FloatArray) -> list[TableColumn]:
    """Return the columns of half-widths that data frames have: width_noise and so on."""
    names = [f"width_{name.split()[0]}" for name in PARTS]
    widths = parts.reshape(-1, len(PARTS)).T
    return [TableColumn(name, width) for name, width in zip(names, widths, strict=True)]


def width_facts(
    labels: Sequence[str], mean: FloatArray, parts: FloatArray
) -> list[tuple[str, str]]:
    """Return a line without a name for each mean with an interval: its larger half-width and the parts of this, in words.

    Numbers have two digits of the half-width; parts that are zero in all lines are left out. Of many means, where the parts are.
    """
    if len(labels) > MOST_SHOWN:
        return [("", "interval_parts() has the parts of each")]
    widths = parts.reshape(-1, len(PARTS))
    used = np.flatnonzero(widths.any(axis=0)).tolist()
    lines = []
    for label, value, own in zip(labels, mean.ravel().tolist(), widths, strict=True):
        half = float(np.hypot.reduce(own))
        sources = [f"{PARTS[part]} {result_tables.number(own[part], half)}" for part in used]
        estimate = (
            f"{label} {result_tables.number(value, half)} ± {result_tables.number(half, half)}"
        )
        if 0.0 < half < math.inf:
            lines.append(("", f"{estimate} ({', '.join(sources)})"))
    return lines


def fact_of_rows_used(
    labels: Sequence[str], numbers: Sequence[tuple[float, float]]
) -> tuple[str, str]:
    """Return the fact that says how many rows have a value: a number for each label, and its noise standard deviation or NaN."""
    texts = []
    for label, (count, std) in zip(labels[:MOST_SHOWN], numbers, strict=False):
        noise = "" if math.isnan(std) else f" (± {std:.3g})"
        texts.append(f"{label} {count:,.0f}{noise}")
    if len(labels) > MOST_SHOWN:
        texts.append("...")
    return "Rows used", f"{', '.join(texts)}; ± one standard deviation of the noise"
