"""A cluster of four processes on this machine: the bits of one thread, also when workers are killed, and one debit a call."""

import os
import random
import signal
import threading

import dask
import dask.array as da
import numpy as np
import pytest
from helpers.errors import raises
from public_calls import CALLS
from test_dask_calls import check_bits
from wires import chunked

import fastpubpriv as fpp
from fastpubpriv import InputError
from fastpubpriv.sources import Rows

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore:Sending large graph", "ignore::ResourceWarning")
CHUNKS = 50
KILLS = 50
# One of each family; all of them under `audit`.
FAMILIES = [
    "estimate_mean",
    "learn_separated_mixture, tree",
    "stable_histogram, grid",
    "train, newton",
]


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.scheduler.allowed-failures": 50,
        "distributed.worker.memory.terminate": False,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.serial if name in FAMILIES else pytest.mark.audit)
        for name, call in CALLS.items()
        if not call.named
    ],
)
def test_families(client, name):
    check_bits(CALLS[name], CHUNKS)


@pytest.mark.serial
def test_a_client_of_ones_own_and_chunks_that_stay(client):
    x = np.random.default_rng(0).normal(size=(2000, 3))
    options = {"x_pub": x[:9] + 0.1, "budget": fpp.ZCDP(1), "random_state": 1}
    rows = Rows.from_dask(chunked(x, CHUNKS).persist(), client=client)
    with pytest.warns(fpp.SeededNoiseWarning):
        found = [
            fpp.estimate_mean(source, progress=bar, **options)
            for source, bar in ((rows, True), (x, False))
        ]
    assert found[0].to_dict() == found[1].to_dict()


@pytest.mark.serial
def test_a_worker_says_nothing_of_an_error(client):
    """Neither the error that comes back, nor what the workers and the scheduler have logged."""

    def fail(value):
        raise ValueError(f"Alice-SSN-123 {value}")

    part = dask.delayed(fail)(1.23456789e77)
    rows = Rows.from_dask(da.from_delayed(part, (40, 2), float), client=client)
    raises(
        InputError,
        "withheld",
        fpp.estimate_mean,
        rows,
        x_pub=np.zeros((3, 2)),
        budget=fpp.ZCDP(1),
        progress=False,
    )
    # The control: an error that nobody guards is written down.
    raises(ValueError, None, client.submit(int, "Bob", pure=False).result)
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "Bob" in logs
    assert "Alice" not in logs
    assert "1.23456789" not in logs


@pytest.mark.audit
def test_killed_workers_change_nothing(client):
    """Fifty times, at a random moment of a call, one of the four processes is killed; its tasks are done again elsewhere."""
    call = CALLS["learn_separated_mixture, tree"]
    expected = call.bits()
    dice = random.Random(4)
    for _ in range(KILLS):
        ledger = fpp.Ledger(fpp.ZCDP(1))
        # where a machine is too busy to start another process in time, Dask gives it up
        client.cluster.scale(4)
        client.wait_for_workers(2)
        victim = dice.choice(list(client.run(os.getpid, on_error="ignore").values()))
        timer = threading.Timer(dice.uniform(0.0, 3.0), os.kill, [victim, signal.SIGKILL])
        timer.start()
        assert call.bits(chunked(call.rows, CHUNKS), ledger=ledger) == expected
        timer.join()
        assert len(ledger.entries) == 1
