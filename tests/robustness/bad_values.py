"""Bad values of arguments: which call takes them, what they are, and what must come.

`REFUSALS` has values that single calls refuse before they read a private row or debit a ledger, `EVERYWHERE` those that all calls
refuse, `SETTINGS` those that the values that describe a method refuse when they are made. `test_bad_arguments.py` has the tests.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from own_losses import Absolute
from public_calls import APPROX, CALLS, DIM, NOTIONS, PUBLIC, ROWS, Call

import fastpubpriv as fpp
from fastpubpriv import BudgetError, FastPubPrivError, InputError, PureDP, training
from fastpubpriv.privacy import Cost
from fastpubpriv.sources.row_types import RandomAccessRows

NAN = math.nan
INF = math.inf


@dataclass(frozen=True)
class Refusal:
    """A call, its arguments with a bad value, and the error that must come: its type, and a pattern of its words."""

    name: str
    call: Call = field(repr=False)
    given: dict[str, Any] = field(repr=False)
    words: str | None
    error: type[Exception]


REFUSALS: list[Refusal] = []
OWN_CALLS = {}
_numbers: Counter[str] = Counter()


def refuse(
    names: str | Sequence[str],
    argument: str,
    values: Iterable[Any],
    words: str | None,
    error: type[Exception] = InputError,
    **others: Any,
) -> None:
    """Add to the table that calls refuse each value of an argument, beside the other arguments."""
    for name in [names] if isinstance(names, str) else names:
        for value in values:
            place = f"{name}, {argument}"
            call = OWN_CALLS.get(name) or CALLS[name]
            _numbers[place] += 1
            given = {**others, argument: value}
            REFUSALS.append(Refusal(f"{place}, {_numbers[place]}", call, given, words, error))


# ---- Means: what is known of the spread, public rows, steps.
SPREAD_KNOWN = ("estimate_mean", "coinpress_mean")
BAD_SPREADS = {
    "negative": -1.0,
    "zero": 0.0,
    "NaN": NAN,
    "vector with zero": [1.0, 0.0],
    "length": [1.0, 2.0, 3.0],
    "indefinite": np.diag([1.0, -1.0]),
    "asymmetric": np.triu(np.ones((DIM, DIM))),
    "shape": np.eye(DIM + 1),
    "text": "identity",
    "ragged": [[1.0], [1.0, 2.0]],
    "3-d": np.ones((DIM, DIM, DIM)),
    "bool": True,
    "dict": {},
}
refuse(SPREAD_KNOWN, "covariance", BAD_SPREADS.values(), "covariance")
refuse(SPREAD_KNOWN, "variance", BAD_SPREADS.values(), "variance")
VARIANCES = [4.0, np.array(4.0), np.full(DIM, 4.0), [4.0] * DIM, (4.0,) * DIM]
refuse(SPREAD_KNOWN, "covariance", VARIANCES, "variance=")
refuse(SPREAD_KNOWN, "variance", [np.eye(DIM), np.eye(DIM).tolist()], "covariance=")
refuse(SPREAD_KNOWN, "variance", [1.0], "not both", covariance=np.eye(DIM))
NO_COVARIANCE = {
    "fewer than columns and one": PUBLIC[:DIM],
    "rank-deficient": np.vstack([PUBLIC[:DIM], PUBLIC[0]]),
    "equal": np.ones((50, DIM)),
}
refuse("estimate_mean, public covariance", "x_pub", NO_COVARIANCE.values(), "public rows")
WITH_PUBLIC = ("estimate_mean", "estimate_mean, public covariance", "weighted_mean")
VIEWS_OF_PRIVATE = [ROWS, ROWS[:10], ROWS[::-1], ROWS[5]]
refuse(WITH_PUBLIC, "x_pub", VIEWS_OF_PRIVATE, "split the rows|private or public", x_priv=ROWS)
SMALL_BUDGETS = [PureDP(2.0**-20), PureDP(2.0**-30), fpp.ZCDP(2.0**-50), fpp.ZCDP(2.0**-60)]
refuse("coinpress_mean", "budget", SMALL_BUDGETS, "steps|no integer grid", steps=1000)
refuse("coinpress_mean", "random_state", [10**5000], None)  # it has no decimal digits
refuse("coinpress_mean", "accuracy", [1], None, TypeError)
refuse("estimate_mean", "x_pub", [[1.0, NAN]], "must be finite", variance=1.0, x_priv=ROWS[:, :1])

# ---- Public columns without a number.
COLUMNS_COUNTED = ("estimate_mean", "quantiles", "describe")
NAMED = pd.DataFrame(np.zeros((50, 2)), columns=["a", "b"])
NO_NUMBER = pd.DataFrame({"a": [NAN, NAN], "b": [1.0, None]})
ALL_MISSING = "a number in every column, and all cells of column 1 are missing"
refuse(COLUMNS_COUNTED, "x_pub", [[[1.0, NAN], [2.0, NAN]]], ALL_MISSING)
refuse(COLUMNS_COUNTED, "x_pub", [[NAN, 1.0]], "all cells of column 0")
refuse(COLUMNS_COUNTED, "x_pub", [[[1.0, INF], [NAN, 2.0]]], "row 0, column 1 is inf")
refuse(COLUMNS_COUNTED, "x_pub", [NO_NUMBER], "all cells of column 'a'", x_priv=NAMED)


# ---- Choices and lists.
class Endless(RandomAccessRows):
    """More rows than anybody has, which must not be read."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__(n, dim, "array", None)

    def block(self, begin: int, end: int) -> np.ndarray:
        raise AssertionError("read")


TOO_MANY = "(count|compared at) up to"
PURE = PureDP(1)
refuse("select_hypothesis, cells", "x_priv", [Endless(2**30 + 1, 1)], TOO_MANY, budget=PURE)
refuse("select_hypothesis, pairs", "x_priv", [Endless(2**31, 2)], TOO_MANY, budget=PURE)
refuse("decode_variances, theory", "min_weight", [1e-300], None, FastPubPrivError)

# ---- Training and regressions. Labels of `train` are numbers, those of "train, classes" are 0 and 1.
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1100, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=1100)
CLASS = (Y > 0).astype(float)
PRIVATE = X[100:]
NUMBERS = {"y_priv": Y[100:], "x_pub": X[:100].copy(), "y_pub": Y[:100].copy()}
CLASSES = {"y_priv": CLASS[100:], "x_pub": X[:100].copy(), "y_pub": CLASS[:100].copy()}


def labeled(function: Callable[..., Any], **options: Any) -> Call:
    return Call(function, rows=PRIVATE, options=options, notions=APPROX)


OWN_CALLS["train"] = labeled(fpp.train, **NUMBERS, loss="squared")
OWN_CALLS["train, classes"] = labeled(fpp.train, **CLASSES, loss="logistic")
OWN_CALLS["linear_regression"] = labeled(fpp.linear_regression, **NUMBERS)
OWN_CALLS["logistic_regression"] = labeled(fpp.logistic_regression, **CLASSES)
REGRESSIONS = ("linear_regression", "logistic_regression")
NOISY = ("semi_dp", "dp_sgd", "pda_mirror_descent", "exponential")
ALL = ("newton", *NOISY)
FEW = training.SemiDP(steps=2, step_size=0.1, priv_weight=0.5)
ONES = np.ones(1000)
TEXTS = np.array(["a", "b"] * 50)
NO_NAMES = [[1], 1, ["x0", 2], {"x0"}]
OF_ONE_ARGUMENT = training.Loss(name="mine", residual=lambda p: p)
OF_TEXT = training.Loss(name="mine", residual=lambda p, y: "a")
ONE_PASS = training.SemiDP(sampling="one_pass", batch_rows=300, steps=4)
LARGE_BATCHES = [
    training.SemiDP(sampling="poisson", batch_rows=1001),
    training.DPSGD(sampling="without_replacement", batch_rows=1001),
]
BAD_STARTS = [training.SemiDP(start=[1.0]), training.SemiDP(start=None)]
UNSCALED = training.SemiDP(scaling="none")
UNBOUNDED = ["squared", "poisson", "softmax", training.huber_loss(1.0)]
UNWEIGHTED = {"weights_priv": ONES, "weight_cap": 2.0, "weights_pub": np.ones(100)}
THREE_CLASSES = ["a", "b", "c", "a"] * 25
ALICE = np.full(1000, "Alice")
refuse("train", "method", ["ols", 3, None], "method must be one of")
refuse("linear_regression", "method", ["semi_dp", training.SemiDP()], "method must be one of")
refuse("train", "method", [ONE_PASS], "at most 3 steps")
refuse("train", "method", LARGE_BATCHES, "more than the 1000")
refuse("train", "method", BAD_STARTS, "start must be")
refuse("linear_regression", "budget", [None, 1.0, "1"], "budget must be", BudgetError)
# The loss.
refuse("train", "loss", ["hinge"], "loss must be", method="auto")
refuse("train", "loss", [3], "loss must be", method=FEW)
refuse("train", "loss", ["logistic"], "100 classes", method="semi_dp")
refuse("train", "loss", ["poisson"], "for counts", method="semi_dp")
refuse("train", "loss", [Absolute()], "pass steps=", method="semi_dp")
refuse("train", "loss", [OF_ONE_ARGUMENT], "residual of the loss 'mine' fails", method=FEW)
refuse("train", "loss", [OF_TEXT], "returns a number", method=FEW)
refuse("train, classes", "loss", UNBOUNDED, "gradients are bounded", method="output_perturbation")
# Weights of classes and of rows.
COUNTED = "would count the private labels"
COUNTING = ["newton", "semi_dp", "output_perturbation"]
RESAMPLED = "resampling is not offered"
refuse("train, classes", "method", COUNTING, COUNTED, class_weight="balanced")
refuse("logistic_regression", "class_weight", ["balanced"], COUNTED)
refuse("train, classes", "method", ["newton", "semi_dp"], RESAMPLED, class_weight="oversample")
refuse("logistic_regression", "class_weight", ["smote"], RESAMPLED)
refuse("logistic_regression", "class_weight", [ONES], "must map each class")
PARTIAL = [{0: 1.0}, {0: 1.0, 2: 1.0}]
refuse("logistic_regression", "class_weight", PARTIAL, "for each of the classes")
OUT_OF_RANGE = [{0: 1.0, 1: -1.0}, {0: 1.0, 1: INF}]
refuse("logistic_regression", "class_weight", OUT_OF_RANGE, r"class_weight\[1\] must be")
refuse("logistic_regression", "class_weight", [{0: 1.0, 1: 1e-300}], "factor of 1000")
refuse("train, classes", "class_weight", [{0: 1, 1: 2}], "method='newton'", method="semi_dp")
refuse(REGRESSIONS, "weights_priv", [ONES], "needs weight_cap=")
refuse("linear_regression", "weights_pub", [ONES], "weights_priv=, with weight_cap=")
refuse("train", "method", ["semi_dp", "exponential"], "or leave them out", **UNWEIGHTED)
# Bounds of columns and labels.
TELLING = "would tell of them"
refuse("linear_regression", "x_bounds", ["auto", "private", {"x0": "auto"}], TELLING)
refuse("train", "method", ALL, TELLING, x_bounds="auto")
refuse("train", "y_bounds", ["auto"], TELLING, method="newton")
refuse("linear_regression", "x_bounds", [(0.0, 1.0)], "pass wider bounds")
# Public rows.
refuse(REGRESSIONS, "x_pub", [None], "starts from public rows")
refuse("train", "method", NOISY, "starts from public rows", x_pub=None)
refuse("train", "method", NOISY, "public rows with a label", y_pub=None)
refuse("linear_regression", "x_pub", [X[:100]], "share memory", x_priv=X, y_priv=Y)
# Labels.
refuse("train", "method", ALL, "the labels once", y_priv=None)
refuse("train", "y_pub", [X[:100, :2].copy()], "one number for each row", method="auto")
refuse("train", "y_priv", [X[100:, :2]], "one number for each row", method="auto")
refuse("train", "y_priv", [Y[101:]], "one label for each row", method="newton")
OF_TEXTS = "labels are text .'a', 'b'., and this loss is for numbers"
refuse("linear_regression", "y_pub", [TEXTS], OF_TEXTS)
refuse("train", "method", ["auto", "semi_dp"], OF_TEXTS, y_pub=TEXTS.tolist())
refuse(REGRESSIONS, "y_priv", [ALICE], "pass x.astype")
refuse("train", "method", ["newton", "semi_dp"], "pass y_scale=", y_pub=np.ones(100))
# Classes.
OF_SOFTMAX = {"loss": "softmax", "method": "semi_dp"}
NEEDED = r"3 classes \('a', 'b', 'c'\), and two are needed"
refuse("logistic_regression", "y_pub", [np.arange(100.0)], "100 classes")
refuse("logistic_regression", "y_pub", [THREE_CLASSES], NEEDED, y_priv=["a"] * 1000)
refuse("logistic_regression", "y_pub", [np.zeros(100)], "pass classes=")
refuse("train, classes", "y_pub", [np.zeros(100)], "pass classes=", **OF_SOFTMAX)
refuse("logistic_regression", "classes", [[0, 1, 2]], "classes must be two, got 3")
refuse("logistic_regression", "classes", [[1, 1]], "classes must be two different")
refuse("logistic_regression", "classes", [5, "01", {0: 1}], "must be a list of the labels")
refuse("train, classes", "classes", [5, "01"], "must be a list of the labels", **OF_SOFTMAX)
IN_VAIN = "belongs to a loss of classes"
refuse("train", "method", ["newton", "semi_dp"], IN_VAIN, classes=[0, 1])
# Categories.
ABSENT = "'a' that is not among the features"
ABSENT_OF_LIST = "'x9' that is not among the features"
for method in ("auto", "semi_dp"):
    refuse("train", "categories", NO_NAMES, "categories must be names of columns", method=method)
    refuse("train", "categories", ["a"], ABSENT, method=method)
for method in ("newton", "semi_dp"):
    refuse("train", "categories", [["x9"]], ABSENT_OF_LIST, method=method)
refuse("train", "categories", [{"x0": "public"}], "belongs to scaling=", method=UNSCALED)

# ---- Values that every call refuses, wherever it has the argument; the errors say what to pass, in one of the words of `ADVICE`.
CLOSED = fpp.Ledger(fpp.ZCDP(1))
CLOSED.close()
EVERYWHERE = {
    "budget": [0.5, None, "rho=1", fpp.ZCDP, (1, 1e-6), Cost.zero(fpp.ZCDP)],
    "ledger": ["ledger.jsonl", CLOSED, fpp.Ledger(PureDP(2.0**-20))],
    "threads": [0, -1, True, 1.5, "2", 10**6],
    "progress": ["yes", 1],
    "random_state": [1.0, True, "1", -1, np.random.default_rng(0)],
    "columns": [["a", "b", "c"]],
    "failure_prob": [0, 1, -0.1, NAN, "0.1", True, None],
    "mode": ["fast", None, 1, "Practical"],
    "method": ["best", 3, None],
    "steps": [0, -1, True, 1.5, "many", [1], 10**9, NAN, {}],
    "pub_priv_gap": [1.0, -0.1, NAN, "0.1", True, None, INF],
    "x_pub": [
        np.full((9, 2), NAN),
        np.full((9, 2), INF),
        np.empty((0, 2)),
        [["a", "b"]] * 5,
        np.ones((9, 5)),
        "none.csv",
    ],
    "x_priv": [
        np.zeros((0, 2)),
        np.zeros((5, 2), dtype=complex),
        [["a", "b"]] * 5,
        np.zeros((2, 2, 2)),
        5,
        {"a": [1.0]},
    ],
}
ADVICE = (
    "pass",
    "must",
    "need",
    "give",
    "use",
    "check",
    "accepted",
    "choose",
    "drop",
    "change",
    "open it",
    "split the rows",
    "there is no",
    "debit a",
    "debit the",
)

# ---- Values that describe a method, a loss or a set of weights: refused when they are made, under the name of the setting.
SETTINGS: list[tuple[Callable[[], Any], str]] = []


def setting(
    kind: Callable[..., Any], name: str, values: Iterable[Any], words: str = "", **others: Any
) -> None:
    """Add to the table that a class refuses each value of a setting; the error has the words, or the setting's name."""
    for value in values:
        SETTINGS.append((partial(kind, **others, **{name: value}), words or name))


mine = partial(training.Loss, name="mine", residual=abs)
setting(training.SemiDP, "clip_norm", [0.0, NAN, INF, 1e300, 1e-320])
setting(training.SemiDP, "clip_norm", [1e300], "change the unit")
setting(training.SemiDP, "priv_weight", [1.5, [0.5, -0.1], NAN, []])
setting(training.SemiDP, "priv_weight", [[]], "empty")
setting(training.SemiDP, "priv_weight", ["big"], "a list of numbers")
setting(training.SemiDP, "steps", [0, True, 1.5])
setting(training.SemiDP, "batch_rows", [5])
setting(training.SemiDP, "batch_rows", [0, 0.5, None], sampling="poisson")
setting(training.SemiDP, "momentum", [1.0])
setting(training.SemiDP, "accelerated", [True], momentum=0.5)
setting(training.SemiDP, "sampling", ["bootstrap"], batch_rows=5)
setting(training.SemiDP, "sampling", ["with_replacement"], "replacement are refused", batch_rows=5)
setting(training.SemiDP, "l2", [-1.0])
setting(training.SemiDP, "start", ["private"])
setting(training.SemiDP, "projection", [3.0])
setting(training.SemiDP, "public_gradient", ["long"])
setting(training.SemiDP, "step_size", [NAN, 0.0, INF, None])
setting(training.SemiDP, "step_size", ["big"], "a list of numbers")
setting(training.DPSGD, "clip_norm", [-1.0])
setting(training.MirrorDescent, "clip_norm", ["large"])
setting(training.Exponential, "clip", [0.0])
setting(training.Exponential, "candidates", [1])
setting(training.Exponential, "scaling", ["x"])
setting(training.Exponential, "l2", [-1.0])
setting(training.OutputPerturbation, "priv_weight", [0.0, 1.5])
setting(training.OutputPerturbation, "l2", [0.0, NAN, 1e-300])
setting(training.OutputPerturbation, "l2", [1e-300], "l2 must lie between")
setting(training.OutputPerturbation, "row_norm", [1e200, -1.0])
setting(training.OutputPerturbation, "steps", [0, 1.5])
setting(training.Ball, "radius", ["a"])
setting(training.Box, "lower", ["a", 3.0], upper=2.0)
setting(training.Box, "lower", [1.0], "lower < upper", upper=0.0)
setting(training.huber_loss, "threshold", ["a", [1.0]])
setting(mine, "curvature", ["a"])
setting(mine, "classes", ["x"])
setting(mine, "classes", ["x"], "True or False")


def bad_values_of(call: Call) -> Iterable[tuple[str, Any]]:
    """Return the values of `EVERYWHERE` that a call must refuse, with the argument; what spends nothing takes any ledger.

    Public rows are not read where keys or bins are listed.
    """
    is_listed = call.function is fpp.value_counts
    free = call.options.get("structure") == "public"
    for name, parameter in call.parameters.items():
        if (name == "ledger" and free) or (name == "x_pub" and is_listed):
            continue
        for value in EVERYWHERE.get(name, []):
            is_default = value is None and parameter.default is None
            if not is_default:
                yield name, value


def budget_of(call: Call) -> Any:
    """Return the budget that a call of the table takes where a test names none."""
    return NOTIONS[call.notions[0]]
