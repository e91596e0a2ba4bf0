"""A process that is forked while a query runs gets no answer: one debit pays for the releases of one process."""

import multiprocessing
import os
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers import accounts

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, PureDP
from fastpubpriv.errors import BudgetError
from fastpubpriv.keys import KeySource
from fastpubpriv.local.collector import report_batches
from fastpubpriv.privacy import GaussianEvent, LaplaceEvent, SelectionEvent, StableHistogramEvent
from fastpubpriv.privacy.budgets import Clusters
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice, release_stable

SIZE = 8
CANDIDATES = 2**20  # equal scores: two independent choices agree once in a million
REFUSED = b"refused"
# a fork beside threads: what a user may well do
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


opened = partial(accounts.opened, draws=CANDIDATES)


def numbers(account, event, query):
    return release(account, name="x", query=query, shape=(SIZE,), event=event, unit=1.0).tobytes()


def node(query):
    payer = opened(ZCDP(1)).tree(Fraction(1, 2), 1).node(0)
    return numbers(payer, GaussianEvent(2, 20, SIZE, clusters=Clusters(2, 1, ("0",))), query)


def choice(law, query):
    event = SelectionEvent(epsilon=Fraction(1), sensitivity=1, candidates=CANDIDATES, law=law)
    return str(release_choice(opened(PureDP(2)), name="x", query=query, event=event)).encode()


def bins(query):
    event = StableHistogramEvent("gaussian", 1, 2**10, 2**10 + 1, 20, Fraction(1), SIZE)

    def occupied():
        query()
        return [(np.arange(SIZE).reshape(-1, 1), np.full(SIZE, 2**20))]

    account = opened(ApproxDP(1, 0.9))
    ((keys, counts),) = release_stable(
        account, name="x", query=occupied, event=event, slots=(SIZE,), threads=1
    )
    assert len(keys) == SIZE
    return counts.tobytes()


RELEASES = {
    "release, Gaussian": lambda query: numbers(opened(ZCDP(1)), GaussianEvent(4, 20, SIZE), query),
    "release, Laplace": lambda query: numbers(opened(PureDP(2)), LaplaceEvent(4, 20, SIZE), query),
    "release, a node of a tree": node,
    "release_choice, exponential": lambda query: choice("exponential", query),
    "release_choice, permute-and-flip": lambda query: choice("permute_and_flip", query),
    "release_stable": bins,
}


class Fork:
    """A fork, once, wherever it is called; and what both processes make of the work around it."""

    def __init__(self):
        self.child = None

    def __call__(self):
        if self.child is None:
            self.child = os.fork()

    def both(self, work):
        """The bytes that `work()` gives here and in the child; REFUSED for a BudgetError about forks."""
        read_end, write_end = os.pipe()
        answer = b"failed otherwise"
        try:
            try:
                answer = work()
            except BudgetError as error:
                if "forked" not in str(error):
                    raise
                answer = REFUSED
        finally:
            if self.child == 0:  # the child must never return into the test runner
                os.write(write_end, answer[:1000])
                os._exit(0)
            os.close(write_end)
            with os.fdopen(read_end, "rb") as pipe:
                theirs = pipe.read()
            if self.child is not None:
                os.waitpid(self.child, 0)
        assert self.child is not None
        return answer, theirs


def in_both(run, size):
    """What `run(query)` gives in this process and in one that is forked while its query runs."""
    fork = Fork()

    def query():
        fork()
        return np.zeros(size, dtype=np.int64)

    return fork.both(lambda: run(query))


@pytest.mark.parametrize("name", RELEASES)
def test_a_child_that_is_forked_in_a_query_is_refused_the_answer(name):
    mine, theirs = in_both(RELEASES[name], CANDIDATES if "choice" in name else SIZE)
    assert mine not in (b"", REFUSED)
    assert theirs == REFUSED


@pytest.mark.parametrize("name", RELEASES)
def test_planted_fault_keys_that_know_no_process_are_caught(name, monkeypatch):
    monkeypatch.setattr(KeySource, "check_process", lambda self: None)
    mine, theirs = in_both(RELEASES[name], CANDIDATES if "choice" in name else SIZE)
    assert REFUSED not in (mine, theirs)


@pytest.mark.parametrize("name", [name for name in RELEASES if name != "release, a node of a tree"])
def test_control_a_key_taken_before_the_query_is_shared(name, monkeypatch):
    charge = Account.charge

    def with_key(self, event):
        charge(self, event)
        self.early = self.book.keys.fresh()

    monkeypatch.setattr(Account, "charge", with_key)
    monkeypatch.setattr(Account, "fresh_key", lambda self: self.early)
    mine, theirs = in_both(RELEASES[name], CANDIDATES if "choice" in name else SIZE)
    assert mine == theirs


@pytest.mark.parametrize("payer", ["account", "block", "node of a tree", "node made by the child"])
def test_a_child_cannot_charge_what_its_parent_has_opened(payer):
    event = GaussianEvent(2, 20, 1, clusters=Clusters(2, 1, ("0",)) if "node" in payer else None)
    account = opened(ZCDP(1))
    fork = Fork()
    scope = account.tree(Fraction(1, 2), 1) if "node" in payer else None
    early = {"account": account, "node of a tree": scope and scope.node(0)}.get(payer)
    early = account.block() if payer == "block" else early

    def work():
        fork()
        (early or scope.node(0)).charge(event)
        return b"charged"

    assert fork.both(work) == (b"charged", REFUSED)


def test_an_account_that_is_opened_after_the_fork_pays_for_itself():
    """The process is that of the debit, and not that in which the account was made."""
    account = Account("test", ZCDP(1), draws=10)
    fork = Fork()

    def work():
        fork()
        account.open()
        account.charge(GaussianEvent(2, 20, 1))
        return account.fresh_key()

    assert [len(key) for key in fork.both(work)] == [32, 32]


DATA = np.random.default_rng(3).normal(size=(400, 2))
LABELS = np.sign(DATA[:, 0])
PUBLIC = np.random.default_rng(4).normal(size=(40, 2))
PUBLIC_PAIRS = np.column_stack([PUBLIC, np.sign(PUBLIC[:, 0])])


class ForkingSource:
    """Rows in chunks; the process forks between two of them, in the pass with this number."""

    def __init__(self, data, fork, forking_pass=1):
        self.data = data
        self.fork = fork
        self.left = forking_pass

    def chunks(self):
        self.left -= 1
        for begin in range(0, len(self.data), 100):
            yield self.data[begin : begin + 100]
            if self.left == 0:
                self.fork()

    @property
    def rows(self):
        return fpp.Rows.from_chunks(self.chunks, n=len(self.data), dim=self.data.shape[1])


def forking_gradient(fork):
    class Squares:
        def value(self, weights, x, y):
            return 0.5 * (x @ weights - y) ** 2

        def gradient(self, weights, x, y):
            if np.any(x):  # a row of a user: the trial before the call begins is of zeros
                fork()
            return (x @ weights - y)[:, None] * x

    return Squares()


def trained(fork, forking_pass, **options):
    rows = ForkingSource(np.column_stack([DATA, LABELS]), fork, forking_pass).rows
    given = {"loss": "logistic", "x_pub": PUBLIC_PAIRS, "budget": ApproxDP(2, 1e-5), **options}
    return fpp.train(rows, label=-1, **given).coefficients


CALLS = {
    "coinpress_mean": lambda fork: (
        fpp.coinpress_mean(
            ForkingSource(DATA, fork).rows, center=0.0, radius=5.0, budget=ZCDP(0.5)
        ).mean
    ),
    "weighted_mean": lambda fork: (
        fpp.weighted_mean(
            ForkingSource(DATA, fork).rows, x_pub=PUBLIC, norm_bound=3.0, budget=ZCDP(0.5)
        ).mean
    ),
    "estimate_mean, a later pass": lambda fork: (
        fpp.estimate_mean(
            ForkingSource(DATA, fork, 2).rows, x_pub=PUBLIC, budget=ApproxDP(1, 1e-6)
        ).mean
    ),
    "stable_histogram": lambda fork: (
        fpp.stable_histogram(
            ForkingSource(DATA, fork).rows, bins=fpp.BinGrid(width=1.0), budget=ApproxDP(5, 1e-3)
        ).n_priv
    ),
    "train, dp_sgd": lambda fork: trained(fork, 1, method="dp_sgd"),
    "train, newton": lambda fork: trained(fork, 1, method="newton"),
    "local reports": lambda fork: (
        fpp.local.PrivUnit(2, 2.0).privatize(ForkingSource(DATA, fork).rows, threads=1).vectors()
    ),
    "local batches": lambda fork: np.concatenate(
        [
            batch.vectors()
            for batch in report_batches(
                fpp.local.PrivUnit(2, 2.0), ForkingSource(DATA, fork).chunks()
            )
        ]
    ),
    "local codes": lambda fork: (
        fpp.local.SubsetSelection(2, 2.0)
        .privatize(ForkingSource(DATA, fork).rows, threads=1)
        .vectors()
    ),
    "local.train": lambda fork: (
        fpp.local.train(
            DATA,
            LABELS,
            loss=forking_gradient(fork),
            epsilon=2.0,
            clip_norm=1.0,
            radius=1.0,
            batch_rows=100,
        ).coefficients
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_child_of_a_source_that_forks_gets_no_result(name):
    fork = Fork()
    mine, theirs = fork.both(lambda: np.asarray(CALLS[name](fork)).tobytes())
    assert mine not in (b"", REFUSED)
    assert theirs == REFUSED


@pytest.mark.parametrize("name", [name for name in CALLS if "newton" not in name])
def test_planted_fault_a_second_answer_for_one_debit_is_caught(name, monkeypatch):
    monkeypatch.setattr(KeySource, "check_process", lambda self: None)
    fork = Fork()
    mine, theirs = fork.both(lambda: np.asarray(CALLS[name](fork)).tobytes())
    assert REFUSED not in (mine, theirs)


def test_a_child_may_read_rows_for_its_parent():
    """Process pools fork while a call runs, and end passes: nothing is refused but a release."""
    fork = multiprocessing.get_context("fork")

    def chunks():
        for begin in range(0, 400, 200):
            receiver, sender = fork.Pipe(duplex=False)
            worker = fork.Process(
                target=lambda begin=begin, sender=sender: sender.send(DATA[begin : begin + 200])
            )
            worker.start()
            yield receiver.recv()
            worker.join()

    rows = fpp.Rows.from_chunks(chunks, n=400, dim=2)
    assert fpp.coinpress_mean(rows, center=0.0, radius=5.0, budget=ZCDP(0.5)).n_priv == 400
