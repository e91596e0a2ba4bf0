"""Several rows of each person: rows that a person does not have are in no count, and every answer is about the rows in use."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.tables import rows_of_persons

import fastpubpriv as fpp
from fastpubpriv import ZCDP, InputError, Ledger
from fastpubpriv.estimators import value_counts as value_counts_module
from fastpubpriv.estimators.person_sizes import persons_with_more
from fastpubpriv.estimators.value_counts import MOST_BYTES
from fastpubpriv.privacy import Neighbors
from fastpubpriv.release.transcript import recording

KS = (1, 3, 5, "auto")
PERSONS = 2_500
# Each person has 1 to 4 rows, alike in law, so that the rows in use have the truth of all rows whatever k is.
RNG = np.random.default_rng(0)
WHO = np.repeat(np.arange(PERSONS), 1 + np.arange(PERSONS) % 4)
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def table(n, rng):
    """Rows of normal(10, 1) in x, and of x + normal(5, 2) in y, whatever the group g."""
    x = rng.normal(10.0, 1.0, n)
    groups = rng.choice(list(SHARES), n, p=list(SHARES.values()))
    return pd.DataFrame({"x": x, "y": x + rng.normal(5.0, 2.0, n), "g": groups})


VISITS = table(len(WHO), RNG).assign(id=WHO)
PUBLIC = table(100, RNG)
LEVEL = 0.999
CODE_OF = value_counts_module.code_of


def rows_in_use(k):
    """The number of rows of all persons, at most k of each."""
    return int(np.minimum(np.bincount(WHO), k).sum())


def holds(ends, truth):
    lower, upper = ends
    return bool(np.all((lower <= truth) & (truth <= upper)))


def asked(k):
    return {"person": "id", "rows_per_person": k, "budget": ZCDP(0.5)}


@pytest.mark.parametrize("k", KS)
def test_a_mean_has_rows_used_and_no_missing_values(k):
    result = fpp.estimate_mean(VISITS, x_pub=PUBLIC, columns=["x", "y"], **asked(k))
    used = rows_in_use(result.rows_per_person)
    assert result.n_priv == PERSONS
    assert holds(result.confidence_interval(LEVEL), [10.0, 15.0])
    if result.rows_per_person == 1:
        assert result.report.missing.tolist() == [0.0, 0.0]
    else:
        assert np.all(np.abs(result.report.rows_used - used) < 0.03 * used)
        assert "missing" not in result.summary()
    # At most k rows of each have no total of the table.
    raises(InputError, "pass keep='sum', whose sum is that of all rows", result.sum)


def test_the_sum_of_sums_of_persons_is_that_of_all_rows():
    """A few persons with many rows far out: k rows of each would give a fifth of the total."""
    rng = np.random.default_rng(3)
    sizes = np.where(np.arange(1_000) < 100, 30, 1)
    ids = np.repeat(np.arange(1_000), sizes)
    far = np.where(ids < 100, 200.0, 100.0)
    visits = pd.DataFrame({"id": ids, "x": far + rng.normal(0.0, 20.0, len(ids))})
    public = pd.DataFrame({"id": np.repeat([-1, -2, -3], [1, 1, 30]), "x": 150.0})
    held = []
    for _ in range(40):
        result = fpp.estimate_mean(
            visits, x_pub=public, columns=["x"], person="id", keep="sum", budget=ZCDP(0.1)
        )
        _, lower, upper = result.sum()
        held.append(lower[0] <= visits["x"].sum() <= upper[0])
    assert np.mean(held) >= 0.93
    assert result.n_priv == 1_000
    at_most = fpp.estimate_mean(
        visits, x_pub=public, columns=["x"], person="id", rows_per_person=3, budget=ZCDP(0.1)
    )
    # planted: the total of the rows in use in place of all rows
    assert at_most.mean[0] * at_most.report.rows_used[0] < 0.5 * visits["x"].sum()


@pytest.mark.parametrize("k", KS)
def test_means_of_groups_hold_the_truth_of_each(k):
    result = fpp.estimate_mean(
        VISITS, x_pub=PUBLIC, columns=["x"], by="g", groups=list(SHARES), **asked(k)
    )
    lower, upper = result.confidence_interval(LEVEL)
    assert result.n_priv == PERSONS
    assert holds((lower[:3], upper[:3]), 10.0)
    assert np.all(np.abs(result.count[3]) < 5 * result.count_noise_std)


@pytest.mark.parametrize("k", KS)
def test_a_description_counts_rows_in_use(k):
    result = fpp.describe(VISITS, x_pub=PUBLIC, columns=["x", "g"], **asked(k))
    used = rows_in_use(result.rows_per_person)
    frame = result.to_frame()
    assert result.n_priv == PERSONS
    assert holds(result.means.confidence_interval(LEVEL), 10.0)
    assert holds(result.confidence_interval(LEVEL), 1.0)
    assert abs(result.top("g").share.sum() - 1.0) < 1e-9
    assert np.all(np.abs(frame["count"] - used) < 0.05 * used)
    if result.rows_per_person == 1:
        assert np.all(frame["missing"] < 0.02 * used)
    else:
        assert "missing" not in frame.columns
    assert "5,000" not in result.summary()


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_structures_that_take_padding_for_the_public_mean_are_not_chosen():
    given = {**asked(4), "x_pub": PUBLIC, "columns": ["x", "y"], "budget": ZCDP(0.001)}
    one_each = fpp.estimate_gaussian(VISITS, **{**given, "rows_per_person": 1})
    assert one_each.structure == "mean"  # else nothing is tested
    several = fpp.estimate_gaussian(VISITS, **given)
    assert several.structure in ("public", "full")
    assert holds(several.confidence_interval(LEVEL), [10.0, 15.0])


@pytest.mark.parametrize("k", [1, 3, 5])
def test_bins_of_a_histogram_are_counts_and_shares_of_rows_in_use(k):
    grids = [fpp.BinGrid(width=1000.0, offset=10.0, levels=2), fpp.DyadicBins()]
    options = {"person": "id", "rows_per_person": k, "budget": fpp.ApproxDP(4, 1e-6)}
    result = fpp.stable_histogram(VISITS, columns=["x", "y"], bins=grids, **options)
    used = rows_in_use(k)
    assert np.all(np.abs(result[0].counts - used / 2) < 4 * used**0.5)
    for histogram in result:
        assert abs(histogram.frequency.sum() - 1.0) < 0.01
        assert np.allclose(histogram.frequency, histogram.counts / used, atol=0.01)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_texts_that_nobody_listed_have_shares_of_rows_in_use(k):
    options = {"person": "id", "rows_per_person": k, "budget": fpp.ApproxDP(4, 1e-6)}
    result = fpp.value_counts(VISITS, columns="g", **options)
    assert result.keys == (("a",), ("b",), ("c",))
    assert np.allclose(result.share, list(SHARES.values()), atol=0.03)
    assert abs(result.share.sum() - 1.0) < 0.01


def test_the_longest_texts_leave_no_room_for_rows_that_are_not_there():
    ledger = Ledger(fpp.ApproxDP(1, 1e-6), relation=Neighbors.REPLACE_PERSON)
    options = {
        "person": "id",
        "rows_per_person": 2,
        "budget": fpp.ApproxDP(1, 1e-6),
        "ledger": ledger,
    }
    raises(
        InputError,
        "smaller max_bytes",
        fpp.value_counts,
        VISITS,
        columns="g",
        max_bytes=MOST_BYTES,
        **options,
    )
    assert ledger.spent.is_zero


TABLES = {
    "one column": (fpp.value_counts, {"columns": "g", "keys": list(SHARES)}),
    "two columns": (
        fpp.value_counts,
        {"columns": ["g", "h"], "keys": {"g": list(SHARES), "h": [0, 1]}},
    ),
    "groups": (
        fpp.value_counts,
        {"columns": "g", "keys": list(SHARES), "by": "h", "groups": [0, 1]},
    ),
}


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("name", TABLES)
def test_shares_of_keys_add_up_and_no_row_is_missing(name, k):
    function, given = TABLES[name]
    rows = VISITS.assign(h=RNG.integers(0, 2, len(VISITS)))
    result = function(rows, **given, **asked(k))
    # Rows that a person does not have are absent: no key counts them, and no share divides by them.
    assert abs(result.share.sum() - 1.0) < 1e-9
    missing = [place for place, key in enumerate(result.keys) if "(missing)" in key]
    assert abs(result.counts[missing].sum()) < 5.0 * result.noise_std * len(missing) ** 0.5
    assert abs(result.published.sum() - rows_in_use(k)) <= 5.0 * result.noise_std
    assert result.summary().split("Answers about")[1].split("\n")[0].strip() == result.about


def test_planted_fault_padding_that_counts_as_missing_is_seen(monkeypatch):
    monkeypatch.setattr(value_counts_module, "code_of", padded_as_missing)
    given = {"columns": "g", "keys": list(SHARES), **asked(5)}
    result = fpp.value_counts(VISITS, **given)
    assert result.counts[-1] > 5.0 * result.noise_std


def padded_as_missing(keys, *, joint=True, present=False):
    """Codes that are -1, that of the last cell, for no row: padding is in the cell of missing values."""
    codes = CODE_OF(keys, joint=joint, present=False)
    return lambda chunk: codes(chunk[:, :-1] if present else chunk)


def test_quantiles_say_how_many_rows_they_are_of():
    result = fpp.quantiles(VISITS, x_pub=PUBLIC, columns=["x"], q=0.5, **asked(3))
    fact = dict(result._contents(0.95)[1])["Rows used"]
    used = float(fact.split()[1].rstrip(",").replace(",", ""))
    assert abs(used - rows_in_use(3)) < 0.03 * used


def test_real_gaps_are_still_missing():
    gaps = VISITS.assign(g=VISITS["g"].where(np.arange(len(VISITS)) % 10 > 0))
    result = fpp.value_counts(gaps, columns="g", keys=list(SHARES), **asked(5))
    assert abs(result.share[-1] - 0.1) < 0.01


BOUNDED = {"bounds": (-100.0, 100.0), "columns": ["x", "y"]}
REFUSED = {
    "weighted_mean, radius": (fpp.weighted_mean, {"norm_bound": 20.0, "columns": ["x"]}),
    "weighted_mean, auto": (
        fpp.weighted_mean,
        {"norm_bound": "auto", "x_pub": PUBLIC[["x"]], "columns": ["x"]},
    ),
    "weighted_mean": (fpp.weighted_mean, BOUNDED),
    "coinpress_mean": (fpp.coinpress_mean, {**BOUNDED, "variance": 1.0}),
    "coinpress_covariance": (fpp.coinpress_covariance, {"scale": 9.0, "columns": ["x"]}),
    "private_pca": (
        fpp.private_pca,
        {"x_pub": PUBLIC[["x", "y"]], "n_components": 1, "columns": ["x", "y"]},
    ),
    "estimate_mean": (fpp.estimate_mean, {"x_pub": PUBLIC, "columns": ["x"], "variance": 1.0}),
    "estimate_gaussian": (
        fpp.estimate_gaussian,
        {"x_pub": PUBLIC, "columns": ["x"], "method": "pairs"},
    ),
    "linear_regression": (
        fpp.linear_regression,
        {"x_pub": PUBLIC[["x", "y"]], "columns": ["x"], "label": "y", "tails": "light"},
    ),
    "learn_separated_mixture": (
        fpp.learn_separated_mixture,
        {"x_pub": PUBLIC[["x", "y"]], "columns": ["x", "y"], "n_components": 1},
    ),
}


@pytest.mark.parametrize("k", [2, "auto"])
@pytest.mark.parametrize("name", REFUSED)
def test_methods_that_take_padding_for_rows_at_a_center_refuse_it_before_the_debit(name, k):
    call, options = REFUSED[name]
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    raises(InputError, "keep='mean'", call, VISITS, ledger=ledger, **options, **asked(k))
    assert ledger.spent.is_zero


def test_what_an_answer_is_about_is_its_first_fact():
    lines = {}
    for k in (1, 3):
        result = fpp.value_counts(VISITS, columns="g", keys=["a"], **asked(k))
        facts = [line for line in result.summary().splitlines() if "  " in line]
        lines[k] = next(line for line in facts if line.startswith("Answers about"))
        assert "Rows   " not in result.summary()
        assert "of the counts of at most" in result.summary()
    assert "at most 1 row of each of 2,500 persons; persons with more than 1 row: " in lines[1]
    assert "at most 3 rows of each of 2,500 persons; persons with more than 3 rows: " in lines[3]
    means = fpp.estimate_mean(
        rows_of_persons(VISITS[["id", "x"]], person="id", keep="mean"), x_pub=[10.0], budget=ZCDP(1)
    )
    assert means.about == "the mean of the rows of each of 2,500 persons"
    plain = fpp.estimate_mean(VISITS[["x"]], x_pub=[10.0], budget=ZCDP(1))
    assert plain.about == f"all {len(VISITS):,} rows"


def heavy_visits(heavy, persons=1_000):
    """One row of each person but of `heavy` ones, who have thirty."""
    rows = np.where(np.arange(persons) < heavy, 30, 1)
    return pd.DataFrame({"id": np.repeat(np.arange(persons), rows), "x": 1.0})


def test_auto_says_when_persons_with_more_rows_are_many():
    found = [
        fpp.value_counts(
            heavy_visits(100), columns="x", keys=[1], **{**asked("auto"), "budget": ZCDP(0.1)}
        )
        for _ in range(20)
    ]
    few = [each for each in found if each.rows_per_person < 30]
    assert len(few) > 10  # else nothing is tested
    assert all("rows_left_out" in each.reasons for each in few)
    assert all("; persons with more than " in each.about for each in few)
    held = [
        each.releases[0]["persons_with_more_lower"]
        < 0.1
        < each.releases[0]["persons_with_more_upper"]
        for each in few
    ]
    assert np.mean(held) > 0.8


def test_auto_says_nothing_where_no_person_has_more_rows():
    found = [
        fpp.value_counts(
            heavy_visits(0), columns="x", keys=[1], **{**asked("auto"), "budget": ZCDP(0.1)}
        )
        for _ in range(20)
    ]
    assert not any("rows_left_out" in each.reasons for each in found)


def test_rows_chosen_before_the_call_have_the_reason_too():
    chosen = fpp.PrivateTable(heavy_visits(100), person="id", rows_per_person="auto", total=ZCDP(1))
    asked_of_all = {"columns": "x", "keys": [1], "budget": ZCDP(0.1)}
    first = chosen.value_counts(**asked_of_all)
    result = chosen.value_counts(**asked_of_all)
    assert first.rows_per_person == result.rows_per_person < 30  # else nothing is tested
    assert "rows_left_out" in result.reasons
    assert result.about == first.about


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_share_of_persons_with_more_rows_lies_in_its_interval(law):
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 0.0, 100.0, 20.0, 0.0, 0.0])
    held = []
    for _ in range(2_000):
        noise = (
            rng.normal(0.0, 12.0, 6) if law == "gaussian" else rng.laplace(0.0, 12.0 / 2**0.5, 6)
        )
        released = truth + noise
        seen = np.where(released < 24.0, 0.0, released)
        told = persons_with_more(released, seen, 12.0, law, 1_000)
        held.append(told["persons_with_more_lower"] <= 0.12 <= told["persons_with_more_upper"])
    assert np.mean(held) > 0.94


def test_a_person_whose_rows_become_fewer_costs_no_more_than_the_budget():
    many = pd.DataFrame({"id": np.repeat(np.arange(40), 3), "x": 1.0})
    fewer = pd.concat([many[many["id"] != 7], pd.DataFrame({"id": [7], "x": [0.0]})])
    calls = []
    for rows in (many, fewer):
        with recording(script=calls or None) as recorded:
            fpp.value_counts(
                rows, columns="x", keys=[0, 1], person="id", rows_per_person=3, budget=ZCDP(1)
            )
        calls = recorded.calls if not calls else [*calls, *recorded.calls]
    before, _, after, _ = calls  # without the counts of persons with more rows
    moved = (before.query - after.query).astype(object)
    unit = before.event.price(ZCDP) / before.event.squared_sensitivity
    # Three rows leave the cell of 1; one enters that of 0, and two that of rows that are not there: 9 + 1 + 4 of 18.
    assert int((moved != 0).sum()) == 3
    assert Fraction(7, 10) < unit * int((moved**2).sum()) < Fraction(8, 10)


HIDDEN = {"person": "id", "rows_per_person": 1_024, "budget": fpp.PureDP(1), "random_state": 0}


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning"
)
def test_quantiles_have_no_number_where_noise_hides_the_rows_in_use():
    for seed in range(10):
        result = fpp.quantiles(
            VISITS, x_pub=PUBLIC, columns=["x"], **{**HIDDEN, "random_state": seed}
        )
        lower, upper = result.confidence_interval()
        truth = np.quantile(VISITS["x"], result.q)

        assert np.all((lower[0] <= truth) & (truth <= upper[0]))


@pytest.mark.filterwarnings(
    "ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning"
)
def test_counts_have_no_shares_where_noise_hides_the_rows_in_use():
    for seed in range(10):
        result = fpp.describe(
            VISITS[["g", "id"]], x_pub=PUBLIC[["g"]], **{**HIDDEN, "random_state": seed}
        )
        (texts,) = result.texts

        assert np.isnan(texts.share).all() or abs(texts.share.sum() - 1.0) < 1e-9
