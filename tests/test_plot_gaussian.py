import json
import warnings

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ZCDP, GaussianResult, estimate_gaussian

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
