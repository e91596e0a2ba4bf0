"""Public rows of which few have a label, or none: accuracy, intervals, equal bits, refusals, and what is read."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from helpers.neighbors import pair_at
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from spies import refused, seeded

from fastpubpriv import (
    ZCDP,
    PureDP,
    ReplayError,
    linear_regression,
    logistic_regression,
    plan,
    train,
)
from fastpubpriv.auditing import record_replay
from fastpubpriv.regression import exact, unlabeled
from fastpubpriv.regression.posterior import Law
from fastpubpriv.results import Reason
from fastpubpriv.sklearn import SemiPrivateLinearRegression, SemiPrivateLogisticRegression

RHO = ZCDP(0.0284)  # epsilon 1 at delta 1e-6, about
RNG = np.random.default_rng(3)
M = 60
X = RNG.normal(size=(4060, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
SLOPES = np.array([1.0, -0.1, 4.0])
Y = X @ SLOPES + RNG.normal(size=len(X))
ILL = (RNG.random(len(X)) < expit(X @ SLOPES)) * 1.0
PUBLIC = {"x_pub": X[:M].copy(), "budget": ZCDP(0.2)}


def drawn(seed, dim, n, m, error=1.0):
    """Slopes (dim,), private rows and labels, and public rows of independent normal columns; `error` is that of labels."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=dim) / np.sqrt(dim)
    x = rng.normal(size=(n + m, dim))
    return slopes, x[m:], x[m:] @ slopes + error * rng.normal(size=n), x[:m].copy()


def share_inside(result, exact_fit):
    """Share of [intercept, coefficients] whose interval of the exact fit to the private rows contains it."""
    lower, upper = result._ends(0.95, rows=True)
    return np.mean((lower <= exact_fit) & (exact_fit <= upper))


def excess_and_coverage(dim, n, m, seeds):
    """Excess of each fit without public labels, and coverage of least squares of the private rows."""
    excess = []
    inside = []
    for seed in range(seeds):
        slopes, x, y, public = drawn(seed, dim, n, m)
        result = seeded(linear_regression, x, y, x_pub=public, budget=RHO, random_state=seed)
        excess.append(np.sum((result.coefficients - slopes) ** 2) + result.intercept**2)
        least = np.linalg.lstsq(np.column_stack([np.ones(n), x]), y, rcond=None)[0]
        inside.append(share_inside(result, least))
    return np.median(excess), np.mean(inside)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(
    ("dim", "n", "m", "seeds", "simulated"),
    # the excess of a simulation with Gaussian noise of the same size
    [(10, 5000, 40, 20, 0.0075), (30, 15_000, 60, 8, 0.0123)],
)
def test_accuracy_and_intervals_without_public_labels(dim, n, m, seeds, simulated):
    excess, coverage = excess_and_coverage(dim, n, m, seeds)
    assert excess < 1.5 * simulated, f"excess {excess:.4f}"
    assert coverage >= 0.93, f"{coverage:.3f} of {seeds * (dim + 1)} intervals"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_planted_fault_a_fit_of_made_up_labels_is_caught(monkeypatch):
    """Made-up labels have no slopes: if their fit counted, private rows of the same law would differ from it."""

    def kept(problem):
        own = Law(mean=problem.posterior.mean, covariance=problem.posterior.covariance)
        return dataclasses.replace(plain(problem), own=own)

    _, x, y, public = drawn(0, 10, 5000, 60)
    plain = exact.public_laws
    result = seeded(linear_regression, x, y, x_pub=public, budget=RHO)
    assert Reason.SHIFTED not in result.reasons
    monkeypatch.setattr(exact, "public_laws", kept)
    faulty = seeded(linear_regression, x, y, x_pub=public, budget=RHO)
    assert Reason.SHIFTED in faulty.reasons


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_intervals_of_classes_without_public_labels():
    inside = []
    for seed in range(45):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(4050, 4))
        y = (rng.random(len(x)) < expit(x @ rng.normal(size=4) - 1.0)) * 1.0
        result = seeded(
            logistic_regression,
            x[50:],
            y[50:],
            x_pub=x[:50].copy(),
            classes=[0, 1],
            budget=ZCDP(0.05),
            random_state=seed,
        )
        fit = LogisticRegression(C=1e6, solver="newton-cholesky").fit(x[50:], y[50:])
        inside.append(share_inside(result, np.append(fit.intercept_, fit.coef_[0])))
    assert np.mean(inside) >= 0.93, f"{np.mean(inside):.3f} of 225 intervals"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_intervals_of_steep_log_odds_without_public_labels():
    """The curvature along the slope is below noise, so that the fit falls short: for all numbers, not for the steepest alone."""
    inside = []
    for seed in range(16):
        slopes, x, _, public = drawn(seed, 10, 4000, 150)
        y = (np.random.default_rng(seed + 100).random(len(x)) < expit(4.0 * x @ slopes)) * 1.0
        result = seeded(
            logistic_regression,
            x,
            y,
            x_pub=public,
            classes=[0, 1],
            budget=ZCDP(0.5),
            random_state=seed,
        )
        fit = LogisticRegression(C=1e6, solver="newton-cholesky", max_iter=300).fit(x, y)
        inside.append(share_inside(result, np.append(fit.intercept_, fit.coef_[0])))
    assert np.mean(inside) >= 0.92, f"{np.mean(inside):.3f} of 176 intervals"


@pytest.mark.parametrize("error", [1.0, 0.1, 0.02])
def test_made_up_labels_call_no_tail_heavy(error):
    """Of labeled rows of the same law one draw in twenty is "heavy_tail", by noise in the count of norms."""
    draws = 20
    heavy = 0
    for seed in range(draws):
        _, x, y, public = drawn(seed, 3, 5000, 40, error=error)
        result = seeded(linear_regression, x, y, x_pub=public, budget=RHO, random_state=seed)
        heavy += (Reason.HEAVY_TAIL,) in result.part_reasons
    assert heavy <= 4, f"{heavy} of {draws} Gaussian draws, errors of {error}"


def test_far_labels_are_named_without_public_ones():
    """A sentinel in one label of fifty, which the scale of labels ignores."""
    y = np.where(np.arange(len(Y)) % 50 == 0, -999.0, Y)
    result = seeded(linear_regression, X[M:], y[M:], **PUBLIC)
    named = {reason for part in result.part_reasons for reason in part}
    assert named <= {Reason.HEAVY_TAIL, Reason.FALLBACK}, named
    assert all(result.part_reasons), result.part_reasons


def test_the_summary_says_how_many_labels_are_public():
    without = seeded(linear_regression, X[M:], Y[M:], **PUBLIC)
    text = without.summary()
    assert "public labels from fewer than 3 of 60 rows, and not used" in text
    assert "no public labels to fit" in text
    assert "public only" not in text
    assert "public rows alone" not in text
    known = np.where(np.arange(M) < 20, Y[:M], np.nan)
    some = seeded(linear_regression, X[M:], Y[M:], y_pub=known, **PUBLIC)
    assert "public labels from 20 of 60 rows" in some.summary()
    assert "public only" in some.summary()


@pytest.mark.parametrize("name", ["Outcome", " outcome", "out_come", "outcmoe"])
def test_a_label_with_nearly_the_name_is_refused(name):
    table = pd.DataFrame(X, columns=["a", "b", "outcomes"]).assign(outcome=Y)
    public = table[:M].rename(columns={"outcome": name})
    for columns in (None, ["a", "b"]):
        given = {"x_pub": public, "label": "outcome", "columns": columns, "budget": ZCDP(0.2)}
        refused(linear_regression, "rename it to 'outcome' if it holds", table[M:], **given)


def test_a_private_column_with_nearly_the_name_is_no_label():
    table = pd.DataFrame(X, columns=["a", "b", "outcomes"]).assign(outcome=Y)
    given = {"x_pub": table[:M].drop(columns="outcome"), "label": "outcome", "columns": ["a", "b"]}
    result = seeded(linear_regression, table[M:], budget=ZCDP(0.2), **given)
    assert "no public labels" in result.summary()


def test_no_labels_and_an_empty_column_of_labels_give_equal_bits():
    wanted = seeded(linear_regression, X[M:], Y[M:], **PUBLIC).to_json()
    for empty in (np.full(M, np.nan), [None] * M, np.append(Y[:2], np.full(M - 2, np.nan))):
        found = seeded(linear_regression, X[M:], Y[M:], y_pub=empty, **PUBLIC).to_json()
        assert found == wanted
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    rows = {"label": "y", "budget": ZCDP(0.2)}
    without = seeded(linear_regression, table[M:], x_pub=table[:M].drop(columns="y"), **rows)
    empty = seeded(linear_regression, table[M:], x_pub=table[:M].assign(y=np.nan), **rows)
    assert without.to_json() == empty.to_json()
    last = seeded(linear_regression, np.column_stack([X, Y])[M:], label=-1, **PUBLIC)
    assert last.to_json() == wanted


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("labels", [0, 1, 3, 7, 30, M])
@pytest.mark.parametrize("budget", [ZCDP(0.2), PureDP(2.0)])
def test_any_number_of_public_labels(labels, budget):
    known = np.where(np.arange(M) < labels, Y[:M], np.nan)
    result = seeded(linear_regression, X[M:], Y[M:], y_pub=known, **{**PUBLIC, "budget": budget})
    off = (result.coefficients - SLOPES) * X.std(axis=0)
    assert np.abs(off).max() < 0.15, f"standardized errors {off.round(3)}"
    assert Reason.FEW_PUBLIC_ROWS not in result.reasons
    assert result.n_pub == M
    counts = [each["name"] for each in result.releases].count(unlabeled.LABEL_NORMS)
    assert counts == (labels < 3)


def test_units_come_from_rows_without_labels_too():
    known = np.where(np.arange(M) < 20, Y[:M], np.nan)
    x_pub = X[:M].copy()
    x_pub[20:, 0] += 3.0 * (np.arange(M - 20) % 2)
    wide = seeded(linear_regression, X[M:], Y[M:], y_pub=known, **{**PUBLIC, "x_pub": x_pub})
    plain = seeded(linear_regression, X[M:], Y[M:], y_pub=known, **PUBLIC)
    assert not np.array_equal(wide.coefficients, plain.coefficients)


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(
    "given",
    [
        {"y_scale": 2.0},
        {"y_bounds": (-20.0, 20.0)},
        {"tails": "light"},
        {"weights_pub": np.linspace(0.1, 1.0, M)},
        {"weights_pub": np.ones(M), "weights_priv": np.ones(4000), "weight_cap": 1.0},
        {"x_bounds": ([-5.0, -50.0, -1.0], [5.0, 60.0, 1.0])},
        {"method": "newton"},
    ],
)
def test_every_argument_without_public_labels(given):
    result = seeded(linear_regression, X[M:], Y[M:], **given, **PUBLIC)
    off = (result.coefficients - SLOPES) * X.std(axis=0)
    assert np.abs(off).max() < 0.15, f"standardized errors {off.round(3)}"


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_fewer_public_rows_than_coefficients_have_no_intervals():
    result = seeded(linear_regression, X[M:], Y[M:], **{**PUBLIC, "x_pub": X[:3].copy()})
    assert set(result.part_reasons) == {(Reason.FEW_PUBLIC_ROWS,)}


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(("loss", "labels"), [("squared", 7), ("huber", 7), ("logistic", 16)])
def test_light_tails_have_no_intervals_from_the_scale_of_few_labels(loss, labels):
    """With intervals, 0.63, 0.81 and 0.91 of the true coefficients were inside; those without labels are wider."""
    classes = loss == "logistic"
    given = {"classes": [0, 1]} if classes else {}
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(3040, 3))
        y = 1.0 + x @ [1.0, -1.0, 0.5]
        y = (rng.random(3040) < expit(y)) * 1.0 if classes else y + rng.normal(size=3040)
        few = np.where(np.arange(40) < labels, y[:40], np.nan)
        for y_pub in (few, None):
            result = seeded(
                train,
                x[40:],
                y[40:],
                loss=loss,
                x_pub=x[:40].copy(),
                y_pub=y_pub,
                budget=ZCDP(0.1),
                tails="light",
                method="newton",
                random_state=seed,
                **given,
            )
            if y_pub is few:
                assert set(result.part_reasons) == {(Reason.FEW_PUBLIC_ROWS,)}
                continue
            lower, upper = result.confidence_interval()
            inside.append((lower <= [1.0, -1.0, 0.5]) & (upper >= [1.0, -1.0, 0.5]))
    assert np.mean(inside) >= 0.9, f"{np.mean(inside):.3f} of 12 intervals without labels"


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (linear_regression, {"method": "throw_away"}, "nothing to fit"),
        (linear_regression, {"budget": ZCDP(1e-6)}, "no label is public: pass y_scale="),
        (train, {"loss": "squared", "method": "semi_dp"}, "public rows with a label"),
        (train, {"loss": "softmax", "classes": [0, 1, 2]}, "public rows with a label"),
        (train, {"loss": "poisson"}, "public rows with a label"),
        (logistic_regression, {}, "0 classes, and two are needed: pass classes="),
        (logistic_regression, {"classes": [0, 1], "class_weight": "public"}, "no label is public"),
        (linear_regression, {"y_pub": np.full(M - 1, np.nan)}, "one label for each row"),
        (linear_regression, {"y_pub": np.full(M, np.inf)}, "must be finite"),
    ],
)
def test_what_needs_public_labels_is_refused_before_the_debit(function, given, words):
    table = np.column_stack([X, ILL])[M:]
    if "y_pub" in given:
        refused(function, words, X[M:], y_priv=Y[M:], **{**PUBLIC, **given})
        return
    refused(function, words, table, label=-1, **{**PUBLIC, **given})


def replayed(function=linear_regression, **given):
    pair = pair_at(
        np.column_stack([X, ILL])[M : M + 40], 3, [9.0, 90.0, 1e6, 1.0], [0.0, 0.0, 0.0, 1e9]
    )
    spent = ZCDP(5.0)
    return record_replay(
        lambda rows: function(
            rows[:, :3], rows[:, 3], threads=1, **{**PUBLIC, "budget": spent, **given}
        ),
        *pair,
        budget=spent,
    )


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_record_and_replay_without_public_labels():
    for given in ({}, {"tails": "light"}, {"function": logistic_regression, "classes": [0, 1]}):
        report = replayed(**given)
        assert 0.0 < report.pair_cost <= report.declared_cost


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_planted_fault_a_unit_from_private_labels_is_caught(monkeypatch):
    def read(run, *_):
        scale = max(float(np.abs(chunk[:, -1]).max()) for chunk in run.rows.chunks())
        return unlabeled.LabelScale(scale=scale, has_far_labels=False)

    monkeypatch.setattr(unlabeled, "release_label_scale", read)
    raises(ReplayError, "label|query|differ|moved", replayed)


def test_plan_predicts_without_labels():
    predicted = plan("train", dim=10, n_pub=40, n_labeled=0, n_priv=5000, budget=RHO).error
    excess, _ = excess_and_coverage(10, 5000, 40, 4)
    # in parts of the variance of a label, which is two
    assert 1 / 3 < predicted / (excess / 2.0) < 3, f"{predicted:.4f} and {excess / 2.0:.4f}"


@pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning")
@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_scikit_learn_without_public_labels():
    rows = {"X_pub": X[:M].copy()}
    model = SemiPrivateLinearRegression(ZCDP(0.2), random_state=7).fit(X[M:], Y[M:], **rows)
    assert np.abs((model.coef_ - SLOPES) * X.std(axis=0)).max() < 0.15
    ill = np.where(ILL == 1.0, "ill", "well")
    classes = {"classes": ("well", "ill"), "random_state": 7}
    model = SemiPrivateLogisticRegression(ZCDP(0.2), **classes).fit(X[M:], ill[M:], **rows)
    assert model.predict([[9.0, 5.0, 0.0], [-9.0, 5.0, 0.0]]).tolist() == ["ill", "well"]
