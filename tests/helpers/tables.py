"""Tables written by an experiment, and the input formats of rows."""

import csv

import polars as pl
import pyarrow as pa

from fastpubpriv.sources.person_table import table_of_persons


def read(path):
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    return list(csv.DictReader(lines))


def rows_of_persons(x_priv, *, person, keep="row", rows_per_person=1):
    """The rows of persons that functions make of `person=`, by the names of their arguments."""
    return table_of_persons(x_priv, person, keep, rows_per_person)


def forms_of(folder, table):
    """Return a pandas table in every input format of rows, two of them files."""
    table.to_csv(folder / "rows.csv", index=False)
    table.to_parquet(folder / "rows.parquet")
    return [
        table,
        pl.from_pandas(table),
        pa.Table.from_pandas(table),
        folder / "rows.csv",
        folder / "rows.parquet",
    ]
