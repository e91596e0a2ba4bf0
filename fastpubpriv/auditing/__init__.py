"""Tests of the privacy claim of a mechanism: record and replay on neighbors, black-box audits, and the tracing attack."""

from fastpubpriv.auditing.black_box import (
    AuditReport,
    TracingResult,
    audit,
    audit_by_tracing,
    audit_randomizer,
    audit_weighted_mean,
    clopper_pearson,
    epsilon_lower_bound,
    tracing_attack,
)
from fastpubpriv.auditing.replay import ReplayReport, record_replay

__all__ = [
    "AuditReport",
    "ReplayReport",
    "TracingResult",
    "audit",
    "audit_by_tracing",
    "audit_randomizer",
    "audit_weighted_mean",
    "clopper_pearson",
    "epsilon_lower_bound",
    "record_replay",
    "tracing_attack",
]


def __dir__() -> list[str]:
    return __all__
