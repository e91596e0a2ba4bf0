"""Keys are distinct, reproducible only on request, and an error if the system has no entropy."""

import hashlib
import os
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from helpers.errors import raises
from helpers.forks import answer_of_child
from helpers.own_thread import at_once

from fastpubpriv.errors import EntropyError, InputError, SeededNoiseWarning
from fastpubpriv.keys import KEY_BYTES, key_source


def seeded(seed):
    with pytest.warns(SeededNoiseWarning):
        return key_source(seed)


@pytest.mark.fresh_keys("keys of the operating system differ")
def test_system_keys_are_private_and_distinct():
    with warnings.catch_warnings(action="error"):
        source = key_source(None)
        keys = {source.fresh() for _ in range(1000)} | {
            key_source(None).fresh() for _ in range(1000)
        }
    assert source.private
    assert len(keys) == 2000
    assert {len(key) for key in keys} == {KEY_BYTES}


def test_seeded_keys_are_the_documented_hash_and_repeat():
    first = seeded(7)
    again = seeded(np.int64(7))
    other = seeded(8)
    assert not first.private
    assert "123456789" not in repr(seeded(123456789))
    keys = [first.fresh() for _ in range(50)]
    assert keys == [again.fresh() for _ in range(50)]
    assert len(set(keys) | {other.fresh() for _ in range(50)}) == 100
    # Seeded key is the documented hash.
    seed_digest = hashlib.sha256(b"7").digest()
    expected = hashlib.sha256(
        b"fastpubpriv seeded key 1" + seed_digest + (1).to_bytes(8, "little")
    ).digest()
    source = seeded(7)
    source.fresh()
    assert source.fresh() == expected
    # Large seeds are not truncated.
    assert seeded(2**64).fresh() != seeded(0).fresh()
    assert seeded(10**400).fresh() != seeded(10**400 + 1).fresh()


def test_seed_warns_once_per_source_and_points_at_the_caller():
    with warnings.catch_warnings(record=True, action="always") as caught:
        source = key_source(3)
        source.fresh()
        source.fresh()
    assert [w.category for w in caught] == [SeededNoiseWarning]


@pytest.mark.parametrize(
    "bad",
    [True, False, 1.0, "1", b"1", -1, np.float64(2), np.bool_(True), [1], np.random.default_rng(0)],
)
def test_unfit_random_states_are_refused(bad):
    raises(InputError, "random_state", key_source, bad)


def failing(failure):
    def broken(_n):
        raise failure

    return broken


@pytest.mark.parametrize(
    "broken",
    [
        failing(OSError("no device")),
        failing(NotImplementedError("no source")),
        lambda n: b"\0" * (n - 1),
    ],
)
def test_no_or_too_little_entropy_is_an_error_without_fallback(monkeypatch, broken):
    monkeypatch.setattr(os, "urandom", broken)
    raises(EntropyError, "nothing was released", key_source(None).fresh)


@pytest.mark.fresh_keys("keys of the operating system differ")
@pytest.mark.parametrize(
    "make", [lambda: key_source(None), lambda: seeded(5)], ids=["system", "seeded"]
)
def test_threads_get_distinct_keys(make):
    source = make()
    lists = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def take(mine):
        start.wait()
        mine.extend(source.fresh() for _ in range(500))

    at_once(*(partial(take, mine) for mine in lists))
    assert len({key for mine in lists for key in mine}) == 4000


@pytest.mark.fresh_keys("keys of the operating system differ")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_get_different_keys():
    source = key_source(None)
    source.fresh()
    keys = {answer_of_child(source.fresh), answer_of_child(source.fresh), source.fresh()}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {KEY_BYTES}
