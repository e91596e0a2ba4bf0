"""Privacy accounting: budgets, events, sampling, ledger. All exact or safely rounded.

Conversions and composition theorems are in `fastpubpriv.privacy.conversions`; the integer grids and budgets for custom
mechanisms are in `fastpubpriv.privacy.calibration` and `fastpubpriv.privacy.calibrated_budget`.
"""

from fastpubpriv.privacy.budgets import ZCDP, ApproxDP, Budget, Cost, Neighbors, PureDP
from fastpubpriv.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    SelectionEvent,
    StableHistogramEvent,
)
from fastpubpriv.privacy.ledger import Ledger, LedgerEntry
from fastpubpriv.privacy.sampling import (
    FullBatch,
    OnePass,
    Poisson,
    Sampling,
    WithoutReplacement,
    delta_of,
    epsilon_of,
    noise_multiplier_for,
)

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Budget",
    "Cost",
    "Event",
    "FullBatch",
    "GaussianEvent",
    "LaplaceEvent",
    "Ledger",
    "LedgerEntry",
    "Neighbors",
    "OnePass",
    "Poisson",
    "PureDP",
    "SampledGaussianEvent",
    "Sampling",
    "SelectionEvent",
    "StableHistogramEvent",
    "WithoutReplacement",
    "delta_of",
    "epsilon_of",
    "noise_multiplier_for",
]


def __dir__() -> list[str]:
    return __all__
