import dataclasses
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from helpers.errors import raises
from scipy import integrate
from spies import seeded

from fastpubpriv import (
    ZCDP,
    ApproxDP,
    BinGrid,
    InputError,
    MeanResult,
    estimate_gaussian,
    estimate_mean,
    quantiles,
    stable_histogram,
    train,
    value_counts,
)
from fastpubpriv.results import Reason
from fastpubpriv.results import plots as plotting
from fastpubpriv.results.gaussians import clipped, ellipse
from fastpubpriv.results.mixture import MixtureResult

pytest.importorskip("matplotlib")


def result(dim, n=20_000):
    rng = np.random.default_rng(dim)
    mix = rng.standard_normal((dim, dim))
    return seeded(
        estimate_gaussian,
        rng.standard_normal((n, dim)) @ mix.T,
        x_pub=rng.standard_normal((4 * dim, dim)) @ mix.T,
        budget=ZCDP(rho=0.5),
    )


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_a_grid_of_ellipses(dim, tmp_path):
    names = [f"column {j}" for j in range(dim)]
    found = dataclasses.replace(result(dim), columns=names)
    figure = found.plot(tmp_path / "pairs.png", level=0.5)
    assert (tmp_path / "pairs.png").stat().st_size > 5000
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == dim * (dim + 1) // 2
    assert [axes.get_title() for axes in shown if axes.get_title()] == names
    assert "50%" in figure.get_suptitle()
    # Each ellipse is that of the result and within the axes, and the mean is marked.
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
        assert (
            figure.axes[column * dim + row].texts[0].get_text()
            == f"r = {value:+.2f}\n{lower:+.2f} to {upper:+.2f}"
        )
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


def test_an_unresolved_covariance_says_so():
    given = {"x_pub": np.random.default_rng(0).standard_normal((31, 30)), "budget": ZCDP(rho=0.1)}
    with warnings.catch_warnings(action="ignore"):
        found = estimate_gaussian(np.zeros((500, 30)), method="lifted_coinpress", **given)
        public = estimate_gaussian(np.zeros((500, 30)), **given)
    assert "far off" in found.plot().axes[0].get_title()
    assert public.structure == "mean"
    assert "of the public rows" in public.plot().axes[0].get_title()


# ---- Figures with public rows, and limited to the ranges of columns -------------------------------------------------
RNG = np.random.default_rng(8)
PUBLIC = RNG.normal(size=(40, 2)) * [1.0, 3.0]


def mean(dim=2, columns=("a", "b")):
    return MeanResult(
        mean=np.arange(float(dim)),
        noise_std=np.full(dim, 0.1),
        sampling_std=np.full(dim, 0.2),
        noise_law="gaussian",
        n_priv=100,
        n_pub=40,
        dim=dim,
        spent=ZCDP(0.5),
        private=True,
        columns=columns,
    )


def forest(figure):
    """Return for each panel its names, and for each estimate (points, segments) as drawn."""
    return [
        (
            [label.get_text() for label in axes.get_yticklabels()],
            [line.get_xydata() for line in axes.lines if line.get_marker() in "o|"],
            [np.array(lines.get_segments()) for lines in axes.collections],
        )
        for axes in figure.axes
    ]


def test_a_mean_beside_the_public_rows(tmp_path):
    figure = mean().plot(tmp_path / "mean.png", x_pub=PUBLIC)
    assert (tmp_path / "mean.png").stat().st_size > 5000
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["private", "public rows"]
    ((names, (private, public), (_, reach)),) = forest(figure)
    assert names == ["a", "b"]
    assert private[:, 0].tolist() == mean().mean.tolist()
    assert np.allclose(public[:, 0], PUBLIC.mean(axis=0))
    assert np.all((private[:, 1] < public[:, 1]) & (np.round(public[:, 1]) == [0, 1]))
    # Student's quantile for 39 degrees of freedom
    half = 2.0227 * PUBLIC.std(axis=0, ddof=1) / np.sqrt(40)
    assert np.allclose(np.ptp(reach[:, :, 0], axis=1) / 2.0, half, rtol=1e-4)
    frame = pd.DataFrame({"b": PUBLIC[:, 1], "other": 0.0, "a": PUBLIC[:, 0]})
    assert np.allclose(forest(mean().plot(x_pub=frame))[0][1][1][:, 0], PUBLIC.mean(axis=0))
    raises(InputError, "3", mean().plot, x_pub=np.zeros((5, 3)))


def arrows(axes):
    return [
        (line.get_marker(), *np.round(line.get_ydata()))
        for line in axes.lines
        if line.get_marker() in "<>"
    ]


def test_an_axis_is_that_of_what_is_known_best():
    """Much longer public intervals and distant public rows extend to the edge; a few times longer ones are shown completely."""
    numbers = np.array([5.0])
    ours = plotting.Estimate("ours", numbers, numbers - 0.1, numbers + 0.1)
    for reach, wanted in ((0.5, []), (30.0, [("<", 0), (">", 0)])):
        public = plotting.Estimate("public", numbers, numbers - reach, numbers + reach)
        axes = plotting.plot_forest([ours, public], ["a"], label="").axes[0]
        assert arrows(axes) == wanted
        assert np.ptp(axes.get_xlim()) < 1.3
    far = plotting.plot_forest(
        [ours, plotting.Estimate("public", numbers + 100.0)], ["a"], label=""
    ).axes[0]
    assert arrows(far) == [(">", 0)]
    assert far.get_xlim()[1] < 6.0
    figure = dataclasses.replace(mean(), sampling_std=np.array([np.inf, 0.2])).plot()
    assert arrows(figure.axes[0]) == [("<", 0), (">", 0)]


def test_columns_share_an_axis_unless_their_units_differ_too_much():
    alike = plotting.Estimate("", np.array([1.0, 2.0]), np.array([0.9, 1.9]), np.array([1.1, 2.1]))
    figure = plotting.plot_forest([alike], ["a", "b"], label="mean")
    assert [names for names, *_ in forest(figure)] == [["a", "b"]]
    assert not figure.legends  # no legend for a single estimate
    scale = np.array([1.0, 1000.0])
    units = plotting.Estimate("", alike.mean * scale, alike.lower * scale, alike.upper * scale)
    figure = plotting.plot_forest([units], ["a", "b"], label="mean")
    assert [names for names, *_ in forest(figure)] == [["a"], ["b"]]
    assert np.all(np.ptp([axes.get_xlim() for axes in figure.axes], axis=1) < [0.3, 300.0])
    grouped = plotting.plot_forest(
        [alike], ["a", "b"], groups=[("first", [0]), ("second", [1])], label=""
    )
    assert [axes.get_title(loc="left") for axes in grouped.axes] == ["first", "second"]
    assert grouped.axes[0].get_xlim() == grouped.axes[1].get_xlim()
    # Each column of groups and of quantiles has an axis of its own.
    rng = np.random.default_rng(5)
    rows = np.column_stack(
        [rng.normal(50.0, 20.0, 4_000), rng.normal(1_000.0, 15.0, 4_000), rng.integers(0, 2, 4_000)]
    )
    groups = seeded(
        estimate_mean, rows, x_pub=rows[:40].copy(), by=-1, groups=[0, 1], budget=ZCDP(1)
    )
    ranks = seeded(quantiles, rows[:, :2], x_pub=rows[:40, :2].copy(), budget=ZCDP(1))
    for figure in (groups.plot(), ranks.plot()):
        (_, high), (begin, end) = (axes.get_xlim() for axes in figure.axes)
        assert high < begin
        assert end - begin < 100.0


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
def test_models_of_noisy_gradients_have_points_and_no_intervals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    common = {"x_pub": x[:100].copy(), "budget": ZCDP(0.5), "method": "semi_dp"}
    for y, loss, names in (
        (x[:, 0], "squared", ["x0", "x1"]),
        (
            np.digitize(x[:, 0], [-0.5, 0.5]),
            "softmax",
            [f"{k}: x{j}" for k in range(3) for j in (0, 1)],
        ),
    ):
        found = seeded(train, x[100:], y[100:], y_pub=y[:100], loss=loss, **common)
        figure = found.plot()
        panels = forest(figure)
        assert [name for labels, *_ in panels for name in labels] == names
        drawn = np.concatenate([points[0][:, 0] for _, points, _ in panels])
        assert np.array_equal(drawn, found.coefficients.ravel())
        assert "intervals" not in figure._supxlabel.get_text()


def test_of_many_coefficients_the_strongest_are_named():
    many = np.arange(100.0)
    named = plotting.Estimate("", many, many - 1.0, many + 1.0)
    names = [str(place) for place in range(100)]
    figure = plotting.plot_forest(
        [named], names, groups=[("", list(range(100)))], zero=True, label="log-odds"
    )
    assert forest(figure)[0][0] == names[40:]
    assert "60 of 100" in figure._supxlabel.get_text()
    # Columns without groups are all shown, by number.
    assert len(forest(plotting.plot_forest([named], names, label=""))[0][1][0]) == 100


def test_bars_of_a_histogram_end_where_few_rows_are_far_off():
    lower = np.append(np.arange(20.0), 35.0)
    few = plotting.Bars("age", lower, lower + 1.0, np.append(np.full(20, 1e5), 30.0))
    near = plotting.plot_histograms([few], noise=5.0, level=0.95, threshold=20.0).axes[0]
    assert near.texts[0].get_text() == "30 rows from 35 on"
    lower[-1] = 9999.0
    bars = plotting.Bars("age", lower, lower + 1.0, np.append(np.full(20, 100.0), 30.0))
    figure = plotting.plot_histograms([bars], noise=5.0, level=0.95, threshold=20.0)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "age"
    assert axes.get_ylabel() == "rows"
    assert axes.get_xlim()[1] < 25.0
    assert [text.get_text() for text in axes.texts] == ["30 rows from 9999 on"]
    noise = next(each for each in axes.collections if hasattr(each, "get_segments"))
    assert np.allclose(np.ptp(np.array(noise.get_segments())[:, :, 1], axis=1), 10.0)
    assert [20.0, 20.0] in [list(line.get_ydata()) for line in axes.lines]


def test_cutting_an_outline():
    outline = ellipse(np.zeros(2), np.array([[4.0, 1.5], [1.5, 1.0]]), 0.95)
    low = np.array([-1.0, -np.inf])
    high = np.array([2.5, 1.2])
    cut = clipped(outline, low, high)
    assert np.array_equal(cut[0], cut[-1])
    assert np.all((cut >= low - 1e-12) & (cut <= high + 1e-12))
    # Exactly the points in both regions: compared on a grid.
    path = import_module("matplotlib.path").Path
    grid = np.stack(np.meshgrid(np.linspace(-6.01, 6, 97), np.linspace(-4.01, 4, 91)), -1).reshape(
        -1, 2
    )
    both = path(outline).contains_points(grid) & np.all((grid > low) & (grid < high), axis=1)
    assert np.array_equal(path(cut).contains_points(grid), both)
    assert clipped(outline, np.array([50.0, 50.0]), np.array([60.0, 60.0])).shape == (0, 2)
    assert np.array_equal(clipped(outline, np.full(2, -np.inf), np.full(2, np.inf)), outline)


def test_a_gaussian_cut_to_its_bounds(tmp_path):
    rows = RNG.normal(size=(4000, 2)) * [1.0, 3.0]
    found = seeded(estimate_gaussian, rows, x_pub=PUBLIC, budget=ZCDP(0.5))
    figure = found.plot(tmp_path / "cut.png", x_pub=PUBLIC, bounds=([0.0, -np.inf], [np.inf, 2.0]))
    assert (tmp_path / "cut.png").stat().st_size > 5000
    panel = figure.axes[2]
    points = panel.lines[0].get_xydata()
    outline = panel.lines[1].get_xydata()
    assert np.array_equal(points, PUBLIC)
    assert outline[:, 0].min() >= 0.0
    assert outline[:, 1].max() <= 2.0
    assert found.plot(bounds=(1e6, 2e6)) is not None  # the range excludes all of it
    for bad, words in (
        ((1.0, 0.0), "below"),
        ((0.0,), "pair"),
        (("x", 1.0), "numbers"),
        (([0.0] * 3, 1.0), "2 columns"),
    ):
        raises(InputError, words, found.plot, bounds=bad)


# ---- Figures of a mixture: their content, which cannot include private rows ------------------------------------------
def mixture(dim, balls=(), columns=None, reasons=((), (Reason.FALLBACK,), ())):
    rng = np.random.default_rng(dim)
    return MixtureResult(
        n_priv=100,
        n_pub=30,
        dim=dim,
        spent=ZCDP(0.5),
        private=True,
        weights=np.array([0.5, 0.3, 0.2]),
        means=rng.normal(size=(3, dim)) * 20.0,
        covariances=np.array([np.eye(dim) * scale for scale in (1.0, 4.0, 0.25)]),
        part_reasons=reasons,
        method="tree",
        structure=("full",) * 3,
        diagnostics={"balls": list(balls)},
        columns=columns,
    )


def labels(figure):
    return figure.axes[0].get_legend_handles_labels()[1]


def test_one_and_two_columns_are_drawn_as_they_are(tmp_path):
    result = mixture(1, columns=("length",))
    figure = result.plot(tmp_path / "one.png", x_pub=np.zeros((30, 1)))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert labels(figure) == [
        "0: 50.0%",
        "1: 30.0% (fallback)",
        "2: 20.0%",
        "mixture",
        "public rows",
    ]
    axes = figure.axes[0]
    assert axes.get_xlabel() == "length"
    steps, height = axes.get_lines()[3].get_data()
    # The dashed line is the density itself, with unit mass.
    assert np.allclose(
        height, np.exp(result.log_prob(np.asarray(steps)[:, None])), rtol=1e-6, atol=1e-12
    )
    assert integrate.trapezoid(height, steps) == pytest.approx(1.0, abs=2e-3)
    # Two columns are drawn as they are.
    ball = {"origin": [1.0, 2.0], "projection": None, "center": [3.0, 4.0], "radius": 5.0}
    figure = mixture(2, [ball, ball], columns=("a", "b")).plot(x_pub=np.ones((30, 2)))
    axes = figure.axes[0]
    assert axes.get_xlabel() == "a"
    assert axes.get_ylabel() == "b"
    assert labels(figure).count("released ball") == 1
    circles = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert len(circles) == 2
    x, y = circles[0].get_data()
    assert np.allclose(np.hypot(x - 4.0, y - 6.0), 5.0)


def test_light_components_and_public_rows_far_off_do_not_stretch_the_plane():
    result = dataclasses.replace(
        mixture(2),
        weights=np.array([0.6, 0.39, 0.01]),
        means=np.array([[0.0, 0.0], [9.0, 9.0], [5000.0, 0.0]]),
    )
    figure = result.plot(x_pub=np.full((2, 2), -3000.0), bounds=(-1.0, np.inf))
    axes = figure.axes[0]
    assert -1.5 < axes.get_xlim()[0] < axes.get_xlim()[1] < 30.0
    assert {"2: 1.0%, far away", "public rows (100.0% outside)"} < set(labels(figure))
    near = result.plot(x_pub=np.append(np.full((999, 2), -9.0), [[1e6, 0.0]], axis=0)).axes[0]
    assert -15.0 < near.get_xlim()[0] < -9.0  # public rows are shown a little beyond the components
    assert "public rows (0.1% outside)" in near.get_legend_handles_labels()[1]
    one = dataclasses.replace(
        mixture(1), weights=result.weights, means=np.array([[0.0], [9.0], [5000.0]])
    )
    assert one.plot().axes[0].get_xlim()[1] < 40.0


@pytest.mark.parametrize("dim", [3, 40])
def test_many_columns_are_seen_along_the_spread_of_the_means(dim):
    result = mixture(dim)
    middle, plane, names = plotting.plane_of(result)
    assert np.allclose(plane @ plane.T, np.eye(2))
    assert all("x" in name and len(name.split()) <= 9 for name in names)
    assert plotting._combination(np.array([0.0, -0.6, 0.8]), result.labels) == "0.8 x2 - 0.6 x1"
    # Three means lie in a plane, so none of their distances is lost.
    shown = (result.means - middle) @ plane.T
    assert np.allclose(
        np.linalg.norm(shown[0] - shown[1]),
        np.linalg.norm(result.means[0] - result.means[1]),
        rtol=1e-3,
    )
    projection = np.eye(2, dim)
    ball = {
        "origin": [0.0] * dim,
        "projection": projection.tolist(),
        "center": [1.0, 1.0],
        "radius": 3.0,
    }
    assert "released ball" in labels(mixture(dim, [ball]).plot())


@pytest.mark.parametrize("level", [0.0, 1.0, "0.9", True, np.nan])
def test_bad_levels(level):
    raises(InputError, "level", mixture(2).plot, level=level)


# ---- Axes of the caller ----------------------------------------------------------------------------------------------
def answers():
    """One answer for each kind of figure: a panel, several panels, a grid, a heat map."""
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * [1.0, 500.0]
    bins = [BinGrid(width=1.0), BinGrid(width=500.0)]
    return {
        "one panel": mean(),
        "panels": seeded(estimate_mean, rows[20:], x_pub=rows[:20].copy(), budget=ZCDP(1)),
        "ellipses": result(2),
        "heat map": result(7),
        "histograms": seeded(stable_histogram, rows, bins=bins, budget=ApproxDP(8, 1e-6)),
        "bars": seeded(value_counts, [0.0, 1.0, 1.0] * 500, keys=[0, 1], budget=ZCDP(1)),
    }


def test_a_figure_can_be_drawn_into_given_axes(tmp_path):
    pyplot = import_module("matplotlib.pyplot")
    for name, answer in answers().items():
        figure, (left, right) = pyplot.subplots(1, 2)
        path = tmp_path / f"{name}.png"
        assert answer.plot(path, ax=left) is figure
        assert path.stat().st_size > 3000
        assert not right.has_data()
        alone = answer.plot()
        panels = [axes for axes in [left, *left.child_axes] if axes.axison]
        wanted = [axes for axes in alone.axes if axes.axison and axes.get_label() != "<colorbar>"]
        assert len(panels) == len(wanted), name
        for ours, theirs in zip(panels, wanted, strict=True):
            assert ours.get_xlim() == theirs.get_xlim(), name
            assert [np.shape(line.get_xydata()) for line in ours.lines] == [
                np.shape(line.get_xydata()) for line in theirs.lines
            ], name
        # Panels do not leave the place of the axes that they share.
        for axes in left.child_axes:
            x, y, width, height = axes.get_axes_locator()(axes, None).bounds
            place = left.get_position()
            assert place.x0 - 1e-9 <= x <= x + width <= place.x1 + 1e-9
            assert place.y0 - 1e-9 <= y <= y + height <= place.y1 + 1e-9
        pyplot.close(figure)


def test_axes_are_axes():
    raises(InputError, "axes of matplotlib, got str", mean().plot, ax="left")
