"""Checks that an estimator keeps its privacy promise: record and replay on neighbouring data sets."""

from fastpubpriv.auditing.replay import ReplayReport, record_replay

__all__ = ["ReplayReport", "record_replay"]


def __dir__() -> list[str]:
    return __all__
