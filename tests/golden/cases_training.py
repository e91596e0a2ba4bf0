"""Cases of regression: every method under each budget. Scales and directions come from public rows by LAPACK."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from golden_case import Case, private
from golden_data import BUDGETS, hostile, mixed, normal

import fastpubpriv as fpp
from fastpubpriv import ZCDP

X = mixed(41, 3000, 3)
NUMBER = X @ [2.0, 0.5, -0.1] + 4.0 + normal(42, 3000, 1)[:, 0]
CLASS = (X @ [20.0, 0.5, -0.1] + 4.0 * normal(43, 3000, 1)[:, 0] > 3.0).astype(np.float64)
MONTH = np.arange(3000.0) % 4


def labelled(labels: np.ndarray) -> dict[str, object]:
    """Private rows with hostile ones among them, and a hundred public ones."""
    return {"x": np.column_stack([hostile(X[100:]), labels[100:]]), "x_pub": np.column_stack([X, labels])[:100]}


def regressions() -> Iterator[Case]:
    common = {"label": -1}
    for name, budget in BUDGETS.items():
        given = {**labelled(NUMBER), **common, "budget": budget}
        for method in ("newton", "sufficient_statistics", "auto"):
            yield private(
                f"linear_regression, {method}, {name}", fpp.linear_regression, **given, method=method, threads=(2,)
            )
        yield private(f"train, {name}", fpp.train, **given, loss="squared", method="newton")
        given = {**labelled(CLASS), **common, "budget": budget}
        yield private(f"logistic_regression, newton, {name}", fpp.logistic_regression, **given, method="newton")
    given = {**common, "budget": ZCDP(1)}
    months = np.column_stack([X[:, :2], MONTH, NUMBER + MONTH])
    yield private(
        "linear_regression, categories", fpp.linear_regression, months[100:], x_pub=months[:100],
        categories={"x2": "public"}, **given,
    )  # fmt: skip
    yield private(
        "linear_regression, throw_away", fpp.linear_regression, **labelled(NUMBER), **given, method="throw_away"
    )


CASES = tuple(regressions())
