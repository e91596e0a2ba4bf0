"""Sums of reports, and means of reports and public rows."""

from __future__ import annotations

import hashlib
import hmac
import math

import numpy as np
import pytest
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
    return randomizer.privatize(np.random.default_rng(1).standard_normal((n, randomizer.dim)), random_state=5)


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
    for bad in (data, b"FPPL" + data, sound + data + b"x", bytes(changed), sound[: place % len(sound)]):
        with pytest.raises(InputError):
            total.add(bad)
        with pytest.raises(InputError):
            Aggregator.from_bytes(bad, randomizer=randomizer)
    assert total.count == 0


def test_impossible_sums_are_refused():
    total = Aggregator(RANDOMIZERS[0])
    total.add(some_reports(RANDOMIZERS[0]))
    body = bytearray(total.to_bytes()[:-32])
    body[72:80] = (2**60).to_bytes(8, "little")
    with pytest.raises(InputError, match="exceed"):
        Aggregator.from_bytes(bytes(body) + hashlib.sha256(bytes(body)).digest(), randomizer=RANDOMIZERS[0])
    for randomizer in RANDOMIZERS[1:]:
        with pytest.raises(InputError):
            Aggregator.from_bytes(total.to_bytes(), randomizer=randomizer)
        with pytest.raises(InputError):
            total.merge(Aggregator(randomizer))
        with pytest.raises(InputError):
            total.add(some_reports(randomizer))


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
    assert (total.count, total.refused) == (len(kept), 8 - len(kept))
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
    with pytest.raises(InputError, match="1 users have more than 1 reports"):
        one.merge(third)
    assert one.to_bytes() == before
    assert one.add(reports[8:], users=names(6, 8)) == 1
    assert one.count == 7
    with pytest.raises(InputError, match="reports_per_user"):
        one.merge(Aggregator(randomizer))


def test_many_users_are_told_apart():
    """Names in several layers, against a plain set."""
    from fastpubpriv.local.users import Users, hashed_names

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
    bad = (None, names(1), ["anna", "bert"], [b"short", b"short"], np.zeros((2, 8), np.uint8), np.zeros((2, 16)), 5)
    for users in bad:
        with pytest.raises(InputError, match="hash"):
            once.add(reports, users=users)
    assert once.count == 0
    assert once.add(reports, users=names(1, 2)) == 0
    with pytest.raises(InputError, match="reports_per_user"):
        Aggregator(randomizer).add(reports, users=names(1, 2))
    for cap in (0, -1, 2.5, 2**40, "1"):
        with pytest.raises(InputError, match="reports_per_user"):
            Aggregator(randomizer, reports_per_user=cap)
    # Names that do not belong to the sums, with a digest that is right.
    body = bytearray(once.to_bytes()[:-32])
    for place, value in ((-4, 9), (-8, 0), (len(body) - 40, 255)):
        wrong = bytearray(body)
        wrong[place] = value
        with pytest.raises(InputError):
            Aggregator.from_bytes(bytes(wrong) + hashlib.sha256(wrong).digest(), randomizer=randomizer)
    newer = bytearray(once.to_bytes())
    newer[4] = 3
    with pytest.raises(InputError, match="another version"):
        Aggregator.from_bytes(bytes(newer), randomizer=randomizer)


def test_one_hostile_report_moves_the_mean_no_more_than_an_honest_one():
    """Among 200 reports: the largest entries that bytes can hold, and the largest that a user could send."""
    for randomizer in RANDOMIZERS:
        sound = some_reports(randomizer, 200)
        if randomizer.form != "direct":
            hostile = Reports(randomizer, np.full((1, randomizer.report_bytes), 255, np.uint8))
        else:
            hostile = Reports(randomizer, np.array([[2**31 - 1] * 5 + [-(2**31)]], dtype=np.int32))
        before, after = Aggregator(randomizer), Aggregator(randomizer)
        before.add(sound)
        after.add(sound[1:])
        after.add(hostile.to_bytes())
        longest = np.linalg.norm(hostile.vectors()) if randomizer.gaussian else randomizer.radius / randomizer.scale
        assert np.linalg.norm(after.mean() - before.mean()) <= 2.0 * longest / 200 * (1.0 + 1e-6)
        if randomizer.gaussian:
            assert longest <= randomizer.radius * (math.sqrt(6.0) + 13.0 + randomizer.cap.threshold) / randomizer.scale


def test_an_empty_sum_has_no_mean():
    total = Aggregator(RANDOMIZERS[0])
    for call in (total.mean, total.variance, lambda: estimate_mean(total), lambda: Aggregator("PrivUnit")):
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize("n_pub", [0, 20, 400])
def test_the_error_is_the_predicted_one(n_pub):
    """200 runs on the sphere: within 4 standard errors of A P / (A + P); the seeds are fixed."""
    dim, n, runs = 8, 500, 200
    randomizer = PrivUnit(dim, 3.0)
    rng = np.random.default_rng(n_pub)
    centre = np.zeros(dim)
    centre[0] = 1.5

    def rows(count):
        found = rng.standard_normal((count, dim)) + centre
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    truth = rows(400_000).mean(axis=0)
    predicted = mean_error(randomizer, n_reports=n, n_pub=n_pub, variance=1.0 - float(truth @ truth))
    errors, covered = [], 0
    for run in range(runs):
        reports = randomizer.privatize(rows(n), random_state=run)
        result = estimate_mean(reports, x_pub=rows(n_pub) if n_pub else None)
        errors.append(np.sum((result.mean - truth) ** 2))
        lower, upper = result.confidence_interval(0.95)
        covered += int(np.count_nonzero((lower <= truth) & (truth <= upper)))
    spread = np.std(errors) / math.sqrt(runs)
    assert abs(np.mean(errors) - predicted.mean_squared_error) < 4.0 * spread
    assert covered / (runs * dim) > 0.93
    assert predicted.mean_squared_error <= min(predicted.private_error, predicted.public_error)


def test_the_best_weight_is_never_worse_than_one_weight_for_all():
    randomizer = PrivUnit(50, 2.0)
    for n_pub in (1, 10, 100, 900):
        found = mean_error(randomizer, n_reports=1000 - n_pub, n_pub=n_pub, variance=0.8)
        share = (1000 - n_pub) / 1000
        assert (
            found.mean_squared_error <= share**2 * found.private_error + (1 - share) ** 2 * found.public_error + 1e-15
        )


def test_the_empirical_mean_weighs_every_row_alike():
    rng = np.random.default_rng(0)
    rows, public = rng.normal(0.3, 0.1, (4000, 3)), rng.normal(0.3, 0.1, (1000, 3))
    reports = PrivUnit(3, 3.0, norm_bound=1.0).privatize(rows, random_state=1)
    result = estimate_mean(reports, x_pub=public, target="empirical")
    truth = np.concatenate([rows, public]).mean(axis=0)
    assert result.releases[0]["private_weight"] == 0.8
    assert np.all(np.abs(result.mean - truth) < 5.0 * result.noise_std)
    assert np.allclose(result.mean, 0.8 * reports.vectors().mean(axis=0) + 0.2 * public.mean(axis=0), atol=1e-6)


def test_the_result_says_what_a_user_paid():
    reports = some_reports(RANDOMIZERS[0])
    result = estimate_mean([reports[:100], reports[100:]], reports_per_user=3)
    assert result.spent == PureDP(6.0)
    assert "one user" in result.relation
    assert not result.private
    assert np.array_equal(MeanResult.from_json(result.to_json()).mean, result.mean)
    assert np.array_equal(result.mean, estimate_mean(reports).mean)


def test_public_rows_are_prepared_like_those_of_users():
    reports = some_reports(RANDOMIZERS[0])
    public = np.array([[3.0, 0, 0, 0, 0, 0], [0, 0, 4e9, 0, 0, 0]])
    result = estimate_mean(reports, x_pub=public, target="empirical")
    assert result.mean[0] == pytest.approx(estimate_mean(reports).mean[0] * 500 / 502 + 1 / 502)


@pytest.mark.parametrize(
    "call",
    [
        lambda: estimate_mean([]), lambda: estimate_mean([1]), lambda: estimate_mean(some_reports(RANDOMIZERS[0]), target="both"),
        lambda: estimate_mean(some_reports(RANDOMIZERS[0]), x_pub=np.ones((2, 5))),
        lambda: estimate_mean(some_reports(RANDOMIZERS[0]), reports_per_user=0),
        lambda: estimate_mean([some_reports(RANDOMIZERS[0]), some_reports(RANDOMIZERS[1])]),
        lambda: mean_error(RANDOMIZERS[0], n_reports=0), lambda: mean_error(RANDOMIZERS[0], n_reports=5, variance=1.5),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(call):
    with pytest.raises(InputError):
        call()
