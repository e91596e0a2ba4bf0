"""Cases of regression and of noisy gradients: every method. Scales and directions come from public rows by LAPACK."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from golden_case import Case, private
from golden_data import BUDGETS, hostile, mixed, normal

import fastpubpriv as fpp
from fastpubpriv import ZCDP
from fastpubpriv.training import DPSGD, Ball, Exponential, MirrorDescent, OutputPerturbation, SemiDP

X = mixed(41, 3000, 3)
NUMBER = X @ [2.0, 0.5, -0.1] + 4.0 + normal(42, 3000, 1)[:, 0]
SCORE = X @ [20.0, 0.5, -0.1] + 4.0 * normal(43, 3000, 1)[:, 0]
CLASS = (SCORE > 3.0).astype(np.float64)
MONTH = np.arange(3000.0) % 4


def labeled(labels: np.ndarray) -> dict[str, object]:
    """Private rows with hostile ones among them, and a hundred public ones."""
    return {
        "x": np.column_stack([hostile(X[100:]), labels[100:]]),
        "x_pub": np.column_stack([X, labels])[:100],
    }


def regressions() -> Iterator[Case]:
    """Each regression with each budget, one with a column of categories, and one that throws private rows away."""
    linear = fpp.linear_regression
    logistic = fpp.logistic_regression
    numbers = labeled(NUMBER)
    classes = labeled(CLASS)
    given = {"label": -1, "budget": ZCDP(1)}
    for name, budget in BUDGETS.items():
        call = {"label": -1, "budget": budget, "method": "newton"}
        yield private(f"linear_regression, newton, {name}", linear, **numbers, **call)
        yield private(f"logistic_regression, newton, {name}", logistic, **classes, **call)
        yield private(f"train, huber, {name}", fpp.train, **numbers, **call, loss="huber")
    months = np.column_stack([X[:, :2], MONTH, NUMBER + MONTH])
    public = {"x_pub": months[:100], "categories": {"x2": "public"}}
    yield private("linear_regression, categories", linear, months[100:], **public, **given)
    thrown_away = {"method": "throw_away", **numbers, **given}
    yield private("linear_regression, throw_away", linear, **thrown_away)


FEW = X[:700]
LABELS = {
    "squared": NUMBER[:700],
    "logistic": CLASS[:700],
    "huber": NUMBER[:700],
    "softmax": MONTH[:700] % 3,
    "smooth_hinge": CLASS[:700],
    "poisson": np.floor(np.abs(FEW[:, 1])),
}
FIXED = {"step_size": 0.2, "priv_weight": 0.6, "clip_norm": 1.5}
GRADIENTS = {
    "chosen": SemiDP(steps=4),
    "full": SemiDP(steps=4, **FIXED),
    "momentum, ball, average": SemiDP(
        steps=5, momentum=0.5, projection=Ball(radius=0.3), average="suffix", l2=0.01, **FIXED
    ),
    "accelerated": SemiDP(steps=4, accelerated=True, **FIXED),
    "as they are": SemiDP(steps=3, scaling="none", public_gradient="sphere", **FIXED),
    "poisson batches": SemiDP(steps=4, sampling="poisson", batch_rows=60, **FIXED),
    "fixed batches": SemiDP(steps=4, sampling="without_replacement", batch_rows=60, **FIXED),
    "one pass": SemiDP(sampling="one_pass", steps=5, batch_rows=100, schedule="linear", **FIXED),
    "dp_sgd": DPSGD(steps=4),
    "mirror": MirrorDescent(steps=4),
    "exponential": Exponential(candidates=9),
}


def descents() -> Iterator[Case]:
    """Each method on the squared loss, and each loss by full batches."""

    def case(name: str, loss: str, **given: Any) -> Case:
        rows = np.column_stack([hostile(FEW[100:]), LABELS[loss][100:]])
        known = np.column_stack([FEW, LABELS[loss]])[:100]
        return private(f"train, {name}", fpp.train, rows, x_pub=known, label=-1, loss=loss, **given)

    zcdp = BUDGETS["zcdp"]
    pure = BUDGETS["pure"]
    for name, method in GRADIENTS.items():
        yield case(f"gradients, {name}", "squared", method=method, budget=BUDGETS["approx"])
    for loss in LABELS:
        yield case(f"gradients, {loss} loss", loss, method=GRADIENTS["full"], budget=zcdp)
    yield case("softmax, exact", "softmax", budget=zcdp)
    ridge = OutputPerturbation(steps=30, l2=0.5, priv_weight=0.5)
    plain = OutputPerturbation(steps=30)
    yield case("output perturbation, logistic, zcdp", "logistic", method=ridge, budget=zcdp)
    yield case("output perturbation, logistic, pure", "logistic", method=plain, budget=pure)
    exponential = GRADIENTS["exponential"]
    yield case("gradients, exponential, pure", "logistic", method=exponential, budget=pure)


CASES = (*regressions(), *descents())
