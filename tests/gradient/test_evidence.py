"""What slopes show of the end of a descent: a model that is ok beats a constant, and predictions hold; with planted faults."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import PureDP, train
from fastpubpriv.gradient import evidence
from fastpubpriv.results.models import PREDICTED_EXCESS
from fastpubpriv.training import SemiDP

ROWS = 2_000
SLOPES = np.array([0.4, 0.0])
DRAWS = range(6)

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


class Fit(NamedTuple):
    """A fit to counts, and the mean losses of private rows at it, at the best constant and at the true coefficients."""

    result: object
    loss: float
    constant: float
    least: float


def counts(draw, *, shift=0.0, public=60, epsilon=1, method="auto"):
    """Counts with a mean of exp(.4 x); public columns are moved by so many deviations."""
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(ROWS + public, 2))
    x[:, 1] = 0.9 * x[:, 0] + 0.5 * x[:, 1]
    y = rng.poisson(np.exp(x @ SLOPES)).astype(float)
    x_pub = x[ROWS:] + shift * x.std(axis=0)
    private = y[:ROWS]
    result = seeded(
        train,
        x[:ROWS],
        private,
        loss="poisson",
        x_pub=x_pub,
        y_pub=y[ROWS:],
        budget=PureDP(epsilon),
        method=method,
        random_state=draw,
    )
    return Fit(
        result=result,
        loss=mean_loss(result.predict(x[:ROWS]), private),
        constant=mean_loss(np.full(ROWS, private.mean()), private),
        least=mean_loss(np.exp(x[:ROWS] @ SLOPES), private),
    )


def mean_loss(rates, y):
    """Mean Poisson loss of predicted rates."""
    return float(np.mean(rates - y * np.log(np.maximum(rates, 1e-300))))


def worse_than_a_constant(shift):
    """Fits to shifted public rows that lose more than a constant does."""
    fits = [counts(draw, shift=shift) for draw in DRAWS]
    return [fit for fit in fits if fit.loss > 1.05 * fit.constant]


def fallbacks(fits):
    """How many of the fits say that their excess may be above a constant's."""
    return sum("fallback" in fit.result.reasons for fit in fits)


def test_a_model_that_is_worse_than_a_constant_is_not_ok():
    worse = worse_than_a_constant(2.0)
    assert len(worse) >= 5  # of six
    assert "ok" not in {fit.result.status for fit in worse}
    assert fallbacks(worse) >= 4


def test_planted_fault_a_curvature_that_is_believed_is_seen(monkeypatch):
    """Steps that overshoot end where the public curvature says that they have no slope."""
    monkeypatch.setattr(evidence, "_misfit", lambda early, late, steep: 0.0)
    assert fallbacks(worse_than_a_constant(2.0)) < 4


def test_public_rows_of_the_same_population_give_no_reason_and_the_excess_there_is():
    ratios = []
    for draw in DRAWS:
        fit = counts(draw)
        assert fit.result.status == "ok"
        assert fit.result.provenance[PREDICTED_EXCESS] != "public rows"
        assert fit.loss < fit.constant
        ratios.append((fit.loss - fit.least) / fit.result.predicted_excess)
    assert 0.3 < np.median(ratios) < 3.0


def test_planted_fault_slopes_without_their_noise_are_seen(monkeypatch):
    """Noise then seems to be a curvature far above the public one."""
    noisy = {"epsilon": 0.1, "method": SemiDP(steps=4, priv_weight=0.2)}
    plain = evidence.evidence_of

    def without_noise(problem, plan, slopes, end):
        exact = [dataclasses.replace(each, noise_variance=0.0 * each.slope) for each in slopes]
        return plain(problem, plan, exact, end)

    before = fallbacks([counts(draw, **noisy) for draw in DRAWS])
    monkeypatch.setattr(evidence, "evidence_of", without_noise)
    after = fallbacks([counts(draw, **noisy) for draw in DRAWS])

    assert before <= 2  # of six
    assert after >= 5


def test_the_ridge_of_public_slopes_does_not_make_their_intercept_certain():
    """Columns that explain nothing have a large ridge, beside which 20 labels still leave their mean in doubt by 1 / 20."""
    excess = []
    predicted = []
    for draw in range(40):
        rng = np.random.default_rng(draw)
        y = rng.poisson(1.0, 20).astype(float)
        x = rng.normal(size=(20, 2))
        given = {"loss": "poisson", "budget": PureDP(1), "method": "throw_away"}
        result = seeded(train, x + 1.0, y, x_pub=x, y_pub=y, random_state=0, **given)
        predicted.append(result.predicted_excess)
        # of the loss at the rate 1, for a constant rate
        excess.append(np.exp(result.intercept[0]) - 1.0 - result.intercept[0])
    assert min(predicted) > 0.5 * (1.0 / 40.0)  # half of the error of the mean alone
    assert 0.5 * np.mean(excess) < np.mean(predicted) < 4.0 * np.mean(excess)


def test_few_public_rows_of_classes_do_not_show_the_curvature():
    """Three classes and two columns have six free coefficients: 20 public rows are not five for each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2))
    y = np.argmax(np.column_stack([x, np.zeros(ROWS)]) + rng.gumbel(size=(ROWS, 3)), axis=1)
    given = {"loss": "softmax", "budget": PureDP(1), "method": SemiDP(steps=4), "random_state": 0}

    few = seeded(train, x[20:], y[20:], x_pub=x[:20], y_pub=y[:20], **given)
    many = seeded(train, x[60:], y[60:], x_pub=x[:60], y_pub=y[:60], **given)

    assert "few_public_rows" in few.reasons
    assert "few_public_rows" not in many.reasons


@pytest.mark.parametrize("slope", [np.nan, np.inf, -1e300, 1e300])
def test_whatever_slope_is_released_there_is_a_result(monkeypatch, slope):
    plain = evidence.evidence_of

    def hostile(problem, plan, slopes, end):
        changed = [dataclasses.replace(each, slope=each.slope * 0.0 + slope) for each in slopes]
        return plain(problem, plan, changed, end)

    monkeypatch.setattr(evidence, "evidence_of", hostile)
    assert np.isfinite(counts(0).result.coefficients).all()


def linear(draw):
    """A squared loss whose public columns are moved by two deviations: its excess, and the result."""
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(ROWS + 60, 2))
    y = x @ [1.0, -1.0] + 3.0 + rng.normal(size=ROWS + 60)
    x_pub = x[ROWS:] + 2.0
    given = {"loss": "squared", "budget": PureDP(1), "method": SemiDP(), "random_state": draw}
    result = seeded(train, x[:ROWS], y[:ROWS], x_pub=x_pub, y_pub=y[ROWS:], **given)
    design = np.column_stack([np.ones(ROWS), x[:ROWS]])
    best = np.linalg.lstsq(design, y[:ROWS], rcond=None)[0]
    lost = result.predict(x[:ROWS]).ravel() - design @ best
    return float(np.mean(lost**2)), result


def test_an_excess_that_slopes_show_is_the_one_there_is():
    """Public rows of another population predict a hundredth of it."""
    ratios = []
    for draw in DRAWS:
        excess, result = linear(draw)
        assert result.status != "ok"
        ratios.append(excess / result.predicted_excess)
    assert 0.1 < np.median(ratios) < 4.0
