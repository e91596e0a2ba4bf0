"""Arrays in the order of the source, beside rows in the order of persons: refused before the debit, or no row meets another's."""

import functools
import inspect

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from helpers.errors import raises
from helpers.refusals import Refusals
from helpers.tables import rows_of_persons
from public_calls import CALLS, NOTIONS, quiet

import fastpubpriv as fpp
from fastpubpriv import ZCDP, FastPubPrivError, InputError, Ledger, ReplayError
from fastpubpriv.auditing import record_replay
from fastpubpriv.privacy import Neighbors
from fastpubpriv.sources import labeled, private_rows, views

FEW = {"budget": ZCDP(1), "random_state": 0, "progress": False}
BY_NAME = {"label": "y", "weights_priv": "w", "weights_pub": "w", "weight_cap": 1.0}


def two_slopes(n=20_000, seed=0):
    """Rows of as many persons: y = 3x where the weight is 1, and -3x where it is 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    weight = rng.integers(0, 2, n).astype(float)
    y = np.where(weight == 1.0, 3.0, -3.0) * x + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"who": rng.permutation(n), "w": weight, "x": x, "y": y})


PRIVATE = two_slopes()
PUBLIC = two_slopes(300, seed=1).drop(columns="who")


def slope_of(result):
    low, high = result.confidence_interval()
    return low[0] <= 3.0 <= high[0] and high[0] - low[0] < 0.1


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize("rows_per_person", [1, 2, "auto"])
def test_weights_in_a_column_stay_beside_their_rows(rows_per_person):
    found = fpp.linear_regression(
        PRIVATE, x_pub=PUBLIC, person="who", rows_per_person=rows_per_person, **BY_NAME, **FEW
    )
    assert found.terms == ("x",)
    assert slope_of(found), found.coefficients


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize(
    "form", [pd.DataFrame, polars.from_pandas, pyarrow.Table.from_pandas, "a.csv", "a.parquet"]
)
@pytest.mark.parametrize("person", ["who", None])
def test_weights_in_a_column_of_any_table(form, person, tmp_path):
    tables = [PRIVATE if person else PRIVATE.drop(columns="who"), PUBLIC]
    if isinstance(form, str):
        paths = [tmp_path / f"private_{form}", tmp_path / f"public_{form}"]
        for table, path in zip(tables, paths, strict=True):
            table.to_csv(path, index=False) if form == "a.csv" else table.to_parquet(path)
        tables = paths
    else:
        tables = [form(table) for table in tables]
    whose = {"person": person, "rows_per_person": 1} if person else {}
    found = fpp.linear_regression(tables[0], x_pub=tables[1], **whose, **BY_NAME, **FEW)
    assert found.columns == ("x",)
    assert slope_of(found), found.coefficients


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_a_named_weight_is_the_number_that_an_array_says():
    rows = PRIVATE.drop(columns="who")
    named = fpp.linear_regression(rows, x_pub=PUBLIC, **BY_NAME, **FEW)
    arrays = {
        "weights_priv": rows["w"],
        "weights_pub": PUBLIC["w"],
        "weight_cap": 1.0,
        "label": "y",
        "columns": ["x"],
    }
    given = fpp.linear_regression(rows, x_pub=PUBLIC, **arrays, **FEW)
    apart = fpp.linear_regression(
        rows.drop(columns="y"),
        rows["y"],
        x_pub=PUBLIC.drop(columns="y"),
        y_pub=PUBLIC["y"],
        **{**BY_NAME, "label": None},
        **FEW,
    )
    chosen = fpp.linear_regression(
        rows.assign(z=1.0), x_pub=PUBLIC, columns=["x"], **BY_NAME, **FEW
    )
    assert named.coefficients == given.coefficients == apart.coefficients == chosen.coefficients


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
@pytest.mark.parametrize(
    ("function", "more"), [(fpp.logistic_regression, {}), (fpp.train, {"loss": "logistic"})]
)
def test_classes_have_weights_in_a_column_too(function, more):
    """Where the weight is 1 the odds rise with x, elsewhere they fall."""
    private = PRIVATE.assign(y=(PRIVATE["y"] > 0.0) * 1.0)
    public = PUBLIC.assign(y=(PUBLIC["y"] > 0.0) * 1.0)
    whose = {"person": "who", "rows_per_person": 1}
    found = function(private, x_pub=public, method="newton", **whose, **more, **BY_NAME, **FEW)
    assert found.predict([[1.0], [-1.0]]).tolist() == [1.0, 0.0]


PERSONS = rows_of_persons(PRIVATE, person="who")
OTHERS = rows_of_persons(PRIVATE, person="who")
FEATURES = private_rows(PERSONS, columns=["x"])
LABELS = private_rows(PERSONS, columns=["y"])
LABELED = {"x_pub": PUBLIC[["x"]], "y_pub": PUBLIC["y"]}
WEIGHED = {"weights_pub": PUBLIC["w"].to_numpy(), "weight_cap": 1.0}
REFUSED = {
    "weights in an array": (
        PRIVATE,
        {
            "x_pub": PUBLIC,
            "person": "who",
            "rows_per_person": 1,
            **BY_NAME,
            "weights_priv": PRIVATE["w"].to_numpy(),
        },
        "weights_priv",
    ),
    "weights in a list, labels by name": (
        PERSONS,
        {"x_pub": PUBLIC, **BY_NAME, "weights_priv": PRIVATE["w"].tolist()},
        "weights_priv",
    ),
    "labels in an array": (FEATURES, {"y_priv": PRIVATE["y"], **LABELED}, "y_priv"),
    "labels beside a table": (PERSONS, {"y_priv": PRIVATE["y"], **LABELED}, "label="),
    "labels of another table of the same persons": (
        FEATURES,
        {"y_priv": private_rows(OTHERS, columns=["y"]), **LABELED},
        "y_priv",
    ),
    "labels of persons beside rows": (PRIVATE[["x"]], {"y_priv": LABELS, **LABELED}, "y_priv"),
    "weights of another table of the same persons": (
        FEATURES,
        {
            "y_priv": LABELS,
            "weights_priv": private_rows(OTHERS, columns=["w"]),
            **LABELED,
            **WEIGHED,
        },
        "weights_priv",
    ),
    "an array of another length": (FEATURES, {"y_priv": PRIVATE["y"][:-1], **LABELED}, "y_priv"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    "function", [fpp.linear_regression, functools.partial(fpp.train, loss="squared")]
)
def test_an_array_beside_persons_is_refused_before_the_debit(name, function):
    rows, given, argument = REFUSED[name]
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    raises(
        InputError,
        f"{argument}.*(order of their own|in place of)",
        function,
        rows,
        ledger=ledger,
        budget=ZCDP(1),
        **given,
    )
    assert ledger.spent.is_zero


def test_the_refusal_does_not_depend_on_the_number_of_rows_of_a_person():
    again = pd.concat([PRIVATE, PRIVATE[:1]], ignore_index=True)
    errors = []
    for table in (PRIVATE, again):
        arrays = {**BY_NAME, "weights_priv": table["w"].to_numpy()}
        whose = {"person": "who", "rows_per_person": 1}
        with pytest.raises(InputError) as caught:
            fpp.linear_regression(table, x_pub=PUBLIC, **whose, **arrays, budget=ZCDP(1))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_several_readings_of_one_table_of_persons_fit():
    weights = private_rows(PERSONS, columns=["w"])
    found = fpp.linear_regression(
        FEATURES, LABELS, weights_priv=weights, **LABELED, **WEIGHED, **FEW
    )
    assert slope_of(found), found.coefficients


def test_arrays_beside_public_rows_of_persons_are_refused():
    people = rows_of_persons(two_slopes(300, seed=1), person="who")
    by_label = {"label": "y", "weights_priv": "w", "weight_cap": 1.0, "budget": ZCDP(1)}
    raises(
        InputError,
        "weights_pub=",
        fpp.linear_regression,
        PERSONS,
        x_pub=people,
        weights_pub=np.ones(300),
        **by_label,
    )
    arrays = {
        "x_pub": private_rows(people, columns=["x"]),
        "y_pub": np.ones(300),
        "budget": ZCDP(1),
    }
    raises(InputError, "label=", fpp.linear_regression, FEATURES, LABELS, **arrays)


def test_the_local_model_refuses_arrays_beside_persons():
    given = {"epsilon": 1.0, "clip_norm": 1.0, "radius": 1.0}
    raises(
        InputError,
        "y_priv.*order of their own",
        fpp.local.train,
        FEATURES,
        PRIVATE["y"].to_numpy(),
        **given,
    )
    names = [b"%016d" % number for number in range(len(PRIVATE))]
    raises(InputError, "leave out users=", fpp.local.train, FEATURES, LABELS, users=names, **given)


UNFITTING = Refusals()
UNFITTING.add("weights_priv='v' is not the name", weights_priv="v")
UNFITTING.add("names no column of x_pub", weights_pub="v")
UNFITTING.add("holds weights", columns=["x", "w"])
UNFITTING.add("holds weights", label="w")
UNFITTING.add("needs weight_cap=", weight_cap=None)
UNFITTING.add("needs weights_pub=", weights_pub=None)
UNFITTING.add("who", weights_priv="who")
UNFITTING.add("not for this loss or method", method="semi_dp")


@pytest.mark.parametrize(("changes", "words"), UNFITTING)
def test_names_of_weights_that_do_not_fit_are_refused_before_the_debit(changes, words):
    ledger = Ledger(ZCDP(1), relation=Neighbors.REPLACE_PERSON)
    given = {
        "loss": "squared",
        **BY_NAME,
        "x_pub": PUBLIC,
        "person": "who",
        "rows_per_person": 1,
        "budget": ZCDP(1),
        **changes,
    }
    raises(InputError, words, fpp.train, PRIVATE, ledger=ledger, **given)
    assert ledger.spent.is_zero


# ---- Record and replay of every public function, with an array for each of its arguments ------------------------------------

FIRST = {
    call.function: name
    for name, call in reversed(CALLS.items())
    if not call.heavy and not call.slow and name != "count_persons"  # finds persons by itself
}
OWN = {
    "x_priv",
    "budget",
    "person",
    "rows_per_person",
    "ledger",
    "random_state",
    "threads",
    "progress",
    "max_memory",
}
HOSTILE = {"x0": 1e6, "x1": -1e6, "a": 7.0, "array": 1.0}


def people(call):
    """Rows of as many persons, with one more column, `array`; and a neighbor in which one person has other cells."""
    rng = np.random.default_rng(5)
    values = np.asarray(call.rows, dtype=float)[:300]
    names = (
        list(call.rows.columns) if call.named else [f"x{place}" for place in range(values.shape[1])]
    )
    table = pd.DataFrame(values, columns=names)
    table = table.assign(
        who=rng.permutation(len(table)), array=rng.integers(0, 2, len(table)) * 0.5
    )
    other = table.copy()
    for name, cell in HOSTILE.items():
        if name in other:
            other.loc[7, name] = cell
    return table, other


def asked(call, table, argument):
    """The other arguments of a call on such a table, with what belongs to the argument."""
    given = dict(call.options)
    if isinstance(public := given.get("x_pub"), np.ndarray):
        given["x_pub"] = pd.DataFrame(public, columns=list(table.columns[: public.shape[1]]))
    if "label" in given:
        given["label"] = "x1"
        m = len(given["x_pub"])
        if argument == "weights_priv":
            given |= {"weights_pub": np.ones(m), "weight_cap": 1.0}
        if argument == "y_priv":
            given |= {"label": None, "y_pub": given["x_pub"]["x1"].to_numpy()}
    return given


def refused_or_replayed(call, argument, as_rows):
    """Whether a call on persons takes an array for this argument; then one person moves no release by more than is stated."""
    table, other = people(call)
    given = asked(call, table, argument)
    budget = NOTIONS[call.notions[0]]
    ledgers = []

    def run(rows):
        ledgers.append(Ledger(budget, relation=Neighbors.REPLACE_PERSON))
        x_priv = rows_of_persons(rows.drop(columns="array"), person="who")
        if as_rows and not call.named:
            x_priv = private_rows(x_priv)
        more = {"ledger": ledgers[-1], "budget": budget, "threads": 1, "progress": False}
        if argument is not None:
            more[argument] = rows["array"].to_numpy()
        return quiet(call.function, x_priv, **{**given, **more})

    try:
        report = record_replay(run, table, other, budget=budget)
    except ReplayError:
        raise
    except FastPubPrivError:
        assert ledgers[-1].spent.is_zero
        return False
    assert report.pair_cost <= report.declared_cost
    return True


def cases():
    for function, name in FIRST.items():
        parameters = inspect.signature(function).parameters
        if "person" in parameters:
            yield name, None
            for argument in parameters:
                if argument not in OWN:
                    yield name, argument


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize(("name", "argument"), list(cases()))
def test_an_array_for_an_argument_beside_persons_is_refused_or_replayed(name, argument, as_rows):
    taken = refused_or_replayed(CALLS[name], argument, as_rows)
    if argument is None or argument in ("y_priv", "weights_priv"):
        assert taken == (argument is None)


@pytest.mark.filterwarnings("ignore")
def test_planted_fault_an_array_beside_persons_is_caught(monkeypatch):
    call = CALLS["linear_regression, newton"]
    assert not refused_or_replayed(call, "weights_priv", as_rows=False)
    monkeypatch.setattr(views, "require_one_order", lambda *sources: None)
    monkeypatch.setattr(labeled, "require_one_order", lambda *sources: None)
    raises(
        ReplayError,
        "moved by|sensitivity",
        refused_or_replayed,
        call,
        "weights_priv",
        as_rows=False,
    )
