"""Types of the keyword arguments of verbs whose answer has another class with `by`: for type checkers, which read the overloads."""

from __future__ import annotations

from typing import Any, TypedDict

from fastpubpriv._types import (
    Clipping,
    Keep,
    Missing,
    Mode,
    Objective,
    PublicOnly,
    RowsPerPerson,
    Steps,
)
from fastpubpriv.estimators.mean_methods import MeanSettings
from fastpubpriv.privacy import Ledger


class CallOptions(TypedDict, total=False):
    """What every verb takes."""

    bounds: Any
    columns: Any
    person: Any
    keep: Keep | None
    rows_per_person: RowsPerPerson | None
    ledger: Ledger | None
    random_state: int | None
    threads: int | None
    progress: bool | None


class MeanOptions(CallOptions, total=False):
    """What `estimate_mean` takes besides rows, budget and groups."""

    clipping: Clipping | MeanSettings
    objective: Objective
    covariance: Any
    variance: Any
    missing: Missing
    public_only: PublicOnly
    pub_priv_gap: float
    failure_prob: float
    steps: Steps
    mode: Mode


class QuantileOptions(CallOptions, total=False):
    """What `quantiles` takes besides rows, budget and groups."""

    q: Any
