"""The errata of the book: every line names an existing test; this file holds those that fit no other."""

from __future__ import annotations

import ast
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import raises
from scipy.stats import chi2

import fastpubpriv as fpp
from fastpubpriv.local import PrivUnit, mean_error
from fastpubpriv.mixtures.list_decoding import decode_means
from fastpubpriv.mixtures.list_decoding.results import histogram_error, mixture_sizes
from fastpubpriv.privacy.calibration import gaussian_count_grid, gaussian_gram_grid
from fastpubpriv.training import SemiDP

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "papers" / "errata.md").read_text(encoding="utf-8")
LINE = re.compile(r"(?m)^\| \[([A-Z]\d+)\]\(#([a-z]\d+)\) \|.*\| (\S+) \| `(\S+\.py)::(\w+)` \|$")
LINES = LINE.findall(PAGE)
BUDGET = fpp.ApproxDP(epsilon=1, delta=1e-6)


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_of_the_table_names_a_test():
    assert len([row for row in PAGE.splitlines() if row.startswith("| [")]) == len(LINES) >= 27
    assert [line[0] for line in LINES] == re.findall(r"(?m)^### ([A-Z]\d+)$", PAGE)
    assert {line[2] for line in LINES} <= {"privacy", "accuracy", "text"}
    assert [name for name, anchor, *_ in LINES if anchor != name.lower()] == []
    assert [(path, test) for *_, path, test in LINES if test not in functions(path)] == []
    assert "test_of_nothing" not in functions("tests/test_errata.py")


@pytest.mark.parametrize("dim", [1, 2, 10, 100])
def test_a4_the_radius_of_algorithm_2(dim):
    """The exact radius is within that of Lemma 2.5; the printed one has the required coverage, which the proof does not show."""
    public = np.random.default_rng(dim).standard_normal((dim + 1, dim))
    tail, ours = math.log(6 / 0.1), fpp.precondition(public, failure_prob=0.05).mean_radius
    assert ours == pytest.approx(math.sqrt((dim + 2 * math.sqrt(dim * tail) + 2 * tail) / (dim + 1)))
    assert ours <= math.sqrt(5 * tail)
    for each in (math.log(6), tail, 20.0):
        assert chi2.sf((dim + 1) * each, dim) <= math.exp(-each)


def test_a5_second_moments_move_by_root_two():
    v, w = np.random.default_rng(0).standard_normal((2, 2000, 3))
    v, w = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (v, w))
    moved = np.linalg.norm(v[:, :, None] * v[:, None] - w[:, :, None] * w[:, None], axis=(1, 2))
    assert 1.40 < moved.max() <= math.sqrt(2) + 1e-12
    grid = gaussian_gram_grid(0.5, 3, 1000)
    assert grid.event.squared_sensitivity == 2 * grid.quant_bound**4


def test_a7_a_replaced_row_changes_two_of_three_counts():
    changes = set()
    for one, other in itertools.product(itertools.product(range(3), repeat=2), repeat=2):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            gap = np.bincount(one, minlength=3) - np.bincount(other, minlength=3)
            changes.add((int(np.count_nonzero(gap)), int(np.abs(gap).max())))
    assert changes == {(2, 1)}
    grid = gaussian_count_grid(0.5, 3, 1000)
    assert grid.event.squared_sensitivity == 2 * grid.quant_bound**2


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_a10_weights_add_up_to_one():
    rng = np.random.default_rng(0)
    private, public = (
        np.where(np.arange(n) % 10 == 0, 40.0, 0.0)[:, None] + rng.normal(size=(n, 2)) for n in (20_000, 100)
    )
    found = fpp.learn_separated_mixture(
        private, x_pub=public, n_components=2, min_weight=0.05, weight_floor=0.6, budget=fpp.ZCDP(0.5), random_state=0
    )
    # A weight of 0.1 is raised to 0.6 / 2, and both are divided by 0.3 + 0.9.
    assert sorted(found.weights) == pytest.approx([0.25, 0.75], abs=0.01)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_a12_the_parts_of_a_run():
    """Costs in units of rho of second moments, ball queries, learners and sizes, which the paper counts as 1."""
    moments, counts = gaussian_gram_grid(0.5, 3, 1000), gaussian_count_grid(0.5, 3, 1000)
    half = moments.event.squared_sensitivity / (2 * moments.quant_bound**2) ** 2
    double = counts.event.squared_sensitivity / counts.quant_bound**2
    assert (half, double) == (0.5, 2.0)
    assert half + 3 * double == 6.5


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning")
def test_a13_fewer_groups_than_asked_for():
    rng = np.random.default_rng(0)
    found = fpp.learn_separated_mixture(
        rng.normal(size=(4_000, 2)), x_pub=rng.normal(size=(60, 2)), n_components=3, min_weight=0.2,
        budget=fpp.ZCDP(0.5), method="tree", random_state=0,
    )  # fmt: skip
    assert len(found.weights) == 1
    assert found.weights.tolist() == [1.0]


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning", "ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize("method", ["tree", "public_pca"])
def test_a14_equal_public_rows(method):
    rng, centers = np.random.default_rng(0), np.array([[0.0, 0.0], [60.0, 0.0]])
    found = fpp.learn_separated_mixture(
        centers[rng.integers(2, size=4_000)] + rng.normal(size=(4_000, 2)),
        x_pub=np.repeat(centers[rng.integers(2, size=30)] + rng.normal(size=(30, 2)), 2, axis=0), n_components=2,
        min_weight=0.3, budget=fpp.ZCDP(0.5), method=method, random_state=0,
    )  # fmt: skip
    assert sorted(found.means[:, 0]) == pytest.approx([0.0, 60.0], abs=2.0)


def test_b3_one_pass_ends_with_the_private_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 2)), rng.normal(size=1000)
    data = {"x_pub": x[100:], "y_pub": y[100:], "loss": "squared", "budget": BUDGET}
    for steps, fits in ((2, True), (3, False)):
        method = SemiDP(steps=steps, sampling="one_pass", batch_rows=50, clip_norm=1.0)
        if fits:
            assert fpp.train(x[:100].copy(), y[:100].copy(), method=method, **data).private
        else:
            raises(fpp.InputError, None, fpp.train, x[:100].copy(), y[:100].copy(), method=method, **data)


def test_b4_one_report_is_the_mean_of_one_report():
    randomizer = PrivUnit(4, 2.0, norm_bound=1.0)
    one = mean_error(randomizer, n_reports=1, n_pub=0, variance=0.5).mean_squared_error
    assert mean_error(randomizer, n_reports=50, n_pub=0, variance=0.5).mean_squared_error == pytest.approx(one / 50)
    # All rows with one weight: (n_priv c + n_pub V^2) / n^2, which the best weights never exceed.
    both = mean_error(randomizer, n_reports=40, n_pub=10, variance=0.5).mean_squared_error
    assert both <= (40 * one + 10 * 0.5) / 50**2


@pytest.mark.parametrize(("n", "n_pub", "dim", "bound", "rho"), [(10_000, 80, 100, 25.0, 0.1), (50, 7, 3, 2.0, 0.5)])
def test_b5_the_advantage_is_an_equality(n, n_pub, dim, bound, rho):
    n_priv = n - n_pub
    best = (n_priv / n_pub) / (2 * dim * bound**2 / rho + n_priv + n_priv**2 / n_pub)
    error = 2 * dim * bound**2 * best**2 / rho + n_priv * best**2 + (1 - n_priv * best) ** 2 / n_pub
    q, s_squared = 2 + n_priv * rho / (dim * bound**2), n_priv**2 * rho / (bound**2 * dim * n_pub)
    assert error == pytest.approx(q / (q + s_squared) / n_pub, rel=1e-12)
    plan = fpp.plan(
        "weighted_mean", dim=dim, n_priv=n_priv, n_pub=n_pub, norm_bound=bound, variance=1.0, budget=fpp.ZCDP(rho)
    )
    assert plan.error == pytest.approx(math.sqrt(error), rel=0.01)


def test_b7_a_bias_in_every_column():
    bias = np.full(4, 0.1)
    assert bias @ bias == pytest.approx(4 * 0.1**2)
    assert bias @ bias != pytest.approx(4 * 0.1)


def test_c1_a_net_of_weights():
    # No two weights between 0 and 1 are further apart than 1, so a net of radius 40 has one point.
    assert mixture_sizes(2, 1, 0.9, BUDGET).weights == 18 * 2 / 0.9 + 1


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_c2_each_block_has_the_whole_epsilon():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(20_000) < 0.5, rng.normal(0.0, 1.0, 20_000), rng.normal(30.0, 2.0, 20_000))
    found = fpp.learn_axis_aligned_mixture(values, n_components=2, budget=BUDGET, random_state=0)
    assert {float(each["epsilon"]) for each in found.releases} == {1.0}
    assert len(found.releases) >= 3
    assert found.spent == BUDGET


def test_c3_small_weights():
    weights, rounded, step = np.array([0.045, 0.955]), np.array([0.09, 0.91]), 0.1 / 2
    assert np.abs(weights - rounded).max() <= step
    assert weights[0] <= step < rounded[0] <= 2 * step


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_c4_the_nearest_bin():
    values = np.random.default_rng(0).normal(0.2, 1.0, 20_000)
    found = decode_means(values, std=1.9, budget=BUDGET, min_weight=1.0, random_state=0)
    assert np.abs(found.means[0] - 0.2).min() <= 1.0
    assert 0.0 in found.means[0]
    assert abs(math.ceil(0.2 / 1.9) * 1.9 - 0.2) > 1.0


def test_c5_the_bound_of_a_light_bin():
    for weight in (0.1, 0.5, 1.0):
        light, error = weight**2 / 12, weight**2 / 24
        assert light + error == pytest.approx(weight**2 / 8)
        assert light + error > weight**2 / 12


def test_c6_lists_grow_with_the_power_of_the_dimension():
    one, two = (mixture_sizes(1, dim, 0.9, BUDGET).log10_candidates for dim in (1, 2))
    assert two > 2 * one - 1


def test_c7_privacy_is_paid_in_every_column():
    """The error of all counts, when each column has its share of the budget, grows as d log(1/delta)."""
    dim, n = 100, 10_000
    one = histogram_error(fpp.ApproxDP(epsilon=1, delta=1e-6), n, 0.05)
    each = histogram_error(fpp.ApproxDP(epsilon=1 / dim, delta=1e-6 / dim), n, 0.05 / dim)
    assert each > dim * one
    assert one > math.log(1e6)


def test_c8_where_the_curve_bends():
    def second_derivative(x: float) -> float:
        return x * math.exp(-(x**2) / 2) - 8 * x * math.exp(-2 * x**2)

    end = math.sqrt(2 * math.log(8) / 3)
    assert second_derivative(end) == pytest.approx(0.0, abs=1e-12)
    assert end > 1.0
    assert second_derivative(1.3) > 0.0 > second_derivative(1.0)
    assert min(2 * math.log(8 / 3), 2 * math.log(8) / 3) > 1.3
