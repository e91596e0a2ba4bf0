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
from fastpubpriv.results import Reason, mixture_plots
from fastpubpriv.results import plots as plotting
from fastpubpriv.results.gaussians import clipped, ellipse
from fastpubpriv.results.mixture import MixtureResult

pytest.importorskip("matplotlib")


def result(dim, n=20_000):
    rng = np.random.default_rng(dim)
    mix = rng.standard_normal((dim, dim))
    private = rng.standard_normal((n, dim)) @ mix.T
    public = rng.standard_normal((4 * dim, dim)) @ mix.T
    return seeded(estimate_gaussian, private, x_pub=public, budget=ZCDP(rho=0.5))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_a_grid_of_ellipses_has_a_panel_for_each_pair(dim, tmp_path):
    names = [f"column {j}" for j in range(dim)]
    found = dataclasses.replace(result(dim), columns=names)
    figure = found.plot(tmp_path / "pairs.png", level=0.5)
    assert (tmp_path / "pairs.png").stat().st_size > 5000
    panels = [axes for axes in figure.axes if axes.axison]
    assert len(panels) == dim * (dim + 1) // 2
    assert [axes.get_title() for axes in panels if axes.get_title()] == names
    assert "50%" in figure.get_suptitle()


@pytest.mark.parametrize(
    ("row", "column", "dim"), [(1, 0, 2), (1, 0, 3), (2, 0, 3), (2, 1, 3), (4, 2, 5)]
)
def test_each_ellipse_is_that_of_the_result(row, column, dim):
    found = result(dim)
    figure = found.plot(level=0.5)
    axes = figure.axes[row * dim + column]
    _, points = found.confidence_ellipse(column, row, level=0.5)
    curve, mark = axes.lines
    assert np.allclose(curve.get_xydata(), points)
    assert np.allclose(mark.get_xydata()[0], found.mean[[column, row]])
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    assert np.all((points > low) & (points < high)), "the axes hold the ellipse"


@pytest.mark.parametrize(("row", "column", "dim"), [(1, 0, 2), (2, 1, 3), (4, 2, 5)])
def test_the_correlation_and_its_interval_stand_opposite_the_ellipse(row, column, dim):
    found = result(dim)
    figure = found.plot(level=0.5)
    lower, upper = (end[row, column] for end in found.confidence_interval(of="correlation"))
    value = found.correlation[row, column]
    assert lower <= value <= upper
    opposite = figure.axes[column * dim + row]
    written = opposite.texts[0].get_text()
    assert written == f"r = {value:+.2f}\n{lower:+.2f} to {upper:+.2f}"


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


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def points_of(axes):
    """The points of each estimate, as drawn."""
    return [line.get_xydata() for line in axes.lines if line.get_marker() in "o|"]


def test_a_mean_beside_the_public_rows(tmp_path):
    figure = mean().plot(tmp_path / "mean.png", x_pub=PUBLIC)
    assert (tmp_path / "mean.png").stat().st_size > 5000
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["private", "public rows"]
    (axes,) = figure.axes
    assert names_of(axes) == ["a", "b"]
    private, public = points_of(axes)
    assert private[:, 0].tolist() == mean().mean.tolist()
    assert np.allclose(public[:, 0], PUBLIC.mean(axis=0))
    assert np.all(private[:, 1] < public[:, 1])
    assert np.round(public[:, 1]).tolist() == [0, 1]


def test_the_interval_of_public_rows_is_that_of_student():
    (axes,) = mean().plot(x_pub=PUBLIC).axes
    segments = np.array(axes.collections[1].get_segments())
    # Student's quantile for 39 degrees of freedom
    half = 2.0227 * PUBLIC.std(axis=0, ddof=1) / np.sqrt(40)
    assert np.allclose(np.ptp(segments[:, :, 0], axis=1) / 2.0, half, rtol=1e-4)


def test_public_rows_are_found_by_the_names_of_their_columns():
    frame = pd.DataFrame({"b": PUBLIC[:, 1], "other": 0.0, "a": PUBLIC[:, 0]})
    (axes,) = mean().plot(x_pub=frame).axes
    _, public = points_of(axes)
    assert np.allclose(public[:, 0], PUBLIC.mean(axis=0))
    raises(InputError, "3", mean().plot, x_pub=np.zeros((5, 3)))


def arrows(axes):
    found = []
    for line in axes.lines:
        if line.get_marker() in "<>":
            found.append((line.get_marker(), *np.round(line.get_ydata())))
    return found


FIVE = np.array([5.0])
OURS = plotting.Estimate("ours", FIVE, FIVE - 0.1, FIVE + 0.1)


@pytest.mark.parametrize(("reach", "expected"), [(0.5, []), (30.0, [("<", 0), (">", 0)])])
def test_public_intervals_that_are_much_longer_extend_to_the_edge(reach, expected):
    public = plotting.Estimate("public", FIVE, FIVE - reach, FIVE + reach)
    (axes,) = plotting.plot_forest([OURS, public], ["a"], label="").axes
    assert arrows(axes) == expected
    assert np.ptp(axes.get_xlim()) < 1.3


def test_distant_public_rows_are_at_the_edge():
    public = plotting.Estimate("public", FIVE + 100.0)
    (axes,) = plotting.plot_forest([OURS, public], ["a"], label="").axes
    assert arrows(axes) == [(">", 0)]
    assert axes.get_xlim()[1] < 6.0


def test_an_interval_without_ends_extends_to_the_edge():
    figure = dataclasses.replace(mean(), sampling_std=np.array([np.inf, 0.2])).plot()
    assert arrows(figure.axes[0]) == [("<", 0), (">", 0)]


TWO_NUMBERS = np.array([1.0, 2.0])
ALIKE = plotting.Estimate("", TWO_NUMBERS, TWO_NUMBERS - 0.1, TWO_NUMBERS + 0.1)


def test_columns_of_like_units_share_an_axis():
    figure = plotting.plot_forest([ALIKE], ["a", "b"], label="mean")
    assert [names_of(axes) for axes in figure.axes] == [["a", "b"]]
    assert not figure.legends, "a single estimate has no legend"


def test_columns_of_unlike_units_have_an_axis_each():
    scale = np.array([1.0, 1000.0])
    unlike = plotting.Estimate("", ALIKE.mean * scale, ALIKE.lower * scale, ALIKE.upper * scale)
    first, second = plotting.plot_forest([unlike], ["a", "b"], label="mean").axes
    assert names_of(first) == ["a"]
    assert names_of(second) == ["b"]
    assert np.ptp(first.get_xlim()) < 0.3
    assert np.ptp(second.get_xlim()) < 300.0


def test_groups_of_one_column_have_the_same_axis():
    groups = [("first", [0]), ("second", [1])]
    first, second = plotting.plot_forest([ALIKE], ["a", "b"], groups=groups, label="").axes
    assert first.get_title(loc="left") == "first"
    assert second.get_title(loc="left") == "second"
    assert first.get_xlim() == second.get_xlim()


def two_columns_and_groups():
    """A column near 50, one near 1,000 within 100, and two groups."""
    rng = np.random.default_rng(5)
    near_50 = rng.normal(50.0, 20.0, 4_000)
    near_1000 = rng.normal(1_000.0, 15.0, 4_000)
    return np.column_stack([near_50, near_1000, rng.integers(0, 2, 4_000)])


def check_own_axes(figure):
    (_, end_of_first), (begin, end) = (axes.get_xlim() for axes in figure.axes)
    assert end_of_first < begin
    assert end - begin < 100.0


def test_each_column_of_groups_has_an_axis_of_its_own():
    rows = two_columns_and_groups()
    asked = {"x_pub": rows[:40].copy(), "by": -1, "groups": [0, 1], "budget": ZCDP(1)}
    check_own_axes(seeded(estimate_mean, rows, **asked).plot())


def test_each_column_of_quantiles_has_an_axis_of_its_own():
    rows = two_columns_and_groups()[:, :2]
    check_own_axes(seeded(quantiles, rows, x_pub=rows[:40].copy(), budget=ZCDP(1)).plot())


@pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning")
@pytest.mark.parametrize(
    ("loss", "names"),
    [
        ("squared", ["x0", "x1"]),
        ("softmax", ["0: x0", "0: x1", "1: x0", "1: x1", "2: x0", "2: x1"]),
    ],
)
def test_models_of_noisy_gradients_have_points_and_no_intervals(loss, names):
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = x[:, 0] if loss == "squared" else np.digitize(x[:, 0], [-0.5, 0.5])
    public = {"x_pub": x[:100].copy(), "y_pub": y[:100]}
    asked = {"loss": loss, "budget": ZCDP(0.5), "method": "semi_dp"}
    found = seeded(train, x[100:], y[100:], **public, **asked)
    figure = found.plot()
    drawn_names = []
    drawn = []
    for axes in figure.axes:
        drawn_names += names_of(axes)
        drawn += points_of(axes)[0][:, 0].tolist()
    assert drawn_names == names
    assert drawn == found.coefficients.ravel().tolist()
    assert "intervals" not in figure._supxlabel.get_text()


HUNDRED = np.arange(100.0)
NAMES_OF_HUNDRED = [str(place) for place in range(100)]


def test_of_many_coefficients_the_strongest_are_named():
    coefficients = plotting.Estimate("", HUNDRED, HUNDRED - 1.0, HUNDRED + 1.0)
    groups = [("", list(range(100)))]
    figure = plotting.plot_forest(
        [coefficients], NAMES_OF_HUNDRED, groups=groups, zero=True, label="log-odds"
    )
    assert names_of(figure.axes[0]) == NAMES_OF_HUNDRED[40:]
    assert "60 of 100" in figure._supxlabel.get_text()


def test_columns_without_groups_are_all_shown():
    columns = plotting.Estimate("", HUNDRED, HUNDRED - 1.0, HUNDRED + 1.0)
    (axes,) = plotting.plot_forest([columns], NAMES_OF_HUNDRED, label="").axes
    assert len(points_of(axes)[0]) == 100


def bars_and_one_far_off(count, far):
    """The figure of twenty bars of a count, and a bar of 30 rows."""
    lower = np.append(np.arange(20.0), far)
    bars = plotting.Bars("age", lower, lower + 1.0, np.append(np.full(20, count), 30.0))
    (axes,) = plotting.plot_histograms([bars], noise=5.0, level=0.95, threshold=20.0).axes
    return axes


@pytest.mark.parametrize(
    ("count", "far", "words"),
    [(1e5, 35.0, "30 rows from 35 on"), (100.0, 9999.0, "30 rows from 9999 on")],
)
def test_bars_of_a_histogram_end_where_few_rows_are_far_off(count, far, words):
    axes = bars_and_one_far_off(count, far)
    assert axes.get_xlim()[1] < 25.0
    assert [text.get_text() for text in axes.texts] == [words]


def test_a_histogram_shows_its_noise_and_its_threshold():
    axes = bars_and_one_far_off(100.0, 9999.0)
    assert axes.get_xlabel() == "age"
    assert axes.get_ylabel() == "rows"
    noise = next(lines for lines in axes.collections if hasattr(lines, "get_segments"))
    segments = np.array(noise.get_segments())
    assert np.allclose(np.ptp(segments[:, :, 1], axis=1), 10.0)  # 5 on either side
    assert [20.0, 20.0] in [list(line.get_ydata()) for line in axes.lines]


OUTLINE = ellipse(np.zeros(2), np.array([[4.0, 1.5], [1.5, 1.0]]), 0.95)


def test_a_cut_outline_holds_exactly_the_points_in_both_regions():
    low = np.array([-1.0, -np.inf])
    high = np.array([2.5, 1.2])
    cut = clipped(OUTLINE, low, high)
    assert np.array_equal(cut[0], cut[-1])
    assert np.all((cut >= low - 1e-12) & (cut <= high + 1e-12))
    path = import_module("matplotlib.path").Path
    x, y = np.meshgrid(np.linspace(-6.01, 6, 97), np.linspace(-4.01, 4, 91))
    grid = np.column_stack([x.ravel(), y.ravel()])
    in_range = np.all((grid > low) & (grid < high), axis=1)
    in_both = path(OUTLINE).contains_points(grid) & in_range
    assert np.array_equal(path(cut).contains_points(grid), in_both)


def test_an_outline_outside_the_range_is_empty():
    assert clipped(OUTLINE, np.full(2, 50.0), np.full(2, 60.0)).shape == (0, 2)


def test_an_outline_without_a_range_stays():
    assert np.array_equal(clipped(OUTLINE, np.full(2, -np.inf), np.full(2, np.inf)), OUTLINE)


@pytest.fixture(scope="module")
def gaussian():
    rows = np.random.default_rng(9).normal(size=(4000, 2)) * [1.0, 3.0]
    return seeded(estimate_gaussian, rows, x_pub=PUBLIC, budget=ZCDP(0.5))


def test_a_gaussian_cut_to_its_bounds(gaussian, tmp_path):
    bounds = ([0.0, -np.inf], [np.inf, 2.0])
    figure = gaussian.plot(tmp_path / "cut.png", x_pub=PUBLIC, bounds=bounds)
    assert (tmp_path / "cut.png").stat().st_size > 5000
    panel = figure.axes[2]
    points = panel.lines[0].get_xydata()
    outline = panel.lines[1].get_xydata()
    assert np.array_equal(points, PUBLIC)
    assert outline[:, 0].min() >= 0.0
    assert outline[:, 1].max() <= 2.0


def test_bounds_may_exclude_all_of_a_gaussian(gaussian):
    assert gaussian.plot(bounds=(1e6, 2e6)) is not None


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1.0, 0.0), "below"),
        ((0.0,), "pair"),
        (("x", 1.0), "numbers"),
        (([0.0] * 3, 1.0), "2 columns"),
    ],
)
def test_bounds_that_are_refused(gaussian, bounds, words):
    raises(InputError, words, gaussian.plot, bounds=bounds)


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


def test_one_column_is_drawn_with_its_components(tmp_path):
    result = mixture(1, columns=("length",))
    figure = result.plot(tmp_path / "one.png", x_pub=np.zeros((30, 1)))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    components = ["0: 50.0%", "1: 30.0% (fallback)", "2: 20.0%"]
    assert labels(figure) == [*components, "mixture", "public rows"]
    assert figure.axes[0].get_xlabel() == "length"


def test_the_dashed_line_is_the_density_of_the_mixture():
    result = mixture(1)
    axes = result.plot(x_pub=np.zeros((30, 1))).axes[0]
    steps, height = axes.get_lines()[3].get_data()
    density = np.exp(result.log_prob(np.asarray(steps)[:, None]))
    assert np.allclose(height, density, rtol=1e-6, atol=1e-12)
    assert integrate.trapezoid(height, steps) == pytest.approx(1.0, abs=2e-3)


def test_two_columns_are_drawn_as_they_are():
    ball = {"origin": [1.0, 2.0], "projection": None, "center": [3.0, 4.0], "radius": 5.0}
    result = mixture(2, [ball, ball], columns=("a", "b"))
    figure = result.plot(x_pub=np.ones((30, 2)))
    axes = figure.axes[0]
    assert axes.get_xlabel() == "a"
    assert axes.get_ylabel() == "b"
    assert labels(figure).count("released ball") == 1
    circles = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert len(circles) == 2
    x, y = circles[0].get_data()
    assert np.allclose(np.hypot(x - 4.0, y - 6.0), 5.0)  # origin + center


def with_a_light_component(dim):
    """A mixture whose last component has one row of a hundred and is far off."""
    means = np.zeros((3, dim))
    means[1] = 9.0
    means[2, 0] = 5000.0
    return dataclasses.replace(mixture(dim), weights=np.array([0.6, 0.39, 0.01]), means=means)


def test_light_components_and_public_rows_far_off_do_not_stretch_the_plane():
    public = np.full((2, 2), -3000.0)
    figure = with_a_light_component(2).plot(x_pub=public, bounds=(-1.0, np.inf))
    low, high = figure.axes[0].get_xlim()
    assert -1.5 < low < high < 30.0
    assert {"2: 1.0%, far away", "public rows (100.0% outside)"} < set(labels(figure))


def test_public_rows_are_shown_a_little_beyond_the_components():
    public = np.full((1000, 2), -9.0)
    public[-1] = 1e6, 0.0
    figure = with_a_light_component(2).plot(x_pub=public)
    assert -15.0 < figure.axes[0].get_xlim()[0] < -9.0
    assert "public rows (0.1% outside)" in labels(figure)


def test_a_light_component_far_off_does_not_stretch_the_line():
    axes = with_a_light_component(1).plot().axes[0]
    assert axes.get_xlim()[1] < 40.0


@pytest.mark.parametrize("dim", [3, 40])
def test_many_columns_are_seen_along_the_spread_of_the_means(dim):
    """Three means lie in a plane, so none of their distances is lost."""
    result = mixture(dim)
    middle, plane, names = mixture_plots.plane_of(result)
    assert np.allclose(plane @ plane.T, np.eye(2))
    assert all("x" in name for name in names)
    assert all(len(name.split()) <= 9 for name in names)
    drawn = (result.means - middle) @ plane.T
    distance = np.linalg.norm(result.means[0] - result.means[1])
    assert np.linalg.norm(drawn[0] - drawn[1]) == pytest.approx(distance, rel=1e-3)


def test_a_direction_is_named_by_its_largest_columns():
    direction = np.array([0.0, -0.6, 0.8])
    assert mixture_plots._combination(direction, mixture(3).labels) == "0.8 x2 - 0.6 x1"


@pytest.mark.parametrize("dim", [3, 40])
def test_a_released_ball_of_many_columns_is_drawn(dim):
    ball = {
        "origin": [0.0] * dim,
        "projection": np.eye(2, dim).tolist(),
        "center": [1.0, 1.0],
        "radius": 3.0,
    }
    assert "released ball" in labels(mixture(dim, [ball]).plot())


@pytest.mark.parametrize("level", [0.0, 1.0, "0.9", True, np.nan])
def test_bad_levels(level):
    raises(InputError, "level", mixture(2).plot, level=level)


# ---- Axes of the caller ----------------------------------------------------------------------------------------------
ROWS = np.random.default_rng(0).normal(size=(4000, 2)) * [1.0, 500.0]
BINS = [BinGrid(width=1.0), BinGrid(width=500.0)]
# One answer for each kind of figure: a panel, several panels, a grid, a heat map.
ANSWERS = {
    "one panel": mean,
    "panels": lambda: seeded(estimate_mean, ROWS[20:], x_pub=ROWS[:20].copy(), budget=ZCDP(1)),
    "ellipses": lambda: result(2),
    "heat map": lambda: result(7),
    "histograms": lambda: seeded(stable_histogram, ROWS, bins=BINS, budget=ApproxDP(8, 1e-6)),
    "bars": lambda: seeded(value_counts, [0.0, 1.0, 1.0] * 500, keys=[0, 1], budget=ZCDP(1)),
}


@pytest.fixture
def subplots():
    """A figure and its left and right axes."""
    pyplot = import_module("matplotlib.pyplot")
    figure, (left, right) = pyplot.subplots(1, 2)
    yield figure, left, right
    pyplot.close(figure)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_figure_can_be_drawn_into_given_axes(name, subplots, tmp_path):
    figure, left, right = subplots
    path = tmp_path / "figure.png"
    assert ANSWERS[name]().plot(path, ax=left) is figure
    assert path.stat().st_size > 3000
    assert not right.has_data()


def shapes_of_lines(axes):
    return [np.shape(line.get_xydata()) for line in axes.lines]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_figure_in_given_axes_has_the_panels_that_it_has_alone(name, subplots):
    _, left, _ = subplots
    answer = ANSWERS[name]()
    answer.plot(ax=left)
    found = [axes for axes in [left, *left.child_axes] if axes.axison]
    alone = [axes for axes in answer.plot().axes if axes.axison]
    expected = [axes for axes in alone if axes.get_label() != "<colorbar>"]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.get_xlim() == theirs.get_xlim()
        assert shapes_of_lines(ours) == shapes_of_lines(theirs)


@pytest.mark.parametrize("name", ANSWERS)
def test_panels_do_not_leave_the_place_of_the_axes_that_they_share(name, subplots):
    _, left, _ = subplots
    ANSWERS[name]().plot(ax=left)
    place = left.get_position()
    for axes in left.child_axes:
        x, y, width, height = axes.get_axes_locator()(axes, None).bounds
        assert place.x0 - 1e-9 <= x <= x + width <= place.x1 + 1e-9
        assert place.y0 - 1e-9 <= y <= y + height <= place.y1 + 1e-9


def test_axes_are_axes():
    raises(InputError, "axes of matplotlib, got str", mean().plot, ax="left")
