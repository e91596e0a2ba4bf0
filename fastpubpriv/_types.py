"""Type aliases of arrays, chunks by column, and the literals that arguments accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


# One column or several, by name or, of an array, by number.
ColumnNames = str | int | Sequence[str | int]


class Columns(tuple[np.ndarray[Any, Any], ...]):
    """A chunk by column: for each column a contiguous array (k,), all float32 or all float64, in native byte order."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self[0]), len(self)


def column_of(chunk: np.ndarray[Any, Any] | Columns, index: int) -> np.ndarray[Any, Any]:
    """Return one column of a chunk, (k,)."""
    return chunk[index] if isinstance(chunk, Columns) else chunk[:, index]


# tests/robustness/test_bad_arguments.py checks that functions accept exactly these values at run time.
Accounting = Literal["exact", "paper"]
AxisMixtureMethod = Literal["auto", "cells", "sketch", "dp_em", "list_decoding"]
Clipping = Literal["auto", "counts", "gaussian"]
CovarianceMethod = Literal[
    "auto",
    "ladder",
    "lifted_coinpress",
    "pairs",
    "recursive_preconditioner",
    "group_covariances",
    "hypothesis_selection",
]
FitMethod = Literal["auto", "newton", "throw_away"]
HistogramNoise = Literal["auto", "laplace", "gaussian"]
Keep = Literal["row", "mean", "sum"]
LossName = Literal["squared", "logistic", "huber", "softmax", "smooth_hinge", "poisson"]
Missing = Literal["observed", "neutral"]
MixtureMethod = Literal["auto", "tree", "one_shot", "public_pca", "soft_em"]
Mode = Literal["practical", "theory"]
Notion = Literal["zcdp", "approx", "pure"]
Objective = Literal["columns", "l2"]
Pad = Literal["occupied", "all"]
PublicOnly = Literal["never", "auto"]
ReportForm = Literal["direct", "selection"]
NamedWeight = Literal["optimal", "throw_away", "gaussian", "private"]
KeysPerPerson = int | Literal["auto"]
RowWeight = float | NamedWeight
RowsPerPerson = int | Literal["auto"]
Score = Literal["minimum_distance", "yatracos", "log_ratio"]
SelectionLaw = Literal["auto", "permute_and_flip", "exponential"]
SelectionMethod = Literal["auto", "exact", "cells", "densities"]
Steps = int | Literal["auto"]
StepwiseLoss = Literal["squared", "logistic", "huber"]
Structure = Literal["auto", "public", "mean", "diagonal", "full"]
Tails = Literal["any", "light"]
Target = Literal["population", "empirical"]
PlanTask = Literal[
    "mean",
    "coinpress_mean",
    "weighted_mean",
    "gaussian",
    "quantiles",
    "counts",
    "count_persons",
    "separated_mixture",
    "axis_aligned_mixture",
    "select_hypothesis",
    "train",
]
TrainMethod = Literal[
    "auto",
    "newton",
    "throw_away",
    "semi_dp",
    "dp_sgd",
    "pda_mirror_descent",
    "output_perturbation",
    "exponential",
]
