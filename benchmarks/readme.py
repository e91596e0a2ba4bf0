"""`python -m benchmarks.readme` writes the small tables of the README from rows of the long ones in the book.

`benchmarks.table --write` and `benchmarks.accuracy --write` do the same after they have written the long tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, SPEED, ACCURACY = (
    ROOT / name for name in ("README.md", "docs/evidence/speed.md", "docs/evidence/accuracy.md")
)

# Rows of the long table of speed with the most comparable peer of each, also where the peer is faster.
SPEED_ROWS = (
    ("exact Gaussian noise, 1e+06 draws", "numpy (insecure)"),
    ("exact Gaussian noise, 1e+06 draws", "OpenDP integer"),
    ("stable_histogram, 1e7", "polars, one thread"),
    ("weighted_mean, 1e6 x 50", "NumPy in row blocks, 1 passes"),
    ("estimate_mean, 1e6 x 50", "NumPy in row blocks, 4 passes"),
    ("estimate_gaussian, 1e6 x 50", "np.cov"),
    ("coinpress_mean, 1e5 x 50, 4 rounds", "the published script"),
    ("linear_regression, 5e5 x 20", "scikit-learn (not private)"),
    ("logistic_regression, 5e5 x 20", "scikit-learn (not private)"),
    ("quantiles, 1e7", "np.quantile"),
    ("describe, 1e6 x 20", "pandas describe"),
    ("means of 51 groups, 1e6 x 10", "pandas groupby"),
    (
        "learn_separated_mixture, 1e6 x 16, 8 components",
        "scikit-learn (not private), a tenth of the rows, 5 steps",
    ),
    ("estimate_mean, 1,000 x 5", "np.mean"),
)
ACCURACY_ROWS = (
    "estimate_mean",
    "coinpress_mean, loose bounds",
    "OpenDP, true range",
    "OpenDP, public range",
    "public rows alone",
    "no privacy at all",
)


def part(text: str, mark: str) -> str:
    """Return the text between two marks of a Markdown file."""
    return text.split(f"<!-- {mark} -->\n", 1)[1].split(f"\n<!-- /{mark} -->", 1)[0]


def replaced(text: str, mark: str, body: str) -> str:
    """Return the file with the text between two marks replaced."""
    before, rest = text.split(f"<!-- {mark} -->", 1)
    return (
        f"{before}<!-- {mark} -->\n{body}\n<!-- /{mark} -->{rest.split(f'<!-- /{mark} -->', 1)[1]}"
    )


def cells(body: str) -> Iterator[list[str]]:
    """Return the rows of the Markdown table in a text, header first, without the delimiter row."""
    for line in body.splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def markdown(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row is its header."""
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def write_rows(path: Path, rows: list[list[str]]) -> None:
    """Write a table to a JSON file, its header as "columns"."""
    lines = ",\n".join(json.dumps(row) for row in rows[1:])
    path.write_text(
        f'{{"columns": {json.dumps(rows[0])},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8"
    )


def short_speed(body: str) -> str:
    """Return the processor, and the selected rows with one peer each."""
    found = {}
    name = ""
    ours = ""
    for row in list(cells(body))[1:]:
        name, ours = (row[0], row[1]) if row[0] else (name, ours)
        found[name, row[4]] = (ours, row[5])
    kinds = re.search(r"with ([\w-]+(?: / [\w-]+)*)[:.]", body.replace("\n", " "))
    sets = "" if kinds is None else f" with {kinds[1]}"
    # peers may be absent
    rows = [[row[0], found[row][0], row[1], found[row][1]] for row in SPEED_ROWS if row in found]
    head = f"{body.split(';')[0]}; one thread{sets}."
    return f"{head}\n\n{markdown([['call, rows x columns', 'time', 'beside', 'times as fast'], *rows])}"


def short_accuracy(body: str) -> str:
    """Return the table of the selected contestants."""
    header, *rows = cells(body)
    known = {row[0]: row for row in rows}
    return markdown([header, *(known[name] for name in ACCURACY_ROWS if name in known)])


def short_intervals(*bodies: str) -> str:
    """Return the coverage of intervals of coefficients and of moments: the first three columns of their tables."""
    tables = [[row[:3] for row in cells(body[body.index("| intervals of") :])] for body in bodies]
    return markdown([tables[0][0], *(row for table in tables for row in table[1:])])


def filled(readme: str, speed: str, accuracy: str) -> str:
    """Return the text of the README with its tables, from the texts of two pages of the book."""
    readme = replaced(readme, "speed", short_speed(part(speed, "bench")))
    readme = replaced(readme, "accuracy", short_accuracy(part(accuracy, "accuracy")))
    return replaced(
        readme,
        "intervals",
        short_intervals(part(accuracy, "coefficients"), part(accuracy, "covariances")),
    )


def main() -> None:
    """Write the README."""
    texts = [path.read_text(encoding="utf-8") for path in (README, SPEED, ACCURACY)]
    README.write_text(filled(*texts), encoding="utf-8")


if __name__ == "__main__":
    main()
