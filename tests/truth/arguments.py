"""The table of arguments: for each public function that answers about a table, what each argument is tried with.

A case leaves the truth as it is, or the oracle knows what it becomes. A value is a constant or is `Made` from the call. Arguments
that go together are one case. A new argument of a public function has a case here, or `test_truth.py` fails.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fastpubpriv as fpp
from fastpubpriv import local, training
from tests.helpers.tables import rows_of_persons
from tests.truth import populations
from tests.truth.populations import GROUPS, NUMBERS, population

# Given by the engine in every call.
GIVEN = ("x_priv", "budget", "columns")
# They change no bit of an answer; the engine compares the bits.
NEUTRAL = ("random_state", "threads", "progress", "ledger", "max_memory")
Names = tuple[str, ...]


class Made(NamedTuple):
    """A value that is made from the call, and its text in reports."""

    text: str
    make: Callable[[Call], Any]


class Case(NamedTuple):
    """Arguments that are given together."""

    names: Names
    values: tuple[Any, ...]

    @property
    def text(self) -> str:
        """The arguments as they stand in a call."""
        pairs = zip(self.names, self.values, strict=True)
        return ", ".join(f"{name}={shown(value)}" for name, value in pairs)


class Verb(NamedTuple):
    """A public function, its least legal arguments, the cases of the others, and how many of these stand in one call at most."""

    call: Callable[..., Any]
    base: Callable[[Call], dict[str, Any]]
    cases: Mapping[str | Names, Sequence[Any]]
    columns: Callable[[str], list[str]]
    widest: int = 2
    budgets: Names = ("zcdp", "approx", "pure")
    populations: Names = ("light", "skewed", "awkward")
    # cases that change nothing: what the default chooses anyway
    same_as_default: Sequence[str] = ()
    speed: float = 1.0  # share of the settings and pairs that the quick part runs
    reports: bool = False  # the first argument is made by `base`, not the private rows

    def all_cases(self) -> list[Case]:
        """The cases one by one."""
        found = []
        for names, values in self.cases.items():
            if isinstance(names, str):
                found += [Case((names,), (value,)) for value in values]
            else:
                found += [Case(names, together) for together in values]
        return found


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: a verb, its cases, and the table and the budget that it gets."""

    verb: str
    cases: tuple[Case, ...] = ()
    population: str = "light"
    rows: int = 2_000
    budget: fpp.PureDP | fpp.ApproxDP | fpp.ZCDP = dataclasses.field(
        default_factory=lambda: fpp.ZCDP(0.1)
    )
    draw: int = 0

    @property
    def tables(self) -> populations.Tables:
        """Its private and public rows."""
        return populations.drawn(self.population, self.rows, self.draw)

    @property
    def columns(self) -> list[str]:
        """The columns that are asked for."""
        usual = VERBS[self.verb].columns(self.population)
        asked = self.value("columns")
        return usual if asked is None else asked.make(dataclasses.replace(self, cases=()))

    def value(self, name: str, default: Any = None) -> Any:
        """The value of an argument as its case states it."""
        for case in self.cases:
            if name in case.names:
                return case.values[case.names.index(name)]
        return default

    def names(self) -> set[str]:
        """The arguments of its cases."""
        return {name for case in self.cases for name in case.names}

    def arguments(self) -> dict[str, Any]:
        """All arguments but the rows, the budget and the neutral ones."""
        given = dict(VERBS[self.verb].base(self))
        if "columns" in inspect.signature(VERBS[self.verb].call).parameters:
            given.setdefault("columns", self.columns)
        for case in self.cases:
            for name, value in zip(case.names, case.values, strict=True):
                given[name] = value
                if isinstance(value, Made) and name != "columns":
                    given[name] = value.make(self)
        if "columns" in self.names():
            given["columns"] = self.columns
        return given


def shown(value: Any) -> str:
    """The text of a value in a report."""
    if isinstance(value, Made):
        return value.text
    if isinstance(value, type) or callable(value):
        return getattr(value, "__name__", repr(value))
    return repr(value)


# ---- Values that are made from the call ------------------------------------------------------------------------------
def low_and_high(call: Call, columns: Sequence[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The true ends of the columns."""
    return _low_and_high(call.population, tuple(columns or call.columns))


@functools.cache
def _low_and_high(name: str, columns: Names) -> tuple[np.ndarray, np.ndarray]:
    numbers = population(name)[list(columns)].select_dtypes("number").to_numpy(float)
    return np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)


def ends(factor: float) -> Made:
    """The true ends, or wider ones: `bounds` of the columns in the order asked."""

    def make(call: Call) -> tuple[list[float], list[float]]:
        low, high = low_and_high(call)
        spare = (factor - 1.0) / 2.0 * (high - low) + (high == low)
        return (low - spare).tolist(), (high + spare).tolist()

    return Made(f"ends({factor})", make)


def one_pair(call: Call) -> tuple[float, float]:
    """The least and the greatest number of all columns."""
    low, high = low_and_high(call)
    return float(low.min()), float(high.max()) + 1.0


def features_ends(call: Call) -> tuple[list[float], list[float]]:
    """Ends of the features of a model, with room."""
    low, high = low_and_high(call)
    return (low - 1.0).tolist(), (high + 1.0).tolist()


def label_ends(call: Call) -> tuple[float, float]:
    """Ends of the label of a linear model."""
    low, high = low_and_high(call, ["y"])
    return float(low[0]) - 1.0, float(high[0]) + 1.0


def middle(call: Call) -> list[float]:
    """A public number near each column's mean."""
    return _middle(call.population, tuple(call.columns))


@functools.cache
def _middle(name: str, columns: Names) -> list[float]:
    return population(name)[list(columns)].mean().round(1).tolist()


def variances(call: Call) -> list[float]:
    """The variance of each column."""
    spread = np.diag(matrix(call))
    return np.where(spread > 0.0, spread, 1.0).tolist()


def matrix(call: Call) -> np.ndarray:
    """The covariance of the columns."""
    return _matrix(call.population, tuple(call.columns))


@functools.cache
def _matrix(name: str, columns: Names) -> np.ndarray:
    rows = population(name)[list(columns)].dropna().to_numpy(float)
    found = np.atleast_2d(np.cov(rows, rowvar=False, ddof=0))
    constant = np.diag(found) == 0.0
    return found + np.diag(constant.astype(float))


def true_means(call: Call) -> list[float]:
    """The mean of each column."""
    return population(call.population)[call.columns].mean().tolist()


def total_variance(call: Call) -> float:
    """E |x - E x|^2 of a row."""
    return float(np.sum(variances(call)))


def farthest(call: Call) -> float:
    """The largest distance from `middle`."""
    return _farthest(call.population, tuple(call.columns), tuple(middle(call)))


@functools.cache
def _farthest(name: str, columns: Names, center: tuple[float, ...]) -> float:
    rows = population(name)[list(columns)].fillna(0.0).to_numpy(float)
    return float(np.linalg.norm(rows - np.array(center), axis=1).max()) + 1.0


def largest_norm(call: Call) -> float:
    """The largest distance from zero."""
    return _farthest(call.population, tuple(call.columns), (0.0,) * len(call.columns))


def largest_eigenvalue(call: Call) -> float:
    """Twice the largest eigenvalue of the covariance."""
    return 2.0 * float(np.linalg.eigvalsh(matrix(call))[-1])


def first_public(count: int) -> Made:
    """A few public rows."""
    return Made(f"p.head({count})", lambda call: call.tables.public.head(count))


def _moved(call: Call) -> pd.DataFrame:
    public = call.tables.public.copy()
    columns = list(call.columns)
    columns = list(public[columns].select_dtypes("number"))
    public[columns] = public[columns] + 2.0 * population(call.population)[columns].std()
    return public


SHIFTED = Made("shifted(p)", _moved)
PUBLIC = Made("p", lambda call: call.tables.public)
GROUPED = Made("groups", lambda call: GROUPS[call.population])
TWO_GROUPS = Made("groups[:1]", lambda call: GROUPS[call.population][:1])
MIDDLE = Made("middle", middle)
VARIANCES = Made("variances", variances)
MATRIX = Made("matrix", matrix)
ENDS = ends(1.0)
WIDE_ENDS = ends(3.0)
XV = Made("['x', 'v']", lambda call: ["x", "v"])
REVERSED = Made("columns[::-1]", lambda call: call.columns[::-1])
FIRST = Made("columns[:1]", lambda call: call.columns[:1])
PRIVATE_WEIGHTS = Made("d['weight']", lambda call: call.tables.private["weight"].to_numpy())
PUBLIC_WEIGHTS = Made("p['weight']", lambda call: call.tables.public["weight"].to_numpy())

PERSONS: dict[str | Names, Sequence[Any]] = {
    ("person", "rows_per_person"): [
        ("id", 1),
        (Made("d['id']", lambda call: call.tables.private["id"]), 1),
        ("id", 2),
        ("id", "auto"),
    ],
}
# For verbs of which no release shows how many rows a person has: more than one row of each is refused.
ONE_ROW: dict[str | Names, Sequence[Any]] = {
    ("person", "rows_per_person"): PERSONS["person", "rows_per_person"][:2],
}
FEW_PUBLIC = [first_public(1), first_public(2), first_public(5), first_public(20), SHIFTED]


def of_numbers(name: str) -> list[str]:
    """The columns of numbers of a population."""
    return NUMBERS[name]


def without_gaps(name: str) -> list[str]:
    """Columns without a missing cell."""
    return ["u", "x"] if name == "awkward" else NUMBERS[name]


def no_column(name: str) -> list[str]:
    """For verbs that take no `columns`."""
    return []


VERBS: dict[str, Verb] = {}


# ---- Means, covariances, quantiles -----------------------------------------------------------------------------------
def with_public(call: Call) -> dict[str, Any]:
    """Public rows alone."""
    return {"x_pub": call.tables.public}


def mean_of_persons(
    x_priv: Any,
    *,
    budget: Any,
    columns: Any,
    x_pub: Any,
    person: Any,
    keep: str = "row",
    rows_per_person: int = 1,
    **more: Any,
) -> fpp.MeanResult:
    """The mean of rows that are prepared by `keep`."""
    rows = rows_of_persons(x_priv, person=person, keep=keep, rows_per_person=rows_per_person)
    return fpp.estimate_mean(rows, x_pub=x_pub, budget=budget, columns=columns, **more)


VERBS["estimate_mean"] = Verb(
    fpp.estimate_mean,
    with_public,
    {
        "columns": [REVERSED, FIRST],
        "x_pub": FEW_PUBLIC,
        "clipping": ["auto", "counts", "gaussian"],
        "objective": ["columns", "l2"],
        "covariance": ["public", MATRIX],
        "variance": [VARIANCES],
        "bounds": [ENDS, WIDE_ENDS, Made("one_pair", one_pair)],
        "missing": ["neutral"],
        "public_only": ["auto"],
        ("clipping", "pub_priv_gap"): [("gaussian", 0.2)],
        ("variance", "failure_prob"): [(VARIANCES, 0.01)],
        ("variance", "steps"): [(VARIANCES, 1), (VARIANCES, "auto")],
        ("variance", "mode"): [(VARIANCES, "theory")],
        "by": ["g"],
        ("by", "groups"): [("g", GROUPED), ("g", TWO_GROUPS)],
        ("by", "bounds"): [("g", ENDS)],
        **PERSONS,
    },
    of_numbers,
    same_as_default=(
        "clipping='auto'",
        "clipping='counts'",
        "objective='columns'",
        "public_only='auto'",
    ),
)
VERBS["weighted_mean"] = Verb(
    fpp.weighted_mean,
    lambda call: {"norm_bound": farthest(call), "center": middle(call)},
    {
        "columns": [REVERSED, FIRST],
        ("norm_bound", "x_pub"): [("auto", PUBLIC)],
        ("norm_bound", "center", "x_pub"): [("auto", "public", PUBLIC)],
        ("bounds", "norm_bound", "center"): [(ENDS, None, None), (WIDE_ENDS, None, None)],
        "x_pub": [PUBLIC, first_public(1), first_public(5)],
        "variance": [Made("total_variance", total_variance)],
        "row_weight": ["private", Made("1 / n", lambda call: 1.0 / call.rows)],
        ("row_weight", "x_pub"): [
            ("gaussian", PUBLIC),
            ("throw_away", PUBLIC),
            ("optimal", PUBLIC),
        ],
        ("norm_bound", "center"): [(Made("largest_norm", largest_norm), None)],
        "project": [False],
        **ONE_ROW,
    },
    without_gaps,
    same_as_default=("project=False", "row_weight='private'", "row_weight=1 / n"),
)
VERBS["coinpress_mean"] = Verb(
    fpp.coinpress_mean,
    lambda call: {"center": middle(call), "radius": "auto"},
    {
        "columns": [REVERSED, FIRST],
        ("radius", "variance"): [(30.0, VARIANCES)],
        ("bounds", "center", "radius"): [(ENDS, None, None)],
        ("bounds", "center", "radius", "variance"): [(ENDS, None, None, VARIANCES)],
        "covariance": [MATRIX],
        "variance": [VARIANCES],
        "steps": [1, 4, "auto"],
        ("radius", "variance", "mode"): [(30.0, VARIANCES, "theory")],
        ("radius", "variance", "mode", "failure_prob"): [(30.0, VARIANCES, "theory", 0.2)],
        "center": [Made("middle + 1", lambda call: (np.array(middle(call)) + 1.0).tolist())],
        **ONE_ROW,
    },
    without_gaps,
    same_as_default=("steps='auto'",),
)
VERBS["describe"] = Verb(
    fpp.describe,
    with_public,
    {
        "columns": [REVERSED, FIRST],
        "x_pub": FEW_PUBLIC,
        "q": [0.5, (0.1, 0.9)],
        "keys": [
            Made(
                "{'kind': ['plain', 'odd', 'rare']}",
                lambda call: {"kind": ["plain", "odd", "rare"]},
            )
        ],
        "top": [1],
        "bounds": [ENDS, WIDE_ENDS],
        **PERSONS,
    },
    lambda name: [*NUMBERS[name], "kind"],
    speed=0.3,
)
VERBS["quantiles"] = Verb(
    fpp.quantiles,
    with_public,
    {
        "columns": [REVERSED, FIRST],
        "x_pub": FEW_PUBLIC,
        "q": [0.5, (0.1, 0.9), (0.01, 0.99)],
        "bounds": [ENDS, WIDE_ENDS],
        "by": ["g"],
        ("by", "groups"): [("g", GROUPED)],
        ("q", "bounds"): [((0.001, 0.999), ENDS)],
        **PERSONS,
    },
    of_numbers,
    # Between ends that hold all rows, only the outermost quantiles change.
    same_as_default=("bounds=ends(1.0)", "bounds=ends(3.0)"),
    speed=0.3,
)
VERBS["persons"] = Verb(
    mean_of_persons,
    lambda call: {"x_pub": call.tables.public, "person": "id"},
    {"keep": ["mean", "sum"], "rows_per_person": [2, 3], "columns": [FIRST]},
    without_gaps,
)


def of_covariances(name: str) -> list[str]:
    """The columns of a covariance."""
    return ["x", "v", "u"] if name == "light" else ["u", "x"]


VERBS["coinpress_covariance"] = Verb(
    fpp.coinpress_covariance,
    lambda call: {"scale": largest_eigenvalue(call), "center": true_means(call)},
    {
        "columns": [REVERSED, FIRST],
        ("bounds", "scale"): [(ENDS, None)],
        ("bounds", "scale", "center"): [(ENDS, None, Made("mean", true_means))],
        "steps": [1, 3],
        "mode": ["theory"],
        ("mode", "failure_prob"): [("theory", 0.2)],
        **ONE_ROW,
    },
    of_covariances,
)
VERBS["private_pca"] = Verb(
    fpp.private_pca,
    lambda call: {"center": middle(call), "radius": farthest(call), "n_components": 1},
    {
        "columns": [REVERSED],
        "center": [Made("middle + .5", lambda call: (np.array(middle(call)) + 0.5).tolist())],
        "radius": ["auto"],
        ("bounds", "center", "radius"): [(ENDS, None, None)],
        "n_components": [2],
        "x_pub": [PUBLIC, first_public(1), first_public(5), SHIFTED],
        ("radius", "x_pub"): [("auto", PUBLIC)],
        **ONE_ROW,
    },
    of_covariances,
)


def of_gaussians(name: str) -> list[str]:
    """The columns of a Gaussian."""
    if name == "light":
        return ["x", "v", "u"]
    if name == "awkward":
        return ["u", "w", "x"]
    return ["x", "u"]


VERBS["estimate_gaussian"] = Verb(
    fpp.estimate_gaussian,
    with_public,
    {
        "columns": [REVERSED, FIRST],
        "x_pub": FEW_PUBLIC[1:],
        "pub_priv_gap": [0.2],
        "failure_prob": [0.01],
        "method": ["ladder", "lifted_coinpress", "pairs", "recursive_preconditioner"],
        ("columns", "method"): [(FIRST, "hypothesis_selection")],
        "structure": ["public", "mean", "diagonal", "full"],
        ("method", "mode"): [("lifted_coinpress", "theory")],
        ("method", "rounds"): [("lifted_coinpress", 3)],
        ("method", "cond_max"): [("lifted_coinpress", 100.0)],
        ("method", "require_precondition"): [("lifted_coinpress", True)],
        "bounds": [ENDS],
        **PERSONS,
    },
    of_gaussians,
    same_as_default=(
        "method='ladder'",
        "failure_prob=0.01",
        "structure='full'",
        "bounds=ends(1.0)",
    ),
    speed=0.3,
)

# ---- Counts ----------------------------------------------------------------------------------------------------------
KIND = Made("'kind'", lambda call: ["kind"])
W = Made("'w'", lambda call: ["w"])
G = Made("'g'", lambda call: ["g"])
X = Made("'x'", lambda call: ["x"])
G_AND_KIND = Made("['g', 'kind']", lambda call: ["g", "kind"])
G_AND_X = Made("['g', 'x']", lambda call: ["g", "x"])


def lists_of_two(call: Call) -> dict[str, Any]:
    """The keys of both columns."""
    return {"g": GROUPS[call.population], "kind": ["plain", "odd", "rare"]}


def edges_of_x(call: Call) -> list[float]:
    """Rounded quartiles of a column of the population."""
    quartiles = np.nanquantile(population(call.population)["x"], [0.25, 0.5, 0.75])
    return sorted({float(f"{edge:.2g}") for edge in quartiles})


def edges_by_name(call: Call) -> dict[str, Any]:
    """The edges by the name of their column."""
    return {"x": edges_of_x(call)}


def some_of_two(call: Call) -> dict[str, Any]:
    """Some of the keys of both columns."""
    return {"g": GROUPS[call.population][:1], "kind": ["odd"]}


def groups_by_name(call: Call) -> dict[str, Any]:
    """The groups by the name of their column."""
    return {"g": GROUPS[call.population]}


KEYS_OF_BOTH = Made("lists", lists_of_two)
EDGES_OF_X = Made("edges", edges_of_x)


VERBS["value_counts"] = Verb(
    fpp.value_counts,
    lambda call: {"keys": GROUPS[call.population][:2]},
    {
        ("columns", "keys"): [
            (KIND, ["plain", "odd"]),
            (W, [0.0, 1.0]),
            (G, GROUPED),
            (G_AND_KIND, KEYS_OF_BOTH),
            (G_AND_KIND, Made("some", some_of_two)),
        ],
        ("columns", "keys", "bins"): [
            (X, None, EDGES_OF_X),
            (W, None, [0.5]),
            (G_AND_X, Made("groups of g", groups_by_name), Made("edges of x", edges_by_name)),
        ],
        ("columns", "keys", "bins", "x_pub"): [(X, None, 10, PUBLIC), (X, None, 3, PUBLIC)],
        ("columns", "keys", "x_pub"): [
            (G_AND_KIND, None, PUBLIC),
            (G_AND_KIND, None, first_public(5)),
        ],
        ("keys", "x_pub"): [(None, PUBLIC), (None, first_public(5))],
        "keys": [TWO_GROUPS, None],
        ("keys", "max_bytes"): [(None, 3)],
        ("columns", "keys", "by", "groups"): [(KIND, ["plain", "odd"], "g", GROUPED)],
        ("columns", "keys", "bins", "by", "groups"): [(X, None, EDGES_OF_X, "g", GROUPED)],
        ("columns", "keys", "by", "x_pub"): [(KIND, ["plain", "rare"], "g", PUBLIC)],
        "top": [1],
        "round_to": [50],
        **PERSONS,
    },
    lambda name: ["g"],
    speed=0.5,
)
VERBS["count_persons"] = Verb(
    fpp.count_persons,
    lambda call: {"person": "id", "by": "g", "groups": GROUPS[call.population]},
    {
        "person": [Made("d['id']", lambda call: call.tables.private["id"])],
        ("by", "groups"): [
            ("kind", ["plain", "odd"]),
            (["g", "kind"], KEYS_OF_BOTH),
        ],
        ("groups", "x_pub"): [(None, PUBLIC), (None, first_public(5))],
        "keys_per_person": [1, 2, "auto"],
    },
    no_column,
    same_as_default=("person=d['id']", "groups=None, x_pub=p", "keys_per_person='auto'"),
    speed=0.5,
)
VERBS["stable_histogram"] = Verb(
    fpp.stable_histogram,
    lambda call: {"bins": fpp.BinGrid(width=0.5)},
    {
        "columns": [FIRST],
        "bins": [
            fpp.BinGrid(width=1.0, offset=0.25),
            fpp.BinGrid(width=0.5, levels=3),
            fpp.DyadicBins(),
        ],
        ("columns", "bins"): [(XV, fpp.ProductBins(grids=[fpp.BinGrid(width=1.0)] * 2))],
        "noise": ["laplace", "gaussian"],
        "pad": ["all"],
        ("person", "rows_per_person"): [("id", 1)],
    },
    lambda name: ["x", "v"],
    budgets=("approx",),
    same_as_default=("pad='all'", "noise='gaussian'"),
)

# ---- Models ----------------------------------------------------------------------------------------------------------


def features(name: str) -> list[str]:
    """The two features of every model."""
    return ["x", "v"]


def labeled(label: str, **more: Any) -> Callable[[Call], dict[str, Any]]:
    """Public rows and the column of labels."""
    return lambda call: {"x_pub": call.tables.public, "label": label, **more}


def own_labels(label: str) -> tuple[Any, ...]:
    """Labels as arrays of their own."""
    private = Made(f"d['{label}']", lambda call: call.tables.private[label].to_numpy())
    public = Made(f"p['{label}']", lambda call: call.tables.public[label].to_numpy())
    return None, private, public


XV_AND_KIND = Made("['x', 'v', 'kind']", lambda call: ["x", "v", "kind"])
FIRST_KIND = Made("{'kind': p.kind[0]}", lambda call: {"kind": call.tables.public["kind"].iloc[0]})
WEIGHTS = [(PRIVATE_WEIGHTS, 2.0, PUBLIC_WEIGHTS)]
REGRESSION: dict[str | Names, Sequence[Any]] = {
    "columns": [Made("columns[::-1]", lambda call: ["v", "x"])],
    "x_pub": [first_public(2), first_public(5), first_public(20), SHIFTED],
    ("weights_priv", "weight_cap", "weights_pub"): WEIGHTS,
    "weights_pub": [PUBLIC_WEIGHTS],
    "x_bounds": [Made("features_ends", features_ends)],
    ("columns", "categories"): [(XV_AND_KIND, {"kind": "public"})],
    ("columns", "categories", "reference"): [(XV_AND_KIND, ["kind"], FIRST_KIND)],
    "method": ["newton", "throw_away"],
    "tails": ["light"],
    "label": [-1],
    **PERSONS,
}
LINEAR: dict[str | Names, Sequence[Any]] = {
    "y_bounds": [Made("label_ends", label_ends)],
    "y_scale": [1.0],
}
CLASSES: dict[str | Names, Sequence[Any]] = {
    "x_pub": [first_public(5), first_public(20), SHIFTED],
    ("x_pub", "classes"): [(first_public(2), [0.0, 1.0])],
    "classes": [[0.0, 1.0]],
    "class_weight": [{0.0: 1.0, 1.0: 3.0}, "public"],
}
GRADIENT: dict[str | Names, Sequence[Any]] = {
    "columns": REGRESSION["columns"],
    "x_pub": [first_public(20), SHIFTED],
    "method": ["semi_dp", "dp_sgd", "throw_away"],
    **PERSONS,
}


def without(
    cases: Mapping[str | Names, Sequence[Any]], *names: str
) -> dict[str | Names, Sequence[Any]]:
    """Cases without some of the arguments."""
    return {key: values for key, values in cases.items() if key not in names}


def own_residual(prediction: float, label: float) -> float:
    """Minus the derivative of the pseudo-Huber loss."""
    error = label - prediction
    return error / (1.0 + error**2) ** 0.5


def own_values(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The pseudo-Huber loss."""
    return np.sqrt(1.0 + (labels - predictions) ** 2) - 1.0


class AbsoluteError:
    """A loss by rows: absolute error."""

    def value(self, weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The loss of each row."""
        return np.abs(np.sum(x * weights, axis=1) - y)

    def gradient(self, weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The gradient of each row."""
        return np.sign(np.sum(x * weights, axis=1) - y)[:, None] * x


OWN_METHOD = training.SemiDP(steps=20, step_size=0.5, priv_weight=0.9)
OWN_LOSS = training.Loss(name="pseudo-Huber", residual=own_residual, values=own_values)


def trained(
    label: str,
    loss: Any,
    cases: Mapping[str | Names, Sequence[Any]],
    speed: float = 0.1,
    **more: Any,
) -> Verb:
    """The verb `train` with one loss."""
    labels = {("label", "y_priv", "y_pub"): [own_labels(label)]}
    return Verb(
        fpp.train,
        labeled(label, loss=loss, **more),
        {**without(cases, "label"), **labels},
        features,
        widest=4,
        speed=speed,
        same_as_default=(
            "method='newton'",
            "method='semi_dp'",
            "y_scale=1.0",
            "classes=[0.0, 1.0]",
            "classes=[0.0, 1.0, 2.0]",
            f"label=None, y_priv=d['{label}'], y_pub=p['{label}']",
        ),
    )


VERBS["linear_regression"] = Verb(
    fpp.linear_regression,
    labeled("y"),
    {**without(REGRESSION, "label"), **LINEAR, ("label", "y_priv", "y_pub"): [own_labels("y")]},
    features,
    same_as_default=("method='newton'", "label=None, y_priv=d['y'], y_pub=p['y']"),
    speed=0.3,
)
VERBS["logistic_regression"] = Verb(
    fpp.logistic_regression,
    labeled("yes"),
    {**without(REGRESSION, "label"), **CLASSES, ("label", "y_priv", "y_pub"): [own_labels("yes")]},
    features,
    same_as_default=(
        "method='newton'",
        "classes=[0.0, 1.0]",
        "label=None, y_priv=d['yes'], y_pub=p['yes']",
    ),
    speed=0.3,
)
VERBS["train squared"] = trained("y", "squared", {**REGRESSION, **LINEAR})
VERBS["train logistic"] = trained("yes", "logistic", {**REGRESSION, **CLASSES})
VERBS["train huber"] = trained("y", "huber", {**GRADIENT, **LINEAR})
VERBS["train softmax"] = trained(
    "class",
    "softmax",
    {**GRADIENT, "classes": [[0.0, 1.0, 2.0]]},
)
VERBS["train smooth_hinge"] = trained("yes", "smooth_hinge", GRADIENT)
VERBS["train poisson"] = trained("hits", "poisson", GRADIENT)
VERBS["train own loss"] = trained("y", OWN_LOSS, GRADIENT)
VERBS["train rows of an own loss"] = trained(
    "y", AbsoluteError(), without(GRADIENT, "method"), method=OWN_METHOD
)

# ---- Mixtures --------------------------------------------------------------------------------------------------------
STANDARD = np.ones((3, 2))
CENTERED_WEIGHTS = [0.5, 0.3, 0.2]


def true_centers(call: Call) -> np.ndarray:
    """Centers of the components in the columns asked for."""
    centers = populations.CENTERS + (populations.FAR_AWAY if call.population == "awkward" else 0.0)
    return centers[:, [("m1", "m2").index(name) for name in call.columns]]


def hypotheses(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The true mixture, between two that are wrong."""
    means = np.stack([true_centers(call) + 5.0, true_centers(call), true_centers(call) - 20.0])
    return np.tile(CENTERED_WEIGHTS, (3, 1)), means, np.ones((3, 3, 2))


def places(name: str) -> list[str]:
    """The columns of the mixture."""
    return ["m1", "m2"]


def middle_of_centers(call: Call) -> list[float]:
    """The mean of the centers."""
    return true_centers(call).mean(axis=0).tolist()


def beside_middle(call: Call) -> list[float]:
    """The mean of the centers, one off in each column."""
    return (true_centers(call).mean(axis=0) + 1.0).tolist()


def public_and_three_components(call: Call) -> dict[str, Any]:
    """Public rows and the true number of components."""
    return {"x_pub": call.tables.public, "n_components": 3}


COMPONENTS: dict[str | Names, Sequence[Any]] = {
    "columns": [REVERSED],
    "min_weight": [0.1],
    "failure_prob": [0.01],
    "bounds": [WIDE_ENDS],
    "n_components": [4],
}
VERBS["learn_separated_mixture"] = Verb(
    fpp.learn_separated_mixture,
    public_and_three_components,
    {
        **COMPONENTS,
        **ONE_ROW,
        "x_pub": [first_public(5), first_public(20), SHIFTED],
        "method": ["soft_em", "tree", "one_shot", "public_pca"],
        "mode": ["theory"],
        "weight_floor": [0.2],
    },
    places,
    widest=6,
    speed=0.1,
    same_as_default=(
        "method='soft_em'",
        "min_weight=0.1",
        "weight_floor=0.2",
        "failure_prob=0.01",
        "bounds=ends(3.0)",
    ),
)
VERBS["learn_axis_aligned_mixture"] = Verb(
    fpp.learn_axis_aligned_mixture,
    public_and_three_components,
    {
        **COMPONENTS,
        **PERSONS,
        "x_pub": [first_public(5), first_public(20), SHIFTED, None],
        "variance": [1.0],
        "covariance": [np.eye(2)],
        "method": ["dp_em", "sketch"],
        ("method", "accuracy"): [("sketch", 0.5)],  # list decoding: test_rare_methods.py
        ("columns", "method", "n_components"): [(FIRST, "cells", 2)],
    },
    places,
    widest=6,
    budgets=("approx",),
    speed=0.1,
    same_as_default=(
        "method='dp_em'",
        "min_weight=0.1",
        "failure_prob=0.01",
        "bounds=ends(3.0)",
        "n_components=4",
    ),
)
VERBS["no_public_baseline"] = Verb(
    fpp.no_public_baseline,
    lambda call: {"n_components": 3, "radius": 20.0, "center": middle_of_centers(call)},
    {
        "columns": [REVERSED],
        "n_components": [4],
        "radius": [30.0],
        "failure_prob": [0.01],
        "weight_floor": [0.2],
        "center": [Made("center + 1", beside_middle)],
        **ONE_ROW,
    },
    places,
    widest=6,
    budgets=("zcdp", "approx"),
    speed=0.1,
    same_as_default=("weight_floor=0.2", "failure_prob=0.01"),
)
VERBS["select_hypothesis"] = Verb(
    fpp.select_hypothesis,
    lambda call: {"hypotheses": hypotheses(call)},
    {
        "hypotheses": [
            Made("two of them", lambda call: tuple(part[:2] for part in hypotheses(call)))
        ],
        "columns": [REVERSED],
        "accuracy": [0.5],
        "score": ["yatracos", "log_ratio"],
        "method": ["densities", "auto"],
        "law": ["permute_and_flip", "exponential"],
        "fallback": [Made("fallback", lambda call: tuple(part[1:2] for part in hypotheses(call)))],
        "cells": [256],
        "draws": [200],
        "public_seed": [1],
        ("score", "clip"): [("log_ratio", 4.0)],
        "failure_prob": [0.01],
        **ONE_ROW,
    },
    places,
    widest=6,
    speed=0.1,
    # The true mixture is so much closer than the others that every way of choosing finds it.
    same_as_default=(
        "accuracy=0.5",
        "method='densities'",
        "method='auto'",
        "law='exponential'",
        "fallback=fallback",
        "cells=256",
        "draws=200",
        "public_seed=1",
    ),
)

# ---- The local model -------------------------------------------------------------------------------------------------
LOCAL_NORM = 5.0
PUBLIC_FEATURES = Made("p[['x', 'v']]", lambda call: call.tables.public[["x", "v"]])
PUBLIC_LABELS = Made("p['y'] - 10", lambda call: call.tables.public["y"].to_numpy() - 10.0)
PERSON_IN_BYTES = Made(
    "d['id'] as bytes",
    lambda call: [int(person).to_bytes(16, "big") for person in call.tables.private["id"]],
)
DISTINCT_PERSONS = Made(
    "distinct", lambda call: [number.to_bytes(16, "big") for number in range(call.rows)]
)


@functools.lru_cache(maxsize=16)
def _reports_of(name: str, rows: int, draw: int) -> local.Reports:
    randomizer = local.PrivUnit(2, 4.0, norm_bound=LOCAL_NORM)
    numbers = populations.drawn(name, rows, draw).private[["x", "v"]].to_numpy()
    with warnings.catch_warnings(action="ignore", category=fpp.SeededNoiseWarning):
        return randomizer.privatize(numbers, random_state=1000 + draw)


def _reports(call: Call) -> local.Reports:
    return _reports_of(call.population, call.rows, call.draw)


VERBS["local.estimate_mean"] = Verb(
    local.estimate_mean,
    lambda call: {"reports": _reports(call)},
    {
        ("x_pub", "columns"): [(PUBLIC, XV)],
        ("x_pub", "columns", "target"): [(PUBLIC, XV, "empirical")],
        "target": ["empirical"],
        "reports_per_user": [2],
    },
    features,
    budgets=("approx",),
    reports=True,
    same_as_default=("target='empirical'",),
)
VERBS["local.train"] = Verb(
    local.train,
    lambda call: {
        "y_priv": call.tables.private["y"].to_numpy() - 10.0,
        "epsilon": 4.0,
        "clip_norm": 10.0,
        "radius": 5.0,
    },
    {
        "clip_norm": [20.0],
        "radius": [8.0],
        ("x_pub", "y_pub"): [
            (
                PUBLIC_FEATURES,
                PUBLIC_LABELS,
            )
        ],
        ("x_pub", "y_pub", "start"): [
            (
                PUBLIC_FEATURES,
                PUBLIC_LABELS,
                "public",
            )
        ],
        "columns": [REVERSED],
        "loss": ["huber"],
        "start": [[1.0, 1.0]],
        "batch_rows": [200, 20],
        "form": ["selection"],
        "strong_convexity": [0.1],
        ("users", "reports_per_user"): [(PERSON_IN_BYTES, 2)],
        "reports_per_user": [2],
        "users": [DISTINCT_PERSONS],
    },
    features,
    budgets=("approx",),
    speed=0.1,
    same_as_default=("users=distinct", "strong_convexity=0.1"),
)

# Public functions that take private rows and answer about something else than a table.
APART = {
    "record_replay": "compares two runs",
    "tracing_attack": "an attack",
}
# Arguments that no case varies, as the one that is given decides what the answer is about.
OWN = {
    ("train", "loss"),
    ("train", "label"),
    ("linear_regression", "label"),
    ("logistic_regression", "label"),
}


# ---- The rule --------------------------------------------------------------------------------------------------------
def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function that takes private rows or reports, by the name under which it is called."""
    for part in ("", "local", "mixtures", "training", "auditing", "planning", "sources"):
        module = importlib.import_module(".".join(filter(None, ("fastpubpriv", part))))
        for name in getattr(module, "__all__", ()):
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            arguments = inspect.signature(function).parameters
            if "x_priv" in arguments or "reports" in arguments:
                yield ".".join(filter(None, (part, name))), function


def names_with_cases(verbs: Mapping[str, Verb], function: str) -> set[str]:
    """The arguments that the records of a function have cases for, or give in every call."""
    found: set[str] = set()
    for name, verb in verbs.items():
        if name.split()[0] == function:
            found |= {each for case in verb.all_cases() for each in case.names}
    return found


def complaints(
    functions: Iterator[tuple[str, Callable[..., Any]]] | Sequence[tuple[str, Callable[..., Any]]],
    verbs: Mapping[str, Verb],
) -> list[str]:
    """What the table lacks of the signatures."""
    found = []
    recorded = {name.split()[0] for name in verbs}
    for name, function in functions:
        if name.split(".")[-1] in APART and name not in recorded:
            continue
        if name not in recorded:
            found.append(f"function {name} has no case")
            continue
        tried = names_with_cases(verbs, name)
        without_case = {"x_priv", "budget", *NEUTRAL}
        without_case |= {argument for function_name, argument in OWN if function_name == name}
        if name.startswith("local."):
            without_case |= {"reports", "y_priv", "epsilon"}
        if "person" in tried:
            without_case.add(
                "keep"
            )  # one door for all functions, which the cases of means go through
        for argument in inspect.signature(function).parameters:
            if argument not in tried | without_case:
                found.append(f"argument {argument} of {name} has no case")
    return found


# What scikit-learn classes and commands are called beside the functions: their own arguments, not those of a function.
CLASSES_OF = {
    "PublicPrivateGaussian": "estimate_gaussian",
    "PublicPrivateGaussianMixture": "learn_separated_mixture",
    "PublicPrivateScaler": "estimate_gaussian",
    "SemiPrivateLinearRegression": "linear_regression",
    "SemiPrivateLogisticRegression": "logistic_regression",
    "SemiPrivatePCA": "estimate_gaussian",
}
CLASSES_OWN = {("SemiPrivatePCA", "n_components")}


def class_complaints(
    classes: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> list[str]:
    """Arguments of scikit-learn classes that their functions lack."""
    found = []
    in_other_words = {"X_pub": "x_pub"}  # the name that scikit-learn would give
    for name, made in classes.items():
        if name not in CLASSES_OF:
            found.append(f"class {name} has no function")
            continue
        of_function = inspect.signature(functions[CLASSES_OF[name]]).parameters
        for argument in inspect.signature(made).parameters:
            has_own_meaning = (name, argument) in CLASSES_OWN
            if in_other_words.get(argument, argument) not in of_function and not has_own_meaning:
                found.append(f"argument {argument} of {name} has no case")
    return found
