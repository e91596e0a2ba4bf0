"""Calls of the book as a type checker reads them: `test_examples.py` runs mypy on this file, which nobody runs."""

from typing import assert_type

import numpy as np
import pandas as pd

import fastpubpriv as fpp
from fastpubpriv.results.base import Value
from fastpubpriv.results.by_key import CountResult, GroupMeans
from fastpubpriv.results.comparisons import Comparison
from fastpubpriv.results.description import Description
from fastpubpriv.results.estimates import GaussianResult, MeanResult
from fastpubpriv.results.models import DescentResult, TrainingResult
from fastpubpriv.results.ranks import GroupQuantiles, QuantileResult

private = pd.DataFrame({"age": np.arange(9.0), "ward": ["north", "south", "west"] * 3})
public = private[:3]
budget = fpp.ZCDP(rho=0.5)

# Without groups an estimate of the columns, with `by=` one of each group.
mean = fpp.estimate_mean(private, x_pub=public, columns=["age"], budget=budget)
assert_type(mean, MeanResult)
assert_type(fpp.estimate_mean(private, x_pub=public, budget=budget, by=None), MeanResult)
_ = mean.groups  # type: ignore[attr-defined]

means = fpp.estimate_mean(
    private, x_pub=public, columns="age", by="ward", groups=["north", "south"], budget=budget
)
assert_type(means, GroupMeans)
assert_type(means.difference("north", "south"), Comparison)
assert_type(fpp.estimate_mean(private, x_pub=public, by=-1, budget=budget), GroupMeans)
assert_type(fpp.estimate_mean(private, x_pub=public, by=["a", "b"], budget=budget), GroupMeans)

median = fpp.quantiles(private, x_pub=public, q=0.5, columns="age", budget=budget, person="id")
assert_type(median, QuantileResult)
by_ward = fpp.quantiles(private, x_pub=public, columns="age", by="ward", budget=budget, keep="mean")
assert_type(by_ward, GroupQuantiles)

# Methods of a bound table answer as the functions do.
table = fpp.PrivateTable(private, x_pub=public, total=budget)
assert_type(table.estimate_mean(columns=["age"], budget=budget / 4), MeanResult)
older = table.where("age >= 3")
assert_type(older.quantiles(columns="age", by="ward", budget=budget / 4), GroupQuantiles)

# Others have one class of answer.
assert_type(fpp.describe(private, x_pub=public, budget=budget), Description)
assert_type(fpp.value_counts(private, columns="ward", keys=["north"], budget=budget), CountResult)
assert_type(fpp.estimate_gaussian(private, x_pub=public, budget=budget), GaussianResult)
model = fpp.train(private, label="age", loss="squared", x_pub=public, budget=budget)
assert_type(model, TrainingResult | DescentResult)

# What all answers can do; fields and methods keep their types.
again = MeanResult.from_json(mean.to_json())
assert_type(again, MeanResult)
assert_type(again.widened(3), MeanResult)
assert_type(mean.mean, np.ndarray[tuple[int, ...], np.dtype[np.float64]])  # type: ignore[assert-type]
answers: list[Value] = [mean, means, median, by_ward, model]
mean.mean = means.mean  # type: ignore[misc]

# Arguments that there are not, and values that they do not take.
fpp.estimate_mean(private, x_pub=public, budget=budget, by="ward", q=0.5)  # type: ignore[call-overload]
fpp.quantiles(private, x_pub=public, budget=budget, keep="all")  # type: ignore[call-overload]
fpp.estimate_mean(private, budget=budget)  # type: ignore[call-overload]
MeanResult(mean=mean.mean)  # type: ignore[call-arg]
