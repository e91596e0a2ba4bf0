"""Black-box audits and the tracing attack: sound mechanisms pass, broken ones are caught, and the bounds are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.errors import raises
from scipy import stats

from fastpubpriv import ZCDP, ApproxDP, InputError, PureDP, weighted_mean
from fastpubpriv.auditing import (
    audit,
    audit_by_tracing,
    audit_randomizer,
    audit_weighted_mean,
    clopper_pearson,
    epsilon_lower_bound,
    trace_randomizer,
    trace_weighted_mean,
    tracing_attack,
)
from fastpubpriv.auditing import black_box as module
from fastpubpriv.cli import main
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (300, 1000)])
def test_bounds_are_those_of_the_binomial_law(successes, trials):
    lower, upper = clopper_pearson(successes, trials, confidence=0.975)
    if successes:
        assert stats.binom.sf(successes - 1, trials, lower) == pytest.approx(0.025)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, upper) == pytest.approx(0.025)
    assert lower <= successes / trials <= upper


def test_the_bound_on_epsilon():
    assert epsilon_lower_bound(0, 100, 100, 100) == 0.0
    assert epsilon_lower_bound(50, 100, 0, 100, delta=0.9) == 0.0
    assert 1.9 < epsilon_lower_bound(880_000, 10**6, 119_000, 10**6) < 2.0
    assert epsilon_lower_bound(500, 1000, 100, 1000, confidence=0.999) < epsilon_lower_bound(500, 1000, 100, 1000)


@pytest.mark.parametrize("randomizer", [
    PrivUnit(6, 1.0), PrivUnitG(6, 2.0), Duchi(3, 1.0, 5.0), PrivUnit(4, 1.0, form="selection"),
    SubsetSelection(3, 1.0, words=8),
])  # fmt: skip
def test_sound_randomizers_pass_and_the_bound_is_close(randomizer):
    """Confidence 1 - 1e-9 each: a sound one fails once in 10^9 runs."""
    report = audit_randomizer(randomizer, runs=60_000, confidence=1 - 1e-9)
    assert report.passed
    assert report.epsilon_lower > 0.8 * randomizer.epsilon
    assert not audit_randomizer(randomizer, claim=PureDP(0.75 * randomizer.epsilon), runs=60_000).passed


def test_a_tenth_of_the_noise_is_flagged(monkeypatch):
    """Ten times the epsilon is a tenth of the noise."""
    assert audit_weighted_mean(PureDP(1.0), runs=400, confidence=1 - 1e-9).passed
    assert not audit_weighted_mean(PureDP(10.0), claim=PureDP(1.0), runs=400).passed
    assert audit_weighted_mean(ApproxDP(1.0, 1e-3), runs=400, confidence=1 - 1e-9).passed
    assert not audit_weighted_mean(ApproxDP(10.0, 1e-3), claim=ApproxDP(1.0, 1e-3), runs=400).passed
    honest = module.weighted_mean

    def without_noise(data, *, budget, **more):
        return honest(data, budget=PureDP(50.0), **more)

    monkeypatch.setattr(module, "weighted_mean", without_noise)
    assert not audit_weighted_mean(PureDP(1.0), runs=100).passed


def test_the_threshold_may_be_chosen_by_other_runs():
    coins = np.random.default_rng(0)
    found = audit(lambda at, runs: at + coins.normal(size=runs), 1.0, 0.0, claim=PureDP(0.1), runs=4000)
    assert not found.passed
    assert "other runs" in found.event


def members(noise, seed, printed, runs=60):
    """Rates of the attack of the specification: 50 rows, 4000 columns."""
    rng = np.random.default_rng(seed)
    inside = outside = 0
    for _ in range(runs):
        theta = rng.uniform(-0.5, 0.5, 4000)
        rows = np.where(rng.random((51, 4000)) < 0.5 * (1.0 + theta), 1.0, -1.0)
        released = rows[:50].mean(axis=0) + noise * rng.standard_normal(4000)
        error = math.sqrt(4000 * (1 / 50 + noise**2))
        found = tracing_attack(
            rows[49:], released=released, theta=theta, error=error, failure_prob=0.01, printed=printed
        )
        inside, outside = inside + int(found.member[0]), outside + int(found.member[1])
    return inside / runs, outside / runs


def test_the_sharper_threshold_finds_more():
    assert members(0.1, 0, printed=True)[0] < 0.6
    found, false = members(0.1, 0, printed=False)
    assert found > 0.95
    assert false <= 0.1


def test_tracing_audits_a_mean():
    def noisy(epsilon):
        coins = np.random.default_rng(1)
        return lambda rows: (
            rows.mean(axis=0) + coins.laplace(scale=2.0 * rows.shape[1] / (len(rows) * epsilon), size=rows.shape[1])
        )

    settings = {"claim": PureDP(1.0), "n_priv": 20, "dim": 600, "runs": 150}
    assert audit_by_tracing(noisy(1.0), error=800.0, rng=np.random.default_rng(2), **settings).passed
    assert not audit_by_tracing(
        lambda rows: rows.mean(axis=0), error=6.0, rng=np.random.default_rng(2), **settings
    ).passed


def test_tracing_flags_a_tenth_of_the_noise_of_a_central_mean():
    """Confidence 1 - 1e-9 for what must pass; the event is fixed before the runs."""
    honest, weak, rows = ApproxDP(1.0, 1e-5), ApproxDP(15.0, 1e-5), np.zeros((10, 3))
    levels = [
        weighted_mean(rows, budget=budget, norm_bound=1.0, project=False).noise_std[0] for budget in (honest, weak)
    ]
    assert levels[1] == pytest.approx(0.1 * levels[0], rel=0.1)
    assert trace_weighted_mean(honest, runs=800, confidence=1 - 1e-9).passed
    assert not trace_weighted_mean(weak, claim=honest, runs=800).passed
    # Pure noise falls as one over epsilon.
    assert trace_weighted_mean(PureDP(1.0), n_priv=1, dim=5, runs=2000, confidence=1 - 1e-9).passed
    assert not trace_weighted_mean(PureDP(10.0), claim=PureDP(1.0), n_priv=1, dim=5, runs=2000).passed


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitG])
def test_tracing_flags_a_tenth_of_the_noise_of_reports(kind):
    """The randomizer whose reports have a tenth of the standard deviation, held to the price of the honest one."""
    honest, weak = kind(5, 1.0), kind(5, 25.0)
    assert weak.mean_squared_error() < 0.01 * honest.mean_squared_error()
    assert trace_randomizer(honest, runs=800, confidence=1 - 1e-9).passed
    assert not trace_randomizer(weak, claim=PureDP(1.0), runs=800).passed


@pytest.mark.parametrize("call", [
    lambda: clopper_pearson(3, 2), lambda: clopper_pearson(0, 0), lambda: epsilon_lower_bound(1, 2, 1, 2, delta=1.0),
    lambda: audit(lambda at, runs: np.zeros(3), 0, 1, claim=PureDP(1.0), runs=20, threshold=0.0),
    lambda: audit(lambda at, runs: np.zeros(runs), 0, 1, claim=ZCDP(1.0), runs=20),
    lambda: audit_randomizer(PrivUnit(3, 1.0), runs=2),
    lambda: trace_randomizer(PrivUnit(3, 1.0), n_reports=0), lambda: trace_weighted_mean(PureDP(1.0), dim=0),
    lambda: trace_weighted_mean(PureDP(1.0), n_priv=2.5), lambda: trace_weighted_mean(ZCDP(1.0), runs=10),
    lambda: tracing_attack(np.ones(3), released=np.ones(2), theta=np.zeros(3), error=1.0),
    lambda: tracing_attack(np.ones(3), released=np.ones(3), theta=np.zeros((3, 1)), error=1.0),
    lambda: tracing_attack(np.ones(4), released=np.ones(3), theta=np.zeros(3), error=1.0),
    lambda: tracing_attack(np.ones(3), released=np.ones(3), theta=np.zeros(3), error=0.0),
])  # fmt: skip
def test_bad_arguments_are_refused(call):
    raises(InputError, None, call)


@pytest.mark.parametrize(("words", "code", "said"), [
    ("privunit --epsilon 1 --runs 2000 --json -", 0, '"passed": true'), ("duchi --epsilon 3 --claim 1 --runs 5000", 1, "REFUTED"),
    ("privunit --epsilon 1 --runs 2000", 0, "not refuted"), ("privunit-g --epsilon -1", 2, "epsilon"),
    ("weighted-mean --attack tracing --epsilon 1 --delta 1e-5 --runs 60", 0, "not refuted"),
    ("weighted-mean --attack tracing --epsilon 40 --delta 1e-5 --claim 1 --runs 200", 1, "REFUTED"),
    ("privunit --attack tracing --epsilon 8 --claim 1 --runs 500 --dim 5", 1, "REFUTED"),
    ("duchi --attack tracing --epsilon 1 --runs 100 --rows 3", 0, "mean of 3, by tracing"),
    ("weighted-mean --epsilon 1 --delta 1e-3 --runs 60", 0, "Gaussian noise"),
    ("subset-selection --epsilon 1 --words 8 --dim 3 --runs 5000", 0, "not refuted"),
    ("subset-selection --epsilon 3 --words 8 --dim 3 --runs 5000 --claim 1", 1, "REFUTED"),
    ("subset-selection --attack tracing --epsilon 1 --words 8 --runs 100", 0, "not refuted"),
    ("privunit --epsilon 1 --words 8", 2, "--words belongs to subset-selection"),
    ("privunit --epsilon 1 --delta 1e-5", 2, "reports are pure"),
    ("privunit --epsilon 1 --rows 3", 2, "--attack tracing"),
    ("weighted-mean --epsilon 1 --dim 3", 2, "one column"),
    ("weighted-mean --attack tracing --epsilon 1 --dim 0", 2, "--dim"),
    ("privunit --attack tracing --epsilon 1 --confidence 2", 2, "confidence"),
])  # fmt: skip
def test_attacks_of_the_command(words, code, said):
    result = CliRunner().invoke(main, ["audit", *words.split()])
    assert result.exit_code == code, result.output
    assert said in " ".join(result.output.split())
