"""Rows and ledgers that log their use, for tests of the order of events."""

import warnings

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, FastPubPrivError, Ledger, PureDP, SeededNoiseWarning
from fastpubpriv.sources.row_types import RandomAccessRows


class SpyRows(RandomAccessRows):
    """Rows of an array that log each read in `log`; with `fails`, each read raises that error."""

    def __init__(self, array, log, fails=None):
        super().__init__(array.shape[0], array.shape[1], "array", None)
        self.array = np.ascontiguousarray(array, dtype=np.float64)
        self.log = log
        self.fails = fails

    def block(self, begin, end):
        self.log.append("read")
        if self.fails is not None:
            raise self.fails
        return self.array[begin:end]


class SpyLedger(Ledger):
    """A ledger that logs each debit in `log`."""

    def __init__(self, total, log, **options):
        super().__init__(total, **options)
        self.log = log

    def debit(self, cost, **options):
        number = super().debit(cost, **options)
        self.log.append("debit")
        return number


def seeded(function, *args, random_state=7, **options):
    """Call an estimator with seeded noise, without the warning that it is not private."""
    with warnings.catch_warnings(action="ignore", category=SeededNoiseWarning):
        return function(*args, random_state=random_state, **options)


def refused(function, words, x_priv, **given):
    """Assert that a call raises an error with these words before any debit or read."""
    log = []
    rows = (
        SpyRows(x_priv, log)
        if isinstance(x_priv, np.ndarray) and x_priv.ndim == 2 and x_priv.dtype == float
        else x_priv
    )
    approximate = isinstance(given.get("budget"), ApproxDP | PureDP)
    ledger = SpyLedger(ApproxDP(1024, 0.5) if approximate else ZCDP(1000), log)
    with pytest.raises(FastPubPrivError, match=words):
        function(rows, **{"ledger": ledger, **given})
    assert log == []
