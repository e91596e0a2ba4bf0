"""Rows of very many columns: what public numbers say of the memory that is needed is asked for before anything is debited."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
from clocks import PATIENCE

import fastpubpriv as fpp
from fastpubpriv import session
from fastpubpriv.estimators.columns import column_means

pytestmark = pytest.mark.filterwarnings("ignore")

WIDE = """
import resource
import sys
import warnings

import numpy as np

import fastpubpriv as fpp
from test_wide_rows import calls, ledger_for

warnings.simplefilter("ignore")
calls(3)  # what is imported at the first call
for call in calls(3).values():
    try:
        call(ledger=fpp.Ledger(fpp.ZCDP(9)))
    except fpp.FastPubPrivError:
        pass
wide = calls(100_000)
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (2 << 30),) * 2)
for name, call in wide.items():
    ledger = ledger_for(name)
    try:
        call(ledger=ledger)
        said = "released"
    except fpp.FastPubPrivError as error:
        said = type(error).__name__
    print(name, "|", said, "|", any(ledger.spent.amounts))
"""


def calls(dim, n=10):
    rng = np.random.default_rng(0)
    x, pub = rng.normal(size=(n, dim)), rng.normal(size=(10, dim))
    y, given = np.arange(n) % 2.0, {"budget": fpp.ZCDP(1)}
    ball, some = {"center": 0.0, "radius": 1e3}, {"n_components": 2, "min_weight": 0.3, "x_pub": pub}
    labeled = {"x_pub": pub, "y_pub": np.arange(10) % 2.0}
    return {
        "counted columns": partial(fpp.estimate_mean, x, x_pub=pub, **given),
        "Gaussian": partial(fpp.estimate_gaussian, x, x_pub=pub, **given),
        "covariance": partial(fpp.coinpress_covariance, x, scale=2.0, center=0.0, **given),
        "components": partial(fpp.private_pca, x, n_components=1, **ball, **given),
        "mixture": partial(fpp.learn_separated_mixture, x, **some, **given),
        "axis-aligned": partial(fpp.learn_axis_aligned_mixture, x, **some, **given),
        "regression": partial(fpp.linear_regression, x, y, **labeled, **given),
        "classes": partial(fpp.logistic_regression, x, y, **labeled, **given),
        "gradients": partial(fpp.train, x, y, loss="logistic", method="dp_sgd", **labeled, **given),
        "perturbed": partial(fpp.train, x, y, loss="logistic", method="output_perturbation", **labeled, **given),
        "no public rows": partial(fpp.no_public_baseline, x, n_components=2, radius=1e3, **given),
        "public rows": lambda ledger: fpp.public_only(pub, n_components=2),
        "histogram": partial(fpp.stable_histogram, x, bins=fpp.BinGrid(width=1.0), budget=fpp.ApproxDP(1, 1e-6)),
        "ball": partial(fpp.coinpress_mean, x, **ball, **given),
        "narrowed": partial(fpp.estimate_mean, x, x_pub=pub, clipping="gaussian", **given),
        "weighted": partial(fpp.weighted_mean, x, norm_bound=1e3, **given),
    }


def ledger_for(name):
    return fpp.Ledger(fpp.ApproxDP(9, 1e-3) if name == "histogram" else fpp.ZCDP(9))


SMALL = ("ball", "narrowed", "weighted")


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_where_memory_is_short_nothing_is_debited():
    child = subprocess.run([sys.executable, "-c", WIDE], env={
        **os.environ, "PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1",
    }, capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    assert child.returncode == 0, child.stderr
    found = {name: (said, spent) for name, said, spent in (line.split(" | ") for line in child.stdout.splitlines())}
    refused = dict.fromkeys(found, ("OutOfMemoryError", "False"))
    # A histogram says what it needs against max_memory=.
    expected = {**refused, **dict.fromkeys(SMALL, ("released", "True")), "histogram": ("InputError", "False")}
    assert found == expected, child.stderr
    assert found.keys() == calls(3).keys()


def asked_and_taken(name, dim, monkeypatch):
    """Bytes that a call asked for before the debit, and those that it took at most."""
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(session, "require_memory", lambda name, dim, needed: asked.append(needed))
        call, ledger = calls(dim)[name], ledger_for(name)
        tracemalloc.start()
        try:
            call(ledger=ledger)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return max(asked, default=0), taken


@pytest.mark.parametrize("name", [name for name in calls(3) if name not in SMALL])
def test_what_is_asked_for_is_enough(name, monkeypatch):
    asked_and_taken(name, 3, monkeypatch)  # modules and tables that stay
    asked, taken = asked_and_taken(name, 160, monkeypatch)
    assert 0 < taken <= asked


@pytest.mark.parametrize("name", SMALL)
def test_what_asks_for_nothing_takes_four_kilobytes_a_column(name, monkeypatch):
    asked_and_taken(name, 3, monkeypatch)
    asked, taken = asked_and_taken(name, 10_000, monkeypatch)
    assert not asked
    assert taken <= 4_000 * 10_000


def test_planted_fault_half_of_the_cells_is_seen(monkeypatch):
    asked_and_taken("counted columns", 3, monkeypatch)
    monkeypatch.setattr(column_means, "HELD", 2)
    asked, taken = asked_and_taken("counted columns", 160, monkeypatch)
    assert taken > asked
