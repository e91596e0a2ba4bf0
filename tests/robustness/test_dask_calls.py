"""Every function that spends a budget, on a Dask collection: the bits of one thread in memory, one debit, nothing secret sent."""

import dask
import numpy as np
import pytest
from public_calls import CALLS, NOTIONS, ample, quiet
from spies import SpyLedger
from wires import Wire, chunked, modules_in

import fastpubpriv as fpp
from fastpubpriv import InputError
from fastpubpriv.local import PrivUnit, PrivUnitG, ReportSum
from fastpubpriv.sources import Executor, private_rows
from fastpubpriv.training import DPSGD, SemiDP


def check_bits(call, chunks):
    """Those of one thread in memory, and one debit: none where the public rows alone are predicted to be best."""
    here = []
    far = []
    total = ample(NOTIONS[call.notions[0]]).total
    assert call.bits(chunked(call.rows, chunks), ledger=SpyLedger(total, far)) == call.bits(
        ledger=SpyLedger(total, here)
    )
    assert far == here
    assert len(far) <= 1


@pytest.mark.parametrize(
    "name", [name for name, call in CALLS.items() if not (call.heavy or call.named)]
)
def test_the_same_bits_as_in_memory(name):
    with dask.config.set(scheduler="synchronous"):
        check_bits(CALLS[name], 7)


@pytest.mark.parametrize(
    "name", ["learn_separated_mixture, tree", "stable_histogram, grid", "select_hypothesis, pairs"]
)
def test_what_is_sent_names_neither_account_nor_keys(name):
    """Tasks hold the query and public numbers; who pays, and what the noise is made of, stays with the caller."""
    call = CALLS[name]
    wire = Wire()
    with wire.used():
        assert call.bits(chunked(call.rows, 4)) == call.bits()
    named = set().union(*map(modules_in, [*wire.tasks, *wire.answers]))
    assert "fastpubpriv.sources.remote" in named
    secret = (
        "fastpubpriv.release",
        "fastpubpriv.keys",
        "fastpubpriv.privacy",
        "fastpubpriv.session",
    )
    assert [module for module in named if module.startswith(secret)] == []


TRAINED = {
    "full": SemiDP(steps=4),
    "one pass": SemiDP(sampling="one_pass", batch_rows=60),
    "batches": DPSGD(sampling="poisson", steps=5, batch_rows=40),
}


@pytest.mark.parametrize("method", TRAINED)
def test_gradient_training(method):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=300)
    public = {"x_pub": x[:20] + 0.1, "y_pub": y[:20]}

    def fitted(x_priv, y_priv):
        budget = fpp.ApproxDP(5, 1e-6)
        more = {"method": TRAINED[method], "random_state": 1, "progress": False}
        return quiet(
            fpp.train, x_priv, y_priv, loss="squared", budget=budget, **public, **more
        ).to_dict()

    with Wire().used():
        assert fitted(chunked(x, 5), chunked(y, 5)) == fitted(x, y)


@pytest.mark.parametrize(
    "randomizer", [PrivUnit(4, 2.0), PrivUnitG(4, 2.0)], ids=["privunit", "privunitg"]
)
def test_reports_are_summed_where_they_are(randomizer):
    rows = np.random.default_rng(1).normal(size=(90, 4))
    payload = quiet(randomizer.privatize, rows, random_state=2).payload
    direct = Executor().run(ReportSum(randomizer), private_rows(payload))
    with Wire().used():
        found = Executor().run(ReportSum(randomizer), private_rows(chunked(payload, 6)))
    assert [part.tolist() for part in found] == [part.tolist() for part in direct]


def test_reports_are_drawn_here():
    """Rows of a collection are read in order: the coins of a row depend on its place."""
    rows = np.random.default_rng(1).normal(size=(90, 4))
    randomizer = PrivUnit(4, 2.0)
    drawn = [
        quiet(randomizer.privatize, x, random_state=2).to_bytes() for x in (rows, chunked(rows, 6))
    ]
    assert drawn[0] == drawn[1]


def test_a_lost_cluster_costs_the_budget_and_says_nothing():
    def lost(graph, keys, **options):
        raise RuntimeError("Alice-SSN-123")

    ledger = fpp.Ledger(fpp.ZCDP(2))
    rows = chunked(np.ones((50, 2)), 5)
    with (
        dask.config.set(scheduler=lost),
        pytest.raises(InputError, match="did not finish") as caught,
    ):
        quiet(
            fpp.estimate_mean,
            rows,
            x_pub=np.zeros((3, 2)),
            budget=fpp.ZCDP(1),
            ledger=ledger,
            progress=False,
        )
    assert "Alice" not in repr((caught.value, caught.value.__context__, caught.value.__cause__))
    assert len(ledger.entries) == 1
