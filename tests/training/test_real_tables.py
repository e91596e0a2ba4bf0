"""Regression on tables of packages: as close as the specification's prototype, and "auto" nearly the best of its choices."""

import math

import numpy as np
import pytest

from benchmarks.accuracy import regressions as real

CELLS = [cell for cell in real.CELLS if cell.table != "flights"] + [
    cell for cell in real.CELLS if cell.table == "flights" and cell.n_pub < 2000
]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "cell", CELLS, ids=lambda cell: f"{cell.table}, {cell.n_pub} public rows, epsilon {cell.epsilon:g}"
)
def test_newton_and_auto_on_real_tables(cell):
    """Medians of 20 cuts (5 of the flights, whose errors hardly differ), fresh noise in each."""
    pytest.importorskip({"flights": "pandas", "diabetes": "sklearn"}.get(cell.table, "statsmodels"))
    found = real.measure(cell, 5 if cell.table == "flights" else 20, peers=False)
    if not math.isnan(found["newton / prototype"]):
        assert found["newton / prototype"] <= real.CLOSE, found
    assert found["auto / best"] <= real.BEST, found


def test_one_small_cell_beside_its_peers():
    pytest.importorskip("sklearn")
    cell = real.Cell("diabetes", 100, 4.0, 1e-4, newton=0.580, statistics=0.579, plain=0.587)
    found = real.measure(cell, 1)
    assert found["newton"] < 1.02 * found["AdaSSP"]
    assert 0.95 * found["non-private"] < found["auto"] < 1.0  # of rows held out, which least squares may fit less well
    assert np.isfinite(found["newton / prototype"])
    assert real.targets([found])[0].endswith("of 1 cells")


@pytest.mark.parametrize("worse", ["newton", "auto"])
def test_a_method_that_adds_noise_is_caught(worse):
    """The planted fault: a tenth more error than the prototype, which loses four fifths of a per cent to least squares."""
    cell = real.Cell("diabetes", 100, 4.0, 1e-4, newton=0.592, plain=0.587)
    medians = {"newton": 0.50, "public": 0.6, "auto": 0.505, "non-private": 0.495}
    fine = real.judged(cell, medians)
    assert fine["newton / prototype"] <= real.CLOSE
    assert fine["auto / best"] <= real.BEST
    found = real.judged(cell, {**medians, worse: 1.1 * medians[worse]})
    assert found["newton / prototype"] > real.CLOSE or found["auto / best"] > real.BEST
