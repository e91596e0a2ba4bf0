"""A process that is forked while a query runs draws noise of its own: the key is taken after the query, in every release."""

import os
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from helpers import accounts

from fastpubpriv.privacy import (
    ZCDP,
    ApproxDP,
    Clusters,
    GaussianEvent,
    KNormEvent,
    LaplaceEvent,
    ObjectiveEvent,
    PureDP,
    SelectionEvent,
    StableHistogramEvent,
)
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice, release_minimum, release_stable

SIZE = 8
CANDIDATES = 2**20  # equal scores: two independent choices agree once in a million


opened = partial(accounts.opened, draws=CANDIDATES)


def numbers(account, event, query):
    answer = release(account, name="x", query=query, shape=(SIZE,), event=event, unit=1.0)
    return answer.tobytes()


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
    ((keys, counts),) = release_stable(account, name="x", query=occupied, event=event, slots=(SIZE,), threads=1)
    assert len(keys) == SIZE
    return counts.tobytes()


def minimum(query):
    """The secret is drawn before the fork, and shared as a batch of rows would be; the noise on the minimum is not."""

    class Loss:
        def solve(self, secret):
            query()
            return np.zeros(len(secret))

        def in_steps(self, point):
            return point.astype(np.int64)

    event = ObjectiveEvent(4, 20, 0, 4, 20, 2 * SIZE)
    return release_minimum(opened(PureDP(2)), name="x", loss=Loss(), event=event, unit=1.0).tobytes()


RELEASES = {
    "release_minimum": minimum,
    "release, Gaussian": lambda query: numbers(opened(ZCDP(1)), GaussianEvent(4, 20, SIZE), query),
    "release, Laplace": lambda query: numbers(opened(PureDP(2)), LaplaceEvent(4, 20, SIZE), query),
    "release, K-norm": lambda query: numbers(opened(PureDP(2)), KNormEvent(1, 2.0**-40, 2**20, SIZE), query),
    "release, a node of a tree": node,
    "release_choice, exponential": lambda query: choice("exponential", query),
    "release_choice, permute-and-flip": lambda query: choice("permute_and_flip", query),
    "release_stable": bins,
}


def in_both(run, size):
    """What `run(query)` gives in this process and in one that is forked while its query runs."""
    read_end, write_end = os.pipe()
    child = []

    def query():
        if not child:
            child.append(os.fork())
        return np.zeros(size, dtype=np.int64)

    try:
        mine = run(query)
        if child[0] == 0:
            os.write(write_end, mine)
    finally:
        if child and child[0] == 0:
            os._exit(0)  # the child must never return into the test runner
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child[0], 0)
    return mine, theirs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads: what a user may well do
@pytest.mark.parametrize("name", RELEASES)
def test_parent_and_child_draw_different_noise(name):
    mine, theirs = in_both(RELEASES[name], CANDIDATES if "choice" in name else SIZE)
    assert len(mine) > 0
    assert len(theirs) > 0
    assert mine != theirs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
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
