"""Intervals of means in the local model hold the truth, and columns are matched by name."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises

from fastpubpriv import InputError, local
from fastpubpriv.results.reasons import Reason

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
DRAWS = 200
LEAST = 0.93  # of 200 draws or more: .95 less 1.3 standard errors of .0154
RANDOMIZERS = [
    local.PrivUnit(2, 4.0, norm_bound=2.0),
    local.PrivUnitG(2, 4.0, norm_bound=2.0),
    local.Duchi(2, 4.0, 2.0),
    local.SubsetSelection(2, 4.0, norm_bound=2.0, words=16),
]


def normal(rng, n, dim):
    return rng.normal(0.3, 0.2, (n, dim))


def heavy(rng, n, dim):
    return 0.3 + 0.1 * rng.standard_t(2.5, (n, dim))


def rare(rng, n, dim):
    return (rng.random((n, dim)) < 0.03).astype(np.float64)


TRUTH = {normal: 0.3, heavy: 0.3, rare: 0.03}


def answers(device, law, *, n_pub, n=1000, shift=0.0, draws=DRAWS, **more):
    """Yield rows, public rows and the answer of each draw."""
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        rows = law(rng, n, device.dim)
        public = law(rng, n_pub, device.dim) + shift if n_pub else None
        reports = device.privatize(rows, random_state=seed)
        yield rows, public, local.estimate_mean(reports, x_pub=public, **more)


def holds(result, truth):
    lower, upper = result.confidence_interval(0.95)
    return (lower <= truth) & (truth <= upper)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("device", RANDOMIZERS, ids=lambda device: type(device).__name__)
def test_intervals_hold_the_mean(device, epsilon):
    """Five public rows, all within the ball: the mean of the law, in 200 draws of two columns."""
    device = dataclasses.replace(device, epsilon=epsilon)
    held = [holds(result, 0.3) for *_, result in answers(device, normal, n_pub=5)]
    assert np.mean(held) >= LEAST, f"{np.mean(held):.3f} of the intervals hold the mean"


@pytest.mark.parametrize(
    ("law", "dim", "n_pub", "epsilon", "bound"),
    [
        (normal, 1, 0, 4.0, 2.0),
        (normal, 1, 1, 0.5, 2.0),
        (normal, 2, 2, 0.5, 2.0),
        (normal, 50, 1, 4.0, 9.0),
        (normal, 50, 2, 0.5, 9.0),
        (normal, 50, 5, 0.5, 9.0),
        (heavy, 2, 50, 0.5, 1.5),
        (heavy, 2, 50, 4.0, 0.6),
        (normal, 2, 50, 4.0, 0.6),
        (rare, 1, 50, 0.5, 1.0),
        (rare, 1, 50, 4.0, 1.0),
        (rare, 2, 2, 4.0, 1.5),
    ],
)
def test_intervals_hold_the_mean_in_corners(law, dim, n_pub, epsilon, bound):
    """Few public rows, many columns, tails, rows beyond the bound, and columns in which most public rows are equal."""
    device = local.PrivUnit(dim, epsilon, norm_bound=bound)
    held = [holds(result, TRUTH[law]) for *_, result in answers(device, law, n_pub=n_pub)]
    assert np.mean(held) >= LEAST, f"{np.mean(held):.3f} of the intervals hold the mean"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_reports_have_wide_intervals(n):
    device = local.PrivUnit(2, 4.0, norm_bound=2.0)
    held = [holds(result, 0.3) for *_, result in answers(device, normal, n_pub=0, n=n)]
    assert np.mean(held) >= LEAST, f"{np.mean(held):.3f} of the intervals hold the mean"


def test_public_rows_that_reports_refute_are_left_out():
    """Two deviations off: seen in all of 50 draws, and the interval is that of the reports."""
    device = local.PrivUnit(2, 4.0, norm_bound=2.0)
    held = []
    for _, _, result in answers(device, normal, n_pub=20, shift=0.4, draws=50):
        assert Reason.SHIFTED in result.reasons
        assert result.releases[0]["private_weight"] == 1.0
        held.append(holds(result, 0.3))
    assert np.mean(held) >= 0.9, f"{np.mean(held):.3f} of the intervals hold the mean"


def test_public_rows_of_the_same_law_are_rarely_refuted():
    """The limit d + 3 sqrt(2 d) is exceeded by chi-squared of two degrees with probability exp(-4) = .018."""
    device = local.PrivUnit(2, 1.0, norm_bound=2.0)
    results = [result for *_, result in answers(device, normal, n_pub=50)]
    refuted = sum(Reason.SHIFTED in result.reasons for result in results)
    assert refuted <= 10, f"{refuted} of {DRAWS} draws, 3.7 expected"


def test_the_empirical_mean_is_right_for_any_public_rows():
    """A shift too small to be seen at epsilon .5: the mean of the reported and public rows themselves is held."""
    device = local.PrivUnit(2, 0.5, norm_bound=2.0)
    cases = answers(device, normal, n_pub=200, shift=0.2, target="empirical")
    held = [holds(result, np.vstack([rows, public]).mean(axis=0)) for rows, public, result in cases]
    assert np.mean(held) >= LEAST, f"{np.mean(held):.3f} of the intervals hold the mean"


def test_clipping_that_cannot_be_counted_is_said():
    device = local.PrivUnit(1, 4.0, norm_bound=0.3)
    rows = normal(np.random.default_rng(0), 500, 1)
    reports = device.privatize(rows, random_state=0)
    few = local.estimate_mean(reports, x_pub=np.array([[0.2], [0.5]]))
    assert few.reasons == (Reason.CLIPPED,)
    assert few.clipping_std is None
    inside = local.estimate_mean(reports, x_pub=np.array([[0.2], [0.25]]))
    assert Reason.CLIPPED not in inside.reasons
    # Half of the rows are clipped, and with many reports that is most of the interval.
    many = device.privatize(normal(np.random.default_rng(1), 20_000, 1), random_state=0)
    shown = normal(np.random.default_rng(2), 50, 1)
    assert local.estimate_mean(many, x_pub=shown).reasons == (Reason.HEAVY_TAIL,)


# ---- Columns by name -------------------------------------------------------------------------------------------------
DEVICE = local.PrivUnit(2, 4.0, norm_bound=3.0)
PEOPLE = pd.DataFrame({"age": np.full(3000, 1.0), "income": np.full(3000, -1.0), "name": "anna"})
SHOWN = pd.DataFrame({"income": np.linspace(-1.2, -0.8, 50), "age": np.linspace(0.8, 1.2, 50)})


def test_public_columns_take_the_order_of_the_reports():
    reports = DEVICE.privatize(PEOPLE, columns=["age", "income"], random_state=0)
    total = local.Aggregator(DEVICE)
    total.add(reports[:1000])
    total.add(reports[1000:].to_bytes())  # bytes have no names
    for given in (reports, [reports], total):
        result = local.estimate_mean(given, x_pub=SHOWN)
        assert result.columns == ("age", "income")
        assert np.abs(result.mean - [1.0, -1.0]).max() < 0.2
        assert Reason.SHIFTED not in result.reasons
    plain = local.Reports.from_bytes(reports.to_bytes(), randomizer=DEVICE)
    named = local.estimate_mean(plain, x_pub=SHOWN, columns=["age", "income"])
    assert np.array_equal(named.mean, local.estimate_mean(reports, x_pub=SHOWN).mean)
    assert local.estimate_mean(plain, columns=["age", "income"]).columns == ("age", "income")
    assert local.estimate_mean(plain).columns is None


def test_other_columns_are_refused():
    reports = DEVICE.privatize(PEOPLE, columns=["age", "income"], random_state=0)
    other = SHOWN.rename(columns={"age": "years"})
    raises(InputError, "matched by name", local.estimate_mean, reports, x_pub=other)
    raises(InputError, "1 names", local.estimate_mean, reports, columns=["age"])
    swapped = DEVICE.privatize(PEOPLE, columns=["income", "age"], random_state=0)
    raises(InputError, "same columns=", local.estimate_mean, [reports, swapped])
    raises(InputError, "not numeric", DEVICE.privatize, PEOPLE)
    raises(InputError, "no names", DEVICE.privatize, np.zeros((3, 2)), columns=["age", "income"])


def test_training_takes_public_columns_by_name():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2050, 2)), columns=["age", "income"])
    labels = (table["age"] - table["income"]).to_numpy()
    given = {"epsilon": 4.0, "clip_norm": 3.0, "radius": 3.0, "random_state": 1}
    given["y_pub"] = labels[:50].copy()
    private = table[50:].reset_index(drop=True)
    public = table[:50].copy()
    same = local.train(private, labels[50:], x_pub=public, **given)
    swapped = local.train(private, labels[50:], x_pub=public[["income", "age"]], **given)
    assert swapped.columns == ("age", "income")
    assert np.array_equal(swapped.coefficients, same.coefficients)
    turned = local.train(
        private.assign(name="anna"),
        labels[50:],
        x_pub=public,
        columns=["income", "age"],
        **given,
    )
    assert turned.columns == ("income", "age")
    assert np.abs(turned.coefficients - [-1.0, 1.0]).max() < 0.3
    other = public.rename(columns={"age": "years"})
    raises(InputError, "matched by name", local.train, private, labels[50:], x_pub=other, **given)


def test_a_gap_counts_as_zeros_within_a_bound():
    """As the docstring of `privatize` says: half of the rows are missing, so the mean is half of that of the others."""
    rows = np.full((4000, 2), 1.0)
    rows[::2, 1] = np.nan
    result = local.estimate_mean(DEVICE.privatize(rows, random_state=0))
    assert np.abs(result.mean - 0.5).max() < 4.0 * result.noise_std.max()


@pytest.mark.parametrize(
    "payload",
    [
        np.full((3, 2), np.nan),
        np.full((3, 2), np.inf),
        np.zeros((3, 3), np.int32),
        np.zeros(2, np.int32),
        [[1, 2]],
        None,
    ],
)
def test_what_is_no_payload_is_refused(payload):
    raises(InputError, "array of shape", local.Reports, DEVICE, payload)


@pytest.mark.parametrize("reports", [5, None, b"FPPL", np.zeros((3, 2)), "reports", [b"FPPL"]])
def test_what_are_no_reports_is_refused(reports):
    raises(InputError, "reports must be", local.estimate_mean, reports)
