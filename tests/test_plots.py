import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from spies import seeded

from fastpubpriv import ZCDP, GaussianResult, InputError, MeanResult, estimate_gaussian
from fastpubpriv.results import plots as plotting
from fastpubpriv.results.gaussians import clipped, ellipse
from fastpubpriv.results.mixture import MixtureResult

pytest.importorskip("matplotlib")


def result(dim, n=20_000):
    rng = np.random.default_rng(dim)
    mix = rng.standard_normal((dim, dim))
    return seeded(
        estimate_gaussian, rng.standard_normal((n, dim)) @ mix.T, x_pub=rng.standard_normal((4 * dim, dim)) @ mix.T,
        budget=ZCDP(rho=0.5),
    )  # fmt: skip


def named(found, columns):
    return GaussianResult.from_json(json.dumps(found.to_dict() | {"columns": columns}))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_a_grid_of_ellipses(dim, tmp_path):
    names = [f"column {j}" for j in range(dim)]
    found = named(result(dim), names)
    figure = found.plot(tmp_path / "pairs.png", level=0.5)
    assert (tmp_path / "pairs.png").stat().st_size > 5000
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == dim * (dim + 1) // 2
    assert [axes.get_title() for axes in shown if axes.get_title()] == names
    assert "50%" in figure.get_suptitle()
    # Each ellipse is that of the result, within the axes, with the mean marked.
    pairs = iter((row, column) for row in range(dim) for column in range(row))
    for axes in [axes for axes in shown if axes.patches and not axes.get_title()]:
        row, column = next(pairs)
        _, points = found.confidence_ellipse(column, row, level=0.5)
        curve, mark = axes.lines
        assert np.allclose(curve.get_xydata(), points)
        assert np.allclose(mark.get_xydata()[0], found.mean[[column, row]])
        low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
        assert np.all((points > low) & (points < high))
        lower, upper = (end[row, column] for end in found.confidence_interval(of="correlation"))
        value = found.correlation[row, column]
        assert lower <= value <= upper
        assert axes.texts[0].get_text() == f"r = {value:+.2f}\n{lower:+.2f} to {upper:+.2f}"
    assert next(pairs, None) is None


@pytest.mark.parametrize("dim", [6, 15])
def test_a_heat_map_with_the_noise_level(dim, tmp_path):
    found = result(dim)
    figure = found.plot(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5000
    axes = figure.axes[0]
    assert np.array_equal(axes.images[0].get_array(), found.correlation)
    assert axes.images[0].get_clim() == (-1.0, 1.0)
    lower, upper = found.confidence_interval(of="correlation")
    level = np.median((upper - lower)[np.triu_indices(dim, 1)]) / 2.0
    assert f"±{level:.2g}" in axes.get_title()
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"x{j}" for j in range(dim)]
    assert len(axes.texts) == (dim * dim if dim <= 12 else 0)


def test_the_stated_noise_is_that_of_a_correlation():
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        found = seeded(
            estimate_gaussian, rng.standard_normal((20_000, 8)), x_pub=rng.standard_normal((40, 8)),
            budget=ZCDP(rho=0.1),
            method="lifted_coinpress", random_state=seed,
        )  # fmt: skip
        errors.append(found.correlation[np.triu_indices(8, 1)])
    level = found.predicted_covariance_error / np.sqrt(72)
    assert 0.85 <= np.std(errors) / level <= 1.2


def test_an_unresolved_covariance_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimate_gaussian(
            np.zeros((500, 30)), x_pub=np.random.default_rng(0).standard_normal((31, 30)), budget=ZCDP(rho=0.1),
            method="lifted_coinpress",
        )  # fmt: skip
        public = estimate_gaussian(
            np.zeros((500, 30)), x_pub=np.random.default_rng(0).standard_normal((31, 30)), budget=ZCDP(rho=0.1)
        )
    assert "far off" in found.plot().axes[0].get_title()
    assert public.structure == "mean"
    assert "of the public rows" in public.plot().axes[0].get_title()


# ---- Pictures beside the public rows, and cut to what columns can hold ----------------------------------------------
RNG = np.random.default_rng(8)
PUBLIC = RNG.normal(size=(40, 2)) * [1.0, 3.0]


def mean(dim=2, columns=("a", "b")):
    return MeanResult(
        mean=np.arange(float(dim)), noise_std=np.full(dim, 0.1), sampling_std=np.full(dim, 0.2), noise_law="gaussian",
        n_priv=100, n_pub=40, dim=dim, spent=ZCDP(0.5), private=True, columns=columns,
    )  # fmt: skip


def test_a_mean_beside_the_public_rows(tmp_path):
    figure = mean().plot(tmp_path / "mean.png", x_pub=PUBLIC)
    assert (tmp_path / "mean.png").stat().st_size > 5000
    for j, axes in enumerate(figure.axes):
        assert [label.get_text() for label in axes.get_xticklabels()] == ["private", "public rows"]
        private, public = axes.containers
        assert private.lines[0].get_ydata()[0] == mean().mean[j]
        assert public.lines[0].get_ydata()[0] == pytest.approx(PUBLIC[:, j].mean())
        low, high = public.lines[2][0].get_segments()[0][:, 1]
        half = 2.0227 * PUBLIC[:, j].std(ddof=1) / np.sqrt(40)  # Student's quantile for 39 degrees of freedom
        assert (high - low) / 2.0 == pytest.approx(half, rel=1e-4)


def test_public_rows_of_a_frame_are_found_by_name():
    frame = pd.DataFrame({"b": PUBLIC[:, 1], "other": 0.0, "a": PUBLIC[:, 0]})
    for j, axes in enumerate(mean().plot(x_pub=frame).axes):
        assert axes.containers[1].lines[0].get_ydata()[0] == pytest.approx(PUBLIC[:, j].mean())
    raises(InputError, "3", mean().plot, x_pub=np.zeros((5, 3)))


def test_an_endless_interval_is_an_arrow():
    figure = dataclasses.replace(mean(), sampling_std=np.array([np.inf, 0.2])).plot()
    assert [line.get_marker() for line in figure.axes[0].lines][-2:] == ["v", "^"]
    assert "v" not in [line.get_marker() for line in figure.axes[1].lines]


def test_cutting_an_outline():
    outline = ellipse(np.zeros(2), np.array([[4.0, 1.5], [1.5, 1.0]]), 0.95)
    low, high = np.array([-1.0, -np.inf]), np.array([2.5, 1.2])
    cut = clipped(outline, low, high)
    assert np.array_equal(cut[0], cut[-1])
    assert np.all((cut >= low - 1e-12) & (cut <= high + 1e-12))
    # Exactly the points that lie in both: compared on a grid.
    path = __import__("matplotlib.path", fromlist=["Path"]).Path
    grid = np.stack(np.meshgrid(np.linspace(-6.01, 6, 97), np.linspace(-4.01, 4, 91)), -1).reshape(-1, 2)
    both = path(outline).contains_points(grid) & np.all((grid > low) & (grid < high), axis=1)
    assert np.array_equal(path(cut).contains_points(grid), both)
    assert clipped(outline, np.array([50.0, 50.0]), np.array([60.0, 60.0])).shape == (0, 2)
    assert np.array_equal(clipped(outline, np.full(2, -np.inf), np.full(2, np.inf))[:-1], outline)


def test_a_gaussian_cut_to_its_bounds(tmp_path):
    rows = RNG.normal(size=(4000, 2)) * [1.0, 3.0]
    found = seeded(estimate_gaussian, rows, x_pub=PUBLIC, budget=ZCDP(0.5))
    figure = found.plot(tmp_path / "cut.png", x_pub=PUBLIC, bounds=([0.0, -np.inf], [np.inf, 2.0]))
    assert (tmp_path / "cut.png").stat().st_size > 5000
    panel = figure.axes[2]
    points, outline = panel.lines[0].get_xydata(), panel.lines[1].get_xydata()
    assert np.array_equal(points, PUBLIC)
    assert outline[:, 0].min() >= 0.0
    assert outline[:, 1].max() <= 2.0
    assert found.plot(bounds=(1e6, 2e6)) is not None  # nothing of it is left
    for bad, words in (
        ((1.0, 0.0), "below"),
        ((0.0,), "pair"),
        (("x", 1.0), "numbers"),
        (([0.0] * 3, 1.0), "2 columns"),
    ):
        raises(InputError, words, found.plot, bounds=bad)


# ---- Pictures of a mixture: what is in them, and that nothing private could be --------------------------------------
def mixture(dim, balls=(), columns=None, status=("ok", "low_count", "ok")):
    rng = np.random.default_rng(dim)
    return MixtureResult(
        n_priv=100, n_pub=30, dim=dim, spent=ZCDP(0.5), private=True, weights=np.array([0.5, 0.3, 0.2]),
        means=rng.normal(size=(3, dim)) * 20.0,
        covariances=np.array([np.eye(dim) * scale for scale in (1.0, 4.0, 0.25)]), status=status, method="tree",
        diagnostics={"balls": list(balls)}, columns=columns,
    )  # fmt: skip


def labels(figure):
    return figure.axes[0].get_legend_handles_labels()[1]


def test_one_column_shows_densities(tmp_path):
    result = mixture(1, columns=("length",))
    figure = result.plot(tmp_path / "one.png", x_pub=np.zeros((30, 1)))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert labels(figure) == ["0: 50.0%", "1: 30.0% (low count)", "2: 20.0%", "mixture", "public rows"]
    axes = figure.axes[0]
    assert axes.get_xlabel() == "length"
    steps, height = axes.get_lines()[3].get_data()
    # The dashed line is the density itself, with unit mass.
    assert np.allclose(height, np.exp(result.log_prob(np.asarray(steps)[:, None])), rtol=1e-6, atol=1e-12)
    assert np.trapezoid(height, steps) == pytest.approx(1.0, abs=2e-3)


def test_two_columns_are_drawn_as_they_are():
    ball = {"origin": [1.0, 2.0], "projection": None, "center": [3.0, 4.0], "radius": 5.0}
    figure = mixture(2, [ball, ball], columns=("a", "b")).plot(x_pub=np.ones((30, 2)))
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")
    assert labels(figure).count("released ball") == 1
    circles = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert len(circles) == 2
    x, y = circles[0].get_data()
    assert np.allclose(np.hypot(x - 4.0, y - 6.0), 5.0)


@pytest.mark.parametrize("dim", [3, 40])
def test_many_columns_are_seen_along_the_spread_of_the_means(dim):
    result = mixture(dim)
    drawn = plotting.Drawn(result.weights, result.means, result.covariances, ["", "", ""], result.columns)
    middle, plane, names = plotting.plane_of(drawn)
    assert np.allclose(plane @ plane.T, np.eye(2))
    assert names == ("first direction", "second direction")
    # Three means lie in a plane, so none of their distances is lost.
    shown = (result.means - middle) @ plane.T
    assert np.allclose(
        np.linalg.norm(shown[0] - shown[1]), np.linalg.norm(result.means[0] - result.means[1]), rtol=1e-3
    )
    projection = np.eye(2, dim)
    ball = {"origin": [0.0] * dim, "projection": projection.tolist(), "center": [1.0, 1.0], "radius": 3.0}
    assert "released ball" in labels(mixture(dim, [ball]).plot())


@pytest.mark.parametrize("level", [0.0, 1.0, "0.9", True, np.nan])
def test_bad_levels(level):
    raises(InputError, "level", mixture(2).plot, level=level)
