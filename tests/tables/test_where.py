"""Verbs on rows inside a condition: the truth is in the interval, persons are those of the table, neighbors replay."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import fastpubpriv as fpp
from fastpubpriv import ZCDP, FastPubPrivError, InputError, Ledger, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.privacy import Neighbors
from fastpubpriv.sources import derived, person_table, private_rows
from fastpubpriv.sources.derived import DerivedRows
from fastpubpriv.sources.person_table import table_of_persons

BUDGET = ZCDP(rho=0.5)
ROWS = 4_000
SLOPE = 2.0
KEYS = ["p", "q", "r"]


def table(seed, rows=ROWS):
    """Rows whose columns depend on `a`, which is uniform and which conditions read."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(size=rows)
    z = rng.normal(size=rows) + a
    return pd.DataFrame(
        {
            "a": a,
            "x": rng.gamma(2.0, 1.0, rows) * (1.0 + a),
            "z": z,
            "y": 1.0 + SLOPE * z + rng.normal(size=rows),
            "label": (rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(0.5 - z))).astype(float),
            "key": rng.choice(KEYS, rows, p=[0.5, 0.3, 0.2]),
        }
    )


PUBLIC = table(10**6, 400)
POPULATION = table(10**7, 400_000)


# ---- Truth in the interval -------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A call on rows inside, the ends of its intervals, and the truth of the population, or of the rows."""

    call: Callable[..., Any]
    ends: Callable[[Any], Any]
    truth: Callable[[Any, Any], Any]
    draws: int = 20  # for each share of the rows


def options(**more):
    return {"budget": BUDGET, **more}


VERBS = {
    "mean": Verb(
        lambda rows, public: fpp.estimate_mean(rows, x_pub=public, **options(columns=["x", "z"])),
        lambda result: result.confidence_interval(),
        lambda rows, population: population[["x", "z"]].mean(),
        67,
    ),
    "sum": Verb(
        lambda rows, public: fpp.estimate_mean(rows, x_pub=public, **options(columns=["x"])),
        lambda result: result.sum()[1:],
        lambda rows, population: rows[["x"]].sum(),
        20,
    ),
    "quantiles": Verb(
        lambda rows, public: fpp.quantiles(rows, x_pub=public, **options(columns=["x"])),
        lambda result: [end[0] for end in result.confidence_interval()],
        lambda rows, population: population.x.quantile([0.25, 0.5, 0.75]),
    ),
    "counts": Verb(
        lambda rows, public: fpp.value_counts(rows, **options(columns="key", keys=KEYS)),
        lambda result: [end[:3] for end in result.confidence_interval()],
        lambda rows, population: rows.key.value_counts()[KEYS],
        67,
    ),
    "shares": Verb(
        lambda rows, public: fpp.value_counts(rows, **options(columns="key", keys=KEYS)),
        lambda result: [end[:3] for end in result.share_interval()],
        lambda rows, population: rows.key.value_counts(normalize=True)[KEYS],
        20,
    ),
    "describe": Verb(
        lambda rows, public: fpp.describe(rows, x_pub=public, **options(columns=["x", "z"])),
        lambda result: result.confidence_interval(),
        lambda rows, population: population[["x", "z"]].std(),
        10,
    ),
    "linear": Verb(
        lambda rows, public: fpp.linear_regression(
            rows, x_pub=public, **options(columns=["z"], label="y")
        ),
        lambda result: result.confidence_interval(),
        lambda rows, population: [SLOPE],
    ),
    "logistic": Verb(
        lambda rows, public: fpp.logistic_regression(
            rows, x_pub=public, **options(columns=["z"], label="label")
        ),
        lambda result: result.confidence_interval(),
        lambda rows, population: [1.0],
        20,
    ),
    "gaussian": Verb(
        lambda rows, public: fpp.estimate_gaussian(
            rows, x_pub=public, **options(columns=["z", "y"])
        ),
        lambda result: result.confidence_interval(),
        lambda rows, population: population[["z", "y"]].mean(),
    ),
    "groups": Verb(
        lambda rows, public: fpp.estimate_mean(
            rows, x_pub=public, **options(columns=["x"], by="key", groups=KEYS)
        ),
        lambda result: [end[:3, 0] for end in result.confidence_interval()],
        lambda rows, population: population.groupby("key").x.mean()[KEYS],
    ),
}
# Of intervals of 95 % in 200 draws, and in fewer.
LEAST_OF_200 = 0.93
LEAST_SHARE = 0.9


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("name", VERBS)
def test_the_truth_of_the_rows_inside_is_in_the_interval(name):
    verb = VERBS[name]
    held = []
    for share in (0.1, 0.33, 0.8):
        where = (f"a < {share}",)
        public = DerivedRows(PUBLIC, where=where)
        population = POPULATION[POPULATION.a < share]
        for seed in range(verb.draws):
            rows = table(seed)
            result = verb.call(DerivedRows(rows, where=where), public)
            assert result.n_priv == ROWS
            assert "rows where a < " in result.about
            lower, upper = verb.ends(result)
            truth = np.asarray(verb.truth(rows[rows.a < share], population))
            held.append((lower <= truth) & (truth <= upper))
    assert np.mean(held) >= (LEAST_OF_200 if verb.draws == 67 else LEAST_SHARE)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_planted_fault_rows_outside_that_are_present_miss_the_truth(monkeypatch):
    monkeypatch.setattr(derived.Derivation, "inside", lambda self, chunk: np.ones(len(chunk), bool))
    rows = table(0)
    counts = VERBS["counts"]
    result = counts.call(DerivedRows(rows, where=("a < 0.1",)), PUBLIC)
    lower, _ = result.confidence_interval()
    # Rows outside are then in the cell of missing keys, or of none, instead of in no cell.
    assert lower[KEYS.index("r") + 2] > 3_000


def test_no_row_inside():
    rows = DerivedRows(table(0), where=("a > 2",))
    public = DerivedRows(PUBLIC, where=("a > 0.5",))
    with pytest.warns(fpp.AccuracyWarning):
        result = fpp.estimate_mean(rows, x_pub=public, columns=["x"], budget=BUDGET)
    assert result.status == "unreliable"
    lower, upper = result.confidence_interval()
    assert lower[0] == -np.inf
    assert upper[0] == np.inf
    counts = fpp.value_counts(rows, columns="key", keys=KEYS, budget=BUDGET)
    assert np.isnan(counts.share).all() or counts.rows_used > 0.0


def test_public_rows_outside_are_dropped_and_one_must_be_inside():
    with pytest.raises(InputError, match="no public row is inside the rows where a > 2"):
        fpp.estimate_mean(
            DerivedRows(table(0), where=("a > 0.5",)),
            x_pub=DerivedRows(PUBLIC, where=("a > 2",)),
            columns=["x"],
            budget=BUDGET,
        )


def test_new_columns_of_bins_need_no_list_of_groups():
    rows = table(0)
    made = {"band": "bin(a, 0, 0.25, 0.5, 1)", "third": "floor(3 * a)", "twice": "2 * x"}
    private = DerivedRows(rows, with_columns=made)
    public = DerivedRows(PUBLIC, with_columns=made)
    counts = fpp.value_counts(private, columns="band", budget=BUDGET)
    for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0)):
        truth = ((rows.a >= low) & (rows.a < high)).sum()
        assert abs(counts[f"[{low:g}, {high:g})"] - truth) < 12
    means = fpp.estimate_mean(private, x_pub=public, columns=["twice"], by="band", budget=BUDGET)
    assert means.groups == ("[0, 0.25)", "[0.25, 0.5)", "[0.5, 1)", "(other)")
    thirds = fpp.quantiles(
        private, x_pub=public, columns=["twice"], by="third", groups=[0, 1, 2], q=0.5, budget=BUDGET
    )
    lower, upper = thirds.confidence_interval(0.9999)
    truth = rows[rows.a < 1 / 3].x.median() * 2
    assert lower[0, 0, 0] < truth < upper[0, 0, 0]


METHODS_THAT_REFUSE = {
    "weighted_mean": {"norm_bound": 5.0},
    "coinpress_mean": {"center": 0.0, "radius": 9.0},
    "private_pca": {"center": 0.0, "radius": 9.0, "n_components": 1},
}


@pytest.mark.parametrize("name", METHODS_THAT_REFUSE)
def test_methods_that_cannot_tell_absent_rows_say_so_before_the_debit(name):
    rows = DerivedRows(table(0), where=("a < 0.5",))
    public = {} if name != "weighted_mean" else {"x_pub": DerivedRows(PUBLIC, where=("a < 0.5",))}
    with Ledger(ZCDP(rho=1)) as ledger:
        with pytest.raises(
            InputError, match="those outside where= would count as rows at a center"
        ):
            getattr(fpp, name)(
                rows,
                columns=["x", "z"],
                budget=BUDGET,
                ledger=ledger,
                **public,
                **METHODS_THAT_REFUSE[name],
            )
        assert ledger.spent.is_zero


def test_sampled_gradients_are_refused_where_their_steps_would_be_too_short():
    rows = DerivedRows(table(0), where=("a < 0.33",))
    public = DerivedRows(PUBLIC, where=("a < 0.33",))
    options = {"loss": "squared", "columns": ["z"], "label": "y"}
    budget = fpp.ApproxDP(epsilon=1, delta=1e-6)
    with pytest.raises(InputError, match="method='dp_sgd' takes all rows"):
        fpp.train(rows, x_pub=public, method="dp_sgd", budget=budget, **options)
    result = fpp.train(rows, x_pub=public, method="pda_mirror_descent", budget=budget, **options)
    assert abs(result.coefficients.ravel()[0] - SLOPE) < 0.3


# ---- Persons ---------------------------------------------------------------------------------------------------------

PERSONS = 1_200
SOME = ("a < 0.4",)


def visits(seed, persons=PERSONS):
    """Rows of persons with 1 to 9 rows each; x is about the person's own level."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 10, persons)
    person = np.repeat(np.arange(persons), rows)
    level = rng.normal(10.0, 2.0, persons)
    size = len(person)
    a = rng.uniform(size=size)
    x = level[person] + rng.normal(size=size) + 3.0 * a
    return pd.DataFrame({"id": person, "a": a, "x": x, "key": rng.choice(KEYS, size)})


PUBLIC_VISITS = visits(99, 60)


@pytest.mark.parametrize(
    "keep", [{"rows_per_person": 1}, {"rows_per_person": 3}, {"keep": "mean"}, {"keep": "sum"}]
)
def test_persons_are_those_of_the_table_whatever_is_inside(keep):
    rows = visits(0)
    rule = keep.get("keep", "row")
    k = keep.get("rows_per_person", 1)
    whole = table_of_persons(rows, "id", rule, k)
    inside = table_of_persons(DerivedRows(rows, where=SOME, person="id"), "id", rule, k)
    assert inside.n == whole.n == PERSONS
    found = inside.rows(["x"])
    values = np.concatenate(list(found.chunks()))[:, 0]
    presence = found.presence
    some = rows[rows.a < 0.4]
    # The order of persons is that of the table.
    order = np.concatenate(
        list(table_of_persons(rows.assign(who=rows.id), "id", "row", 1).rows(["who"]).chunks())
    )
    groups = some.groupby("id").x
    truth = {"sum": groups.sum(), "mean": groups.mean()}.get(rule)
    if rule == "row":
        numbers = groups.count().reindex(order[:, 0], fill_value=0).to_numpy()
        there = ~np.isnan(values.reshape(PERSONS, k))
        np.testing.assert_array_equal(there.sum(axis=1), np.minimum(numbers, k))
        assert np.isin(values[~np.isnan(values)], some.x).all()
    else:
        wanted = truth.reindex(order[:, 0]).to_numpy()
        np.testing.assert_allclose(values, np.nan_to_num(wanted) if rule == "sum" else wanted)
    if rule == "sum":
        assert presence is None
    else:
        np.testing.assert_array_equal(
            np.concatenate(list(presence.chunks()))[:, 0] == 1.0, ~np.isnan(values)
        )


def test_planted_fault_persons_of_the_rows_inside_are_other_persons(monkeypatch):
    rows = visits(0).assign(id=lambda t: t.id.where(t.a < 2))
    few = ("a < 0.05",)
    assert table_of_persons(DerivedRows(rows, where=few), "id", "row", 1).n == PERSONS
    monkeypatch.setattr(person_table, "source_of", lambda data: data)
    assert table_of_persons(DerivedRows(rows, where=few), "id", "mean", 1).n < PERSONS


def test_no_new_column_says_whose_row_it_is():
    rows = visits(0)
    with pytest.raises(InputError, match="says whose row it is"):
        DerivedRows(rows, with_columns={"id": "key == 'p'"}, person="id")
    with pytest.raises(InputError, match="has a column 'id' already"):
        private_rows(DerivedRows(rows, with_columns={"id": "a > 1"}), columns=["x"])
    made = DerivedRows(rows, with_columns={"who": "floor(10 * a)"})
    with pytest.raises(InputError, match="no column 'who'"):
        fpp.value_counts(
            made, columns="key", keys=KEYS, person="who", rows_per_person=1, budget=BUDGET
        )


def test_the_rows_of_a_person_do_not_depend_on_others():
    rows = visits(0)
    other = rows.copy()
    changed = other.id == 7
    other.loc[changed, ["a", "x"]] = [[0.1, 55.0]] * int(changed.sum())
    found = [
        np.concatenate(
            list(
                table_of_persons(DerivedRows(each, where=SOME), "id", "row", 2).rows(["x"]).chunks()
            )
        )
        for each in (rows, other)
    ]
    differ = np.flatnonzero(
        (found[0] != found[1]).reshape(PERSONS, 2).all(axis=1)
        & ~np.isnan(found[1].reshape(PERSONS, 2)).all(axis=1)
    )
    assert len(differ) == 1


PERSON_CALLS = {
    "mean of means": (
        lambda rows, public: fpp.estimate_mean(
            rows, x_pub=public, columns=["x"], person="id", keep="mean", budget=BUDGET
        ).confidence_interval(),
        lambda some: some.groupby("id").x.mean().mean(),
    ),
    "total": (
        lambda rows, public: fpp.estimate_mean(
            rows, x_pub=public, columns=["x"], person="id", keep="sum", budget=BUDGET
        ).sum()[1:],
        lambda some: some.x.sum(),
    ),
    "mean of one row": (
        lambda rows, public: fpp.estimate_mean(
            rows, x_pub=public, columns=["x"], person="id", rows_per_person=1, budget=BUDGET
        ).confidence_interval(),
        lambda some: some.groupby("id").x.mean().mean(),
    ),
    "median of three rows": (
        lambda rows, public: [
            end[0]
            for end in fpp.quantiles(
                rows,
                x_pub=public,
                columns=["x"],
                q=0.5,
                person="id",
                rows_per_person=3,
                budget=BUDGET,
            ).confidence_interval()
        ],
        lambda some: some.groupby("id").x.sample(3, replace=True, random_state=0).median(),
    ),
    "persons": (
        lambda rows, public: [
            end[:1]
            for end in fpp.count_persons(rows, person="id", budget=BUDGET).confidence_interval()
        ],
        lambda some: some.id.nunique(),
    ),
    "persons by key": (
        lambda rows, public: [
            end[:3]
            for end in fpp.count_persons(
                rows, person="id", by="key", groups=KEYS, budget=BUDGET
            ).confidence_interval()
        ],
        lambda some: some.groupby("key").id.nunique()[KEYS],
    ),
    "counts": (
        lambda rows, public: [
            end[:3]
            for end in fpp.value_counts(
                rows, columns="key", keys=KEYS, person="id", rows_per_person=9, budget=BUDGET
            ).confidence_interval()
        ],
        lambda some: some.key.value_counts()[KEYS],
    ),
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("name", PERSON_CALLS)
def test_the_truth_of_persons_is_in_the_interval(name):
    call, truth_of = PERSON_CALLS[name]
    held = []
    for seed in range(25):
        rows = visits(seed)
        lower, upper = call(
            DerivedRows(rows, where=SOME, person="id"), DerivedRows(PUBLIC_VISITS, where=SOME)
        )
        truth = np.asarray(truth_of(rows[rows.a < 0.4]))
        held.append(np.mean((lower <= truth) & (truth <= upper)))
    assert np.mean(held) >= LEAST_SHARE


# ---- Neighbors -------------------------------------------------------------------------------------------------------


def run_of(call):
    return lambda rows: call(DerivedRows(rows, where=SOME, with_columns={"twice": "2 * x"}))


SMALL_PUBLIC = DerivedRows(PUBLIC_VISITS, where=SOME, with_columns={"twice": "2 * x"})
REPLAYED = {
    "mean": lambda rows: fpp.estimate_mean(
        rows, x_pub=SMALL_PUBLIC, columns=["twice"], budget=BUDGET
    ),
    "quantiles": lambda rows: fpp.quantiles(
        rows, x_pub=SMALL_PUBLIC, columns=["twice"], budget=BUDGET
    ),
    "counts": lambda rows: fpp.value_counts(rows, columns="key", keys=KEYS, budget=BUDGET),
    "persons": lambda rows: fpp.count_persons(
        rows, person="id", by="key", groups=KEYS, budget=BUDGET
    ),
    "mean of persons": lambda rows: fpp.estimate_mean(
        rows, x_pub=SMALL_PUBLIC, columns=["twice"], person="id", keep="mean", budget=BUDGET
    ),
    "a row of persons": lambda rows: fpp.value_counts(
        rows, columns="key", keys=KEYS, person="id", rows_per_person=1, budget=BUDGET
    ),
}
OTHERS = {
    "from inside to outside": {"a": 0.9},
    "from outside to inside": {"a": 0.0},
    "missing": {"a": np.nan, "x": np.nan},
    "far": {"a": 0.1, "x": 1e300, "key": "none"},
    "infinite": {"a": -np.inf, "x": np.inf},
}


def neighbor(rows, place, change):
    other = rows.copy()
    for name, value in change.items():
        other.loc[place, name] = value
    return other


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", REPLAYED)
def test_neighbors_replay_within_the_charged_cost(name, kind):
    rows = visits(3, 150)
    by_person = name in ("persons", "mean of persons", "a row of persons")
    place = rows.id == 5 if by_person else rows.index[:1]
    other = neighbor(rows, place, OTHERS[kind])
    if kind == "from outside to inside":
        rows = neighbor(rows, place, {"a": 0.9})
    report = record_replay(run_of(REPLAYED[name]), rows, other, budget=BUDGET)
    assert report.declared_cost <= report.allowance


def test_planted_fault_a_condition_on_the_mean_of_all_rows_is_caught(monkeypatch):
    def mixed(self, chunk):
        a = self.cells(chunk)["a"]
        return a < np.nanmean(a)

    monkeypatch.setattr(derived.Derivation, "inside", mixed)
    rows = visits(3, 150)
    other = neighbor(rows, rows.index[:1], {"a": 1e9})
    with pytest.raises(ReplayError):
        record_replay(run_of(REPLAYED["counts"]), rows, other, budget=BUDGET)


def test_planted_fault_persons_of_the_rows_inside_are_caught_by_replay(monkeypatch):
    monkeypatch.setattr(person_table, "source_of", lambda data: data)
    rows = visits(3, 150)
    inside = rows.copy()
    inside.loc[inside.id == 5, "a"] = 0.1
    outside = rows.copy()
    outside.loc[outside.id == 5, "a"] = 0.9

    def run(table):
        made = DerivedRows(table.drop(columns="key"), where=SOME, with_columns={"twice": "2 * x"})
        return fpp.estimate_mean(
            made, x_pub=SMALL_PUBLIC, columns=["twice"], person="id", keep="mean", budget=BUDGET
        )

    with pytest.raises(ReplayError):
        record_replay(run, inside, outside, budget=BUDGET)


# ---- Beside every other argument -------------------------------------------------------------------------------------

STANDS: dict[str, dict[str, Any]] = {
    "rows": {},
    "one row": {"person": "id", "rows_per_person": 1},
    "two rows": {"person": "id", "rows_per_person": 2},
    "auto": {"person": "id", "rows_per_person": "auto"},
    "the mean": {"person": "id", "keep": "mean"},
    "the sum": {"person": "id", "keep": "sum"},
}


def pairs_table(seed, persons):
    """Two rows of each person, one of them inside: x is normal(10, 1) inside and 20 more outside, y = 2 x + normal(0, 1)."""
    rng = np.random.default_rng(seed)
    inside = np.tile([True, False], persons)
    x = rng.normal(10.0, 1.0, 2 * persons)
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(persons), 2),
            "a": np.where(inside, 0.1, 0.9),
            "x": np.where(inside, x, x + 20.0),
            "y": np.where(inside, 2.0 * x, 0.0) + rng.normal(size=2 * persons),
            "half": np.repeat(np.arange(persons) % 2, 2).astype(float),
            "key": np.where(inside, "in", "out"),
            "w": rng.uniform(0.5, 1.0, 2 * persons),
        }
    )


PAIR_ROWS = pairs_table(0, 3_000)
PAIR_PUBLIC = pairs_table(1, 100)
LEVEL = 0.9999
BELOW = float((PAIR_ROWS.x[PAIR_ROWS.a < 0.5] < 10.0).sum())
PAIRS = {
    "mean": (fpp.estimate_mean, {"columns": ["x"]}, 10.0),
    "mean, bounds": (fpp.estimate_mean, {"columns": ["x"], "bounds": (0, 60)}, 10.0),
    "mean, by": (fpp.estimate_mean, {"columns": ["x"], "by": "half", "groups": [0]}, 10.0),
    "mean, by and bounds": (
        fpp.estimate_mean,
        {"columns": ["x"], "by": "half", "groups": [0], "bounds": (0, 60)},
        10.0,
    ),
    "mean, neutral": (fpp.estimate_mean, {"columns": ["x"], "missing": "neutral"}, 10.0),
    "mean, l2": (fpp.estimate_mean, {"columns": ["x"], "objective": "l2"}, 10.0),
    "mean, variance": (fpp.estimate_mean, {"columns": ["x"], "variance": 4.0}, 10.0),
    "quantiles": (fpp.quantiles, {"columns": ["x"], "q": 0.5}, 10.0),
    "quantiles, bounds": (fpp.quantiles, {"columns": ["x"], "q": 0.5, "bounds": (0, 60)}, 10.0),
    "quantiles, by": (
        fpp.quantiles,
        {"columns": ["x"], "q": 0.5, "by": "half", "groups": [0]},
        10.0,
    ),
    "counts, keys": (fpp.value_counts, {"columns": "key", "keys": ["in"]}, 3_000.0),
    "counts, bins": (fpp.value_counts, {"columns": "x", "bins": [10.0]}, BELOW),
    "linear": (fpp.linear_regression, {"columns": ["x"], "label": "y"}, 2.0),
    "linear, weights": (
        fpp.linear_regression,
        {
            "columns": ["x"],
            "label": "y",
            "weights_priv": "w",
            "weights_pub": "w",
            "weight_cap": 1.0,
        },
        2.0,
    ),
    "gaussian": (fpp.estimate_gaussian, {"columns": ["x"]}, 10.0),
    "gaussian, bounds": (fpp.estimate_gaussian, {"columns": ["x"], "bounds": (0, 60)}, 10.0),
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("stand", STANDS)
@pytest.mark.parametrize("name", PAIRS)
def test_beside_every_other_argument_the_truth_holds_or_nothing_is_spent(name, stand):
    function, given, truth = PAIRS[name]
    where = ("a < 0.5",)
    public = {"x_pub": DerivedRows(PAIR_PUBLIC, where=where)}
    if function is fpp.value_counts:
        public = {}
    persons = bool(STANDS[stand])
    relation = {"relation": Neighbors.REPLACE_PERSON} if persons else {}
    with Ledger(ZCDP(rho=1), **relation) as ledger:
        try:
            result = function(
                DerivedRows(PAIR_ROWS, where=where, person="id"),
                budget=BUDGET,
                ledger=ledger,
                **public,
                **given,
                **STANDS[stand],
            )
        except FastPubPrivError:
            assert ledger.spent.is_zero
            return
    lower, upper = result.confidence_interval(LEVEL)
    assert np.ravel(lower)[0] <= truth <= np.ravel(upper)[0], (lower, upper)
