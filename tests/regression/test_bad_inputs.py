"""One table of everything that goes wrong at the door of training: refused in words before the debit, or neutral and silent."""

import dataclasses
import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises as refusal
from own_losses import Absolute
from spies import SpyLedger, SpyRows, seeded

import fastpubpriv as fpp
from fastpubpriv import (
    ApproxDP,
    BudgetError,
    InputError,
    linear_regression,
    logistic_regression,
    train,
    training,
)
from fastpubpriv.training.methods import METHODS

BUDGET = ApproxDP(epsilon=2, delta=1e-6)
TOTAL = ApproxDP(epsilon=50, delta=1e-3)
SECRET = 777.25
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1100, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=1100)
CLASS = (Y > 0).astype(float)
PRIVATE = X[100:]
NUMBERS = {"y_priv": Y[100:], "x_pub": X[:100].copy(), "y_pub": Y[:100].copy()}
CLASSES = {"y_priv": CLASS[100:], "x_pub": X[:100].copy(), "y_pub": CLASS[:100].copy()}
FEW = training.SemiDP(steps=2, step_size=0.1, priv_weight=0.5)


def having(change):
    """The loss with another gradient at the row whose label is the secret."""

    class Changed(Absolute):
        def gradient(self, weights, x, y):
            found = super().gradient(weights, x, y)
            place = np.flatnonzero(y == SECRET)
            return change(found, place) if len(place) else found

    return Changed()


def with_label(y, value, place=5):
    changed = y.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize("method", METHODS)
def test_a_label_that_is_no_number_or_of_no_class_counts_for_nothing(method):
    """Missing, infinite, or of another class: the same bits as a row that has nothing to say, and not a word."""
    loss, given = ("logistic", CLASSES) if method == "output_perturbation" else ("squared", NUMBERS)
    wrong = [math.nan, math.inf] + ([7.0, -1.0] if loss == "logistic" else [-math.inf, 1e200])
    results = []
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", fpp.ExperimentalWarning)  # of the method, whatever the rows
        for each in wrong:
            labels = with_label(given["y_priv"], each)
            fit = seeded(
                train,
                PRIVATE,
                **{**given, "y_priv": labels},
                loss=loss,
                budget=BUDGET,
                method=method,
                random_state=3,
            )
            results.append(fit.coefficients.tobytes())
            assert fit.n_priv == 1000
    # A very long label is one whose clipped residual counts.
    if loss == "squared" and method not in ("throw_away", "exponential"):
        assert results.pop() not in results
    assert len(set(results)) == 1


def at_the_row(gradient, place, fill):
    gradient[place] = fill
    return gradient


def raises(gradient, place):
    raise ValueError(f"row {place[0]} has the label {SECRET}")


@pytest.mark.parametrize("change", [
    raises, lambda gradient, place: gradient[:-1], lambda gradient, place: "text", lambda gradient, place: None,
    *(partial(at_the_row, fill=fill) for fill in (math.nan, math.inf, -math.inf)),
], ids=["raises", "another shape", "text", "nothing", "nan", "inf", "-inf"])  # fmt: skip
def test_a_gradient_that_fails_or_is_not_finite_at_a_private_row_adds_nothing_for_it(change):
    ledger = fpp.Ledger(TOTAL)
    labels = with_label(Y[100:], SECRET)
    given = {
        **NUMBERS,
        "y_priv": labels,
        "budget": BUDGET,
        "method": dataclasses.replace(FEW, scaling="none"),
    }
    found = seeded(train, PRIVATE, loss=having(change), ledger=ledger, **given)
    silent = seeded(train, PRIVATE, loss=having(partial(at_the_row, fill=0.0)), **given)
    assert found.coefficients.tobytes() == silent.coefficients.tobytes()
    assert len(ledger.entries) == 1


NAN = math.nan
INF = math.inf
# Values of single settings, which the error names.
SETTINGS = {
    training.SemiDP: {
        "clip_norm": [0.0, NAN, INF, 1e300, 1e-320], "priv_weight": [1.5, [0.5, -0.1], NAN, []], "steps": [0, True, 1.5],
        "batch_rows": [5], "momentum": [1.0], "l2": [-1.0], "start": ["private"], "projection": [3.0],
        "public_gradient": ["long"], "step_size": [NAN, 0.0, INF, None],
    },
    training.DPSGD: {"clip_norm": [-1.0]},
    training.MirrorDescent: {"clip_norm": ["large"]},
    training.Exponential: {"clip": [0.0], "candidates": [1], "scaling": ["x"], "l2": [-1.0]},
    training.OutputPerturbation: {
        "priv_weight": [0.0, 1.5], "l2": [0.0, NAN, 1e-300], "row_norm": [1e200, -1.0], "steps": [0, 1.5],
    },
    training.Ball: {"radius": ["a"]},
    partial(training.Box, upper=2.0): {"lower": ["a", 3.0]},
    training.huber_loss: {"threshold": ["a", [1.0]]},
    partial(training.Loss, name="mine", residual=abs): {"curvature": ["a"], "classes": ["x"]},
    partial(training.SemiDP, sampling="poisson"): {"batch_rows": [0, 0.5, None]},
    partial(training.SemiDP, momentum=0.5): {"accelerated": [True]},
    partial(training.SemiDP, batch_rows=5): {"sampling": ["bootstrap"]},
}  # fmt: skip
TOLD = [
    (lambda: training.SemiDP(clip_norm=1e300), "change the unit"), (lambda: training.SemiDP(priv_weight=[]), "empty"),
    (lambda: training.SemiDP(sampling="with_replacement", batch_rows=5), "replacement are refused"),
    (lambda: training.OutputPerturbation(l2=1e-300), "l2 must lie between"),
    (lambda: training.Box(lower=1.0, upper=0.0), "lower < upper"),
    (lambda: training.SemiDP(step_size="big"), "a list of numbers"),
    (lambda: training.SemiDP(priv_weight="big"), "a list of numbers"),
    (lambda: training.Loss(name="mine", residual=abs, classes="x"), "True or False"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), TOLD + [
    (partial(kind, **{name: value}), name)
    for kind, settings in SETTINGS.items() for name, values in settings.items() for value in values
])  # fmt: skip
def test_settings_are_refused_where_they_are_made(make, words):
    refusal(InputError, words, make)


def calls(given, *methods, loss="squared", **changes):
    """A call of `train` for each method."""
    return [(train, {**given, "loss": loss, "method": each, **changes}) for each in methods]


def linear(**changes):
    return linear_regression, {**NUMBERS, **changes}


def logistic(**changes):
    return logistic_regression, {**CLASSES, **changes}


ONES = np.ones(1000)
TEXTS = np.array(["a", "b"] * 50)
NOISY = ("semi_dp", "dp_sgd", "pda_mirror_descent", "exponential")
ALL = ("newton", *NOISY)
REFUSED = {
    "at most 3 steps": calls(NUMBERS, training.SemiDP(sampling="one_pass", batch_rows=300, steps=4)),
    "more than the 1000": calls(
        NUMBERS, training.SemiDP(sampling="poisson", batch_rows=1001),
        training.DPSGD(sampling="without_replacement", batch_rows=1001),
    ),
    "start must be": calls(NUMBERS, training.SemiDP(start=[1.0]), training.SemiDP(start=None)),
    "loss must be": calls(NUMBERS, "auto", loss="hinge") + calls(NUMBERS, FEW, loss=3),
    "100 classes": [*calls(NUMBERS, "semi_dp", loss="logistic"), logistic(y_pub=np.arange(100.0))],
    "belongs to scaling=": calls(NUMBERS, training.SemiDP(scaling="none"), categories={"x0": "public"}),
    "pass steps=": calls(NUMBERS, "semi_dp", loss=Absolute()),
    "residual of the loss 'mine' fails": calls(NUMBERS, FEW, loss=training.Loss(name="mine", residual=lambda p: p)),
    "returns a number": calls(NUMBERS, FEW, loss=training.Loss(name="mine", residual=lambda p, y: "a")),
    "gradients are bounded": [
        each for loss in ("squared", "poisson", "softmax", training.huber_loss(1.0))
        for each in calls(CLASSES, "output_perturbation", loss=loss)
    ],
    "for counts": calls(NUMBERS, "semi_dp", loss="poisson"),
    "would count the private labels": [
        *calls(CLASSES, "newton", "semi_dp", "output_perturbation", loss="logistic", class_weight="balanced"),
        logistic(class_weight="balanced"),
    ],
    "resampling is not offered": [
        *calls(CLASSES, "newton", "semi_dp", loss="logistic", class_weight="oversample"), logistic(class_weight="smote"),
    ],
    "must map each class": [logistic(class_weight=ONES)],
    "for each of the classes": [logistic(class_weight={0: 1.0}), logistic(class_weight={0: 1.0, 2: 1.0})],
    r"class_weight\[1\] must be": [logistic(class_weight={0: 1.0, 1: each}) for each in (-1.0, np.inf)],
    "factor of 1000": [logistic(class_weight={0: 1.0, 1: 1e-300})],
    "method='newton'": calls(CLASSES, "semi_dp", loss="logistic", class_weight={0: 1, 1: 2}),
    "would tell of them": [
        *(linear(x_bounds=each) for each in ("auto", "private", {"x0": "auto"})),
        *calls(NUMBERS, *ALL, x_bounds="auto"), *calls(NUMBERS, "newton", y_bounds="auto"),
    ],
    "pass wider bounds": [linear(x_bounds=(0.0, 1.0))],
    "needs weight_cap=": [linear(weights_priv=ONES), logistic(weights_priv=ONES)],
    "weights_priv=, with weight_cap=": [linear(weights_pub=ONES)],
    "or leave them out": calls(
        NUMBERS, "semi_dp", "exponential", weights_priv=ONES, weight_cap=2.0, weights_pub=np.ones(100)
    ),
    "starts from public rows": [linear(x_pub=None), logistic(x_pub=None), *calls(NUMBERS, *NOISY, x_pub=None)],
    "public rows with a label": calls(NUMBERS, *NOISY, y_pub=None),
    "the labels once": calls(NUMBERS, *ALL, y_priv=None),
    "one number for each row": [
        *calls(NUMBERS, "auto", y_pub=X[:100, :2].copy()), *calls(NUMBERS, "auto", y_priv=X[100:, :2]),
    ],
    "one label for each row": calls(NUMBERS, "newton", y_priv=Y[101:]),
    "labels are text .'a', 'b'., and this loss is for numbers": [
        linear(y_pub=TEXTS), *calls(NUMBERS, "auto", "semi_dp", y_pub=TEXTS.tolist()),
    ],
    r"3 classes \('a', 'b', 'c'\), and two are needed": [
        logistic(y_pub=["a", "b", "c", "a"] * 25, y_priv=["a"] * 1000),
    ],
    "classes must be two, got 3": [logistic(classes=[0, 1, 2])],
    "classes must be two different": [logistic(classes=[1, 1])],
    "categories must be names of columns": [
        each for wrong in ([1], 1, ["x0", 2], {"x0"}) for each in calls(NUMBERS, "auto", "semi_dp", categories=wrong)
    ],
    "'a' that is not among the features": calls(NUMBERS, "auto", "semi_dp", categories="a"),
    "'x9' that is not among the features": calls(NUMBERS, "newton", "semi_dp", categories=["x9"]),
    "pass x.astype": [linear(y_priv=np.full(1000, "Alice")), logistic(y_priv=np.full(1000, "Alice"))],
    "pass y_scale=": calls(NUMBERS, "newton", "semi_dp", y_pub=np.ones(100)),
    "pass classes=": [logistic(y_pub=np.zeros(100)), *calls(CLASSES, "semi_dp", loss="softmax", y_pub=np.zeros(100))],
    "must be a list of the labels": [
        *(logistic(classes=each) for each in (5, "01", {0: 1})),
        *(each for given in (5, "01") for each in calls(CLASSES, "semi_dp", loss="softmax", classes=given)),
    ],
    "belongs to a loss of classes": calls(NUMBERS, "newton", "semi_dp", classes=[0, 1]),
    "method must be one of": [
        linear(method="semi_dp"), linear(method=training.SemiDP()), *calls(NUMBERS, "ols", 3, None),
    ],
    "budget must be": [linear(budget=each) for each in (None, 1.0, "1")],
    "share memory": [linear(x_priv=X, y_priv=Y, x_pub=X[:100])],
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_arguments_are_refused_before_the_debit(words):
    for function, given in REFUSED[words]:
        log = []
        given = {"budget": BUDGET, **given}
        rows = given.pop("x_priv", None)
        rows = SpyRows(PRIVATE, log) if rows is None else rows
        refused = refusal(
            (InputError, BudgetError), words, function, rows, ledger=SpyLedger(TOTAL, log), **given
        )
        assert log == []
        assert "Alice" not in str(refused)


def test_private_cells_of_another_kind_change_no_shape():
    """A level or a type of cell that no public row has becomes the level "other"."""
    frame = pd.DataFrame({"month": np.arange(1100) % 3, "x": X[:, 0], "y": Y})
    strange = frame.astype({"month": float})
    strange.loc[[200, 300, 400], "month"] = [99.0, math.inf, math.nan]
    shapes = set()
    for private in (frame[100:], strange[100:]):
        result = linear_regression(
            private,
            x_pub=frame[:100].copy(),
            label="y",
            categories={"month": "public"},
            budget=BUDGET,
            method="newton",
        )
        shapes.add((result.terms, result.n_priv))
    assert len(shapes) == 1


def test_a_table_that_lets_a_debit_through_is_caught():
    """The check of this file: a call that spends before it fails is seen."""
    log = []
    rows = SpyRows(PRIVATE, log, fails=InputError("late"))
    given = {**NUMBERS, "budget": BUDGET, "method": "newton", "ledger": SpyLedger(TOTAL, log)}
    refusal(InputError, None, linear_regression, rows, **given)
    assert log[:1] == ["debit"]
