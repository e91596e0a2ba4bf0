"""`estimate_gaussian` up the ladder: never worse than the public rows, and what it says about itself."""

import warnings

import numpy as np
import pytest
from gaussian_cases import RHO_HALF, covariance_error, draw, gaussian, mean_error
from helpers.refusals import Refusals
from spies import SpyLedger, SpyRows, refused, seeded

from fastpubpriv import ZCDP, AccuracyWarning, ApproxDP, Ledger, PureDP, estimate_gaussian

RUNGS = ("public", "mean", "diagonal", "full")
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(2, 1e-6), "pure": PureDP(2)}
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def cell(dim, n, n_pub, condition, seed, *, budget=RHO_HALF, **options):
    """Result, errors of covariance and mean, and the mean error of the public rows."""
    rng = np.random.default_rng([seed, dim, n, n_pub])
    mean, factor = gaussian(dim, condition, rng)
    private = draw(n, mean, factor, rng)
    public = draw(n_pub, mean, factor, rng)
    result = seeded(
        estimate_gaussian, private, x_pub=public, budget=budget, random_state=seed, **options
    )
    return (
        result,
        covariance_error(result.covariance, factor),
        mean_error(result.mean, mean, factor),
        mean_error(public.mean(axis=0), mean, factor),
    )


def ladder(private, public, *, budget=RHO_HALF, **options):
    return seeded(
        estimate_gaussian, private, x_pub=public, budget=budget, random_state=0, **options
    )


# dim, n_priv, n_pub, condition, then rung and errors of the specification's table
TABLE = [
    (8, 400, 24, 100, "full", 0.86, 0.21),
    (8, 10_000, 9, 100, "full", 0.089, 0.028),  # the table's .023 is below the sampling error
    (5, 1000, 6, 1e4, "full", 0.195, 0.084),
    (20, 1000, 60, 100, "full", 1.21, 0.22),
    (20, 10_000, 10, 1e4, "full", 0.225, 0.050),
    (20, 10_000, 10, 1, "full", 0.107, 0.047),
    (20, 50_000, 2, 100, "full", 0.096, 0.020),
    (20, 150, 60, 1e4, "mean", 2.75, 0.38),
    (60, 1000, 61, 1e4, "mean", 8.0, 0.45),
]


# Cheap and telling: few rows, hardly more public rows than columns, an ill-conditioned covariance.
CHEAP = [TABLE[0], TABLE[1], TABLE[2], TABLE[7]]


@pytest.mark.parametrize(
    ("row", "seeds"),
    [
        *((row, 9) for row in CHEAP),
        *(pytest.param(row, 15, marks=pytest.mark.statistical) for row in TABLE),
    ],
)
def test_rows_of_the_specification(row, seeds):
    dim, n, n_pub, condition, rung, covariance, mean = row
    found = [cell(dim, n, n_pub, condition, seed) for seed in range(seeds)]
    assert {result.structure for result, *_ in found} == {rung}
    errors = np.median([numbers for _, *numbers in found], axis=0)
    if rung == "full":
        assert errors[0] <= 1.3 * covariance
    assert errors[1] <= 1.3 * mean
    assert errors[1] <= 1.1 * errors[2]


@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_and_notion(notion, rung):
    budget = BUDGETS[notion]
    ledger = Ledger(budget)
    result, *errors = cell(3, 20_000, 8, 10.0, 0, budget=budget, structure=rung, ledger=ledger)
    assert result.structure == rung
    assert {*result.reasons} <= (set() if rung == "full" else {"few_rows"})
    assert np.isfinite(errors).all()
    if rung == "public":
        assert ledger.spent.is_zero
        assert result.releases == ()
        assert "nothing" in result.summary()
    else:
        assert result.spent == budget
        assert len(ledger.entries) == 1
    assert set(result.diagnostics["rungs"]) == set(RUNGS)
    assert "predicted" in result.summary().lower()


def test_the_rung_depends_on_public_rows_alone_and_the_public_one_pays_nothing():
    log = []
    rows = SpyRows(np.zeros((30, 4)), log)
    public = np.random.default_rng(0).normal(size=(9, 4))
    result = estimate_gaussian(
        rows, x_pub=public, budget=RHO_HALF, ledger=SpyLedger(RHO_HALF, log), structure="public"
    )
    assert log == []
    assert np.allclose(result.mean, public.mean(axis=0))
    public = np.random.default_rng(1).normal(size=(9, 4))
    rows = [np.zeros((3000, 4)), np.full((3000, 4), np.nan), 1e300 * np.ones((3000, 4))]
    found = [estimate_gaussian(x, x_pub=public, budget=RHO_HALF) for x in rows]
    assert len({result.structure for result in found}) == 1
    assert len({str(result.diagnostics["rungs"]) for result in found}) == 1


def test_rows_a_thousand_deviations_away():
    rng = np.random.default_rng(2)
    public = rng.normal(size=(12, 4))
    result = ladder(rng.normal(size=(20_000, 4)) + 1e3, public)
    # A count says how far the rows are, rounds of second moments where, and how they spread there.
    assert result.reasons == ("shifted",)
    assert np.abs(result.mean - 1e3).max() < 0.1
    assert 10.0 < result.diagnostics["shift"] < 3000.0
    assert "deviations off" in result.summary()
    near = ladder(rng.normal(size=(20_000, 4)), public)
    assert near.status == "ok"
    assert near.diagnostics["shift"] < 2.0
    for rung in ("mean", "diagonal"):
        far = ladder(rng.normal(size=(5000, 4)) + 1e3, public, structure=rung)
        assert {"shifted", "clipped"} & {*far.reasons}
        assert np.abs(far.mean - 1e3).max() < 100.0
    # Without a count that shows anything, the ball around the public rows holds the mean back, and that is said.
    few = ladder(rng.normal(size=(300, 4)) + 1e3, public, budget=ZCDP(0.05), structure="mean")
    assert "clipped" in few.reasons


@pytest.mark.parametrize("rung", RUNGS[1:])
@pytest.mark.parametrize("factor", [30.0, 1e4, 0.03])
def test_a_public_set_of_another_scale_is_noticed_and_made_up_for(rung, factor):
    rng = np.random.default_rng(20)
    public = rng.normal(size=(40, 3)) - rng.normal(size=(40, 3)).mean(axis=0)
    public -= public.mean(axis=0)
    private = factor * rng.normal(size=(20_000, 3))
    result = ladder(private, public, structure=rung)
    assert "shifted" in result.reasons
    assert result.diagnostics["scale_ratio"] == pytest.approx(factor, rel=0.3)
    assert "Public scale" in result.summary()
    assert covariance_error(result.covariance, factor * np.eye(3)) < (
        0.1 if rung == "full" else 1.2
    )
    assert np.abs(result.mean).max() < 0.1 * factor
    same = ladder(private / factor, public, structure=rung)
    assert {*same.reasons} <= (set() if rung == "full" else {"few_rows"})
    assert same.diagnostics["scale_ratio"] == 1.0


@pytest.mark.parametrize("rung", RUNGS[1:])
def test_a_shifted_public_mean_loses_its_weight(rung):
    # Many public rows three deviations away: by their number alone they would decide the mean.
    rng = np.random.default_rng(21)
    public = rng.normal(size=(4000, 3)) + 3.0
    private = rng.normal(size=(4000, 3))
    result = ladder(private, public, structure=rung)
    assert {"shifted", "clipped"} & {*result.reasons}
    assert np.abs(result.mean).max() < (0.1 if rung == "full" else 0.5)
    # Control: in the right place they do.
    right = ladder(private, public - 3.0, structure=rung)
    assert {*right.reasons} <= {"few_rows"}
    assert right.diagnostics["mean_weight"] < 0.9


def test_rows_far_out_are_counted_in():
    # One column in a hundred rows is eight deviations out: a ball for Gaussian rows would cut most of its variance off.
    rng = np.random.default_rng(22)

    def draw_rows(count):
        rows = rng.normal(size=(count, 6))
        rows[:, 5] = 10.0 * (rng.random(count) < 0.01)
        return rows

    private = draw_rows(20_000)
    public = draw_rows(300)
    truth = np.diag([1.0] * 5 + [0.99])
    public[:, 5] = 0.0
    public[:3, 5] = 10.0
    result = ladder(private, public)
    assert {*result.reasons} <= {"heavy_tail"}
    assert covariance_error(result.covariance, np.sqrt(truth)) < 0.35
    assert result.covariance[5, 5] > 0.7


def test_warnings_say_what_would_buy_more_and_name_constant_columns():
    rng = np.random.default_rng(3)
    public = np.column_stack([rng.normal(size=12), np.full(12, 7.0), rng.normal(size=12)])
    private = rng.normal(size=(20_000, 3)) + np.array([0.0, 7.0, 0.0])
    with pytest.warns(AccuracyWarning, match="constant in 1"):
        result = estimate_gaussian(private, x_pub=public, budget=RHO_HALF)
    assert result.diagnostics["fallback_columns"] == ("1",)
    assert "No public scale in" in result.summary()
    assert covariance_error(result.covariance, np.eye(3)) < 0.2
    # Warnings say what would buy more.
    public = np.random.default_rng(4).normal(size=(20, 10))
    with pytest.warns(AccuracyWarning, match=r"mean alone is private.*About \d+ private rows"):
        found = estimate_gaussian(np.zeros((150, 10)), x_pub=public, budget=RHO_HALF)
    assert found.structure == "mean"
    with pytest.warns(AccuracyWarning, match="structure='auto' would take 'mean'"):
        estimate_gaussian(np.zeros((150, 10)), x_pub=public, budget=RHO_HALF, structure="full")
    with warnings.catch_warnings(action="error", category=AccuracyWarning):
        estimate_gaussian(np.zeros((100_000, 3)), x_pub=public[:, :3], budget=RHO_HALF)


REFUSED = Refusals()
REFUSED.add("structure", structure="low_rank")
REFUSED.add("belongs to method='ladder'", structure="mean", method="pairs")
REFUSED.add("no use for rounds", structure="mean", rounds=3)
REFUSED.add("no use for mode", method="ladder", mode="theory")
REFUSED.add("no use for pub_priv_gap", method="ladder", pub_priv_gap=0.1)
REFUSED.add("all public rows are equal", x_pub=np.ones((5, 3)))
REFUSED.add("at least two public rows", x_pub=np.ones((1, 3)))
REFUSED.add("no integer grid", budget=PureDP(2.0**-27), structure="full")


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refusals_come_before_the_debit_and_before_any_read(options, message):
    public = np.random.default_rng(2).standard_normal((8, 3))
    refused(
        estimate_gaussian,
        message,
        np.zeros((50, 3)),
        **{"x_pub": public, "budget": RHO_HALF} | options,
    )


def test_arguments_of_the_other_methods_choose_them():
    public = np.random.default_rng(5).normal(size=(8, 3))
    for options in ({"rounds": 3}, {"mode": "theory"}, {"pub_priv_gap": 0.2}, {"cond_max": 10.0}):
        result = estimate_gaussian(np.zeros((500, 3)), x_pub=public, budget=RHO_HALF, **options)
        assert result.method == "lifted_coinpress"
    assert estimate_gaussian(np.zeros((500, 3)), x_pub=public, budget=RHO_HALF).method == "ladder"


@pytest.mark.parametrize("n_pub", [2, 5, 20])
def test_one_column_is_resolved_in_full(n_pub):
    """In one column variances along axes are the covariance: a ball of public size would only clip them."""
    cells = [cell(1, 20_000, n_pub, 1.0, seed, budget=ZCDP(0.1)) for seed in range(4)]
    assert {result.structure for result, *_ in cells} == {"full"}
    assert np.median([errors[0] for _, *errors in cells]) < 0.03
    forced = [
        cell(1, 20_000, n_pub, 1.0, seed, budget=ZCDP(0.1), structure="diagonal")
        for seed in range(4)
    ]
    assert np.mean([errors[0] for _, *errors in forced]) > np.mean(
        [errors[0] for _, *errors in cells]
    )
