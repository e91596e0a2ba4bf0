"""Cases of what people see: the JSON of every command, plots, transcripts compared by record and replay."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from click.testing import CliRunner
from golden_case import Case, public, steps
from golden_data import APPROX, BLOBS, BLOBS_PUBLIC, LINE, MANY_PUBLIC, PLANE, PLANE_PUBLIC, PUBLIC, ROWS

import fastpubpriv as fpp
from fastpubpriv import ZCDP, auditing
from fastpubpriv.cli import main
from fastpubpriv.results import plots as plotting

RHO = ("--rho", "0.5")
BOTH = ("--epsilon", "1", "--delta", "1e-6")
COLUMNS = ("weight", "height", "age")
FILES = {"rows": ROWS, "public": MANY_PUBLIC, "blobs": BLOBS, "blobs_public": BLOBS_PUBLIC, "line": LINE}


def command(*arguments: str) -> Any:
    """The JSON that a command prints. {name} in an argument is a Parquet file of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, rows in FILES.items():
            if any(f"{{{name}}}" in argument for argument in arguments):
                paths[name] = Path(folder) / name / "rows.parquet"  # a folder for each: all files have one name
                paths[name].parent.mkdir()
                table = pa.table({column: rows[:, j] for j, column in enumerate(COLUMNS[: rows.shape[1]])})
                pyarrow.parquet.write_table(table, paths[name], row_group_size=301)
        filled = [argument.format(**paths) for argument in arguments]
        result = CliRunner().invoke(main, [*filled, "--json", "-"])
        if result.exit_code:
            return {"exit code": result.exit_code}
        return json.loads(result.stdout)


def commands() -> Iterator[Case]:
    two = ("--private", "{rows}", "--public", "{public}")
    alone = ("--private", "{rows}")
    groups = ("--private", "{blobs}", "--public", "{blobs_public}", "--components", "3")
    calls = {
        "mean, counts": ("mean", *two, *RHO),
        "quantiles": ("quantiles", *two, *RHO),
        "describe": ("describe", *two, *RHO),
        "counts": ("counts", *alone, "--column", "age", "--keys", "1,2", *RHO),
        "crosstab": ("crosstab", *alone, "--columns", "age,height", "--keys", "age=1", "--keys", "height=2", *RHO),
        "gaussian": ("gaussian", *two, *RHO),
        "mixture": ("mixture", *groups, "--rho", "20"),
        "axis-mixture": ("axis-mixture", "--private", "{line}", "--components", "2", *BOTH),
        "weighted-mean": ("weighted-mean", *two, "--norm-bound", "50", "--epsilon", "1"),
        "coinpress-mean": ("coinpress-mean", *alone, "--center", "1", "--radius", "40", *RHO),
        "histogram, dyadic": ("histogram", *alone, "--columns", "age,height", "--dyadic", "--joint", *BOTH),
        "train": ("train", *two, "--label", "age", "--columns", "weight,height", *RHO),
    }
    for name, arguments in calls.items():
        yield Case(name=f"command {name}", call=command, args=(*arguments, "--seed", "7", "--threads", "1"), blas=True)
    numbers = ("--dim", "5", "--n-pub", "20", "--n-priv", "10000")
    yield Case(name="command plan, counts", call=command, args=("plan", "mean", *numbers, *RHO), blas=True)


def drawn(figure: Any) -> dict[str, Any]:
    """Titles, and the data of lines and points, of a figure."""
    found: dict[str, Any] = {}
    for index, axes in enumerate(figure.axes):
        found[f"panel {index}"] = [
            axes.get_title(),
            axes.get_xlabel(),
            axes.get_ylabel(),
            len(axes.patches),
            len(axes.images),
        ]
        lines = [np.asarray(line.get_xydata(), dtype=np.float64).ravel() for line in axes.lines]
        if lines:
            found[f"panel {index} lines"] = np.concatenate(lines)
        points = [np.asarray(each.get_offsets(), dtype=np.float64).ravel() for each in axes.collections]
        if points:
            found[f"panel {index} points"] = np.concatenate(points)
    return found


def by_sign(rows: np.ndarray) -> np.ndarray:
    """Two columns, and the sign of the third as a group."""
    return np.column_stack([rows[:, :2], np.sign(rows[:, 2])])


def plots() -> Iterator[Case]:
    given: dict[str, Any] = {"random_state": 7, "threads": 1, "progress": False}
    budget = ZCDP(1)
    results: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
        "mean": (
            lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, budget=budget, clipping="gaussian", **given).plot(),
            (plotting.plot_forest, plotting.Estimate, plotting.new_figure),
        ),
        "Gaussian": (
            lambda: fpp.estimate_gaussian(ROWS, x_pub=MANY_PUBLIC, budget=budget, **given).plot(),
            (plotting.plot_ellipses, plotting.plot_correlations),
        ),
        "histogram": (
            lambda: fpp.stable_histogram(ROWS, bins=fpp.BinGrid(width=2.5), budget=APPROX, **given).plot(),
            (plotting.plot_histograms, plotting.Bars),
        ),
        "count": (
            lambda: fpp.value_counts(np.floor(ROWS[:, 0]), keys=[0, 1], budget=budget, **given).plot(),
            (),
        ),
        "group mean": (
            lambda: fpp.estimate_mean(
                by_sign(ROWS), x_pub=by_sign(PUBLIC), by=-1, groups=[-1, 1], budget=budget, **given
            ).plot(),
            (),
        ),
        "description": (
            lambda: fpp.describe(ROWS, x_pub=PUBLIC, budget=budget, **given).plot(),
            (plotting.plot_description,),
        ),
        "mixture": (
            lambda: fpp.learn_axis_aligned_mixture(
                PLANE, x_pub=PLANE_PUBLIC, n_components=2, budget=budget, **given
            ).plot(x_pub=PLANE_PUBLIC),
            (),
        ),
    }
    for name, (plot, covers) in results.items():
        yield Case(name=f"plot of a {name}", call=lambda plot=plot: drawn(plot()), covers=covers, releases=False)
    yield steps("plot in a file", picture, plotting.save)


def picture() -> dict[str, Any]:
    """A file begins like a PNG."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mean.png"
        plotting.save(plotting.new_figure(2.0, 2.0), path)
        return {"begins": path.read_bytes()[:8]}


def leaky(rows: np.ndarray) -> float:
    """No release at all: what record and replay is there to catch."""
    return float(rows[100, 0])


def replays() -> Iterator[Case]:
    changed = ROWS.copy()
    changed[100] = 1e9
    given: dict[str, Any] = {"x_pub": PUBLIC, "random_state": 7, "threads": 1, "progress": False}
    for name, run, budget in (
        ("estimate_mean, counts", lambda x: fpp.estimate_mean(x, budget=ZCDP(1), **given), ZCDP(1)),
        ("estimate_gaussian", lambda x: fpp.estimate_gaussian(x, budget=APPROX, **given), APPROX),
    ):
        yield public(f"record_replay, {name}", auditing.record_replay, run, ROWS, changed, budget=budget)
    yield public("record_replay catches a leak", auditing.record_replay, leaky, ROWS, changed, budget=ZCDP(1))


CASES = [*commands(), *plots(), *replays()]
