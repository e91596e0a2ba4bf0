"""Pictures beside the public rows, and cut to what columns can hold."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from spies import seeded

from fastpubpriv import ZCDP, InputError, MeanResult, estimate_gaussian
from fastpubpriv.results.gaussians import clipped, ellipse

pytest.importorskip("matplotlib")
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
    with pytest.raises(InputError, match="3"):
        mean().plot(x_pub=np.zeros((5, 3)))


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
        with pytest.raises(InputError, match=words):
            found.plot(bounds=bad)
