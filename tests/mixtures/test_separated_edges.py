"""Bad arguments are refused before anything is paid; bad private content is silent; odd public rows give fewer components."""

import math
import warnings

import numpy as np
import pytest
from mixture_cases import errors_of, matched, separated

from fastpubpriv import (
    ZCDP,
    AccuracyWarning,
    BudgetError,
    InputError,
    Ledger,
    PureDP,
    learn_separated_mixture,
    no_public_baseline,
    public_only,
)

pytestmark = pytest.mark.usefixtures("one_blas_thread")  # matrices are small: a second thread would only wait

DIM = 3
RNG = np.random.default_rng(31)
MIXTURE = separated(RNG, DIM, 2, 40.0)
ROWS, LABELS = MIXTURE.draw(RNG, 20_000)
PUBLIC = MIXTURE.of(RNG, np.arange(30) % 2)
GOOD = {"x_pub": PUBLIC, "n_components": 2, "min_weight": 0.3, "budget": ZCDP(1), "progress": False}
METHODS = [
    pytest.param({"method": "tree"}, id="tree"),
    pytest.param({"method": "one_shot"}, id="one shot"),
    pytest.param({"method": "public_pca"}, id="public"),
    pytest.param({"method": "tree", "mode": "theory"}, id="algorithms 6 and 7"),
    pytest.param({"method": "public_pca", "mode": "theory"}, id="algorithms 9 and 10"),
]


def finite(result):
    """What every result must be, whatever the private rows are."""
    assert 1 <= result.n_components == len(result.status) == len(result.weights)
    said = {"ok", "diagonal", "mean", "public", "clipped", "low_count", "under_resolved", "shifted"}
    assert set(result.status) <= said
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.weights.min() > 0.0
    for array in (result.means, result.covariances):
        assert np.isfinite(array).all()
    assert all(np.linalg.eigvalsh(covariance)[0] > 0.0 for covariance in result.covariances)
    return result


BAD = [
    ({"n_components": 0}, InputError, "n_components"),
    ({"n_components": 1.5}, InputError, "n_components"),
    ({"n_components": True}, InputError, "n_components"),
    ({"n_components": 31, "min_weight": 0.01}, InputError, "31 with 30 public rows"),
    ({"n_components": 10**7}, InputError, "n_components"),
    ({"min_weight": 0.0}, InputError, "min_weight"),
    ({"min_weight": 0.51}, InputError, "min_weight must be at most 1 / n_components = 0.5"),
    ({"min_weight": math.nan}, InputError, "min_weight"),
    ({"min_weight": "0.3"}, InputError, "min_weight"),
    ({"budget": PureDP(1), "method": "tree"}, BudgetError, "PureDP"),
    ({"method": "one_shot", "mode": "theory"}, InputError, "one_shot"),
    ({"weight_floor": 0.0}, InputError, "weight_floor"),
    ({"weight_floor": 2}, InputError, "weight_floor"),
    ({"x_pub": PUBLIC[:, :2]}, InputError, "2 columns and private rows have 3"),
    ({"x_pub": PUBLIC[:1], "n_components": 1}, InputError, "at least 2 public rows"),
    ({"x_pub": np.ones((5, 3))}, InputError, "all public rows are equal"),
    ({"x_pub": None}, InputError, "needs public rows"),
    ({"x_pub": ROWS[:30]}, InputError, "memory"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD)
def test_refused_before_anything_is_paid(changes, error, message):
    ledger = Ledger(ZCDP(1))
    with pytest.raises(error, match=message):
        learn_separated_mixture(ROWS, **{**GOOD, "ledger": ledger, **changes})
    assert ledger.remaining.amounts == (1,)


def test_more_components_than_private_rows():
    with pytest.raises(InputError, match="number of private rows"):
        learn_separated_mixture(ROWS[:1], **GOOD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"center": [0.0, 1.0]}, "center"),
        ({"n_components": 0}, "n_components"),
        ({"weight_floor": 0.0}, "weight_floor"),
    ],
)
def test_baseline_refusals(changes, message):
    with pytest.raises(InputError, match=message):
        no_public_baseline(ROWS, **{"n_components": 2, "radius": 50.0, "budget": ZCDP(1), "progress": False, **changes})


def test_public_only_refusals():
    for rows, k in ((PUBLIC, 0), (PUBLIC, 31), (np.ones((4, 2)), 2), (PUBLIC[:1], 1)):
        with pytest.raises(InputError):
            public_only(rows, n_components=k)


def test_a_budget_that_buys_nothing_warns_and_one_too_small_for_a_grid_is_refused():
    with pytest.warns(AccuracyWarning, match="component of 6000 rows"):
        finite(learn_separated_mixture(ROWS, **{**GOOD, "budget": ZCDP(1e-6)}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        finite(learn_separated_mixture(ROWS, **{**GOOD, "budget": ZCDP(500)}))


# ---- Private content is silent --------------------------------------------------------------------------------------


def test_missing_rows_and_an_outlier_leave_the_rest_alone():
    rows = ROWS.copy()
    rows[::10, 1] = np.nan
    rows[1] = 1e300
    result = finite(learn_separated_mixture(rows, **GOOD, method="tree"))
    assert errors_of(result, MIXTURE)[1].max() < 0.3
    # A missing row counts in n: the weights are shares of the rows that are there, made to add up to one.
    assert np.abs(errors_of(result, MIXTURE)[2]).max() < 0.05


# ---- Odd public rows ------------------------------------------------------------------------------------------------

ODD = {
    "duplicates": np.repeat(PUBLIC[:4], 6, axis=0),
    "collinear": PUBLIC[:, :1] * np.array([[1.0, 2.0, -1.0]]) + 3.0,
    "two of each": PUBLIC[:4],
    "one far away": np.vstack([PUBLIC, [[1e9, 0.0, 0.0]]]),
    "all but one equal": np.vstack([np.repeat(PUBLIC[:1], 20, axis=0), PUBLIC[1:2]]),
    "tiny": PUBLIC * 1e-140,
    "huge": PUBLIC * 1e140,
}


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("public", ODD.values(), ids=ODD.keys())
def test_odd_public_rows(options, public):
    finite(learn_separated_mixture(ROWS, **{**GOOD, "x_pub": public.copy(), **options}))


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", METHODS)
def test_many_components_asked_for_and_few_there(options):
    """Ten asked for, two there; twenty public rows."""
    result = finite(
        learn_separated_mixture(
            ROWS, **{**GOOD, "x_pub": PUBLIC[:20].copy(), "n_components": 10, "min_weight": 0.1, **options}
        )
    )
    assert result.n_components <= 10
    if options["method"] == "tree":
        # A tree stops where nothing separates: with a tenth of the rows on a side a component would have to fall apart.
        assert result.n_components <= 4


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("options", METHODS)
def test_a_leaf_without_private_rows(options):
    """All private rows in one component: the other leaf stands with its public summary, and is marked."""
    result = finite(learn_separated_mixture(ROWS[LABELS == 0], **GOOD, **options))
    if result.n_components == 2:
        assert "low_count" in result.status
        low = result.status.index("low_count")
        assert np.linalg.norm(result.means[low] - MIXTURE.means[1]) < 5.0


def test_one_component():
    result = finite(learn_separated_mixture(ROWS[LABELS == 0], **{**GOOD, "n_components": 1, "min_weight": 1.0}))
    assert (result.n_components, result.diagnostics["depth"]) == (1, 0)
    assert result.weights.tolist() == [1.0]
    alone = separated(np.random.default_rng(0), 1, 1, 0.0)
    line = finite(
        learn_separated_mixture(
            alone.draw(RNG, 5000)[0], **{**GOOD, "x_pub": alone.draw(RNG, 5)[0], "n_components": 1, "min_weight": 1.0}
        )
    )
    assert abs(line.means[0, 0] - alone.means[0, 0]) < 0.3


@pytest.mark.parametrize("options", METHODS[:3])
def test_one_column(options):
    line = separated(np.random.default_rng(3), 1, 1, 0.0)
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=10_000)
    rows = line.of(rng, np.zeros(10_000, dtype=int)) + 50.0 * labels[:, None]
    public = line.of(rng, np.zeros(30, dtype=int)) + 50.0 * (np.arange(30) % 2)[:, None]
    result = finite(learn_separated_mixture(rows, **{**GOOD, "x_pub": public, **options}))
    assert matched(result.tree.assign(rows), labels) > 0.99


def test_a_constant_public_column_is_named():
    rng = np.random.default_rng(0)

    def rows(n):
        labels = np.arange(n) % 2
        return np.column_stack([rng.normal(20.0 * labels, 1.0), rng.normal(size=n), rng.random(n) < 0.1])

    private, public = rows(6_000), rows(30)
    public[:, 2] = 0.0
    with pytest.warns(AccuracyWarning, match="the public rows are constant in 2: the scale of the other columns"):
        found = learn_separated_mixture(
            private, x_pub=public, n_components=2, min_weight=0.3, budget=ZCDP(0.5), method="public_pca"
        )
    assert found.diagnostics["fallback_columns"] == ("2",)
    assert "Scale borrowed by" in found.summary()
    assert set(found.status) <= {"borrowed", "under_resolved", "clipped"}
