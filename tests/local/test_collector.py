"""Streams of batches: what is sound is taken once, what is not never does harm."""

from __future__ import annotations

import hashlib
import io
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpubpriv import InputError
from fastpubpriv.local import Aggregator, PrivUnit, PrivUnitG
from fastpubpriv.local import collector as module
from fastpubpriv.local.collector import BatchReader, Collector

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

FIVE = PrivUnit(5, 2.0)
ONE = PrivUnit(1, 2.0)


def batches(randomizer, sizes, seed=1):
    rows = np.random.default_rng(seed).normal(size=(sum(sizes), randomizer.dim))
    reports = randomizer.privatize(rows, random_state=seed)
    ends = np.cumsum([0, *sizes])
    return [reports[int(a) : int(b)].to_bytes() for a, b in itertools.pairwise(ends)]


def read(found, data, **more):
    return found.read(io.BytesIO(data), **more)


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, as a socket may."""

    def read(self, size=-1):
        return super().read(min(size, 7))


def test_streams_are_summed_up_batch_by_batch():
    data = batches(FIVE, [10, 1, 0, 300])
    found = Collector(FIVE)
    assert found.read(Trickle(b"".join(data))) is None
    again = Collector(FIVE)
    for each in reversed(data):
        assert read(again, each) is None
    assert found.total.count == again.total.count == 311
    assert found.total.mean().tolist() == again.total.mean().tolist()
    assert not found.refused


@pytest.mark.parametrize("form", ["direct", "selection"])
@pytest.mark.parametrize("group", [1, 1 << 22])
def test_a_batch_counts_once(monkeypatch, group, form):
    monkeypatch.setattr(module, "_GROUP_BYTES", group)
    randomizer = PrivUnit(5, 2.0, form=form)
    data = batches(randomizer, [10, 20, 30])
    found = Collector(randomizer)
    read(found, b"".join(data) + data[1])
    read(found, data[2] + data[0])
    assert found.total.count == 60
    assert found.refused == {module.REPEATED: 3}
    # Also after the sums were stored, and in another run of the same stream.
    found = Collector.from_bytes(found.to_bytes(), randomizer=randomizer)
    read(found, b"".join(data))
    assert found.total.count == 60


def test_small_batches_may_be_equal_by_chance():
    """Reports of one column: a user's message may equal another's; a stream that is read again is known by its beginning."""
    (one,) = batches(ONE, [1])
    found = Collector(ONE)
    for _ in range(3):
        read(found, one)
    assert found.total.count == 3
    data = b"".join(batches(ONE, [1] * 40, seed=2))
    read(found, data)
    read(found, data)
    assert found.total.count == 3 + 40 + module.REPEAT_NUMBERS - 1


@pytest.mark.parametrize(
    ("data", "reason", "taken"),
    [
        (lambda a, b: a + b[:70], module.CUT_SHORT, 10),
        (lambda a, b: a + b[:3], module.CUT_SHORT, 10),
        (lambda a, b: a + b[:-1], module.CUT_SHORT, 10),
        (lambda a, b: a[:-1] + b, module.FOREIGN, 0),
        (lambda a, b: a + b"GET / HTTP/1.1\r\n" * 9, module.FOREIGN, 10),
        (lambda a, b: a + b"G", module.FOREIGN, 10),
        (lambda a, b: a[:4] + b"\x02" + a[5:] + b, module.OTHER_VERSION, 0),
        (lambda a, b: a + batches(PrivUnit(5, 2.5), [4])[0] + b, module.OTHER_RANDOMIZER, 10),
        (lambda a, b: a + batches(PrivUnitG(5, 2.0), [4])[0] + b, module.OTHER_RANDOMIZER, 10),
        (lambda a, b: a + b[:16] + b"\xff" * 8 + b[24:], module.TOO_LARGE, 10),
        (lambda a, b: a + b[:16] + (9).to_bytes(8, "little") + b[24:], module.FOREIGN, 10),
        (lambda a, b: a + b[:80] + bytes([b[80] ^ 1]) + b[81:] + a, module.FOREIGN, 10),
        (lambda a, b: a + b + b, module.TOO_MANY, 30),
    ],
)
def test_what_is_wrong_ends_its_own_stream_only(data, reason, taken):
    first, second = batches(FIVE, [10, 20])
    found = Collector(FIVE)
    assert read(found, data(first, second), most=35) == reason
    assert (found.total.count, found.refused) == (taken, {reason: 1})
    assert read(found, b"".join(batches(FIVE, [10, 20], seed=5))) is None
    assert found.total.count == taken + 30


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300), place=st.integers(0, 500), bit=st.integers(0, 7))
def test_no_bytes_do_harm(data, place, bit):
    first, second = batches(FIVE, [3, 40])
    changed = bytearray(first + second)
    changed[place % len(changed)] ^= 1 << bit
    for bad in (data, first + data, b"FPPL" + data, bytes(changed), first + second[: place % len(second)]):
        found = Collector(FIVE)
        read(found, bad)
        assert found.total.count in (0, 3)
        try:
            Collector.from_bytes(bad, randomizer=FIVE)
        except InputError:
            continue
        raise AssertionError("bytes of strangers were taken for sums")


def test_sums_come_back_and_only_whole():
    found = Collector(FIVE, reports_per_user=2)
    names = [bytes([i]) * 16 for i in (1, 2, 1, 1)]
    read(found, batches(FIVE, [4])[0], users=iter(names))
    assert (found.total.count, found.total.refused) == (3, 1)
    data = found.to_bytes()
    assert Collector.from_bytes(data, randomizer=FIVE).to_bytes() == data
    for bad in (b"", data[:-1], data[:40], data + b"x", data[:50] + bytes([data[50] ^ 1]) + data[51:]):
        with pytest.raises(InputError):
            Collector.from_bytes(bad, randomizer=FIVE)
    with pytest.raises(InputError, match="another version"):
        Collector.from_bytes(data[:4] + b"\x07" + data[5:], randomizer=FIVE)
    with pytest.raises(InputError):
        Collector.from_bytes(data, randomizer=PrivUnit(5, 2.5))
    body = data[:8] + (2**62).to_bytes(8, "little") + data[16:-32]
    with pytest.raises(InputError):
        Collector.from_bytes(body + hashlib.sha256(body).digest(), randomizer=FIVE)
    with pytest.raises(InputError, match="more reports than names"):
        read(found, batches(FIVE, [3], seed=9)[0], users=iter(names[:2]))


def test_servers_merge_unless_they_read_the_same():
    data = batches(FIVE, [10, 20, 30])
    one, other, third = Collector(FIVE), Collector(FIVE), Collector(FIVE)
    read(one, data[0])
    read(other, data[1])
    read(third, data[2] + data[0])
    one.merge(other)
    assert one.total.count == 30
    with pytest.raises(InputError, match="same batches"):
        one.merge(third)
    assert one.total.count == 30
    read(one, data[1])
    assert one.total.count == 30


def test_a_reader_says_where_whole_reports_end():
    first, second = batches(FIVE, [10, 20])
    reader = BatchReader(FIVE)
    assert [len(payload) for payload in reader.batches(io.BytesIO(first + second[:-5]))] == [10]
    assert (reader.reports, reader.end, reader.reason) == (10, len(first), module.CUT_SHORT)


def kept_sums():
    """Bytes of an Aggregator and of a Collector, with names of users and without."""
    for cap in (None, 2):
        found = Collector(FIVE, reports_per_user=cap)
        for size in (4, 9):
            read(found, batches(FIVE, [size], seed=size)[0], users=None if cap is None else iter([b"a" * 16] * size))
        yield Aggregator, found.total.to_bytes()
        yield Collector, found.to_bytes()


def changed(rng, data):
    """Bytes that begin as these do, with some lost, added or changed; every second time their digest is put right again."""
    body, kind = bytearray(data[:-32]), rng.integers(4)
    place, size = int(rng.integers(len(body))), int(rng.integers(1, 40))
    if kind == 0:
        del body[place : place + size]
    elif kind == 1:
        body[place:place] = rng.bytes(size)
    elif kind == 2:
        body += rng.bytes(size)
    else:
        body[place : place + 8] = [0, 1, 2**31, 2**62, 2**63 - 1, 2**64 - 1][rng.integers(6)].to_bytes(8, "little")
    return bytes(body) + (hashlib.sha256(body).digest() if rng.integers(2) else data[-32:])


def test_changed_bytes_are_refused_by_name_or_read():
    """Nothing but InputError, and what is read can be added to, asked and stored."""
    rng = np.random.default_rng(1)
    (more,) = batches(FIVE, [3], seed=7)
    for kind, data in kept_sums():
        refused = 0
        for bad in [data[:-1], data + b"x", data[:-33] + data[-32:], *(changed(rng, data) for _ in range(1000))]:
            try:
                found = kind.from_bytes(bad, randomizer=FIVE)
            except InputError:
                refused += 1
                continue
            total = found if kind is Aggregator else found.total
            total.add(more, users=None if total.reports_per_user is None else [b"b" * 16] * 3)
            assert np.all(np.isfinite(total.mean()))
            assert kind.from_bytes(found.to_bytes(), randomizer=FIVE).to_bytes() == found.to_bytes()
        assert refused > 500


@pytest.mark.parametrize("kind", [Aggregator, Collector])
def test_what_is_no_randomizer_is_refused_by_name(kind):
    for randomizer in (None, "PrivUnit", 5):
        with pytest.raises(InputError, match="randomizer must be"):
            kind.from_bytes(kind(FIVE).to_bytes(), randomizer=randomizer)
    assert (
        kind.from_bytes(memoryview(bytearray(kind(FIVE).to_bytes())), randomizer=FIVE).to_bytes()
        == kind(FIVE).to_bytes()
    )
