"""Arguments that public rows contradict, which costs nothing to see: the answer is "clipped", never "ok"."""

import numpy as np
import pytest

import fastpubpriv as fpp

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(50.0, 10.0, size=(60, 2))
PRIVATE = RNG.normal(50.0, 10.0, size=(4000, 2))
SHARED = {"x_pub": PUBLIC, "budget": fpp.ZCDP(0.5), "random_state": 1}
COVARIANCE = np.array([[4.0, 3.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "assumed",
    [
        {"clipping": "gaussian"},
        {"variance": 4.0},
        {"variance": [100.0, 1.0]},
        {"covariance": COVARIANCE},
    ],
    ids=["none", "number", "columns", "matrix"],
)
def test_a_variance_that_is_too_small_for_public_rows_clips(assumed):
    with pytest.warns(fpp.AccuracyWarning, match="public rows vary more than the covariance"):
        result = fpp.estimate_mean(PRIVATE, **SHARED, **assumed)
    assert result.reasons == ("clipped",)
    assert result.status == "unreliable"


@pytest.mark.parametrize(
    "assumed",
    [{"variance": 100.0}, {"variance": 1e4}, {"variance": [90.0, 110.0]}, {"covariance": "public"}],
    ids=str,
)
def test_a_variance_that_public_rows_allow_does_not_clip(assumed):
    result = fpp.estimate_mean(PRIVATE, **SHARED, **assumed)
    assert result.status == "ok"
    lower, upper = result.confidence_interval(0.999)
    assert np.all((lower < PRIVATE.mean(axis=0)) & (PRIVATE.mean(axis=0) < upper))


def test_two_public_rows_do_not_contradict_by_chance():
    public = np.random.default_rng(1).normal(size=(400, 2, 3))
    private = np.random.default_rng(2).normal(size=(2000, 3))
    results = [
        fpp.estimate_mean(private, x_pub=rows, variance=1.0, budget=fpp.ZCDP(0.5))
        for rows in public
    ]
    assert {result.status for result in results} == {"ok"}


# what is released is said to be clipped as well, where its interval lies beyond the bounds
also_clipped = pytest.mark.filterwarnings(
    "ignore:(quantiles|describe). clipped:fastpubpriv.AccuracyWarning"
)


@also_clipped
@pytest.mark.parametrize("function", [fpp.estimate_mean, fpp.quantiles, fpp.describe])
def test_bounds_that_leave_public_rows_outside_clip_their_column_alone(function):
    with pytest.warns(fpp.AccuracyWarning, match="beyond bounds= in x1"):
        result = function(PRIVATE, **SHARED, bounds=([0, 0], [100, 45]))
    parts = [reasons for reasons in result.part_reasons if "clipped" in reasons]
    assert len(parts) == len(result.part_reasons) // 2
    assert result.status == "unreliable"
    assert result.part_status[0] == "ok"


@also_clipped
@pytest.mark.parametrize("function", [fpp.estimate_mean, fpp.quantiles])
def test_bounds_that_leave_public_rows_outside_clip_their_column_in_every_group(function):
    private = np.column_stack([PRIVATE, np.arange(4000) % 2])
    public = np.column_stack([PUBLIC, np.arange(60) % 2])
    with pytest.warns(fpp.AccuracyWarning, match="beyond bounds= in x1"):
        result = function(
            private,
            x_pub=public,
            by=-1,
            groups=[0, 1],
            bounds=([0, 0], [100, 45]),
            budget=fpp.ZCDP(0.5),
            random_state=1,
        )
    clipped = np.array(["clipped" in reasons for reasons in result.part_reasons]).reshape(3, 2, -1)
    assert clipped[:, 1].all()
    assert not clipped[:, 0].any()


@pytest.mark.parametrize(
    "ends", [{"bounds": (0, 45)}, {"norm_bound": 10.0, "center": 0.0}], ids=["bounds", "norm"]
)
def test_a_weighted_mean_whose_ball_leaves_public_rows_outside_is_clipped(ends):
    with pytest.warns(fpp.AccuracyWarning, match="public rows are beyond"):
        result = fpp.weighted_mean(PRIVATE, **SHARED, **ends)
    assert result.reasons == ("clipped",)
