"""Sums of reports, and means of reports and public rows."""

import hashlib
import hmac
import io
import itertools
import math

import numpy as np
import pytest
from helpers.errors import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpubpriv import InputError, PureDP
from fastpubpriv.local import (
    Aggregator,
    Duchi,
    PrivUnit,
    PrivUnitG,
    Reports,
    SubsetSelection,
    estimate_mean,
    mean_error,
)
from fastpubpriv.local import collector as module
from fastpubpriv.local.collector import BatchReader, Collector
from fastpubpriv.results.estimates import MeanResult

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
RANDOMIZERS = [
    PrivUnit(6, 2.0),
    PrivUnitG(6, 2.0, norm_bound=3.0),
    Duchi(6, 2.0, 1.5),
    PrivUnit(6, 2.0, form="selection"),
    SubsetSelection(6, 2.0, words=32),
]


def some_reports(randomizer, n=500):
    return randomizer.privatize(
        np.random.default_rng(1).standard_normal((n, randomizer.dim)), random_state=5
    )


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=lambda r: f"{type(r).__name__}-{r.form}")
def test_sums_are_the_same_in_any_order(randomizer):
    reports = some_reports(randomizer)
    whole = Aggregator(randomizer)
    whole.add(reports, threads=1)
    parts = [Aggregator(randomizer) for _ in range(3)]
    parts[0].add(reports[400:])
    parts[1].add(reports[:150].to_bytes())
    parts[2].add(reports[150:400], threads=2)
    for part in parts[1:]:
        parts[0].merge(Aggregator.from_bytes(part.to_bytes(), randomizer=randomizer))
    assert parts[0].count == whole.count == 500
    assert np.array_equal(parts[0].mean(), whole.mean())
    assert np.array_equal(parts[0].variance(), whole.variance())
    vectors = reports.vectors()
    assert np.allclose(whole.mean(), vectors.mean(axis=0), rtol=1e-6, atol=1e-6)
    assert np.allclose(whole.variance(), vectors.var(axis=0, ddof=1), rtol=1e-3)
    assert not whole.private


@settings(deadline=None, max_examples=300)
@given(data=st.binary(max_size=400), place=st.integers(0, 400), bit=st.integers(0, 7))
def test_hostile_bytes_are_refused_or_read(data, place, bit):
    randomizer = RANDOMIZERS[0]
    total = Aggregator(randomizer)
    sound = some_reports(randomizer, 3).to_bytes()
    changed = bytearray(sound)
    changed[place % len(sound)] ^= 1 << bit
    for bad in (
        data,
        b"FPPL" + data,
        sound + data + b"x",
        bytes(changed),
        sound[: place % len(sound)],
    ):
        raises(InputError, None, total.add, bad)
        raises(InputError, None, Aggregator.from_bytes, bad, randomizer=randomizer)
    assert total.count == 0


def test_impossible_sums_are_refused():
    total = Aggregator(RANDOMIZERS[0])
    total.add(some_reports(RANDOMIZERS[0]))
    body = bytearray(total.to_bytes()[:-32])
    body[72:80] = (2**60).to_bytes(8, "little")
    data = bytes(body) + hashlib.sha256(body).digest()
    raises(InputError, "exceed", Aggregator.from_bytes, data, randomizer=RANDOMIZERS[0])
    for randomizer in RANDOMIZERS[1:]:
        raises(InputError, None, Aggregator.from_bytes, total.to_bytes(), randomizer=randomizer)
        raises(InputError, None, total.merge, Aggregator(randomizer))
        raises(InputError, None, total.add, some_reports(randomizer))


def names(*users):
    return [hmac.digest(b"key", str(user).encode(), "sha256") for user in users]


@pytest.mark.parametrize("cap", [1, 2])
def test_a_user_counts_only_so_often(cap):
    randomizer = RANDOMIZERS[0]
    reports = some_reports(randomizer, 40)
    total = Aggregator(randomizer, reports_per_user=cap)
    assert total.add(reports[:4], users=names(1, 2, 1, 1)) == 3 - cap
    assert total.add(reports[4:8].to_bytes(), users=names(1, 2, 3, 3)) == (3 if cap == 1 else 1)
    kept = [0, 1, 6] if cap == 1 else [0, 1, 2, 5, 6, 7]
    assert total.count == len(kept)
    assert total.refused == 8 - len(kept)
    assert np.allclose(total.mean(), reports.vectors()[kept].mean(axis=0), rtol=1e-6, atol=1e-6)
    again = Aggregator.from_bytes(total.to_bytes(), randomizer=randomizer)
    assert again.to_bytes() == total.to_bytes()
    assert again.add(reports[8:9], users=names(1)) == 1
    assert again.add(reports[8:9], users=names("another")) == 0
    matrix = np.frombuffer(b"".join(names(1, 77)), dtype=np.uint8).reshape(2, 32)
    assert again.add(reports[10:12], users=matrix) == 1
    assert estimate_mean(total).spent == PureDP(2.0 * cap)
    assert estimate_mean(total, reports_per_user=5).spent == PureDP(10.0)


def test_servers_share_users_but_not_reports_of_one():
    randomizer = RANDOMIZERS[3]
    reports = some_reports(randomizer, 10)
    one, other, third = (Aggregator(randomizer, reports_per_user=1) for _ in range(3))
    one.add(reports[:4], users=names(1, 2, 3, 4))
    other.add(reports[4:6], users=names(5, 6))
    third.add(reports[6:8], users=names(7, 2))
    one.merge(other)
    before = one.to_bytes()
    raises(InputError, "1 users have more than 1 reports", one.merge, third)
    assert one.to_bytes() == before
    assert one.add(reports[8:], users=names(6, 8)) == 1
    assert one.count == 7
    raises(InputError, "reports_per_user", one.merge, Aggregator(randomizer))


def test_many_users_are_told_apart():
    """Names in several layers, against a plain set."""
    from fastpubpriv.local.aggregate import Users, hashed_names

    rng = np.random.default_rng(0)
    kept = Users(1)
    seen = set()
    for size in (1, 50_000, 3, 70_000, 1, 9):
        found = hashed_names(rng.integers(0, 50, size=(size, 16), dtype=np.uint8) // 13, size)
        allowed, new = kept.admit(found)
        kept = kept.with_more(new)
        expected = []
        for name in found.tolist():
            expected.append(name not in seen)
            seen.add(name)
        assert allowed.tolist() == expected
    assert kept.reports == len(seen)
    assert len(kept.to_bytes()) == 20 * len(seen)


def test_names_of_users_are_checked():
    randomizer = RANDOMIZERS[0]
    reports = some_reports(randomizer, 2)
    once = Aggregator(randomizer, reports_per_user=1)
    bad = (
        None,
        names(1),
        ["anna", "bert"],
        [b"short", b"short"],
        np.zeros((2, 8), np.uint8),
        np.zeros((2, 16)),
        5,
    )
    for users in bad:
        raises(InputError, "hash", once.add, reports, users=users)
    assert once.count == 0
    assert once.add(reports, users=names(1, 2)) == 0
    raises(InputError, "reports_per_user", Aggregator(randomizer).add, reports, users=names(1, 2))
    for cap in (0, -1, 2.5, 2**40, "1"):
        raises(InputError, "reports_per_user", Aggregator, randomizer, reports_per_user=cap)
    # Names that do not belong to the sums, with a digest that is right.
    body = bytearray(once.to_bytes()[:-32])
    for place, value in ((-4, 9), (-8, 0), (len(body) - 40, 255)):
        wrong = bytearray(body)
        wrong[place] = value
        data = bytes(wrong) + hashlib.sha256(wrong).digest()
        raises(InputError, None, Aggregator.from_bytes, data, randomizer=randomizer)
    newer = bytearray(once.to_bytes())
    newer[4] = 3
    raises(
        InputError, "another version", Aggregator.from_bytes, bytes(newer), randomizer=randomizer
    )


def test_one_hostile_report_moves_the_mean_no_more_than_an_honest_one():
    """Among 200 reports: the largest entries that bytes can hold, and the largest that a user could send."""
    for randomizer in RANDOMIZERS:
        sound = some_reports(randomizer, 200)
        if randomizer.form != "direct":
            hostile = Reports(randomizer, np.full((1, randomizer.report_bytes), 255, np.uint8))
        else:
            hostile = Reports(randomizer, np.array([[2**31 - 1] * 5 + [-(2**31)]], dtype=np.int32))
        before = Aggregator(randomizer)
        after = Aggregator(randomizer)
        before.add(sound)
        after.add(sound[1:])
        after.add(hostile.to_bytes())
        longest = (
            np.linalg.norm(hostile.vectors())
            if randomizer.gaussian
            else randomizer.radius / randomizer.scale
        )
        assert np.linalg.norm(after.mean() - before.mean()) <= 2.0 * longest / 200 * (1.0 + 1e-6)
        if randomizer.gaussian:
            assert (
                longest
                <= randomizer.radius
                * (math.sqrt(6.0) + 13.0 + randomizer.cap.threshold)
                / randomizer.scale
            )


def test_an_empty_sum_has_no_mean():
    total = Aggregator(RANDOMIZERS[0])
    for call in (
        total.mean,
        total.variance,
        lambda: estimate_mean(total),
        lambda: Aggregator("PrivUnit"),
    ):
        raises(InputError, None, call)


def test_the_best_weight_is_never_worse_than_one_weight_for_all():
    randomizer = PrivUnit(50, 2.0)
    one = mean_error(randomizer, n_reports=1, variance=0.8).mean_squared_error
    assert mean_error(randomizer, n_reports=50, variance=0.8).mean_squared_error == pytest.approx(
        one / 50
    )
    for n_pub in (1, 10, 100, 900):
        found = mean_error(randomizer, n_reports=1000 - n_pub, n_pub=n_pub, variance=0.8)
        share = (1000 - n_pub) / 1000
        alike = share**2 * found.private_error + (1 - share) ** 2 * found.public_error
        assert found.mean_squared_error <= alike + 1e-15


def test_the_empirical_mean_weighs_every_row_alike():
    rng = np.random.default_rng(0)
    rows = rng.normal(0.3, 0.1, (4000, 3))
    public = rng.normal(0.3, 0.1, (1000, 3))
    reports = PrivUnit(3, 3.0, norm_bound=1.0).privatize(rows, random_state=1)
    result = estimate_mean(reports, x_pub=public, target="empirical")
    truth = np.concatenate([rows, public]).mean(axis=0)
    assert result.releases[0]["private_weight"] == 0.8
    assert np.all(np.abs(result.mean - truth) < 5.0 * result.noise_std)
    assert np.allclose(
        result.mean, 0.8 * reports.vectors().mean(axis=0) + 0.2 * public.mean(axis=0), atol=1e-6
    )
    # Public rows are prepared like those of users.
    reports = some_reports(RANDOMIZERS[0])
    public = np.array([[3.0, 0, 0, 0, 0, 0], [0, 0, 4e9, 0, 0, 0]])
    result = estimate_mean(reports, x_pub=public, target="empirical")
    assert result.mean[0] == pytest.approx(estimate_mean(reports).mean[0] * 500 / 502 + 1 / 502)


def test_the_result_says_what_a_user_paid():
    reports = some_reports(RANDOMIZERS[0])
    result = estimate_mean([reports[:100], reports[100:]], reports_per_user=3)
    assert result.spent == PureDP(6.0)
    assert "one user" in result.relation
    assert result.private is False
    assert np.array_equal(MeanResult.from_json(result.to_json()).mean, result.mean)
    assert np.array_equal(result.mean, estimate_mean(reports).mean)


@pytest.mark.parametrize(
    "call",
    [
        lambda: estimate_mean([]),
        lambda: estimate_mean([1]),
        lambda: estimate_mean(some_reports(RANDOMIZERS[0]), target="both"),
        lambda: estimate_mean(some_reports(RANDOMIZERS[0]), x_pub=np.ones((2, 5))),
        lambda: estimate_mean(some_reports(RANDOMIZERS[0]), reports_per_user=0),
        lambda: estimate_mean([some_reports(RANDOMIZERS[0]), some_reports(RANDOMIZERS[1])]),
        lambda: mean_error(RANDOMIZERS[0], n_reports=0),
        lambda: mean_error(RANDOMIZERS[0], n_reports=5, variance=1.5),
    ],
)
def test_bad_arguments_are_refused(call):
    raises(InputError, None, call)


# ---- Streams of batches: what is sound is taken once, what is not never does harm -----------------------------------
FIVE = PrivUnit(5, 2.0)
ONE = PrivUnit(1, 2.0)


def batches(randomizer, sizes, seed=1):
    rows = np.random.default_rng(seed).normal(size=(sum(sizes), randomizer.dim))
    reports = randomizer.privatize(rows, random_state=seed)
    ends = np.cumsum([0, *sizes])
    return [reports[int(a) : int(b)].to_bytes() for a, b in itertools.pairwise(ends)]


def read(found, data):
    found.read(io.BytesIO(data))


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, as a socket may."""

    def read(self, size=-1):
        return super().read(min(size, 7))


def test_streams_are_summed_up_batch_by_batch():
    data = batches(FIVE, [10, 1, 0, 300])
    found = Collector(FIVE)
    found.read(Trickle(b"".join(data)))
    again = Collector(FIVE)
    for each in reversed(data):
        read(again, each)
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
    ],
)
def test_what_is_wrong_ends_its_own_stream_only(data, reason, taken):
    first, second = batches(FIVE, [10, 20])
    found = Collector(FIVE)
    read(found, data(first, second))
    assert found.total.count == taken
    assert found.refused == {reason: 1}
    read(found, b"".join(batches(FIVE, [10, 20], seed=5)))
    assert found.total.count == taken + 30


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300), place=st.integers(0, 500), bit=st.integers(0, 7))
def test_no_bytes_do_harm(data, place, bit):
    first, second = batches(FIVE, [3, 40])
    changed = bytearray(first + second)
    changed[place % len(changed)] ^= 1 << bit
    for bad in (
        data,
        first + data,
        b"FPPL" + data,
        bytes(changed),
        first + second[: place % len(second)],
    ):
        found = Collector(FIVE)
        read(found, bad)
        assert found.total.count in (0, 3)
        try:
            Collector.from_bytes(bad, randomizer=FIVE)
        except InputError:
            continue
        raise AssertionError("bytes of strangers were taken for sums")


def test_sums_come_back_and_only_whole():
    found = Collector(FIVE)
    read(found, batches(FIVE, [4])[0])
    data = found.to_bytes()
    assert Collector.from_bytes(data, randomizer=FIVE).to_bytes() == data
    for bad in (
        b"",
        data[:-1],
        data[:40],
        data + b"x",
        data[:50] + bytes([data[50] ^ 1]) + data[51:],
    ):
        raises(InputError, None, Collector.from_bytes, bad, randomizer=FIVE)
    raises(
        InputError,
        "another version",
        Collector.from_bytes,
        data[:4] + b"\x07" + data[5:],
        randomizer=FIVE,
    )
    raises(InputError, None, Collector.from_bytes, data, randomizer=PrivUnit(5, 2.5))
    body = data[:8] + (2**62).to_bytes(8, "little") + data[16:-32]
    raises(
        InputError,
        None,
        Collector.from_bytes,
        body + hashlib.sha256(body).digest(),
        randomizer=FIVE,
    )


def test_a_reader_says_where_whole_reports_end():
    first, second = batches(FIVE, [10, 20])
    reader = BatchReader(FIVE)
    assert [len(payload) for payload in reader.batches(io.BytesIO(first + second[:-5]))] == [10]
    assert reader.reports == 10
    assert reader.end == len(first)
    assert reader.reason == module.CUT_SHORT


def kept_sums():
    """Bytes of an Aggregator and of a Collector, with names of users and without."""
    found = Collector(FIVE)
    for size in (4, 9):
        read(found, batches(FIVE, [size], seed=size)[0])
    yield Aggregator, found.total.to_bytes()
    yield Collector, found.to_bytes()
    total = Aggregator(FIVE, reports_per_user=2)
    total.add(batches(FIVE, [4])[0], users=[b"a" * 16] * 4)
    yield Aggregator, total.to_bytes()


def changed(rng, data):
    """Bytes that begin as these do, with some lost, added or changed; every second time their digest is put right again."""
    body = bytearray(data[:-32])
    kind = rng.integers(4)
    place = int(rng.integers(len(body)))
    size = int(rng.integers(1, 40))
    if kind == 0:
        del body[place : place + size]
    elif kind == 1:
        body[place:place] = rng.bytes(size)
    elif kind == 2:
        body += rng.bytes(size)
    else:
        body[place : place + 8] = [0, 1, 2**31, 2**62, 2**63 - 1, 2**64 - 1][
            rng.integers(6)
        ].to_bytes(8, "little")
    return bytes(body) + (hashlib.sha256(body).digest() if rng.integers(2) else data[-32:])


def test_changed_bytes_are_refused_by_name_or_read():
    """Nothing but InputError, and what is read can be added to, asked and stored."""
    rng = np.random.default_rng(1)
    (more,) = batches(FIVE, [3], seed=7)
    for kind, data in kept_sums():
        refused = 0
        for bad in [
            data[:-1],
            data + b"x",
            data[:-33] + data[-32:],
            *(changed(rng, data) for _ in range(1000)),
        ]:
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
    data = kind(FIVE).to_bytes()
    for randomizer in (None, "PrivUnit", 5):
        raises(InputError, "randomizer must be", kind.from_bytes, data, randomizer=randomizer)
    assert kind.from_bytes(memoryview(bytearray(data)), randomizer=FIVE).to_bytes() == data
