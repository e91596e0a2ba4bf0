"""Differences and ratios of released numbers: closed forms, coverage where errors are and are not independent, and refusals."""

import dataclasses
import math
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ZCDP, ApproxDP, Comparison, InputError, PureDP
from fastpubpriv.results import by_key, comparisons
from fastpubpriv.results.comparisons import Estimated, difference_of, ratio_of
from fastpubpriv.results.reasons import Reason

INF = math.inf


def single(value, lower, upper):
    return Estimated(*(np.array([float(end)]) for end in (value, lower, upper)))


# ---- Closed forms ----------------------------------------------------------------------------------------------------
def distance(first, second, r, t, side):
    """End of the interval of a - t b, below for side -1: a multiple of b has its ends, exchanged if the multiple is negative."""
    a, low, high = (float(each[0]) for each in first)
    b, least, most = (t * float(each[0]) for each in second)
    least, most = sorted((least, most))
    x = a - low if side < 0 else high - a
    y = most - b if side < 0 else b - least
    return a - b + side * math.sqrt(max(x * x + y * y - 2.0 * r * math.copysign(x * y, t), 0.0))


def bisected(first, second, r, side):
    """The end of the ratio by halving: the nearest t on a side of a / b at which zero leaves the interval of a - t b."""
    near = float(first.value[0] / second.value[0])
    length = 1e-6 * (abs(near) + 1.0)
    while side * distance(first, second, r, near + side * length, side) >= 0.0:
        length *= 1.1
        if length > 1e12:
            return side * INF
    inner, outer = near + side * length / 1.1, near + side * length
    for _ in range(200):
        middle = (inner + outer) / 2.0
        if side * distance(first, second, r, middle, side) >= 0.0:
            inner = middle
        else:
            outer = middle
    return inner


def skew(rng):
    """Two numbers with skew intervals, of which that of the second is positive, and a correlation."""
    b = rng.lognormal(0.0, 1.5)
    second = single(b, b * rng.uniform(0.05, 0.95), b + b * rng.lognormal(-1.0, 1.0))
    a = rng.normal(0.0, 3.0)
    first = single(a, a - rng.lognormal(0.0, 1.5), a + rng.lognormal(0.0, 1.5))
    return first, second, float(rng.choice([0.0, 0.0, -0.3, rng.uniform(-0.9, 0.9)]))


def test_the_closed_form_of_a_ratio_is_what_bisection_finds():
    rng = np.random.default_rng(1)
    for _ in range(300):
        first, second, r = skew(rng)
        answer = ratio_of(first, second, r)
        for end, side in ((answer.lower, -1), (answer.upper, 1)):
            assert end[0] == pytest.approx(bisected(first, second, r, side), rel=1e-8, abs=1e-8)


def test_symmetric_intervals_give_fiellers():
    a, b, x, y = 5.0, 3.0, 1.5, 0.8
    answer = ratio_of(single(a, a - x, a + x), single(b, b - y, b + y), 0.0)
    root = math.sqrt(a**2 * b**2 - (b**2 - y**2) * (a**2 - x**2))
    assert answer.lower[0] == pytest.approx((a * b - root) / (b**2 - y**2))
    assert answer.upper[0] == pytest.approx((a * b + root) / (b**2 - y**2))


def test_signs_units_and_directions():
    first, second = single(-4.0, -6.0, -1.0), single(2.0, 1.5, 3.0)
    plain = ratio_of(first, second, 0.2)
    assert plain.lower[0] < -2.0 < plain.upper[0] < 0.0
    both = ratio_of(first.negative, second.negative, 0.2)
    np.testing.assert_allclose(np.ravel(both), np.ravel(plain))
    turned = ratio_of(first.negative, second, -0.2)
    np.testing.assert_allclose(np.ravel(turned.negative), np.ravel(plain))
    for unit in (1e-150, 1e150):
        far = ratio_of(Estimated(*(unit * each for each in first)), second, 0.2)
        np.testing.assert_allclose(np.ravel(far) / unit, np.ravel(plain))
    swapped = difference_of(second, first, 0.2)
    np.testing.assert_allclose(
        np.ravel(swapped.negative), np.ravel(difference_of(first, second, 0.2))
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((2, 2, 2), (4, 4, 4), (0.5, 0.5, 0.5)),
        ((0, 0, 0), (4, 3, 5), (0.0, 0.0, 0.0)),
        ((2, 1, 3), (4, 4, 4), (0.5, 0.25, 0.75)),
        ((2, 2, 2), (4, 2, 8), (0.5, 0.25, 1.0)),
        ((2, -INF, 3), (4, 4, 4), (0.5, -INF, 0.75)),
        ((2, 1, INF), (4, 3, 5), (0.5, None, INF)),
        ((2, 1, 3), (4, 3, INF), (0.5, 0.0, None)),
        ((-2, -3, -1), (4, 3, INF), (-0.5, None, 0.0)),
        ((2, 1, 3), (1, -1, 3), (math.nan, -INF, INF)),
        ((2, 1, 3), (1, 0, 3), (math.nan, -INF, INF)),
        ((math.nan, -INF, INF), (1, 0.5, 3), (math.nan, -INF, INF)),
        ((2, 1, 3), (math.nan, -INF, INF), (math.nan, -INF, INF)),
    ],
)
def test_corners_of_ratios(first, second, expected):
    answer = np.ravel(ratio_of(single(*first), single(*second), 0.0))
    for value, wanted in zip(answer, expected, strict=True):
        if wanted is not None:
            assert value == pytest.approx(wanted, nan_ok=True)
        assert wanted is not None or math.isfinite(value)


def test_corners_of_differences():
    answer = difference_of(single(2, 1, INF), single(4, 3, 5), 0.5)
    assert (answer.value[0], answer.upper[0]) == (-2.0, INF)
    assert math.isfinite(answer.lower[0])
    unknown = difference_of(single(math.nan, -INF, INF), single(4, 3, 5), 0.0)
    assert np.ravel(unknown)[1:].tolist() == [-INF, INF]
    widest = difference_of(single(2, 1, 4), single(4, 3, 5), None)
    assert np.ravel(widest).tolist() == [-2.0, -4.0, 1.0]


def test_an_unknown_correlation_is_never_narrower_than_a_known_one():
    rng = np.random.default_rng(2)
    for _ in range(300):
        first, second, r = skew(rng)
        for compare in (difference_of, ratio_of):
            known = compare(first, second, r)
            widest = compare(first, second, None)
            slack = 1e-9 * (1.0 + np.abs(np.ravel(known)[1:]))
            assert widest.lower[0] <= known.lower[0] + slack[0] or compare is ratio_of
            assert widest.upper[0] >= known.upper[0] - slack[1] or compare is ratio_of


# ---- Keys of one table ------------------------------------------------------------------------------------------------
TABLE = np.array([40.0, 60.0, 80.0, 20.0])


def counts(budget):
    cells = np.repeat([0.0, 1.0, 2.0, np.nan], TABLE.astype(int))
    return fpp.value_counts(cells, keys=[0, 1], budget=budget, progress=False)


def redrawn(result, rng, truth=TABLE):
    """The result with new noise, shifted as counts of listed keys are."""
    raw = result.noise_std / np.sqrt(1.0 - 1.0 / len(truth))
    noisy = truth + rng.normal(0.0, raw, len(truth))
    return dataclasses.replace(result, counts=noisy + (truth.sum() - noisy.sum()) / len(truth))


def share_of_keys(draws, **given):
    """How often differences and ratios of keys hold the truth."""
    rng = np.random.default_rng(5)
    template = counts(ZCDP(0.05))
    held = {"difference": [], "ratio": []}
    for _ in range(draws):
        result = redrawn(template, rng)
        for name, of in held.items():
            answer = getattr(result, name)(0.0, 1.0, **given)
            truth = TABLE[0] - TABLE[1] if name == "difference" else TABLE[0] / TABLE[1]
            if given.get("of") == "share" and name == "difference":
                truth = truth / TABLE.sum()
            of.append(answer.lower[0] <= truth <= answer.upper[0])
    return {name: np.mean(of) for name, of in held.items()}


@pytest.mark.parametrize("of", ["rows", "share"])
def test_comparisons_of_keys_hold_the_truth(of):
    for share in share_of_keys(1500, of=of).values():
        assert 0.93 <= share <= 0.97


def test_planted_fault_keys_of_one_table_are_not_independent():
    # Errors of keys are opposite, as all add up to the rows: differences vary more than independent ones.
    with mock.patch.object(by_key.CountResult, "_correlation", 0.0):
        assert share_of_keys(1500)["difference"] < 0.93


def test_planted_fault_half_widths_that_are_added_are_too_wide():
    with mock.patch.object(comparisons, "_length", lambda first, second, r: first + second):
        assert share_of_keys(1500)["difference"] > 0.97


def test_a_real_table_has_the_correlation_that_is_used():
    answers = np.array([counts(ZCDP(0.05)).counts for _ in range(400)])
    expected = counts(ZCDP(0.05))._correlation
    measured = np.corrcoef(answers.T)[np.triu_indices(4, 1)].mean()
    assert measured == pytest.approx(expected, abs=0.03)
    assert expected == pytest.approx(-1.0 / 3.0)


@pytest.mark.parametrize("budget", [ZCDP(0.05), PureDP(0.5)], ids=str)
def test_comparisons_of_the_population(budget):
    rng = np.random.default_rng(6)
    shares = np.array([0.3, 0.2, 0.5])
    held = []
    for _ in range(400):
        rows = rng.choice(3, 500, p=shares).astype(float)
        result = fpp.value_counts(rows, keys=[0, 1], budget=budget, progress=False)
        apart = result.difference(0, 1, of="population")
        times = result.ratio(0, 1, of="population")
        held.append(
            [apart.lower[0] <= 50.0 <= apart.upper[0], times.lower[0] <= 1.5 <= times.upper[0]]
        )
    assert np.all((np.mean(held, axis=0) >= 0.93) & (np.mean(held, axis=0) <= 0.99))


def test_shares_of_persons_have_the_noise_of_the_rows_in_use():
    rng = np.random.default_rng(7)
    rows = rng.integers(1, 4, 400)
    person = np.repeat(np.arange(400), rows)
    ward = rng.choice(["a", "b", "c"], len(person), p=[0.6, 0.3, 0.1])
    table = pd.DataFrame({"id": person, "ward": ward})
    given = {"columns": "ward", "keys": ["a", "b"], "person": "id", "rows_per_person": 3}
    exact = fpp.value_counts(table, budget=ZCDP(10**6), **given)
    truth = exact.share[0] - exact.share[1]
    held = []
    for _ in range(300):
        result = fpp.value_counts(table, budget=ZCDP(0.2), progress=False, **given)
        answer = result.difference("a", "b", of="share")
        held.append(answer.lower[0] <= truth <= answer.upper[0])
    assert 0.92 <= np.mean(held) <= 0.985
    assert "at most 3 rows" in answer.summary()


# ---- Groups and columns -----------------------------------------------------------------------------------------------
MEANS = np.array([20.0, 24.0, 30.0])


def grouped(rng, n=6000):
    ward = rng.integers(0, 3, n)
    return np.column_stack([rng.normal(MEANS[ward], 8.0), ward])


def test_means_of_groups():
    rng = np.random.default_rng(8)
    apart = []
    times = []
    for _ in range(60):
        rows = grouped(rng)
        result = fpp.estimate_mean(
            rows[10:], x_pub=rows[:10], by=-1, groups=[0, 1, 2], budget=ZCDP(0.5), progress=False
        )
        for a, b in ((0, 1), (1, 2), (2, 0)):
            difference = result.difference(a, b)
            ratio = result.ratio(a, b)
            truth = MEANS[a] - MEANS[b], MEANS[a] / MEANS[b]
            apart.append(difference.lower[0] <= truth[0] <= difference.upper[0])
            times.append(ratio.lower[0] <= truth[1] <= ratio.upper[0])
    assert 0.93 <= np.mean(apart) <= 1.0
    assert 0.93 <= np.mean(times) <= 1.0
    ends = [end[:2, 0] for end in result.confidence_interval()]
    first, second = ends[1] - ends[0]
    width = (difference := result.difference(0, 1)).upper[0] - difference.lower[0]
    assert width < 0.8 * (first + second)


def totals(rng, budget, shift):
    """Totals of groups with their ends, and the sums of the rows."""
    rows = grouped(rng, 3000)
    rows[:, 0] = rng.gamma(2.0, 3.0, 3000) * (1.0 + rows[:, 1]) + shift
    given = {"by": -1, "groups": [0, 1, 2], "budget": budget, "progress": False}
    result = fpp.estimate_mean(rows[10:], x_pub=rows[:10], **given)
    private = rows[10:]
    truth = [private[private[:, 1] == group, 0].sum() for group in (0, 1, 2)]
    return result, np.array(truth)


@pytest.mark.parametrize(
    ("budget", "shift"), [(ZCDP(0.5), 0.0), (ZCDP(0.5), 300.0), (PureDP(2), -5.0)], ids=str
)
def test_totals_of_groups_hold_the_sums_of_the_rows(budget, shift):
    rng = np.random.default_rng(9)
    held = []
    relative = []
    for _ in range(40):
        result, truth = totals(rng, budget, shift)
        total, lower, upper = (each[:3, 0] for each in result.sum())
        held.append((lower <= truth) & (truth <= upper))
        relative.append((total - truth) / ((upper - lower) / 3.92))
    assert np.mean(held) >= 0.93
    assert 0.3 <= np.sqrt(np.mean(np.square(relative))) <= 1.1


def test_planted_fault_a_total_without_the_noise_of_its_count():
    # Far from zero, the noise of a total is that of the number of rows.
    rng = np.random.default_rng(9)
    held = []
    for _ in range(15):
        result, truth = totals(rng, ZCDP(0.5), 300.0)
        planted = dataclasses.replace(result, count_noise_std=0.0)
        _, lower, upper = (each[:3, 0] for each in planted.sum())
        held.append((lower <= truth) & (truth <= upper))
    assert np.mean(held) < 0.6


def test_a_group_without_rows_has_no_total():
    rows = grouped(np.random.default_rng(3), 2000)
    given = {"by": -1, "groups": [0, 1, 2, 7], "budget": ZCDP(0.5), "progress": False}
    result = fpp.estimate_mean(rows[10:], x_pub=rows[:10], **given)
    total, lower, upper = result.sum()
    assert np.isnan(total[3, 0])
    assert (lower[3, 0], upper[3, 0]) == (-INF, INF)
    compared = result.difference(0, 7)
    assert compared.part_reasons[0] == (Reason.UNRESOLVED, Reason.FEW_ROWS)
    assert np.isnan(compared.estimate[0])


def test_quantiles_of_groups():
    rng = np.random.default_rng(10)
    held = []
    for _ in range(25):
        rows = grouped(rng)
        result = fpp.quantiles(
            rows[10:],
            x_pub=rows[:10],
            by=-1,
            groups=[0, 1, 2],
            q=(0.25, 0.5),
            budget=ZCDP(0.5),
            progress=False,
        )
        answer = result.difference(2, 0)
        held.append((answer.lower <= 10.0) & (answer.upper >= 10.0))
    assert answer.lines == ("0.25", "0.5")
    assert np.mean(held) >= 0.93


def test_columns_of_a_mean_have_the_widest_interval():
    rng = np.random.default_rng(11)
    base = rng.normal(50.0, 9.0, 4000)
    rows = np.column_stack([base, -base + 90.0])  # errors that are opposite
    held = []
    for _ in range(30):
        result = fpp.estimate_mean(rows[5:], x_pub=rows[:5], budget=ZCDP(0.5), progress=False)
        answer = result.difference("x0", "x1")
        held.append(answer.lower[0] <= 10.0 <= answer.upper[0])
        assert answer.correlation is None
    assert answer.lines == ("x0 minus x1",)
    assert np.mean(held) >= 0.93
    lower, upper = result.confidence_interval()
    assert answer.upper[0] - answer.lower[0] == pytest.approx((upper - lower).sum())


# ---- Names, words, forms ----------------------------------------------------------------------------------------------
def test_names_that_are_not_there_are_refused():
    result = counts(ZCDP(1))
    raises(InputError, "no key is called '5'.*pass two of", result.difference, 0, 5)
    raises(InputError, "two different keys", result.ratio, 0, 0.0)
    raises(InputError, "no key is called", result.ratio, 0, [1])
    raises(InputError, "of must be", result.ratio, 0, 1, of="people")
    raises(InputError, "level must be", result.ratio, 0, 1, 95)
    frame = pd.DataFrame({"ward": ["north", "south"] * 50, "night": [0, 1, 1, 0] * 25})
    keys = {"ward": ["north", "south"], "night": [0, 1]}
    crossed = fpp.value_counts(frame, columns=["ward", "night"], keys=keys, budget=ZCDP(1))
    answer = crossed.difference(("north", 0.0), ("south", 0.0))
    assert (answer.first, answer.second) == ("north, 0", "south, 0")
    raises(InputError, "no key is called", crossed.difference, "north", "south")


def test_a_ratio_over_what_may_be_nothing_is_unresolved():
    result = dataclasses.replace(counts(ZCDP(1)), noise_std=50.0)
    answer = result.ratio(0, 1)
    assert (answer.lower[0], answer.upper[0]) == (0.0, INF)
    assert answer.status == "unreliable"
    assert "unresolved" in answer.summary()


def test_texts_that_nobody_listed_have_independent_noise():
    table = pd.DataFrame({"t": ["a"] * 900 + ["b"] * 300})
    result = fpp.value_counts(table, columns="t", budget=ApproxDP(1, 1e-6))
    answer = result.ratio("a", "b", 0.999999)
    assert answer.correlation == 0.0
    assert answer.lower[0] < 3.0 < answer.upper[0]


def test_forms_of_a_comparison(tmp_path):
    result = counts(ZCDP(0.5)).difference(1, 0)
    again = Comparison.from_json(result.to_json())
    assert again.to_dict() == result.to_dict()
    frame = result.to_frame()
    assert list(frame.columns)[:3] == ["difference", "lower", "upper"]
    assert list(frame.index) == ["1 minus 0"]
    assert "the correlation of their errors is -0.33" in result.summary()
    assert "nothing: both numbers had been released" in result.summary()
    result.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 1000
    known = seeded(fpp.value_counts, [0.0] * 40 + [1.0] * 60, keys=[0, 1], budget=ZCDP(1))
    assert "NO: the noise came from a seed" in known.difference(0, 1).summary()
    assert "private=False" in repr(known.difference(0, 1))
