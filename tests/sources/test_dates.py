"""A moment is one number whatever the type of its column, and no cell raises."""

import datetime
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.errors import raises

from fastpubpriv.errors import InputError
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.dates import Calendar, days_of_datetimes
from fastpubpriv.sources.tables import TextColumns

MOMENTS = [
    "1969-12-31 23:59:59",
    "1970-01-01 00:00:00",
    "2024-01-31 10:22:00",
    "2024-02-29 00:00:00",
    "2000-02-29 12:00:00",
    "1900-03-01 00:00:01",
    "1969-01-01 00:00:00",
    "2023-12-31 23:59:59",
    "2262-04-11 00:00:00",
    "1677-09-22 00:00:00",
    "2038-01-19 03:14:08",
    "1582-10-15 06:00:00",
]
STAMPS = [datetime.datetime.fromisoformat(moment) for moment in MOMENTS]
DAYS = [float(stamp.toordinal() - datetime.date(1970, 1, 1).toordinal()) for stamp in STAMPS]
IN_NANOSECONDS = [place for place, stamp in enumerate(STAMPS) if 1678 <= stamp.year <= 2261]


def cells_of(source, unit="day", name="t"):
    rows = private_rows(source, columns=TextColumns([name], {name: Calendar(unit)}))
    return np.concatenate([chunk.copy() for chunk in rows.chunks()])[:, 0]


def typed_columns():
    seconds = np.array(MOMENTS, dtype="M8[s]")
    yield "date32", pa.table({"t": pa.array([stamp.date() for stamp in STAMPS])})
    yield "date64", pa.table({"t": pa.array([stamp.date() for stamp in STAMPS], pa.date64())})
    for unit in ("s", "ms", "us"):
        yield f"timestamp[{unit}]", pa.table({"t": pa.array(STAMPS, pa.timestamp(unit))})
        yield f"datetime64[{unit}]", pd.DataFrame({"t": seconds.astype(f"M8[{unit}]")})
    zoned = pa.array(STAMPS, pa.timestamp("us"))
    zoned = pa.compute.assume_timezone(zoned, "Asia/Tokyo")
    yield "zoned", pa.table({"t": zoned})
    yield (
        "zoned pandas",
        pd.DataFrame({"t": pd.Series(STAMPS).astype("M8[us]").dt.tz_localize("Asia/Tokyo")}),
    )
    yield "dictionary", pa.table({"t": pa.array(MOMENTS).dictionary_encode()})
    yield "dates", pd.DataFrame({"t": pd.Series([stamp.date() for stamp in STAMPS], dtype=object)})
    yield "datetimes", pd.DataFrame({"t": pd.Series(STAMPS, dtype=object)})
    yield "category", pd.DataFrame({"t": pd.Series(STAMPS).astype("M8[us]").astype("category")})
    yield (
        "over Arrow",
        pd.DataFrame({"t": pd.Series(STAMPS, dtype=pd.ArrowDtype(pa.timestamp("us")))}),
    )
    yield "polars", pl.DataFrame({"t": STAMPS})
    yield "polars dates", pl.DataFrame({"t": [stamp.date() for stamp in STAMPS]})
    yield "lazy", pl.DataFrame({"t": STAMPS}).lazy()
    for form in ("T", " "):
        for ending in ("", "Z", "+05:30", "-0800", ".250", ",5+01"):
            texts = [moment.replace(" ", form) + ending for moment in MOMENTS]
            yield f"texts, {form!r}, {ending!r}", pd.DataFrame({"t": texts})
    yield "texts without seconds", pa.table({"t": [moment[:16] for moment in MOMENTS]})
    yield (
        "texts with blanks",
        pd.DataFrame({"t": [f" {moment}\t" for moment in MOMENTS]}, dtype=object),
    )


@pytest.mark.parametrize(
    ("form", "source"), [*typed_columns()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_moment_has_the_same_bits_in_every_type(form, source):
    np.testing.assert_array_equal(cells_of(source), DAYS)


def test_moments_in_nanoseconds_and_in_files(tmp_path):
    frame = pd.DataFrame({"t": np.array(MOMENTS, dtype="M8[s]")[IN_NANOSECONDS].astype("M8[ns]")})
    days = np.array(DAYS)[IN_NANOSECONDS]
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (
        frame,
        str(tmp_path / "t.parquet"),
        str(tmp_path / "t.csv"),
        pa.Table.from_pandas(frame),
    ):
        np.testing.assert_array_equal(cells_of(source), days)


def test_lists_and_arrays_of_dates_are_one_column():
    dates = [stamp.date() for stamp in STAMPS]
    series = pd.Series(STAMPS).astype("M8[us]")
    for source in (
        dates,
        tuple(dates),
        MOMENTS,
        np.array(MOMENTS),
        np.array(MOMENTS, dtype="M8[s]"),
        np.array(dates),
        series.rename("0"),
        pa.array(dates),
        np.array(MOMENTS, dtype="S"),
    ):
        np.testing.assert_array_equal(cells_of(source, name="0"), DAYS)


NO_DATES = [
    None,
    "",
    "2024-02-30",
    "2024-13-01",
    "0000-01-01",
    "24-01-31",
    "2024-1-31",
    "2024-01-31 25:00",
    "2024-01-31 10",
    "unknown",
    "2024",
    "2024-01-31 10:60",
    "２０２４-01-31",
    "2024-01-31x",
    "\ud800",
    "2024-01-31 10:22:61",
    "12024-01-31",
    "2024-01-31+01:00",
    7,
    20240131.0,
    True,
    float("nan"),
    object(),
    b"2024-01-31",
    pd.NaT,
    pd.NA,
    np.datetime64("NaT"),
    pd.Timestamp(np.datetime64("12000-01-01", "s")),
]


class Hostile(datetime.date):
    """A date of foreign code."""

    def toordinal(self):
        raise RuntimeError("private")

    @property
    def year(self):
        raise RuntimeError("private")


def test_what_is_no_date_is_missing_and_changes_no_other_cell():
    cells = [*NO_DATES, Hostile(2024, 1, 31), datetime.date(2024, 1, 31)]
    frame = pd.DataFrame({"t": pd.Series(cells, dtype=object)})
    days = cells_of(frame)
    assert np.isnan(days[:-1]).all()
    assert days[-1] == 19_753
    texts = [
        cell for cell in NO_DATES if cell is None or (isinstance(cell, str) and cell != "\ud800")
    ]
    days = cells_of(pa.table({"t": [*texts, "2024-01-31"]}))
    assert np.isnan(days[:-1]).all()
    assert days[-1] == 19_753


@pytest.mark.parametrize(
    "unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s"]
)
def test_extreme_integers_of_every_unit_are_missing_or_right(unit):
    extremes = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62)]
    days = days_of_datetimes(np.array([*extremes, 0, -1], dtype=np.int64).astype(f"M8[{unit}]"))
    assert days[5] == 0.0
    assert days[6] < 0.0
    if unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "25s"):
        assert np.isnan(days[:5]).all()


@pytest.mark.parametrize(
    ("unit", "zone"),
    list(itertools.product(["s", "ms", "us", "ns"], [None, "America/New_York", "+14:00"])),
)
def test_extreme_stamps_of_arrow_raise_nothing(unit, zone):
    extremes = [
        2**63 - 1,
        -(2**63),
        -(2**63) + 1,
        2**62,
        None,
        43_200 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit],
    ]
    column = pa.array(extremes, pa.int64()).cast(pa.timestamp(unit, tz=zone))
    days = cells_of(pa.table({"t": column}))
    assert np.isnan(days[4])
    assert days[5] == (1.0 if zone == "+14:00" else 0.0)


def test_months_quarters_and_years_are_those_of_pandas_periods():
    stamps = pd.Series(STAMPS).astype("M8[us]")
    for unit, frequency in (("month", "M"), ("quarter", "Q"), ("year", "Y")):
        expected = [stamp.to_period(frequency).ordinal for stamp in stamps]
        np.testing.assert_array_equal(cells_of(stamps.rename("t").to_frame(), unit), expected)
        periods = pd.DataFrame({"t": stamps.dt.to_period(frequency)})
        np.testing.assert_array_equal(cells_of(periods, unit), expected)
        objects = periods.astype(object)
        np.testing.assert_array_equal(cells_of(objects, unit), expected)


def test_columns_that_hold_no_dates_are_refused_by_their_type():
    for frame in (
        pd.DataFrame({"t": [1.0]}),
        pl.DataFrame({"t": [1]}),
        pa.table({"t": [True]}),
        pl.DataFrame({"t": [datetime.time(1)]}),
    ):
        raises(InputError, "holds no dates", cells_of, frame)
    weeks = pd.DataFrame({"t": pd.period_range("2024-01-01", periods=2, freq="W")})
    raises(InputError, "holds no dates", cells_of, weeks)
    months = pd.DataFrame({"t": pd.period_range("2024-01", periods=2, freq="M")})
    raises(InputError, "holds no dates", cells_of, months, "year")


def test_a_zone_that_is_not_known_is_refused_before_anything_is_read():
    table = pa.table({"t": pa.array([0], pa.timestamp("s", tz="Mars/Olympus"))})
    raises(InputError, "time zone of column 't' is unknown", cells_of, table)
