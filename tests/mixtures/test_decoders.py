"""List decoders: what they promise, on samples; lists no longer than the lemmas; refusals before anything is read."""

import math

import numpy as np
import pytest
from helpers.errors import raises
from spies import SpyRows, seeded

from fastpubpriv import AccuracyWarning, ApproxDP, BudgetError, InputError, Ledger, PureDP
from fastpubpriv.mixtures.list_decoding import (
    decode_axis_aligned,
    decode_gaussians,
    decode_means,
    decode_variances,
    results,
)
from fastpubpriv.mixtures.list_decoding.decoders import MAX_SCALES

BUDGET = ApproxDP(1, 1e-6)


def sample(rng, n, parts):
    """A mixture of (weight, mean, sd), in random order."""
    weights = np.array([part[0] for part in parts])
    label = rng.choice(len(parts), size=n, p=weights / weights.sum())
    means, sds = (np.array([part[i] for part in parts]) for i in (1, 2))
    return rng.normal(means[label], sds[label])


MIXTURES = [
    [(1.0, 1e9, 3.0)], [(0.5, -2.0, 1.0), (0.5, 3.0, 0.5)], [(0.4, 0.0, 1.0), (0.6, 0.0, 1000.0)],
    [(0.3, -5e8, 1.0), (0.3, 0.0, 0.3), (0.4, 4e8, 200.0)],
]  # fmt: skip


@pytest.mark.parametrize("parts", MIXTURES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_pair_is_close_to_every_component(parts, seed):
    values = sample(np.random.default_rng(seed), 60_000, parts)
    lists = seeded(decode_gaussians, values, budget=BUDGET, min_weight=0.3, random_state=seed)
    means, scales, counts = lists.coarse()
    assert lists.status == "ok"
    for _, mean, sd in parts:
        good = (scales >= sd) & (scales < 2 * sd) & (np.abs(means - mean) <= sd)
        assert good.any()
        assert ((np.abs(lists.net(0, 0.25) - [mean, sd]) <= 0.25 * sd).all(axis=1)).any()
    assert len(lists.scales[0]) <= 12
    assert len(lists.net(0, 0.25)) == lists.net_size(0, 0.25) == lists.list_size(0.25)
    # The halves are 30,000 rows, so counts above the share of the weight.
    assert counts.min() / 30_000 > 0.5 * results.MEAN_MASS * 0.3


@pytest.mark.parametrize("seed", range(3))
def test_theory_constants_at_the_theorems_size(seed):
    w = 0.5
    n = results.variance_rows(w, BUDGET, 0.01)
    values = sample(np.random.default_rng(seed), n, [(0.5, 7e6, 2.5), (0.5, -7e6, 0.7)])
    lists = seeded(
        decode_variances, values, budget=BUDGET, min_weight=w, mode="theory", random_state=seed
    )
    assert len(lists.scales[0]) <= results.scale_list_bound(w)
    for sd in (2.5, 0.7):
        assert ((lists.scales[0] >= sd) & (lists.scales[0] < 2 * sd)).any()
    n = results.mean_rows(w, BUDGET, 0.01)
    values = sample(np.random.default_rng(seed), n, [(0.5, 7e6, 1.3), (0.5, -7e6, 0.9)])
    lists = seeded(
        decode_means, values, std=1.6, budget=BUDGET, min_weight=w, mode="theory", random_state=seed
    )
    assert len(lists.means[0]) <= results.mean_list_bound(w)
    for mean, sd in ((7e6, 1.3), (-7e6, 0.9)):
        assert np.abs(lists.means[0] - mean).min() <= sd


def test_theory_constants_give_nothing_where_the_premise_fails(monkeypatch):
    values = np.random.default_rng(0).normal(size=20_000)
    monkeypatch.setattr(results, "scale_list_bound", lambda w: 1)
    lists = seeded(decode_variances, values, budget=BUDGET, min_weight=1.0, mode="theory")
    assert lists.part_reasons == (("unresolved",),)
    assert len(lists.scales[0]) == 0


def test_a_warning_where_the_theorem_asks_for_more():
    values = np.random.default_rng(0).normal(size=200)
    with pytest.warns(AccuracyWarning, match="asks for"):
        decode_means(values, std=1.0, budget=BUDGET, min_weight=0.5, mode="theory")
    with pytest.warns(AccuracyWarning, match="asks for"):
        decode_gaussians(values, budget=BUDGET, min_weight=0.5, mode="theory")


@pytest.mark.parametrize("seed", range(3))
def test_columns_together(seed):
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 1e6, -5.0], [50.0, 1e6, 5.0]])
    sds = np.array([[1.0, 0.1, 2.0], [3.0, 0.1, 2.0]])
    label = rng.integers(0, 2, 40_000)
    rows = rng.normal(centers[label], sds[label])
    lists = seeded(decode_axis_aligned, rows, budget=BUDGET, min_weight=0.4, random_state=seed)
    assert lists.status == "ok"
    for component in range(2):
        for column in range(3):
            mean = centers[component, column]
            sd = sds[component, column]
            means, scales, _ = lists.coarse(column)
            assert ((scales >= sd) & (scales < 2 * sd) & (np.abs(means - mean) <= sd)).any()
    assert lists.list_size(0.5) == math.prod(lists.net_size(column, 0.5 / 3) for column in range(3))
    assert [entry["histograms"] for entry in lists.releases] == [
        3,
        sum(len(s) for s in lists.scales),
    ]


def test_known_covariance():
    rng = np.random.default_rng(0)
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    factor = np.linalg.cholesky(covariance)
    centers = np.array([[1e5, -3.0], [0.0, 40.0]])
    rows = centers[rng.integers(0, 2, 30_000)] + rng.normal(size=(30_000, 2)) @ factor.T
    lists = seeded(decode_axis_aligned, rows, budget=BUDGET, min_weight=0.4, covariance=covariance)
    assert len(lists.releases) == 1
    for center in centers:
        white = np.linalg.solve(factor, center)
        nearest = [
            lists.means[j][0][np.abs(lists.means[j][0] - white[j]).argmin()] for j in range(2)
        ]
        assert np.abs(np.array(nearest) - white).max() <= 1.0
        fine = [lists.net(j, 0.1)[:, 0] for j in range(2)]
        best = np.array([line[np.abs(line - white[j]).argmin()] for j, line in enumerate(fine)])
        assert np.abs(best - white).max() <= 0.2 / 2 + 1e-9


def test_empty_lists_and_the_longest_counts():
    for values in (np.full(2000, 3.5), np.full(2000, np.nan), np.zeros(4)):
        lists = decode_gaussians(values, budget=BUDGET)
        assert lists.part_reasons == (("unresolved",),)
        assert lists.coarse()[0].size == lists.net(0, 0.5).size == lists.list_size(0.5) == 0
        assert lists.spent == BUDGET
        assert decode_variances(values, budget=BUDGET).reasons == ("unresolved",)
    assert decode_means(np.full(5, np.inf), std=1.0, budget=BUDGET).reasons == ("unresolved",)
    assert decode_axis_aligned(np.zeros((4, 3)), budget=BUDGET).reasons == ("unresolved",)
    # The longest counts are kept.
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(40_000) < 0.5, rng.normal(size=40_000), rng.normal(0.0, 1e6, 40_000)
    )
    many = seeded(decode_variances, values, budget=BUDGET, min_weight=0.05)
    few = seeded(decode_variances, values, budget=BUDGET, min_weight=0.05, max_scales=2)
    assert len(many.scales[0]) > 2 == len(few.scales[0])
    assert set(few.counts[0]) == set(np.sort(many.counts[0])[-2:])
    assert (np.diff(few.scales[0]) > 0).all()


def test_every_scale_above_the_threshold_is_kept():
    # Differences between heavy components fill more bins than those within the light ones, which 12 bins would lose.
    means = np.array([0.0, 500.0, -2e4, 1e6])
    stds = np.array([1e-3, 1.0, 30.0, 1e4])
    weights = [0.15, 0.15, 0.2, 0.5]
    found = {most: [] for most in (MAX_SCALES, 12)}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = rng.choice(4, size=40_000, p=weights)
        values = rng.normal(means[labels], stds[labels])
        for most, complete in found.items():
            lists = seeded(
                decode_gaussians, values, budget=BUDGET, min_weight=0.15, max_scales=most
            )
            near = [(lists.scales[0] >= std) & (lists.scales[0] < 2.0 * std) for std in stds]
            complete.append(all(which.any() for which in near))
    assert all(found[MAX_SCALES])
    assert not any(found[12])
    # Hidden scales at the ends of doubles.
    for size in (1e-320, 1e300, 4e307):
        values = np.clip(np.random.default_rng(0).normal(size=4000), -4, 4) * size
        lists = seeded(decode_gaussians, values, budget=BUDGET, min_weight=0.9)
        assert all(np.isfinite(scales).all() and (scales > 0).all() for scales in lists.scales)
        assert all(np.isfinite(means).all() for means in lists.means[0])


def test_the_papers_composition_is_valid_and_worse():
    values = sample(np.random.default_rng(0), 100_000, MIXTURES[1])
    exact = seeded(decode_gaussians, values, budget=BUDGET)
    paper = seeded(decode_gaussians, values, budget=BUDGET, accounting="paper")
    assert paper.releases[1]["noise_std"] > 4 * exact.releases[1]["noise_std"]
    assert paper.releases[0]["epsilon"] < exact.releases[0]["epsilon"]
    assert paper.spent == exact.spent == BUDGET


REFUSED = [
    (lambda x: decode_gaussians(x, budget=PureDP(1)), BudgetError),
    (lambda x: decode_gaussians(x, budget=BUDGET, min_weight=0.0), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, min_weight=1.5), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, mode="other"), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, failure_prob=1.0), InputError),
    (lambda x: decode_gaussians(x, budget=BUDGET, accounting="advanced"), InputError),
    (lambda x: decode_variances(x, budget=BUDGET, max_scales=1.5), InputError),
    (lambda x: decode_means(x, std=0.0, budget=BUDGET), InputError),
    (lambda x: decode_means(x, std=[1.0, 2.0], budget=BUDGET), InputError),
    (lambda x: decode_axis_aligned(x, budget=BUDGET, covariance=[[-1.0]]), InputError),
    (lambda x: decode_axis_aligned(x, budget=BUDGET, covariance=np.eye(2)), InputError),
    (lambda x: decode_variances(x, budget=BUDGET, ledger=Ledger(ApproxDP(0.5, 1e-6))), BudgetError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_refused_before_anything_is_read(call, error):
    log = []
    raises(error, None, call, SpyRows(np.zeros((100, 1)), log))
    assert log == []


def test_refused_shapes():
    raises(InputError, "one column", decode_gaussians, np.zeros((10, 2)), budget=BUDGET)
    raises(InputError, "four rows", decode_gaussians, np.zeros(3), budget=BUDGET)
    raises(InputError, "two rows", decode_variances, np.zeros(1), budget=BUDGET)
    raises(InputError, "two-dimensional", decode_means, np.zeros((2, 2, 2)), std=1.0, budget=BUDGET)
