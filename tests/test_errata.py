"""The errata of the book: every line names an existing test; this file holds those that fit no other."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import raises
from scipy.stats import chi2
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv.mixtures.list_decoding import decode_means
from fastpubpriv.mixtures.list_decoding.results import histogram_error, mixture_sizes
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
    tail = math.log(6 / 0.1)
    ours = fpp.precondition(public, failure_prob=0.05).mean_radius
    assert ours == pytest.approx(
        math.sqrt((dim + 2 * math.sqrt(dim * tail) + 2 * tail) / (dim + 1))
    )
    assert ours <= math.sqrt(5 * tail)
    for each in (math.log(6), tail, 20.0):
        assert chi2.sf((dim + 1) * each, dim) <= math.exp(-each)


@pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")
def test_a10_weights_add_up_to_one():
    rng = np.random.default_rng(0)
    private, public = (
        np.where(np.arange(n) % 10 == 0, 40.0, 0.0)[:, None] + rng.normal(size=(n, 2))
        for n in (20_000, 100)
    )
    found = fpp.learn_separated_mixture(
        private,
        x_pub=public,
        n_components=2,
        min_weight=0.05,
        weight_floor=0.6,
        budget=fpp.ZCDP(0.5),
        random_state=0,
    )
    # A weight of 0.1 is raised to 0.6 / 2, and both are divided by 0.3 + 0.9.
    assert sorted(found.weights) == pytest.approx([0.25, 0.75], abs=0.01)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_b3_one_pass_ends_with_the_private_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2))
    y = rng.normal(size=1000)
    data = {"x_pub": x[100:], "y_pub": y[100:], "loss": "squared", "budget": BUDGET}
    for steps, fits in ((2, True), (3, False)):
        method = SemiDP(steps=steps, sampling="one_pass", batch_rows=50, clip_norm=1.0)
        if fits:
            assert fpp.train(x[:100].copy(), y[:100].copy(), method=method, **data).private
        else:
            raises(
                fpp.InputError,
                None,
                fpp.train,
                x[:100].copy(),
                y[:100].copy(),
                method=method,
                **data,
            )


def test_b7_a_bias_in_every_column():
    bias = np.full(4, 0.1)
    assert bias @ bias == pytest.approx(4 * 0.1**2)
    assert bias @ bias != pytest.approx(4 * 0.1)


def test_b9_raw_public_gradients_pull_elsewhere():
    # Quantiles of an exponential law, mean 1; a location fit by gradients clipped at 1 solves mean(clip(y - w)) = 0.
    labels = -np.log1p(-(np.arange(2000) + 0.5) / 2000)
    ones = np.ones((2000, 1))
    found = {}
    for kind in ("clip", "raw"):
        method = fpp.training.SemiDP(
            steps=60,
            step_size=0.5,
            priv_weight=0.5,
            clip_norm=1.0,
            scaling="none",
            public_gradient=kind,
        )
        given = {"x_pub": ones.copy(), "y_pub": labels.copy(), "loss": "squared", "method": method}
        result = seeded(fpp.train, ones, labels, budget=fpp.ZCDP(1e4), **given)
        found[kind] = float(np.ravel(result.coefficients)[0])
    both_clipped = found["clip"]
    raw = found["raw"]
    # The numbers of the example: where mean(clip(y - w)), and its average with mean(y - w), are zero.
    assert both_clipped == pytest.approx(0.84, abs=0.005), found
    assert raw == pytest.approx(0.93, abs=0.005), found
    assert fpp.training.SemiDP().public_gradient == "clip"


def test_c1_a_net_of_weights():
    # No two weights between 0 and 1 are further apart than 1, so a net of radius 40 has one point.
    assert mixture_sizes(2, 1, 0.9, BUDGET).weights == 18 * 2 / 0.9 + 1


def test_c3_small_weights():
    weights = np.array([0.045, 0.955])
    rounded = np.array([0.09, 0.91])
    step = 0.1 / 2
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
        light = weight**2 / 12
        error = weight**2 / 24
        assert light + error == pytest.approx(weight**2 / 8)
        assert light + error > weight**2 / 12


def test_c7_privacy_is_paid_in_every_column():
    """The error of all counts, when each column has its share of the budget, grows as d log(1/delta)."""
    dim = 100
    n = 10_000
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
