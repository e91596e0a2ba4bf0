"""plan("axis_aligned_mixture"): slack of the choice, sizes of the theorem, and refusals; and theory mode's own refusals."""

import math

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, BudgetError, InfeasibleError, InputError, PureDP, plan
from fastpubpriv.mechanisms.selection import slack_at
from fastpubpriv.mixtures.axis_aligned.dp_em import em_error
from fastpubpriv.mixtures.axis_aligned.learn import METHODS
from fastpubpriv.mixtures.axis_aligned.list_decoding_method import MAX_CANDIDATES, check_feasible, least_list
from fastpubpriv.mixtures.list_decoding.results import mixture_sizes
from fastpubpriv.planning import mixture_forecasts

APPROX = ApproxDP(1, 1e-6)
TASK = "axis_aligned_mixture"


def test_slack_is_that_of_the_rows_that_choose():
    made = plan(TASK, dim=1, n_components=3, n_priv=20_000, budget=APPROX)
    assert made.error == pytest.approx(slack_at(400, 6000, 1.0, 0.05))
    assert made.details["choice_rows"] == 6000
    sizes = mixture_sizes(3, 1, 0.1, APPROX, failure_prob=0.05)
    assert made.details["list_decoding_log10_candidates"] == pytest.approx(sizes.log10_candidates)
    assert made.details["list_decoding_rows"] == sizes.rows
    assert made.details["without_privacy"] < made.error


def test_solves_for_rows_and_budget():
    rows = plan(TASK, dim=1, n_components=2, budget=APPROX, error=0.08).n_priv
    assert plan(TASK, dim=1, n_components=2, n_priv=rows, budget=APPROX).error <= 0.08
    assert plan(TASK, dim=1, n_components=2, n_priv=rows - 10, budget=APPROX).error > 0.08
    made = plan(TASK, dim=1, n_components=2, n_priv=30_000, error=0.08, notion="approx", delta=1e-6)
    assert isinstance(made.budget, ApproxDP)
    again = plan(TASK, dim=1, n_components=2, n_priv=30_000, budget=made.budget)
    assert again.error == pytest.approx(0.08, rel=1e-6)


def test_rows_for_distant_components():
    """27.25 pairs in the fullest bin, of 15 % of the rows in pairs: 2 * 27.25 k^2 / (.15 * .2718), by hand."""
    for components, rows in ((1, 1337), (2, 5347), (3, 12031)):
        made = plan(TASK, dim=1, n_components=components, n_priv=20_000, budget=APPROX)
        assert made.details["distant_components_rows"] == pytest.approx(rows, rel=0.01)
    more = plan(TASK, dim=1, n_components=2, n_priv=20_000, budget=ApproxDP(0.1, 1e-6))
    assert more.details["distant_components_rows"] > 8 * 5347


def test_dp_em_says_what_its_noise_says():
    made = plan(TASK, dim=20, n_components=3, n_pub=300, n_priv=50_000, budget=ZCDP(0.0176))
    assert made.error == pytest.approx(em_error(20, 3, 50_000, 300, ZCDP(0.0176)))
    assert made.details["without_privacy"] < made.error < made.details["public_rows_alone"]
    worse = plan(TASK, dim=20, n_components=3, n_pub=300, n_priv=50_000, budget=ZCDP(0.001))
    assert worse.error > made.error


def test_dp_em_prediction_is_near_what_happens():
    from benchmarks.papers.mixture_cases import Truth
    from fastpubpriv.mixtures.axis_aligned.dp_em import public_start

    truth = Truth(np.full(2, 0.5), np.array([[-5.0] * 8, [5.0] * 8]), np.ones((2, 8)))
    rng = np.random.default_rng(0)
    from spies import seeded

    from fastpubpriv import learn_axis_aligned_mixture

    errors = []
    for run in range(8):
        result = seeded(
            learn_axis_aligned_mixture, truth.draw(rng, 20_000), n_components=2, x_pub=truth.draw(rng, 60),
            budget=ZCDP(0.01), method="dp_em", threads=1, progress=False, random_state=run,
        )  # fmt: skip
        order = np.argsort(result.means[:, 0])
        errors.append(np.linalg.norm(result.means[order] - truth.means, axis=1).mean())
    predicted = em_error(8, 2, 20_000, 60, ZCDP(0.01))
    assert 0.6 * predicted < np.mean(errors) < 1.5 * predicted
    assert public_start(truth.draw(rng, 60), 2, known_std=False)[0].means.shape == (2, 8)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"n_components": None}, InputError),
        ({"n_components": 0}, InputError),
        ({"budget": PureDP(1)}, BudgetError),
        ({"method": "dp_em"}, InputError),
        ({"method": "guess"}, InputError),
        ({"candidates": 1}, InputError),
        ({"accuracy": 2.0}, InputError),
    ],
)
def test_what_cannot_be_planned_is_refused(options, kind):
    with pytest.raises(kind):
        plan(TASK, **{"dim": 1, "n_components": 2, "n_priv": 1000, "budget": APPROX, **options})


def test_solving_works_out_the_sizes_of_the_theorem_once(monkeypatch):
    # They take a second each, and bisection asks for an error dozens of times.
    calls = []
    monkeypatch.setattr(
        mixture_forecasts, "mixture_sizes", lambda *a, **o: (calls.append(1), mixture_sizes(*a, **o))[1]
    )
    plan(TASK, dim=3, n_components=2, error=0.09, n_priv=50_000, notion="approx", delta=1e-6)
    assert len(calls) == 1


def test_times_grow_with_what_they_depend_on():
    assert METHODS["dp_em"].seconds(100_000, 20, 3, 0) > METHODS["dp_em"].seconds(10_000, 20, 3, 0)
    assert METHODS["univariate"].seconds(10_000, 1, 3, 5000) > METHODS["univariate"].seconds(10_000, 1, 3, 100)
    assert METHODS["public_list"].choice_rows(1000) == 1000


def test_theory_refuses_with_both_numbers():
    with pytest.raises(InfeasibleError, match=r"10\^44"):
        check_feasible(10**9, 2, 1, 0.1, APPROX, 0.05)
    sizes = mixture_sizes(1, 1, 0.9, APPROX, failure_prob=0.05)
    with pytest.raises(InfeasibleError, match="rows"):
        check_feasible(10_000, 1, 1, 0.9, APPROX, 0.05)
    assert least_list(1, 1, 0.9) <= MAX_CANDIDATES
    enough = sizes.variance_rows + sizes.mean_rows + 10**6
    blocks = check_feasible(enough, 1, 1, 0.9, APPROX, 0.05)
    assert (blocks.scales, blocks.means) == (sizes.variance_rows, sizes.mean_rows)
    assert blocks.choice == 10**6
    known = check_feasible(enough, 1, 1, 0.9, APPROX, 0.05, known_std=True)
    assert known.scales == 0
    assert known.means < blocks.means


def test_least_list_is_counted_exactly():
    # One coarse Gaussian: its net of means times its net of standard deviations, one weight.
    alpha = 0.9 / 18.0
    means, stds = 2 * math.ceil(1.0 / alpha) + 1, math.ceil(1.0 / math.log2(1.0 + alpha))
    assert least_list(1, 1, 0.9) == means * stds
