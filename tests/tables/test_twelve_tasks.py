"""Twelve questions about one table, in Python and on the command line: the truth lies in the intervals, and nothing is left."""

import json

import numpy as np
import pandas as pd
import pytest
from cli.command_cases import invoke

from fastpubpriv import ZCDP, PrivateTable, Rows
from fastpubpriv.sklearn import SemiPrivateLinearRegression

PATIENTS = 6000
VISITS = 20_000
WARDS = ("north", "south")
TOTAL = 12  # a rho that makes noise small beside the numbers
COLUMNS = {
    "month": "month(admitted)",
    "band": "bin(age, 18, 40, 65, 120)",
    "bmi": "weight / height ** 2",
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::fastpubpriv.AccuracyWarning", "ignore::fastpubpriv.SeededNoiseWarning"
)


def made_up(rows, seed):
    """Visits of patients, at most three of each, with a cost that depends on age and ward."""
    rng = np.random.default_rng(seed)
    patient = rng.permutation(np.repeat(np.arange(PATIENTS), 4))
    patient = patient[: min(rows, len(patient))]
    age = rng.uniform(18.0, 90.0, len(patient))
    ward = rng.choice(WARDS, len(patient), p=(0.6, 0.4))
    height = rng.normal(1.7, 0.08, len(patient))
    days = rng.integers(0, 91, len(patient)).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "patient": patient,
            "ward": ward,
            "sex": rng.choice(["f", "m"], len(patient)),
            "age": age,
            "height": height,
            "weight": rng.normal(25.0, 3.0, len(patient)) * height**2,
            "admitted": np.datetime64("2024-01-01") + days,
            "cost": 100.0 + 2.0 * age + 40.0 * (ward == "south") + rng.normal(0, 15, len(patient)),
            "w": rng.uniform(0.5, 1.0, len(patient)),
        }
    )


def three_of_each(visits):
    """The visits of patients with at most three, so that all rows are used."""
    return visits[visits.groupby("patient").cumcount() < 3].reset_index(drop=True)


ROWS = three_of_each(made_up(VISITS, seed=0))
PUBLIC = made_up(VISITS, seed=1)[-500:].drop(columns="patient").reset_index(drop=True)


@pytest.fixture
def folder(tmp_path):
    """A folder with the files of a table, and the file that binds them."""
    ROWS.to_parquet(tmp_path / "visits.parquet")
    PUBLIC.to_parquet(tmp_path / "volunteers.parquet")
    texts = "\n".join(f'{name} = "{text}"' for name, text in COLUMNS.items())
    (tmp_path / "visits.toml").write_text(
        f"""\
private = "visits.parquet"
public = "volunteers.parquet"
person = "patient"
rows_per_person = 3
ledger = "visits.ledger"
ledger_total = "rho={TOTAL}"
[with]
{texts}
"""
    )
    return tmp_path


def holds(lower, truth, upper):
    """Assert that each truth lies in its interval, an interval that says something."""
    lower, truth, upper = (np.asarray(each, dtype=float) for each in (lower, truth, upper))
    assert (lower <= truth).all(), (lower, truth)
    assert (truth <= upper).all(), (truth, upper)


def test_twelve_questions_in_python(folder):
    visits = PrivateTable(
        folder / "visits.parquet", x_pub=folder / "volunteers.parquet", person="patient", rows_per_person=3, total=ZCDP(TOTAL),
        ledger=folder / "visits.ledger",
    )  # fmt: skip
    b = visits.total / 11
    more = visits.with_columns(**COLUMNS)
    old = ROWS[(ROWS.age >= 40) & (ROWS.sex == "f")]

    m = visits.estimate_mean(columns=["cost"], by="ward", budget=b)  # 1
    truth = ROWS.groupby("ward").cost.mean()
    low, high = m.confidence_interval(0.95)
    holds(low[:2, 0], truth[["north", "south"]], high[:2, 0])

    apart = m.difference("north", "south")  # 2: for nothing
    holds(apart.lower, truth.north - truth.south, apart.upper)
    assert visits.spent == b.cost

    inside = visits.where("age >= 40 and sex == 'f'").estimate_mean(columns=["cost"], budget=b)  # 3
    low, high = inside.confidence_interval(0.95)
    holds(low, [old.cost.mean()], high)

    counts = more.value_counts(columns=["band", "ward"], budget=b)  # 4
    table = counts.to_frame()["count"].unstack()
    young = ((ROWS.age < 40) & (ROWS.ward == "north")).sum()
    assert abs(table.loc["[18, 40)", "north"] - young) < 6 * counts.noise_std

    bmi = ROWS.weight / ROWS.height**2
    ranks = more.quantiles(columns=["bmi"], by="month", groups=[1, 2, 3], budget=b)  # 5
    low, high = ranks.confidence_interval(0.95)
    holds(low[1, 0, 1], bmi[ROWS.admitted.dt.month == 2].median(), high[1, 0, 1])

    ages = visits.value_counts(columns=["age"], bins=10, budget=b)  # 6
    low, high = ages.confidence_interval(0.999)
    edge = next(place for place, (key,) in enumerate(ages.keys) if key.startswith("[40"))
    end = float(ages.keys[edge][0].strip("[)").split(", ")[1])
    holds(low[edge], ((ROWS.age >= 40) & (ROWS.age < end)).sum(), high[edge])

    people = more.count_persons(
        by=["ward", "month"], groups={"ward": WARDS, "month": [1, 2, 3]}, budget=b
    )
    in_north = ROWS[(ROWS.ward == "north") & (ROWS.admitted.dt.month == 1)].patient.nunique()  # 7
    low, high = people.confidence_interval(0.999)
    at = people.keys.index(("north", 1))
    holds(low[at], in_north, high[at])

    sums = visits.estimate_mean(columns=["cost"], keep="sum", budget=b)  # 8
    _, low, high = sums.sum(0.95)
    holds(low, [ROWS.cost.sum()], high)

    fit = visits.linear_regression(
        label="cost", columns=["age"], weights_priv="w", weights_pub="w", weight_cap=1.0, budget=b
    )  # 9
    low, high = fit.confidence_interval(0.99)
    holds(low[0], 2.0, high[0])

    features = ["age", "w", "cost"]
    persons = {"person": "patient", "rows_per_person": 3}
    bound = PrivateTable(
        ROWS[["patient", *features]],
        x_pub=PUBLIC[features],
        ledger=visits.binding.ledger,
        **persons,
    )
    model = SemiPrivateLinearRegression(b).fit(bound, "cost")  # 10
    assert abs(model.coef_[0] - 2.0) < 0.1

    glance = visits.describe(columns=["cost", "ward"], budget=b)  # 11
    assert abs(glance["cost"]["mean"] - ROWS.cost.mean()) < 5.0
    assert visits.remaining.amounts[0] == ZCDP(TOTAL).rho / 11
    visits.value_counts(columns=["ward"], budget=b)
    assert visits.remaining.is_zero

    # 12: rows that another program reads
    parts = Rows.from_chunks(lambda: iter([ROWS[["age", "cost"]].to_numpy()]), n=len(ROWS), dim=2)
    other = PrivateTable(parts, x_pub=PUBLIC[["age", "cost"]].to_numpy(), total=b)
    low, high = other.estimate_mean(budget=b).confidence_interval(0.99)
    holds(low, ROWS[["age", "cost"]].mean(), high)


def asked(folder, line, *more):
    """The result of a command about the table, with its interval and comparisons."""
    words = [*line.split(), *more, "--data", folder / "visits.toml", "--rho", f"{TOTAL}/11"]
    invoke(*words, "--json", folder / "out.json", "--quiet")
    return json.loads((folder / "out.json").read_text())


def ends(result):
    """The ends of the intervals of a result."""
    interval = result["confidence_interval"]
    return np.array(interval["lower"], dtype=float), np.array(interval["upper"], dtype=float)


def test_twelve_questions_on_the_command_line(folder):
    old = ROWS[(ROWS.age >= 40) & (ROWS.sex == "f")]
    m = asked(folder, "mean --columns cost --by ward --difference north,south")  # 1 and 2
    truth = ROWS.groupby("ward").cost.mean()
    (apart,) = m["comparisons"]
    holds(apart["lower"], truth.north - truth.south, apart["upper"])

    inside = asked(folder, "mean --columns cost --where", "age >= 40 and sex == 'f'")  # 3
    low, high = ends(inside)
    holds(low, [old.cost.mean()], high)

    counts = asked(folder, "counts --columns band,ward")  # 4
    at = counts["keys"].index(["[18, 40)", "north"])
    young = ((ROWS.age < 40) & (ROWS.ward == "north")).sum()
    assert abs(counts["published"][at] - young) < 6 * counts["noise_std"]

    ranks = asked(folder, "quantiles --columns bmi --by month --groups 1,2,3")  # 5
    low, high = ends(ranks)
    bmi = ROWS.weight / ROWS.height**2
    holds(low[1, 0, 1], bmi[ROWS.admitted.dt.month == 2].median(), high[1, 0, 1])

    assert sum(asked(folder, "counts --columns age --bins 10")["counts"]) > 0  # 6

    people = asked(folder, "persons --by ward,month --groups ward=north,south --groups month=1,2,3")
    at = people["keys"].index(["north", 1])  # 7
    in_north = ROWS[(ROWS.ward == "north") & (ROWS.admitted.dt.month == 1)].patient.nunique()
    assert abs(people["counts"][at] - in_north) < 6 * people["noise_std"]

    sums = asked(folder, "mean --keep sum --columns cost")  # 8
    low, high = ends(sums)
    holds(low * sums["n_priv"], [ROWS.cost.sum()], high * sums["n_priv"])

    words = "train --label cost --columns age --weights-priv w --weights-pub w --weight-cap 1"
    assert abs(asked(folder, words)["coefficients"][0] - 2.0) < 0.1  # 9
    assert asked(folder, "describe --columns cost,ward")["n_priv"] == ROWS.patient.nunique()  # 11
    page = invoke("ledger", folder / "visits.ledger").stdout
    assert page.count("estimate_mean") == 3
    assert "rho 2.182 of 12 left" in page
