"""A share of the budget without an integer grid for a second moment is refused before the debit and before the first read."""

import warnings

import numpy as np
import pytest
from spies import SpyLedger, SpyRows, seeded

from fastpubpriv import AccuracyWarning, InputError, PureDP, coinpress_covariance, estimate_gaussian, private_pca

PUBLIC = np.random.default_rng(1).standard_normal((101, 100))


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (estimate_gaussian, {"x_pub": PUBLIC, "structure": "full"}),
        (estimate_gaussian, {"x_pub": PUBLIC, "method": "lifted_coinpress"}),
        (estimate_gaussian, {"x_pub": PUBLIC, "method": "pairs"}),
        (coinpress_covariance, {"scale": 9.0, "steps": 10}),
        (private_pca, {"center": 0.0, "radius": 4.0, "n_components": 2}),
    ],
    ids=["ladder", "lifted", "pairs", "covariance", "pca"],
)
def test_refused_before_debit_and_reading(call, options):
    log = []
    rows = SpyRows(np.zeros((4, 100)), log)
    ledger = SpyLedger(PureDP(1000), log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        with pytest.raises(InputError, match="no integer grid"):
            seeded(call, rows, budget=PureDP(2.0**-22), ledger=ledger, **options)
        assert log == []
        seeded(call, rows, budget=PureDP(40), ledger=ledger, **options)
    assert log[0] == "debit"
    assert "read" in log
