"""`python -m benchmarks.training_cells`: paper B's Tables 5 to 10 at full size, cell by cell, stored with the printed numbers.

    python -m benchmarks.training_cells                        show the stored results, and the number of missing cells
    python -m benchmarks.training_cells --minutes 60           run missing cells of four methods on the published grids
    python -m benchmarks.training_cells --minutes 60 --newton  the same problem by Newton steps: one draw of each cell, then more
    python -m benchmarks.training_cells --same 0.9:4           Newton steps on the rows of Tables 5 to 10, in one cell

The results equal those of `python -m benchmarks.papers b-tables-5-10` and `b-beyond` for that cell: the same rows and the same
noise. A run can be interrupted at any time; the next one continues from the stored cells.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import gradient_cells as cells
from benchmarks.papers import newton_beyond as beyond
from benchmarks.papers.experiment import Row, aligned, where
from benchmarks.papers.gradient_tables import orders, placed
from benchmarks.papers.gradient_tables_printed import METHODS, RATIOS, TABLES, THROW_AWAY, Cell
from fastpubpriv.errors import AccuracyWarning, SeededNoiseWarning
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.training.train import linear_regression

KEPT = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "training_cells.json"
Kept = dict[str, list[dict[str, Any]]]
# maximum loss over that of the prototype; in cell FEW
CLOSE = 1.03
CLOSE_FEW = 1.5
FEW = (0.01, 2.0)
# Losses of the prototype of newton with the better of its two row weightings: medians of five draws.
PROTOTYPE = {
    (0.01, 2.0): 2.2822,
    (0.03, 2.0): 1.4356,
    (0.04, 2.0): 1.4625,
    (0.1, 2.0): 1.2323,
    (0.25, 2.0): 1.1705,
    (0.5, 2.0): 1.1223,
    (0.75, 2.0): 1.0922,
    (0.9, 2.0): 1.0780,
    (0.95, 2.0): 1.0739,
    (0.01, 4.0): 1.1919,
    (0.03, 4.0): 1.1557,
    (0.04, 4.0): 1.1518,
    (0.1, 4.0): 1.1302,
    (0.25, 4.0): 1.1186,
    (0.5, 4.0): 1.0993,
    (0.75, 4.0): 1.0867,
    (0.9, 4.0): 1.0774,
    (0.95, 4.0): 1.0737,
}


def read() -> Kept:
    """Return the stored results: "gradient", a line for each cell, account and method; "newton", one for each draw."""
    if not KEPT.exists():
        return {"gradient": [], "newton": []}
    found: Kept = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def write(kept: Kept) -> None:
    """Replace the file, one line per entry."""
    parts = [
        f' "{name}": [\n' + ",\n".join("  " + json.dumps(each) for each in kept[name]) + "\n ]"
        for name in kept
    ]
    place = KEPT.with_suffix(".tmp")
    place.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    place.replace(KEPT)


def wanted() -> list[tuple[Cell, str]]:
    """Return all cells, Table 5 first, at the printed noise and then at the honest one; a cell of two tables occurs once."""
    return list(
        dict.fromkeys(
            (cell, account)
            for table in TABLES
            for account in cells.ACCOUNTS
            for cell in table.cells
        )
    )


def named(cell: Cell, account: str) -> dict[str, Any]:
    """Return the key under which a cell is stored."""
    return {
        "ratio": cell.ratio,
        "epsilon": cell.epsilon,
        "start": "warm" if cell.warm else "cold",
        "account": account,
    }


def has(kept: Kept, cell: Cell, account: str) -> bool:
    """Return whether the cell is stored."""
    return any(named(cell, account).items() <= each.items() for each in kept["gradient"])


def rounded(row: Row) -> Row:
    """Return the stored form of a method's result in a cell."""
    places = {"loss": 5, "noise_multiplier": 4, "epsilon_replace_one": 4}
    return {
        name: round(value, places[name]) if name in places else value for name, value in row.items()
    }


def run_gradient(kept: Kept, stop: float) -> None:
    """Run missing cells until the time limit."""
    data = cells.make_data(cells.PAPER)
    known = None
    for cell, account in wanted():
        if has(kept, cell, account):
            continue
        if time.monotonic() > stop:
            return
        if known is None or known.n_pub != round(cell.ratio * data.size.n):
            known = None  # frees the memory of the previous split first
            known = cells.split(data, cell.ratio)
        kept["gradient"] += [
            {**named(cell, account), **rounded(row)} for row in cells.run_cell(known, cell, account)
        ]
        write(kept)
        print(*aligned(*gradient_rows(kept)), sep="\n", flush=True)


def run_newton(kept: Kept, stop: float) -> None:
    """Run missing draws until the time limit, first in cells that have none."""
    for run in range(beyond.EXPERIMENT.runs):
        for ratio, epsilon in beyond.cells_of(RATIOS):
            key = {"ratio": ratio, "epsilon": epsilon, "run": run}
            if any(key.items() <= each.items() for each in kept["newton"]):
                continue
            if time.monotonic() > stop:
                return
            newton, predicted, public, adassp, _ = beyond.cell(
                beyond.PAPER, ratio, epsilon, run, rival=run == 0
            )
            kept["newton"].append(draw_of(key, newton, predicted, public, adassp))
            write(kept)
            print(kept["newton"][-1], flush=True)


def same_rows(ratio: float, epsilon: float) -> str:
    """Return a sentence with the losses of Newton steps and of public rows alone, on the draw that the four methods share."""
    data = cells.make_data(cells.PAPER)
    x = data.x.astype(np.float64)
    y = data.y.astype(np.float64)
    m = round(ratio * data.size.n)
    found = linear_regression(
        *(x[m:], y[m:]),
        x_pub=x[:m].copy(),
        y_pub=y[:m].copy(),
        method="newton",
        tails="light",
        random_state=0,
        budget=ApproxDP(epsilon, beyond.DELTA),
    )
    newton = beyond.loss(
        np.ravel(found.coefficients), float(found.intercept), data.truth.astype(np.float64)
    )
    public = float(
        cells.losses_of(cells.least_squares(data.x[:m], data.y[:m])[None], data.truth)[0]
    )
    return f"n_pub/n {ratio:g}, epsilon {epsilon:g}: newton {newton:.5f}, public rows alone {public:.5f}"


def draw_of(
    key: dict[str, Any], newton: float, predicted: float, public: float, adassp: float
) -> dict[str, Any]:
    """Return the stored form of a draw."""
    found = {
        **key,
        "newton": round(newton, 5),
        "predicted": round(predicted, 5),
        "public": round(public, 5),
    }
    return found if math.isnan(adassp) else {**found, "adassp": round(adassp, 1)}


def mapped_rows(kept: Kept) -> list[Row]:
    """Return the stored results in the form of `python -m benchmarks.papers b-tables-5-10`: a row per table, cell and method."""
    return [
        row
        for table in TABLES
        for cell in table.cells
        for account in cells.ACCOUNTS
        for row in placed(table, cell, account, where(kept["gradient"], **named(cell, account)))
    ]


def gradient_rows(kept: Kept) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and rows of a table: for each finished cell the printed loss, and ours at the printed and at the honest noise."""
    head = ["table", "n_pub/n", "epsilon", "start"]
    for method in METHODS:
        head += [method, "ours"] + (["honest"] if method != THROW_AWAY else [])
    found = mapped_rows(kept)
    rows = []
    place = ("table", "public_ratio", "epsilon", "start")
    for at in dict.fromkeys(tuple(row[name] for name in place) for row in found):
        part = where(found, **dict(zip(place, at, strict=True)))
        row = [str(at[0]), f"{at[1]:g}", f"{at[2]:g}", at[3]]
        for method in METHODS:
            ours, honest = (
                where(part, method=method, account=account) for account in cells.ACCOUNTS
            )
            row += [beyond.shown((ours or honest)[0]["printed"]), _shown(ours)]
            row += [_shown(honest)] if method != THROW_AWAY else []
        rows.append(tuple(row))
    return tuple(head), rows


def _shown(rows: list[Row]) -> str:
    return (
        "-"
        if not rows
        else beyond.shown(rows[0]["loss"]) + ("!" if rows[0]["within_band"] == 0 else "")
    )


def orders_of(kept: Kept) -> list[str]:
    """Return how many losses are close to the printed ones, and whether the methods rank as in the paper."""
    found = mapped_rows(kept)
    return list(orders(found, cells.PAPER.dim)) if found else []


def newton_rows(kept: Kept) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and rows of a table: medians over the draws of each cell, and whether they meet the goals."""
    head = (
        "n_pub/n",
        "epsilon",
        "draws",
        "newton",
        "predicted",
        "public only",
        "AdaSSP",
        "prototype",
        "paper",
        "goals",
    )
    printed = dict(zip(RATIOS, (losses[0] for losses in TABLES[0].losses), strict=True))
    rows = []
    for ratio, epsilon in beyond.cells_of(RATIOS):
        draws = [
            each for each in kept["newton"] if (each["ratio"], each["epsilon"]) == (ratio, epsilon)
        ]
        if not draws:
            continue
        newton, predicted, public = (
            float(np.median([each[name] for each in draws]))
            for name in ("newton", "predicted", "public")
        )
        adassp = next((each["adassp"] for each in draws if "adassp" in each), math.nan)
        rows.append(
            (
                f"{ratio:g}",
                f"{epsilon:g}",
                str(len(draws)),
                *map(beyond.shown, (newton, predicted, public, adassp)),
                f"{PROTOTYPE[ratio, epsilon]:.4f}",
                f"{printed[ratio]:.4f}",
                _goals(ratio, epsilon, newton, printed[ratio]),
            )
        )
    return head, rows


def _goals(ratio: float, epsilon: float, newton: float, printed: float) -> str:
    """Return "yes" if the loss is close enough to the prototype's, and at epsilon 4 (equal true cost) at most the printed one."""
    most = CLOSE_FEW if (ratio, epsilon) == FEW else CLOSE
    fine = newton <= most * PROTOTYPE[ratio, epsilon]
    if epsilon == 4.0 and ratio <= beyond.SMALLEST_GAIN:
        fine = fine and newton <= printed
    return "yes" if fine else "no"


def missing(kept: Kept) -> str:
    """Return a sentence with the number of cells that were run at each noise."""
    counts = [
        (account, sum(has(kept, cell, each) for cell, each in wanted() if each == account))
        for account in cells.ACCOUNTS
    ]
    every = len(wanted()) // 2
    return (
        "; ".join(f"{count} of {every} cells at the {account} noise" for account, count in counts)
        + " were run"
    )


def main() -> None:
    """Print the stored results; with --minutes, run missing cells first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no cell later than this")
    parser.add_argument(
        "--newton", action="store_true", help="the problem of Table 5 by Newton steps"
    )
    parser.add_argument(
        "--same",
        metavar="RATIO:EPSILON",
        help="Newton steps on the rows of Tables 5 to 10, and nothing else",
    )
    options = parser.parse_args()
    if options.same:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            print(same_rows(*map(float, options.same.split(":"))))
        return
    kept = read()
    stop = time.monotonic() + 60.0 * options.minutes
    if options.minutes > 0.0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            warnings.simplefilter("ignore", SeededNoiseWarning)
            (run_newton if options.newton else run_gradient)(kept, stop)
    print(
        *aligned(*gradient_rows(kept)),
        "! is outside its band of the specification",
        *orders_of(kept),
        sep="\n",
    )
    print(missing(kept), "", *aligned(*newton_rows(kept)), sep="\n")


if __name__ == "__main__":
    main()
