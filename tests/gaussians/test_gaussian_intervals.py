"""Intervals and reasons of `estimate_gaussian`: two pieces of the last second moment, and what intervals cover."""

import inspect
import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import get_args

import numpy as np
import pytest
from gaussian_cases import RHO_HALF, held
from helpers.errors import raises
from helpers.neighbors import pair_at
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    FastPubPrivError,
    GaussianResult,
    InputError,
    PureDP,
    ReplayError,
    estimate_gaussian,
    private_pca,
)
from fastpubpriv._types import CovarianceMethod, Structure
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators import moments
from fastpubpriv.estimators.moments import RadialPlan
from fastpubpriv.gaussians.gaussian_intervals import ReleasedVector
from fastpubpriv.mechanisms.sums import AffineMap, MomentPieces
from fastpubpriv.privacy.spending import GaussianSpending

KINDS = ("mean", "standard_deviation", "covariance", "correlation")
pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")


def normal(n, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, 3)) @ np.array([[2.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.2]])
        + 5.0
    )


def released(rows, m=20, budget=RHO_HALF, seed=0, **options):
    public = rows[:m].copy()
    private = np.ascontiguousarray(rows[m:])
    return seeded(
        estimate_gaussian, private, x_pub=public, budget=budget, random_state=seed, **options
    )


def truth(rows):
    covariance = np.cov(rows.T, ddof=0)
    scale = np.sqrt(np.diag(covariance))
    return {
        "mean": rows.mean(axis=0),
        "standard_deviation": scale,
        "covariance": covariance,
        "correlation": covariance / np.outer(scale, scale),
    }


def pieces_of(rows, radius_sq):
    """The two second moments of rows (k, 3), without noise."""
    query, _, unit = MomentPieces(
        affine=AffineMap(dim=3), radius=np.sqrt(radius_sq / 2.0)
    ).priced_query(GaussianSpending(Fraction(10**4)), len(rows))
    found = query.zeros()
    query.add(rows, found)
    return query.answer(found) * unit


def test_the_two_pieces_of_a_row_add_up_to_it_inside_and_to_the_sphere_outside():
    rows = np.random.default_rng(1).normal(size=(500, 3)) * [3.0, 1.0, 0.1]
    radius = 4.0
    rows[:4] = [[1e9, 0.0, 0.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0], [0.0, 1.99, 0.0]]
    for row in rows:
        inside, outer = pieces_of(row[None], radius)
        row = np.nan_to_num(row) * (not np.isnan(row).any())
        square = float(row @ row)
        inner = min(square, radius / 2.0)
        kept = min(square, radius)
        unit = np.outer(row, row) / max(square, 1e-300)
        assert np.allclose(inside, inner * unit, atol=4e-3)
        assert np.allclose(outer, (kept - inner) * unit, atol=4e-3)


@pytest.mark.parametrize("budget", [RHO_HALF, ApproxDP(1, 1e-6), PureDP(2)])
def test_the_sum_of_both_pieces_is_as_noisy_as_was_planned(budget, monkeypatch):
    found = []
    measure = RadialPlan.pieces_of

    def kept(plan, *arguments, **options):
        pieces = measure(plan, *arguments, **options)
        found.append((pieces.noise_std, plan.noise * pieces.radius / plan.n))
        return pieces

    monkeypatch.setattr(RadialPlan, "pieces_of", kept)
    result = released(normal(20_000), budget=budget)
    ((noise, planned),) = found
    assert noise == pytest.approx(planned, rel=0.05)
    names = [each["name"] for each in result.releases]
    assert names[:2] == ["norms of rows", "second moment, round 1"]
    assert names[-2:] == ["norms before the last round", "last second moment"]


def test_with_a_large_budget_intervals_are_those_of_sampling_and_hold_the_truth():
    rows = normal(20_000)
    result = released(rows, budget=ZCDP(1e4))
    assert result.status == "ok"
    known = truth(rows)
    width = {
        "mean": 3.92 * known["standard_deviation"] / np.sqrt(len(rows)),
        "standard_deviation": 3.92 * known["standard_deviation"] / np.sqrt(2.0 * len(rows)),
    }
    for kind in KINDS:
        lower, upper = result.confidence_interval(0.95, of=kind)
        assert np.all((lower <= known[kind] + 1e-12) & (known[kind] - 1e-12 <= upper)), kind
        if kind in width:
            assert np.all(upper - lower >= 0.95 * width[kind])
            assert np.all(upper - lower <= 2.0 * width[kind])
    narrow = np.diff(result.confidence_interval(0.5, of="covariance"), axis=0)
    wide = np.diff(result.confidence_interval(0.99, of="covariance"), axis=0)
    assert np.all(narrow < wide)


def test_the_unit_of_the_rows_does_not_matter():
    rows = normal(10_000)
    plain = released(rows)
    scaled = released(1024.0 * rows)
    assert plain.part_reasons == scaled.part_reasons
    for kind, unit in zip(KINDS, (2.0**10, 2.0**10, 2.0**20, 1.0), strict=True):
        # Last bits of the public scales may turn axes around, and the noise with them.
        one = np.subtract(*plain.confidence_interval(of=kind))
        other = np.subtract(*scaled.confidence_interval(of=kind))
        assert np.allclose(other, unit * one, rtol=0.3, atol=1e-9 * unit)


def with_a_tail(n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    rows[:, 1] = np.exp(1.2 * rows[:, 1])
    return rows


def test_a_heavy_tail_is_said_of_its_column_alone_and_kept():
    rows = with_a_tail(20_000, 3)
    result = released(rows, m=200, seed=2)
    assert result.part_reasons == ((), ("heavy_tail",), ())
    assert result.diagnostics["guess"]
    lower, upper = result.confidence_interval(of="standard_deviation")
    true = rows.std(axis=0)
    assert np.all((lower <= true) & (true <= upper))
    assert (upper - lower)[1] > 4.0 * (upper - lower)[0]
    assert "heavy_tail" in result.summary()


def with_few_far_rows(n, seed):
    """Rows whose first column is cut at three deviations, but for a few rows far out that no count shows."""
    rng = np.random.default_rng(seed)
    rows = rng.laplace(size=(n, 3))
    rows[:, 0] = np.clip(rows[:, 0], -4.5, 4.5)
    rows[:: n // 14, 0] = np.geomspace(9.0, 30.0, len(rows[:: n // 14]))
    return rows


def of_a_column(rows, seed):
    """Reasons of the first column, and whether the interval of its deviation holds it."""
    result = released(rows, seed=seed)
    return result.part_reasons[0], held(result, rows[20:].std(axis=0), of="standard_deviation")[0]


def of_a_direction(rows, seed):
    rows = rows * [10.0, 1.0, 1.0]
    result = seeded(
        private_pca, rows[20:], x_pub=rows[:20], n_components=1, budget=RHO_HALF, random_state=seed
    )
    lower, upper = result.confidence_interval()
    return result.part_reasons[0], lower <= np.mean(
        ((rows[20:] - result.center) @ result.components[0]) ** 2
    ) <= upper


@pytest.mark.parametrize("answer", [of_a_column, of_a_direction])
def test_intervals_allow_for_rows_that_the_outer_piece_shows_and_no_count(monkeypatch, answer):
    def without_a_reason(factor):
        monkeypatch.setattr(moments, "LONGEST", factor)
        answers = [answer(with_few_far_rows(10_020, seed), seed) for seed in range(10)]
        return [within for reasons, within in answers if not reasons]

    plain = without_a_reason(moments.LONGEST)
    assert len(plain) >= 3
    assert np.mean(plain) >= 0.9
    assert np.mean(without_a_reason(0.0)) <= 0.5


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_two_public_rows_do_not_show_that_the_rows_that_a_count_hides_are_near():
    """Of 2,000 rows, a fifth may lie beyond those that a count under pure DP shows: with these seeds it ends early."""
    truth = math.exp(3.0 + 0.32) * math.sqrt(math.expm1(0.64))
    for seed in (83, 149, 247, 491, 582, 669):
        rng = np.random.default_rng(seed)
        rows = np.column_stack([rng.normal(size=2_002), rng.lognormal(3.0, 0.8, 2_002)])
        result = seeded(
            estimate_gaussian,
            rows[2:],
            x_pub=rows[:2],
            budget=PureDP(1.0),
            random_state=seed,
        )
        lower, upper = result.confidence_interval(of="standard_deviation")
        column = [*result.reasons, *result.part_reasons[1]]
        assert column or lower[1] <= truth <= upper[1]


def test_correlations_allow_for_a_tail_of_one_column_alone(monkeypatch):
    """Its variance is released too small, and so a correlation too large; a tail of both columns leaves it as it is."""

    def released_with(own, factor):
        monkeypatch.setattr(moments, "LONGEST", factor)
        rows = with_few_far_rows(10_020, 1)
        rows[:, 1] = (
            rows[:, 0] + 0.5 * rows[:, 1]
            if own
            else 0.7 * np.clip(rows[:, 0], -4.5, 4.5) + rows[:, 1]
        )
        lower, upper = released(rows, seed=1).confidence_interval(of="correlation")
        return (upper - lower)[0, 1], lower[0, 1] <= np.corrcoef(rows[20:].T)[0, 1] <= upper[0, 1]

    (alone, held_alone), (shared, held_shared) = (
        released_with(own, moments.LONGEST) for own in (False, True)
    )
    assert held_alone
    assert held_shared
    assert alone > 1.3 * released_with(False, 0.0)[0]
    assert shared < alone


def test_public_rows_alone_have_intervals_of_their_own():
    rows = normal(5000)
    found = released(rows, m=400, structure="public")
    assert found.status == "ok"
    assert found.releases == ()
    known = truth(normal(200_000, 9))
    inside = []
    for seed in range(20):
        result = released(normal(500, seed), m=400, structure="public")
        for kind in KINDS:
            lower, upper = result.confidence_interval(of=kind)
            inside.extend(
                ((lower <= known[kind] + 1e-9) & (known[kind] - 1e-9 <= upper)).ravel().tolist()
            )
    assert np.mean(inside) > 0.9
    assert released(rows, m=20, structure="public").part_reasons == (("few_rows",),) * 3
    assert released(rows, m=6, structure="public").report is None


SMALL = ZCDP(0.05)


def skewed(n, seed):
    """Rows whose second column is lognormal."""
    rows = np.random.default_rng(seed).normal(size=(n, 3)) @ np.triu(np.full((3, 3), 0.5))
    rows[:, 1] = np.exp(rows[:, 1])
    return rows


def shares_held(make, structure, *, m=20, draws=40, budget=SMALL):
    """Share of the intervals of each kind that hold the numbers of the population, over draws of 500 private rows; NaN of none."""
    known = truth(make(400_000, 999))
    pairs = np.triu_indices(3, 1)
    inside = {kind: [] for kind in KINDS}
    for seed in range(draws):
        result = released(make(500 + m, seed), m=m, budget=budget, seed=seed, structure=structure)
        for kind in KINDS:
            lower, upper = result.confidence_interval(of=kind)
            true = known[kind]
            if kind == "correlation":
                lower, upper, true = lower[pairs], upper[pairs], true[pairs]
            given = np.isfinite(lower)
            inside[kind].extend(((lower <= true) & (true <= upper))[given].tolist())
    return {kind: float(np.mean(own)) if own else np.nan for kind, own in inside.items()}


def exponential(n, seed):
    """Rows whose means are lower once the longest ones are clipped."""
    return np.random.default_rng(seed).exponential(size=(n, 3))


@pytest.mark.parametrize("structure", ["mean", "diagonal"])
@pytest.mark.parametrize("make", [normal, exponential])
def test_twenty_public_rows_show_means_and_correlations(make, structure):
    found = shares_held(make, structure)
    assert found["mean"] >= 0.93
    assert found["correlation"] >= 0.93
    assert np.isnan(found["standard_deviation"])


@pytest.mark.parametrize("structure", ["mean", "diagonal"])
@pytest.mark.parametrize("make", [normal, skewed])
def test_two_hundred_public_rows_show_deviations_as_well(make, structure):
    found = shares_held(make, structure, m=200)
    assert min(found.values()) >= 0.93


@pytest.mark.parametrize("structure", ["mean", "diagonal"])
def test_means_allow_for_what_clipping_takes(structure, monkeypatch):
    original = ReleasedVector.means

    def without_clipping(vector, *arguments):
        means = original(replace(vector, radius=1e9), *arguments)
        return replace(means, tail=np.zeros(3))

    monkeypatch.setattr(ReleasedVector, "means", without_clipping)
    assert shares_held(exponential, structure)["mean"] <= 0.88


def test_means_are_not_those_that_were_drawn_to_the_public_mean(monkeypatch):
    """The weight of the private mean is small here; an interval around the weighted mean forgets the error of the public one."""
    original = ReleasedVector.means
    little = ZCDP(0.0005)
    weight = released(normal(600), m=100, budget=little, structure="mean").diagnostics[
        "mean_weight"
    ]

    def weighted(vector, *arguments):
        drawn = replace(vector, values=weight * vector.values, std=weight * vector.std)
        return original(drawn, *arguments)

    assert shares_held(normal, "mean", m=100, budget=little)["mean"] >= 0.93
    monkeypatch.setattr(ReleasedVector, "means", weighted)
    assert shares_held(normal, "mean", m=100, budget=little)["mean"] <= 0.85


@pytest.mark.parametrize("structure", ["mean", "diagonal"])
def test_a_long_public_tail_has_no_interval_of_its_deviation_and_says_so(structure):
    rows = with_a_tail(1000, 3)
    result = released(rows, m=200, structure=structure, budget=SMALL)
    assert result.part_reasons == ((), ("few_rows",), ())
    lower, upper = result.confidence_interval(of="standard_deviation")
    assert np.isnan(lower).tolist() == np.isnan(upper).tolist() == [False, True, False]
    assert np.isfinite(result.confidence_interval()).all()
    assert np.isfinite(result.confidence_interval(of="correlation")).all()
    again = GaussianResult.from_json(result.to_json())
    assert np.array_equal(again.report.covariance_std, result.report.covariance_std, equal_nan=True)
    assert "deviation_lower" in result.to_frame().columns


def one_column_constant(rows):
    rows[:200, 1] = 7.0


def public_rows_shifted(rows):
    rows[:200] += 4.0


@pytest.mark.parametrize("change", [one_column_constant, public_rows_shifted])
@pytest.mark.parametrize("structure", ["mean", "diagonal"])
def test_public_rows_that_do_not_show_clipping_give_no_interval_of_a_mean(structure, change):
    rows = normal(700)
    change(rows)
    result = released(rows, m=200, structure=structure, budget=SMALL)
    assert np.isnan(result.confidence_interval()).all()
    assert all(result.part_reasons)
    assert change is public_rows_shifted or result.part_reasons[1] == ("few_public_rows",)


@pytest.mark.parametrize("structure", ["public", "mean", "diagonal"])
@pytest.mark.parametrize(
    ("m", "dim", "reason"),
    [(6, 3, "few_rows"), (3, 3, "few_public_rows"), (12, 13, "few_public_rows")],
)
def test_too_few_public_rows_give_no_intervals(structure, m, dim, reason):
    rows = np.random.default_rng(0).normal(size=(2000, dim))
    result = released(rows, m=m, structure=structure)
    assert result.report is None
    assert result.part_reasons == ((reason,),) * dim
    for kind in KINDS:
        assert all(np.isnan(end).all() for end in result.confidence_interval(of=kind))
    assert "deviation_lower" not in result.to_frame().columns


PERSONS = {"person": np.arange(19_960) // 2}
ONE_ROW = {**PERSONS, "rows_per_person": 1}
# Each argument of `estimate_gaussian` that decides about the answer, with what it is tried.
ARGUMENTS = {
    "failure_prob": [{"failure_prob": 0.2}],
    "pub_priv_gap": [{"pub_priv_gap": 0.1}],
    "mode": [{"mode": "theory"}],
    "rounds": [{"rounds": 2}, {"rounds": 8}],
    "cond_max": [{"cond_max": 50.0}],
    "require_precondition": [{"require_precondition": True}],
    "bounds": [{"bounds": (-50.0, 50.0)}, {"bounds": (6.0, 9.0)}],
    "structure": [{"structure": each} for each in get_args(Structure)],
    "method": [{"method": each} for each in get_args(CovarianceMethod)],
    "person": [ONE_ROW, {**ONE_ROW, "structure": "public"}],
    "keep": [{**PERSONS, "keep": "mean"}, {**PERSONS, "keep": "sum"}],
    "rows_per_person": [{**PERSONS, "rows_per_person": each} for each in (2, "auto")],
}
NEUTRAL = {"x_priv", "x_pub", "budget", "columns", "ledger", "random_state", "threads", "progress"}


def test_each_argument_is_tried():
    assert set(inspect.signature(estimate_gaussian).parameters) == NEUTRAL | set(ARGUMENTS)


@pytest.mark.parametrize("budget", [RHO_HALF, ZCDP(0.002), ApproxDP(8, 1e-6)])
@pytest.mark.parametrize("m", [3, 6, 40, 200])
@pytest.mark.parametrize("arguments", [{}, *chain(*ARGUMENTS.values())], ids=str)
def test_a_part_has_an_interval_or_a_reason(arguments, m, budget):
    rows = normal(20_000)[:, : 1 if "method" in arguments else 3]
    private = rows[40:]
    try:
        result = seeded(
            estimate_gaussian,
            private,
            x_pub=normal(m, 5)[:, : rows.shape[1]].copy(),
            budget=budget,
            **arguments,
        )
    except FastPubPrivError:
        # A method for other notions of privacy or more rows, or public rows that cannot precondition.
        assert {"method", "require_precondition"} & {*arguments}
        return
    for kind in KINDS:
        lower, upper = result.confidence_interval(of=kind)
        absent = ~(np.isfinite(lower) & np.isfinite(upper))
        parts = absent if absent.ndim == 1 else absent.any(axis=1)
        told = np.array([bool(own) for own in result.part_reasons])
        assert not np.any(parts & ~told), kind


def test_bad_reports_are_refused():
    result = released(normal(5000))
    broken = json.loads(result.to_json())
    broken["part_reasons"] = [["fine"]] * 3
    raises(InputError, "known words", GaussianResult.from_json, json.dumps(broken))
    raises(InputError, "of must be", result.confidence_interval, of="variance")
    raises(InputError, "level", result.confidence_interval, 1.5)


def test_an_outer_piece_that_follows_private_rows_is_caught(monkeypatch):
    original = RadialPlan.pieces_of

    def peeking(plan, run, affine, *arguments, **options):
        largest = max(float(np.abs(chunk).max()) for chunk in run.rows.chunks())
        return original(
            plan, run, replace(affine, offset=affine.offset * largest), *arguments, **options
        )

    monkeypatch.setattr(RadialPlan, "pieces_of", peeking)
    pair = pair_at(normal(300), 40, 1e4)
    raises(
        ReplayError,
        "moved by",
        record_replay,
        partial(released, structure="full"),
        *pair,
        budget=RHO_HALF,
    )


def coverage(make, draws, budget, m=20, n=10_000):
    """Over columns without a reason, the share of intervals of deviations that hold those of the population; and how many."""
    known = make(400_000, 99).std(axis=0)
    inside = []
    for seed in range(draws):
        result = released(make(n + m, 100 + seed), m=m, budget=budget, seed=seed)
        plain = np.array([not own for own in result.part_reasons])
        inside.extend(held(result, known, of="standard_deviation")[plain].tolist())
    return float(np.mean(inside)), len(inside)


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [RHO_HALF, ApproxDP(1, 1e-6), PureDP(1)])
def test_intervals_hold_the_deviations_of_populations(budget, monkeypatch):
    # Seeded: no false alarm.
    for make in (
        normal,
        with_a_tail,
        lambda n, seed: np.random.default_rng(seed).standard_t(5, (n, 3)),
    ):
        share, count = coverage(make, 100, budget)
        assert share >= 0.93
        assert count >= 10

    # The control: without the outer piece in value and tail, as one ball would have it.
    def inside_alone(*arguments, **options):
        pieces = measure(*arguments, **options)
        return replace(
            pieces,
            outer=np.zeros_like(pieces.outer),
            norms=replace(pieces.norms, law=None),
            piece_std=1e-12,
        )

    measure = RadialPlan.pieces_of
    monkeypatch.setattr(RadialPlan, "pieces_of", inside_alone)
    assert coverage(with_a_tail, 8, budget)[0] < 0.85
