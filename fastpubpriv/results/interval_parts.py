"""Half-widths of intervals for means by their source: noise, sampling, clipping, and undetected rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.results.fields import PARTS
from fastpubpriv.results.result_tables import Lines, number

# Maximum number of means whose parts a summary shows, a line for each; a data frame has all of them.
MOST_SHOWN = 6


def half_widths(
    z: float, noise: FloatArray, sampling: FloatArray, clipping: Any, undetected: Any
) -> FloatArray:
    """Return half-widths (..., 4), in the order of `PARTS`, from standard deviations and the shift by undetected rows."""
    with np.errstate(over="ignore"):
        widths = np.broadcast_arrays(z * noise, z * sampling, z * clipping, undetected)
    return np.stack(widths, axis=-1)


def width_facts(result: Any, level: float) -> list[tuple[str, str]]:
    """Return a line without a name for each mean with an interval: its larger half-width and the parts of this, in words.

    Numbers have two digits of the half-width; parts that are zero in all lines are left out. Of many means, where the parts are.
    """
    lines = Lines.of(result)
    places = np.flatnonzero(~result._left_out)
    if len(places) > MOST_SHOWN:
        return [("", "interval_parts() has the parts of each")]
    labels = lines.joined(lines.axes)
    means = result.mean.ravel().tolist()
    widths = result.interval_parts(level).reshape(-1, len(PARTS))
    used = np.flatnonzero(widths[places].any(axis=0)).tolist()
    facts = []
    for place in places:
        half = float(np.hypot.reduce(widths[place]))
        sources = [f"{PARTS[part]} {number(widths[place, part], half)}" for part in used]
        estimate = f"{labels[place]} {number(means[place], half)} ± {number(half, half)}"
        if 0.0 < half < math.inf:
            facts.append(("", f"{estimate} ({', '.join(sources)})"))
    return facts


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
