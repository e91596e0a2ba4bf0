"""The released description of a table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.results.base import (
    LEVEL,
    Column,
    Form,
    IntervalResult,
    OrNull,
    Result,
    Table,
    deviations,
    explained,
    percent,
    read_numbers,
    read_value,
    read_values,
    with_ends,
)
from fastpubpriv.results.estimates import STATUSES, MeanResult
from fastpubpriv.results.key_counts import CountResult
from fastpubpriv.results.ranks import QUANTILE_STATUSES, QuantileResult


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Description(IntervalResult):
    """What `describe` says of a table: d columns of numbers, then columns of text.

    Attributes
    ----------
    means : MeanResult or None
        Means, missing numbers and statuses of the columns of numbers; None where there are none.
    quantiles : QuantileResult or None
        Their quantiles.
    variance, variance_std, variance_tail : (d,) float64 or None
        Their variances, the standard deviation of each of these from noise, sampling and what was cut, and what rows that could
        not be seen may add. NaN and infinite where the column is unresolved (null in JSON).
    texts : tuple of CountResult
        Counts of each column of text.
    shares : mapping
        The share of the budget that each kind of release was given.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(36.6, 2.0, size=(20_000, 1))
    >>> result = fpp.describe(rows[9:], x_pub=rows[:9], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[0] < 2.0 < upper[0]), result.texts
    (True, ())
    """

    means: MeanResult | None = None
    quantiles: QuantileResult | None = None
    variance: FloatArray | None = None
    variance_std: FloatArray | None = None
    variance_tail: FloatArray | None = None
    texts: tuple[CountResult, ...] = ()
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)

    _forms: ClassVar[Mapping[str, Form]] = {
        "means": partial(read_value, MeanResult),
        "quantiles": partial(read_value, QuantileResult),
        "variance": OrNull(("numbers",), math.nan),
        **dict.fromkeys(("variance_std", "variance_tail"), OrNull(("numbers",), math.inf)),
        "texts": partial(read_values, CountResult),
        "shares": read_numbers,
    }

    def _refuse_nonsense(self) -> None:
        numbers = [self.means, self.quantiles, self.variance, self.variance_std, self.variance_tail]
        dims = {None if each is None else each.dim if isinstance(each, Result) else len(each) for each in numbers}
        known = self.means is None or self.means.report is not None
        if not known or len(dims) != 1 or self.dim != (dims.pop() or 0) + len(self.texts):
            raise InputError("this JSON text is not a Description: its parts do not fit together")

    @property
    def numbers(self) -> int:
        """How many columns are of numbers; they come first."""
        return self.dim - len(self.texts)

    @property
    def standard_deviation(self) -> FloatArray:
        """Standard deviations of the columns of numbers, (d,)."""
        return np.zeros(0) if self.variance is None else np.asarray(np.sqrt(np.maximum(self.variance, 0.0)))

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (d,) each, of intervals for the standard deviations.

        Counts noise, sampling, what was cut, and what may lie where the counts show nothing. Intervals of means and quantiles are
        those of `means` and `quantiles`, of texts those of `texts`.
        """
        level = validation.confidence_level(level)
        if self.means is None or self.variance is None or self.variance_std is None or self.variance_tail is None:
            return np.zeros(0), np.zeros(0)
        middle = np.where(np.isnan(self.variance), 0.0, self.variance)
        with np.errstate(over="ignore"):
            width = deviations(self.means.noise_law, level) * self.variance_std
            high = middle + np.hypot(width, self.variance_tail)
        return np.sqrt(np.maximum(middle - width, 0.0)), np.sqrt(np.maximum(high, 0.0))

    def top(self, column: str) -> CountResult:
        """The counts of a column of text; KeyError for any other."""
        return {each.by[0]: each for each in self.texts}[column]

    def _commonest(self, place: int, most: int = 3) -> str:
        """The commonest texts of a column of text, with their shares."""
        counts = self.texts[place]
        named = counts.named[: min(most, counts.top or most)]
        return ", ".join(f"{counts._label(key)} {max(counts.share[key], 0.0):.1%}" for key in named)

    def plot(self, path: str | Path | None = None, *, level: float = LEVEL, x_pub: Any = None) -> Any:
        """Draw a panel for each column (needs matplotlib): quantiles and mean with intervals, or the commonest texts.

        `x_pub` is not drawn; it is there as other results draw public rows.
        """
        from fastpubpriv.results import plots as plotting

        return plotting.plot_description(self, path=path, level=level)

    def to_html(self, path: str | Path | None = None, *, level: float = LEVEL) -> str:
        """Return one page that opens from disk, with a picture for each column, and write it to `path` if one is given."""
        from fastpubpriv.results.pages import page

        text = page(self, validation.confidence_level(level))
        if path is not None:
            Path(validation.path_name(path)).write_text(text, encoding="utf-8")
        return text

    def _estimate(self) -> tuple[str, Any]:
        return "texts", len(self.texts)

    def _table(self, level: float = LEVEL) -> Table:
        blank = [None] * len(self.texts)
        first: list[Column] = []
        last: list[Column] = []
        absent = [max(float(each.counts[-1]), 0.0) for each in self.texts]
        status = [""] * self.dim

        def add(name: str, values: FloatArray, ends: tuple[FloatArray, FloatArray]) -> None:
            """A column for the estimates, and further right one for each end."""
            scale = np.nan_to_num(ends[1] / 4.0 - ends[0] / 4.0, posinf=0.0)
            found = with_ends(name, values, ends, scale, (f"{name}_lower", f"{name}_upper"))
            found = [each._replace(values=[*each.values.tolist(), *blank]) for each in found]
            first.extend(found[: 3 if name == "mean" else 1])
            last.extend(found[3 if name == "mean" else 1 :])

        if self.means is not None and self.quantiles is not None and self.means.report is not None:
            absent = [*self.means.report.missing.tolist(), *absent]
            status[: self.numbers] = self.means.status
            add("mean", self.means.mean, self.means.confidence_interval(level))
            add("std", self.standard_deviation, self.confidence_interval(level))
            lower, upper = self.quantiles.confidence_interval(level)
            for k, q in enumerate(self.quantiles.q.tolist()):
                add(f"q{100 * q:g}", self.quantiles.quantile[:, k], (lower[:, k], upper[:, k]))
        gone, rows = np.array(absent), np.ones(self.dim)
        tops = [""] * self.numbers + [self._commonest(place) for place in range(len(self.texts))]
        words = [Column("status", status), Column("top", tops)]
        count = Column("count", self.n_priv - gone, rows)
        return Table("column", self.labels, [Column("missing", gone, rows), *first, *words, count, *last])

    def _details(self) -> list[tuple[str, str]]:
        return [("Shares", ", ".join(f"{name} {share:.1%}" for name, share in sorted(self.shares.items())))]

    def _about(self, level: float) -> list[tuple[str, str]]:
        told = [] if self.means is None else explained(self.means.status, STATUSES)
        odd = [] if self.quantiles is None else explained(chain(*self.quantiles.status), QUANTILE_STATUSES)
        told += [(f"Quantiles: {word}", meaning) for word, meaning in odd if word != "unresolved"]
        return [("Interval", f"{percent(level)} each"), *told]
