"""Levels of a column: what the terms are called, and coefficients as differences from a reference level."""

import functools

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from spies import SpyLedger, seeded

from fastpubpriv import ZCDP, InputError, PureDP, linear_regression, logistic_regression, train
from fastpubpriv.results.models import TrainingResult

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.errors.AccuracyWarning")
BUDGET = ZCDP(0.5)
EFFECTS = {"9E": 0.0, "AA": 1.0, "B6": -1.0}
MONTHS = {1: 0.0, 2: 0.5, 3: 0.0}


def flights(n=3000, seed=0):
    """A number, a text and a number column with levels, weights, and a label of unit noise that is twice as large for 9E."""
    rng = np.random.default_rng([3, seed])
    carrier = rng.choice(list(EFFECTS), n, p=[0.5, 0.3, 0.2])
    month = rng.choice(list(MONTHS), n)
    frame = pd.DataFrame({"x": rng.normal(size=n), "carrier": carrier, "month": month})
    effects = frame["carrier"].map(EFFECTS) + frame["month"].map(MONTHS)
    frame["y"] = frame["x"] + effects + rng.normal(size=n) * (1.0 + (carrier == "9E"))
    frame["w"] = rng.uniform(0.2, 1.0, n)
    return frame


def fitted(frame, function=linear_regression, m=300, **given):
    """The fit with the first m rows public."""
    asked = {
        "label": "y",
        "columns": ["x", "carrier", "month"],
        "categories": ["carrier", "month"],
        "budget": BUDGET,
        **given,
    }
    return seeded(function, frame[m:], x_pub=frame[:m].copy(), **asked)


# ---- Terms -----------------------------------------------------------------------------------------------------------
TERMS = ("x", "carrier=9E", "carrier=AA", "carrier=B6", "month=1", "month=2", "month=3")


def test_terms_carry_the_text_of_a_level():
    result = fitted(flights())
    assert result.terms == TERMS
    assert tuple(result.to_frame().index) == ("intercept", *TERMS)
    assert "month=3.0" not in result.summary()
    assert TrainingResult.from_json(result.to_json()).terms == TERMS


@pytest.mark.parametrize("categories", ["carrier", ["carrier"], {"carrier": "public"}])
def test_one_name_is_a_list_of_one(categories):
    result = fitted(flights(), columns=["x", "carrier"], categories=categories)
    assert result.terms == TERMS[:4]


def test_numbers_that_are_close_have_terms_of_their_own():
    frame = flights()
    frame["month"] = np.resize([1234567.0, 1234568.0, 0.5, -0.0], len(frame))
    terms = fitted(frame).terms[4:]
    assert terms == ("month=0", "month=0.5", "month=1234567", "month=1234568")


def test_texts_of_any_kind_are_levels():
    """Blanks at the ends do not count, and an empty text is no level."""
    frame = flights()
    frame["carrier"] = np.resize(["a=b", " two words ", "", "été", "01"], len(frame))
    result = fitted(frame, reference={"carrier": "two words "})
    assert result.terms[1:6] == tuple(
        f"carrier={level}" for level in ("01", "a=b", "two words", "été", "other")
    )
    assert result.design["reference"] == {"carrier": "two words"}


def test_a_level_called_other_is_not_the_others():
    frame = flights()
    frame["carrier"] = frame["carrier"].replace("AA", "other")
    result = fitted(frame, categories={"carrier": ["other", "9E"]}, reference={"carrier": "other"})
    assert result.terms[1:4] == ("carrier=other", "carrier=9E", "carrier=(other)")
    assert [place for place, value in enumerate(result.coefficients) if value == 0.0] == [1]


@pytest.mark.parametrize("reference", [None, {"carrier": "9E"}])
def test_the_one_level_of_public_rows_is_constant(reference):
    frame = flights()
    frame.loc[:299, "carrier"] = "9E"
    result = fitted(frame, reference=reference)
    place = result.terms.index("carrier=9E")
    lower, upper = result.confidence_interval()
    assert result.part_reasons[place + 1] == ("constant",)
    assert np.isnan(result.coefficients[place])
    assert (lower[place], upper[place]) == (-np.inf, np.inf)
    assert np.isfinite(result.predict(frame)).all()
    assert "levels of month: difference from" in result.summary()


def test_texts_of_a_dictionary_in_a_file_are_levels(tmp_path):
    frame = flights()
    frame["carrier"] = frame["carrier"].astype("category")
    frame[300:].to_parquet(tmp_path / "private.parquet")
    frame[:300].to_parquet(tmp_path / "public.parquet")
    given = {"columns": ["x", "carrier"], "categories": ["carrier"], "reference": {"carrier": "AA"}}
    result = seeded(
        linear_regression,
        tmp_path / "private.parquet",
        x_pub=tmp_path / "public.parquet",
        label="y",
        budget=BUDGET,
        **given,
    )
    wanted = fitted(frame.astype({"carrier": str}), **given)
    assert result.terms == TERMS[:4]
    np.testing.assert_array_equal(result.coefficients, wanted.coefficients)


# ---- A reference level -----------------------------------------------------------------------------------------------
REFERENCE = {"carrier": "AA", "month": 3}
CALLS = {
    "newton": (linear_regression, {}),
    "light": (linear_regression, {"tails": "light"}),
    "few public rows": (linear_regression, {"m": 12, "method": "newton"}),
    "public rows alone": (linear_regression, {"method": "throw_away"}),
    "pure": (linear_regression, {"budget": PureDP(20.0)}),
    "logistic": (logistic_regression, {}),
    "huber": (train, {"loss": "huber"}),
    "softmax": (train, {"loss": "softmax", "method": "newton", "m": 400}),
    "softmax, gradients": (train, {"loss": "softmax", "method": "semi_dp"}),
    "gradients": (train, {"loss": "squared", "method": "dp_sgd"}),
    "exponential": (train, {"loss": "squared", "method": "exponential", "columns": ["x", "month"],
                            "categories": ["month"]}),
}  # fmt: skip


def labeled_for(frame, call):
    if "softmax" in call:
        frame["y"] = np.digitize(frame["y"], [-0.5, 0.5]).astype(float)
    elif call == "logistic":
        frame["y"] = (frame["y"] > 0.0).astype(float)
    return frame


@functools.cache
def fits_of(call):
    """The fits of a call without a reference and with it."""
    function, given = CALLS[call]
    frame = labeled_for(flights(), call)
    reference = {name: REFERENCE[name] for name in given.get("categories", REFERENCE)}
    return fitted(frame, function, **given), fitted(frame, function, **given, reference=reference)


@pytest.mark.parametrize("call", CALLS)
def test_predictions_do_not_depend_on_the_reference(call):
    plain, result = fits_of(call)
    rows = flights(50, 1)
    rows.loc[:9, "carrier"] = "unknown"
    rows.loc[10:14, "carrier"] = None
    rows.loc[5:7, "month"] = 99
    np.testing.assert_allclose(
        result.decision_function(rows), plain.decision_function(rows), atol=1e-12
    )


def test_intervals_of_predictions_do_not_depend_on_the_reference():
    plain, result = fits_of("newton")
    rows = flights(50, 1)
    rows.loc[:9, "carrier"] = "unknown"
    found = result.prediction_interval(rows)
    np.testing.assert_allclose(found, plain.prediction_interval(rows), rtol=1e-6)


@pytest.mark.parametrize("call", CALLS)
def test_coefficients_are_differences_from_those_of_the_reference(call):
    plain, result = fits_of(call)
    for name, level in result.design["reference"].items():
        places = [i for i, term in enumerate(result.terms) if term.startswith(f"{name}=")]
        base = result.terms.index(f"{name}={level}")
        for mine, other in (
            (result.coefficients, plain.coefficients),
            (result.public_coefficients, plain.public_coefficients),
        ):
            wanted = other[..., places] - other[..., [base]]
            np.testing.assert_allclose(mine[..., places], wanted, atol=1e-12)
            assert np.all(mine[..., base] == 0.0)


@pytest.mark.parametrize("call", ["newton", "light", "public rows alone", "logistic", "softmax"])
def test_a_reference_has_no_interval_and_no_reason(call):
    _, result = fits_of(call)
    lower, upper = (np.atleast_2d(end) for end in result.confidence_interval())
    is_reference = np.isin(result.terms, ["carrier=AA", "month=3"])
    assert np.isnan(lower[:, is_reference]).all()
    assert np.isnan(upper[:, is_reference]).all()
    assert np.isfinite(lower[:, ~is_reference]).all()
    outputs = len(lower)
    parts = np.array([bool(each) for each in result.part_reasons]).reshape(outputs, -1)
    assert not parts[:, 1:][:, is_reference].any()
    again = type(result).from_json(result.to_json())
    rows = flights(9, 1).assign(month=99)
    np.testing.assert_array_equal(again.decision_function(rows), result.decision_function(rows))
    np.testing.assert_array_equal(again.confidence_interval(), result.confidence_interval())
    assert again.summary() == result.summary()


def test_the_summary_says_what_coefficients_are_differences_from():
    frame = flights()
    average = "levels of carrier, month: difference from the average of the public rows"
    assert average in fitted(frame).summary()
    mixed = fitted(frame, reference={"carrier": "AA"}).summary()
    assert "levels of carrier: difference from carrier=AA" in mixed
    assert "levels of month: difference from the average of the public rows" in mixed
    gradients = fitted(frame, train, loss="squared", method="semi_dp", reference=REFERENCE)
    assert "levels of month: difference from month=3" in gradients.summary()


def least_squares(frame, weights=None):
    """Intercept, slope, and differences from AA and month 3, of the rows at hand."""
    levels = [frame["carrier"] == "9E", frame["carrier"] == "B6"]
    months = [frame["month"] == 1, frame["month"] == 2]
    rows = np.column_stack([np.ones(len(frame)), frame["x"], *levels, *months]).astype(float)
    root = np.ones(len(frame)) if weights is None else np.sqrt(weights.to_numpy())
    return np.linalg.lstsq(rows * root[:, None], frame["y"] * root, rcond=None)[0]


ESTIMATED = np.array([0, 1, 2, 4, 5, 6])  # of [intercept, terms]: all but AA and month 3
ASKED = {
    "rows": {},
    "weights": {"weights_priv": "w", "weights_pub": "w", "weight_cap": 1.0},
    "persons, few public rows": {"person": "id", "rows_per_person": 1, "m": 40},
}


@pytest.mark.parametrize("asked", ASKED)
def test_intervals_hold_the_differences_of_the_private_rows(asked):
    """Of 210 intervals of 95 % about the private rows' own numbers; the carrier's variance depends on it."""
    held = []
    m = ASKED[asked].get("m", 200)
    for seed in range(35):
        frame = flights(m + 3000, seed)
        frame["id"] = np.arange(len(frame))
        given = {**ASKED[asked], "budget": ZCDP(0.2), "method": "newton", "m": m}
        result = fitted(frame, **given, reference=REFERENCE)
        weights = frame["w"][m:] if asked == "weights" else None
        lower, upper = result._ends(0.95, rows=True)
        truth = least_squares(frame[m:], weights)
        held += ((lower[ESTIMATED] <= truth) & (truth <= upper[ESTIMATED])).tolist()
    assert np.mean(held) >= 0.93, f"{np.sum(held)} of {len(held)} intervals hold the truth"


@pytest.mark.parametrize(
    ("asked", "draws"),
    [({"tails": "light"}, 35), ({"loss": "huber"}, 35), ({"method": "throw_away"}, 100)],
    ids=str,
)
def test_intervals_hold_the_differences_of_the_population(asked, draws):
    """Six intervals of 95 % a draw. Those of one draw share the errors of AA and month 3, hence many draws where they are fast."""
    held = []
    truth = np.array([1.0, 1.0, -1.0, -2.0, 0.0, 0.5])
    for seed in range(draws):
        frame = flights(3200, 1000 + seed)
        function = train if "loss" in asked else linear_regression
        given = {"method": "newton", **asked, "reference": REFERENCE, "m": 200}
        lower, upper = fitted(frame, function, **given)._ends(0.95)
        held += ((lower[ESTIMATED] <= truth) & (truth <= upper[ESTIMATED])).tolist()
    assert np.mean(held) >= 0.93, f"{np.sum(held)} of {len(held)} intervals hold the truth"


def test_a_rare_reference_makes_all_differences_uncertain():
    """Ten public rows of 300: intervals are wider than with a reference of a third of the rows, and finite."""
    frame = flights(6300)
    frame.loc[::30, "carrier"] = "rare"
    widths = {}
    for level in ("rare", "AA"):
        result = fitted(frame, reference={"carrier": level})
        lower, upper = result.confidence_interval()
        place = result.terms.index("carrier=9E")
        widths[level] = upper[place] - lower[place]
    assert np.isfinite(widths["rare"])
    assert widths["rare"] > 1.5 * widths["AA"], widths


def test_all_levels_beside_an_intercept_have_one_coordinate_less_with_a_reference():
    """The predicted excess of public rows counts the same coordinates."""
    frame = flights()
    plain = fitted(frame, method="throw_away")
    result = fitted(frame, method="throw_away", reference=REFERENCE)
    assert result.public_excess == plain.public_excess


@pytest.mark.parametrize("level", [3, 3.0, "3", np.float32(3.0), np.int64(3)])
def test_a_level_of_numbers_is_named_by_number_or_text(level):
    assert fitted(flights(), reference={"month": level}).design["reference"] == {"month": "3"}


def test_truth_values_are_levels():
    frame = flights()
    frame["month"] = frame["month"] > 1
    result = fitted(frame, reference={"month": True})
    assert result.terms[4:] == ("month=0", "month=1")
    assert result.coefficients[-1] == 0.0


WRONG = {
    "'ZZ' of 'carrier' that no public row has: there are '9E', 'AA', 'B6'": {"carrier": "ZZ"},
    "4 of 'month' that no public row has: there are '1', '2', '3'": {"month": 4},
    "nan of 'month'": {"month": float("nan")},
    "None of 'carrier'": {"carrier": None},
    "column 'x' that has no categories": {"x": 1.0},
    "column 'z' that has no categories": {"z": "AA"},
    "must map a column to the level": ["carrier"],
    "such as .'carrier': 'UA'.": "carrier",
}


@pytest.mark.parametrize("words", WRONG)
@pytest.mark.parametrize("method", ["newton", "semi_dp"])
def test_a_wrong_reference_is_refused_before_the_debit(words, method):
    log = []
    frame = flights()
    frame.loc[300:, "carrier"] = frame["carrier"].replace("B6", "Alice")  # of private rows alone
    frame.loc[299, "carrier"] = "B6"
    given = {"loss": "squared", "method": method, "ledger": SpyLedger(ZCDP(1), log)}
    refused = raises(InputError, words, fitted, frame, train, **given, reference=WRONG[words])
    assert "Alice" not in str(refused)
    assert log == []


def test_a_level_of_private_rows_alone_is_no_reference():
    """Even if it is listed: which rows have it is private."""
    frame = flights()
    frame.loc[:299, "carrier"] = frame["carrier"].replace("B6", "AA")
    given = {"categories": {"carrier": ["9E", "AA", "B6"]}, "reference": {"carrier": "B6"}}
    raises(InputError, "'B6' of 'carrier' that no public row has", fitted, frame, **given)


def test_a_column_that_is_left_out_has_no_categories():
    words = "'carrier' that is not among the features: name one of these, or add it to columns="
    raises(InputError, words, fitted, flights(), columns=["x", "month"])


def test_the_plot_shows_levels_and_what_they_are_differences_from(tmp_path):
    pytest.importorskip("matplotlib")
    frame = flights()
    frame["carrier"] = frame["carrier"].replace("AA", "$5-$9")
    figure = fitted(frame, reference={"month": 3}).plot(tmp_path / "plot.png")
    shown = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert sorted(shown) == sorted(term.replace("AA", r"\$5-\$9") for term in TERMS)
    said = " ".join(figure._supxlabel.get_text().split())
    assert "of a level, from the mean of the public rows or its reference" in said
