"""Rows of very many columns: memory that public numbers ask for is asked for before the debit, and is enough."""

import os
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from clocks import PATIENCE

import fastpubpriv as fpp
from fastpubpriv import session
from fastpubpriv.estimators import column_means

WIDE = """
import resource
import sys
import warnings

import numpy as np

import fastpubpriv as fpp
from test_memory_of_calls import calls, ledger_for

warnings.simplefilter("ignore")
calls(3)  # what is imported at the first call
for call in calls(3).values():
    try:
        call(ledger=fpp.Ledger(fpp.ZCDP(9)))
    except fpp.FastPubPrivError:
        pass
wide = calls(100_000)
wide["counted columns"] = calls(600_000)["counted columns"]  # five kilobytes each
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
    """Calls on rows of so many columns, each waiting for a ledger."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, dim))
    pub = rng.normal(size=(10, dim))
    budget = fpp.ZCDP(1)
    public = {"x_pub": pub, "budget": budget}
    groups = {"by": -1, "groups": [0.0, 1.0]}
    ball = {"center": 0.0, "radius": 1e3, "budget": budget}
    mixture = {"n_components": 2, "min_weight": 0.3, **public}
    labeled = {"y_priv": np.arange(n) % 2.0, "y_pub": np.arange(10) % 2.0, **public}
    logistic = partial(fpp.train, x, loss="logistic", **labeled)
    histogram = {"bins": fpp.BinGrid(width=1.0), "budget": fpp.ApproxDP(1, 1e-6)}
    return {
        "counted columns": partial(fpp.estimate_mean, x, **public),
        "quantiles": partial(fpp.quantiles, x, **public),
        "means of groups": partial(fpp.estimate_mean, x, **groups, **public),
        "description": partial(fpp.describe, x, **public),
        "Gaussian": partial(fpp.estimate_gaussian, x, **public),
        "covariance": partial(fpp.coinpress_covariance, x, scale=2.0, center=0.0, budget=budget),
        "components": partial(fpp.private_pca, x, n_components=1, **ball),
        "mixture": partial(fpp.learn_separated_mixture, x, **mixture),
        "axis-aligned": partial(fpp.learn_axis_aligned_mixture, x, **mixture),
        "regression": partial(fpp.linear_regression, x, **labeled),
        "classes": partial(fpp.logistic_regression, x, **labeled),
        "gradients": partial(logistic, method="dp_sgd"),
        "perturbed": partial(logistic, method="output_perturbation"),
        "no public rows": partial(
            fpp.no_public_baseline, x, n_components=2, radius=1e3, budget=budget
        ),
        "public rows": lambda ledger: fpp.public_only(pub, n_components=2),
        "histogram": partial(fpp.stable_histogram, x, **histogram),
        "ball": partial(fpp.coinpress_mean, x, **ball),
        "narrowed": partial(fpp.estimate_mean, x, clipping="gaussian", **public),
        "weighted": partial(fpp.weighted_mean, x, norm_bound=1e3, budget=budget),
    }


def ledger_for(name):
    return fpp.Ledger(fpp.ApproxDP(9, 1e-3) if name == "histogram" else fpp.ZCDP(9))


NAMES = list(calls(3))
SMALL = ("ball", "narrowed", "weighted")
LARGE = [name for name in NAMES if name not in SMALL]
# A histogram says what it needs against max_memory=, and groups have a limit of their own.
LIMITED = ("histogram", "means of groups")


def expected_of_wide(name):
    """The error that a call of very many columns ends in, and whether it debits."""
    if name in SMALL:
        return "released | True"
    return "InputError | False" if name in LIMITED else "OutOfMemoryError | False"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_where_memory_is_short_nothing_is_debited():
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(sys.path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    child = subprocess.run(
        [sys.executable, "-c", WIDE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert child.returncode == 0, child.stderr
    found = dict(line.split(" | ", 1) for line in child.stdout.splitlines())
    assert found == {name: expected_of_wide(name) for name in NAMES}, child.stderr


@dataclass(frozen=True)
class Memory:
    """Bytes that a call asked for before the debit, and those that it took at most."""

    asked: int
    taken: int


def memory_of(name, dim, monkeypatch):
    asked = []

    def require(name, dim, needed):
        asked.append(needed)

    call = calls(dim)[name]
    ledger = ledger_for(name)
    with monkeypatch.context() as patch:
        patch.setattr(session, "require_memory", require)
        tracemalloc.start()
        try:
            call(ledger=ledger)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return Memory(max(asked, default=0), taken)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LARGE)
def test_what_is_asked_for_is_enough(name, monkeypatch):
    memory_of(name, 3, monkeypatch)  # modules and tables that stay
    found = memory_of(name, 160, monkeypatch)
    assert 0 < found.taken <= found.asked


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_what_asks_for_nothing_takes_four_kilobytes_a_column(name, monkeypatch):
    memory_of(name, 3, monkeypatch)
    found = memory_of(name, 10_000, monkeypatch)
    assert found.asked == 0
    assert found.taken <= 4_000 * 10_000


@pytest.mark.filterwarnings("ignore")
def test_planted_fault_half_of_the_cells_is_seen(monkeypatch):
    memory_of("counted columns", 3, monkeypatch)
    monkeypatch.setattr(column_means, "HELD", 2)
    found = memory_of("counted columns", 160, monkeypatch)
    assert found.taken > found.asked
