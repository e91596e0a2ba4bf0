"""What to say about the columns of a mean whose clip radius came from a count of whole rows by their norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.estimators.columns.learn import warn_about
from fastpubpriv.estimators.columns.norms import Norms
from fastpubpriv.estimators.columns.report import NORMAL
from fastpubpriv.public_draws import normal_quantile
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import ColumnReport, MeanResult

# Times the rest of the interval that the tail of whole rows may take before the status says so: nobody knows in which column it is.
DECIDES = 4.0


def student_factor(rows: int) -> float:
    """By how much the deviation of so many rows must be stretched for the quantiles of Gaussians to hold: Student's at 95 %."""
    return float(special.stdtrit(max(rows - 1, 1), 0.975)) / normal_quantile(0.975)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """A count of norms and its coordinates (x - center) / unit; all arrays are (dim,), in data units.

    `known`: the unit is that of the column itself. `bias` is what clipping may have taken from the mean, `wide` says where the
    public rows alone do as well, `weight` is that of the private mean.
    """

    norms: Norms
    center: FloatArray
    unit: FloatArray
    known: BoolArray
    bias: FloatArray
    wide: BoolArray
    weight: float = 1.0


def tails(found: Counted, n: int) -> FloatArray:
    """How far rows beyond the clip radius may move the mean of n rows to either side: (dim,), for nobody knows in which column."""
    moved = found.weight * found.unit * (found.norms.tail / n)
    return np.asarray(np.minimum(moved, np.finfo(np.float64).max))


def with_report(name: str, result: MeanResult, found: Counted) -> MeanResult:
    """The result with its report; warns in the name of the caller, from released numbers, about columns that are not resolved."""
    norms, dim = found.norms, result.dim
    half = NORMAL * np.hypot(result.standard_error, found.bias)
    doubtful = found.weight * found.unit * norms.doubt / result.n_priv > half
    unknown = norms.status in ("point_mass", "unresolved")
    tail = tails(found, result.n_priv)
    words = [  # the first that holds
        (np.full(dim, unknown), norms.status),
        (~found.known, "one_scale"),
        (doubtful | (norms.status == "faint"), "faint"),
        ((tail > DECIDES * half) | (norms.status == "heavy_tail"), "heavy_tail"),
        (found.wide, "wide"),
    ]
    status = tuple(np.select([holds for holds, _ in words], [word for _, word in words], default="resolved").tolist())
    worst = np.full(dim, math.inf if unknown else 0.0)
    largest = float(np.finfo(np.float64).max)
    reach = np.clip(found.unit * norms.end, 0.0, largest)
    report = ColumnReport(
        status=status,
        missing=frozen(np.full(dim, math.nan)),
        resolved_from=frozen(np.clip(found.center - reach, -largest, largest)),
        resolved_to=frozen(np.clip(found.center + reach, -largest, largest)),
        undetected_rows=frozen(np.full(dim, norms.unseen)),
        clipping_std=frozen(found.bias),
        tail_below=frozen(tail),
        tail_above=frozen(tail),
        worst_below=frozen(worst),
        worst_above=frozen(worst),
        lowest=frozen(np.full(dim, -math.inf)),
        highest=frozen(np.full(dim, math.inf)),
    )
    told = replace(result, report=report)
    warn_about(name, told)
    return told
