"""Private cells that no method can use are neutral and silent: labels, gradients of a caller's loss, levels of categories."""

import dataclasses
import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from own_losses import Absolute
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv import ApproxDP, linear_regression, train, training
from fastpubpriv.training.methods import METHODS

BUDGET = ApproxDP(epsilon=2, delta=1e-6)
SECRET = 777.25
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1100, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=1100)
CLASS = (Y > 0).astype(float)
PRIVATE = X[100:]
NUMBERS = {"y_priv": Y[100:], "x_pub": X[:100].copy(), "y_pub": Y[:100].copy()}
CLASSES = {"y_priv": CLASS[100:], "x_pub": X[:100].copy(), "y_pub": CLASS[:100].copy()}


def with_label(labels, value):
    changed = labels.copy()
    changed[5] = value
    return changed


def fitted(method, label):
    """Fit by a method where the sixth private label is the given one; only the warning that the method is experimental may come."""
    loss = "logistic" if method == "output_perturbation" else "squared"
    given = CLASSES if loss == "logistic" else NUMBERS
    labels = with_label(given["y_priv"], label)
    options = {**given, "y_priv": labels, "loss": loss, "method": method}
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", fpp.ExperimentalWarning)
        return seeded(train, PRIVATE, **options, budget=BUDGET, random_state=3)


@pytest.mark.parametrize("method", METHODS)
def test_a_label_that_is_no_number_or_of_no_class_counts_for_nothing(method):
    """Missing, infinite, or of another class: the same bits as a row that has nothing to say, and not a word."""
    others = [7.0, -1.0] if method == "output_perturbation" else [-math.inf]
    expected = fitted(method, math.nan)
    assert expected.n_priv == 1000
    for label in [math.inf, *others]:
        found = fitted(method, label)
        assert found.coefficients.tobytes() == expected.coefficients.tobytes(), label
        assert found.n_priv == 1000


# Methods that clip residuals; a choice among public models and public rows alone do not see one label.
CLIPPED = [
    method
    for method in METHODS
    if method not in ("throw_away", "exponential", "output_perturbation")
]
SILENT = ["throw_away", "exponential"]


@pytest.mark.parametrize("method", CLIPPED)
def test_the_clipped_residual_of_a_very_long_label_counts(method):
    long = fitted(method, 1e200)
    missing = fitted(method, math.nan)
    assert long.coefficients.tobytes() != missing.coefficients.tobytes()


@pytest.mark.parametrize("method", SILENT)
def test_a_very_long_label_changes_no_choice(method):
    long = fitted(method, 1e200)
    missing = fitted(method, math.nan)
    assert long.coefficients.tobytes() == missing.coefficients.tobytes()


def having(change):
    """The loss with another gradient at the row whose label is the secret."""

    class Changed(Absolute):
        def gradient(self, weights, x, y):
            found = super().gradient(weights, x, y)
            place = np.flatnonzero(y == SECRET)
            return change(found, place) if len(place) else found

    return Changed()


def filled(gradient, place, fill):
    gradient[place] = fill
    return gradient


def raises(gradient, place):
    raise ValueError(f"row {place[0]} has the label {SECRET}")


BAD_GRADIENTS = {
    "raises": raises,
    "another shape": lambda gradient, place: gradient[:-1],
    "text": lambda gradient, place: "text",
    "nothing": lambda gradient, place: None,
    "nan": partial(filled, fill=math.nan),
    "inf": partial(filled, fill=math.inf),
    "-inf": partial(filled, fill=-math.inf),
}


@pytest.mark.parametrize("change", BAD_GRADIENTS.values(), ids=BAD_GRADIENTS)
def test_a_gradient_that_fails_or_is_not_finite_at_a_private_row_adds_nothing_for_it(change):
    ledger = fpp.Ledger(ApproxDP(epsilon=50, delta=1e-3))
    few = training.SemiDP(steps=2, step_size=0.1, priv_weight=0.5)
    unscaled = dataclasses.replace(few, scaling="none")
    labels = with_label(Y[100:], SECRET)
    given = {**NUMBERS, "y_priv": labels, "budget": BUDGET, "method": unscaled}
    found = seeded(train, PRIVATE, loss=having(change), ledger=ledger, **given)
    silent = seeded(train, PRIVATE, loss=having(partial(filled, fill=0.0)), **given)
    assert found.coefficients.tobytes() == silent.coefficients.tobytes()
    assert len(ledger.entries) == 1


def test_private_cells_of_another_kind_change_no_shape():
    """A level or a type of cell that no public row has becomes the level "other"."""
    frame = pd.DataFrame({"month": np.arange(1100) % 3, "x": X[:, 0], "y": Y})
    strange = frame.astype({"month": float})
    strange.loc[[200, 300, 400], "month"] = [99.0, math.inf, math.nan]
    public = frame[:100].copy()
    given = {"x_pub": public, "label": "y", "categories": {"month": "public"}, "budget": BUDGET}
    usual = linear_regression(frame[100:], method="newton", **given)
    found = linear_regression(strange[100:], method="newton", **given)
    assert found.terms == usual.terms
    assert found.n_priv == usual.n_priv
