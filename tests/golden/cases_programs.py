"""Cases of what people see: the JSON of every command, plots, transcripts compared by record and replay, reproductions."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from golden_case import Case, public, steps
from golden_data import APPROX, BLOBS, BLOBS_PUBLIC, LINE, MANY_PUBLIC, PLANE, PLANE_PUBLIC, PUBLIC, ROWS, in_form

import fastpubpriv as fpp
from benchmarks.papers.registry import EXPERIMENTS
from examples.demo.__main__ import main as demonstration
from fastpubpriv import ZCDP, ApproxDP, PureDP, auditing
from fastpubpriv.cli import main
from fastpubpriv.results import plots as plotting

RHO = ("--rho", "0.5")
BOTH = ("--epsilon", "1", "--delta", "1e-6")
SEEDED = ("--seed", "7", "--threads", "1")
FILES = {
    "rows": ROWS,
    "public": MANY_PUBLIC,
    "blobs": BLOBS,
    "blobs_public": BLOBS_PUBLIC,
    "line": LINE,
    "plane": PLANE,
    "plane_public": PLANE_PUBLIC,
}


def command(*arguments: str) -> Any:
    """The JSON that a command prints. {name} in an argument is a Parquet file of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, rows in FILES.items():
            if any(f"{{{name}}}" in argument for argument in arguments):
                place = Path(folder) / name  # a folder for each: all files have one name
                place.mkdir()
                paths[name] = in_form("parquet", rows, place)
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
        "mean": ("mean", *two, *RHO, "--clipping", "gaussian", *SEEDED),
        "mean, counts": ("mean", *two, *RHO, *SEEDED),
        "mean, (epsilon, delta)": ("mean", *two, *BOTH, "--variance", "2", "--steps", "auto", *SEEDED),
        "gaussian": ("gaussian", *two, *RHO, *SEEDED),
        "gaussian, pairs": (
            "gaussian",
            *two,
            "--epsilon",
            "8",
            "--method",
            "pairs",
            "--columns",
            "age,weight",
            *SEEDED,
        ),
        "mixture": ("mixture", *groups, "--rho", "20", *SEEDED),
        "axis-mixture": ("axis-mixture", "--private", "{line}", "--components", "2", *BOTH, *SEEDED),
        "axis-mixture, public": (
            "axis-mixture",
            "--private",
            "{plane}",
            "--public",
            "{plane_public}",
            "--components",
            "2",
            *RHO,
            *SEEDED,
        ),
        "weighted-mean": ("weighted-mean", *two, "--norm-bound", "50", "--epsilon", "1", *SEEDED),
        "coinpress-mean": ("coinpress-mean", *alone, "--center", "1", "--radius", "40", *RHO, *SEEDED),
        "histogram": ("histogram", *alone, "--width", "2.5", "--levels", "2", *BOTH, *SEEDED),
        "histogram, dyadic": ("histogram", *alone, "--columns", "age,height", "--dyadic", "--joint", *BOTH, *SEEDED),
        "plan": ("plan", "mean", "--dim", "5", "--n-pub", "20", "--n-priv", "10000", "--clipping", "gaussian", *RHO),
        "plan, counts": ("plan", "mean", "--dim", "5", "--n-pub", "20", "--n-priv", "10000", *RHO),
        "plan, budget": ("plan", "gaussian", "--dim", "5", "--n-pub", "20", "--n-priv", "10000", "--error", "0.3"),
        "train": ("train", *two, "--label", "age", "--columns", "weight,height", *RHO, *SEEDED),
        "mean refuses": ("mean", *two),
    }
    for name, arguments in calls.items():
        yield Case(name=f"command {name}", call=command, args=arguments, blas=True)
    yield Case(name="command demo", call=demo, releases=False, slow=True)


def demo() -> dict[str, Any]:
    """What the demonstration writes."""
    with tempfile.TemporaryDirectory() as folder:
        result = CliRunner().invoke(demonstration, ["--out", folder, "--seed", "7"])
        files = {
            path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))
        }
        return {"exit code": result.exit_code, **{name: estimates(data) for name, data in files.items()}}


def estimates(data: Any) -> dict[str, Any]:
    """Means, covariances and weights anywhere in JSON."""
    wanted = {"mean", "means", "covariance", "covariances", "weights"}
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            found |= {f"{key}.{name}": part for name, part in estimates(value).items()}
        elif key in wanted:
            found[key] = value
    return found


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


def plots() -> Iterator[Case]:
    given: dict[str, Any] = {"random_state": 7, "threads": 1, "progress": False}
    budget = ZCDP(1)
    results: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
        "mean": (
            lambda: fpp.estimate_mean(ROWS, x_pub=PUBLIC, budget=budget, clipping="gaussian", **given).plot(),
            (plotting.plot_means, plotting.draw_panel, plotting.Estimate, plotting.new_figure),
        ),
        "Gaussian": (
            lambda: fpp.estimate_gaussian(ROWS, x_pub=MANY_PUBLIC, budget=budget, **given).plot(),
            (plotting.plot_ellipses, plotting.plot_correlations),
        ),
        "histogram": (
            lambda: fpp.stable_histogram(ROWS, bins=fpp.BinGrid(width=2.5), budget=APPROX, **given).plot(),
            (plotting.plot_histograms, plotting.Bars),
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
    plane = PLANE.copy()
    plane[100] = [-4.0, 5.0]
    given: dict[str, Any] = {"random_state": 7, "threads": 1, "progress": False}
    runs = {
        "estimate_mean": (
            lambda x: fpp.estimate_mean(x, x_pub=PUBLIC, budget=ZCDP(1), clipping="gaussian", **given),
            ROWS,
            changed,
            ZCDP(1),
        ),
        "estimate_mean, counts": (
            lambda x: fpp.estimate_mean(x, x_pub=PUBLIC, budget=ZCDP(1), **given),
            ROWS,
            changed,
            ZCDP(1),
        ),
        "weighted_mean": (
            lambda x: fpp.weighted_mean(x, norm_bound=40.0, budget=PureDP(1), **given),
            ROWS,
            changed,
            PureDP(1),
        ),
        "estimate_gaussian": (
            lambda x: fpp.estimate_gaussian(x, x_pub=PUBLIC, budget=APPROX, **given),
            ROWS,
            changed,
            APPROX,
        ),
        "stable_histogram": (
            lambda x: fpp.stable_histogram(x, bins=fpp.BinGrid(width=2.5), budget=APPROX, **given),
            ROWS,
            changed,
            APPROX,
        ),
        "dp_em": (
            lambda x: fpp.learn_axis_aligned_mixture(
                x, x_pub=PLANE_PUBLIC, n_components=2, budget=ApproxDP(4, 1e-6), **given
            ),
            PLANE,
            plane,
            ApproxDP(4, 1e-6),
        ),
    }
    for name, (run, one, other, budget) in runs.items():
        yield public(f"record_replay, {name}", auditing.record_replay, run, one, other, budget=budget)
    yield public("record_replay catches a leak", auditing.record_replay, leaky, ROWS, changed, budget=ZCDP(1))


def table(path: Path) -> dict[str, Any]:
    """Columns of a CSV file, numbers where all cells are numbers; no times."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found: dict[str, Any] = {}
    for name in rows[0]:
        cells = [row[name] for row in rows]
        try:
            found[name] = np.array([float(cell or "nan") for cell in cells])
        except ValueError:
            found[name] = ", ".join(cells)
    return {name: value for name, value in found.items() if "seconds" not in name}


def experiment(name: str, runs: int) -> dict[str, Any]:
    """The numbers of a reproduction."""
    with tempfile.TemporaryDirectory() as folder:
        return table(EXPERIMENTS[name].run(Path(folder), runs=runs, threads=1, progress=False).csv)


# Minutes to hours even for two runs, since the whole of a table is fitted: `tests/papers` holds single cells of them.
WHOLE_TABLES = {"b-beyond", "b-figure-6", "b-figures-15-18", "b-tables-5-10"}


def reproductions() -> Iterator[Case]:
    for name in sorted(EXPERIMENTS.keys() - WHOLE_TABLES):
        yield Case(
            name=f"reproduce {name}",
            call=experiment,
            args=(name, 1 if name == "c-univariate" else 2),
            releases=False,
            slow=True,
        )


CASES = [*commands(), *plots(), *replays(), *reproductions()]
