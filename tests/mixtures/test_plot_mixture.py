"""Pictures of a mixture: what is in them, and that nothing private could be."""

import numpy as np
import pytest

from fastpubpriv import ZCDP, InputError
from fastpubpriv.results import plots as plotting
from fastpubpriv.results.mixture import MixtureResult


def mixture(dim, balls=(), columns=None, status=("ok", "low_count", "ok")):
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
        status=status,
        method="tree",
        diagnostics={"balls": list(balls)},
        columns=columns,
    )


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
    with pytest.raises(InputError, match="level"):
        mixture(2).plot(level=level)
