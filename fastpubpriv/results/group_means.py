"""Released means of the groups of a column."""

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
    Table,
    deviations,
    explained,
    percent,
    read_lines,
    tally,
    with_ends,
)

Group = str | float
GROUP_STATUSES = {
    "resolved": "the counts show where the numbers of the group lie and end",
    "heavy_tail": "one more row as far out as some are would leave the interval, or the column falls off slowly",
    "faint": "few rows far from all others decide it: the interval holds if nothing lies further out",
    "few_rows": "the number of rows is within four deviations of its noise: no mean",
    "point_mass": "the column is constant, or the rows that differ are fewer than can be seen: no interval without bounds",
    "unresolved": "the counts cannot show where the column lies: no mean",
}


def _read_groups(value: Any) -> tuple[Group, ...]:
    if type(value) is not list or not all(type(key) in (str, int, float) for key in value):
        raise InputError("this JSON text cannot be read: groups must be texts or numbers")
    return tuple(key if type(key) is str else float(key) for key in value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupMeans(IntervalResult):
    """Released means of groups; arrays are (groups, dim), in data units.

    Attributes
    ----------
    by : str
        The column that names the group of a row.
    groups : tuple of str or float
        The listed groups, and "(other)" for all rows of none of them.
    mean : float64
        The estimates; NaN where there is none (null in JSON).
    count : float64
        Estimated number of rows of the group with a number in the column; it may be negative.
    count_noise_std : float
        Standard deviation of the noise in each count.
    noise_std, sampling_std, clipping_std : float64
        Standard deviations of each mean from privacy noise, from sampling, and of what was added for clipped rows.
    tail_below, tail_above : float64
        How far rows that could not be seen may move the mean, if tails continue as the counts of all rows show them; infinite where
        nothing is known (null in JSON).
    status : tuple of tuples of str
        For each group and column: "resolved", "heavy_tail", "faint", "few_rows", "point_mass" or "unresolved".
    noise_law : str
        "gaussian" or "laplace".
    lowest, highest : (dim,) float64
        Bounds that the caller gave; infinite without (null in JSON).

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rng = np.random.default_rng(0)
    >>> ward = rng.integers(0, 3, 30_000)
    >>> rows = np.column_stack([rng.normal(5.0 + ward, 1.0), ward])
    >>> result = fpp.estimate_mean(rows[9:], x_pub=rows[:9], by=-1, groups=[0, 1, 2], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(np.all((lower[:3, 0] < [5, 6, 7]) & ([5, 6, 7] < upper[:3, 0]))), bool(abs(result[2] - 7.0) < 0.1)
    (True, True)
    """

    by: str
    groups: tuple[Group, ...]
    mean: FloatArray
    count: FloatArray
    count_noise_std: float
    noise_std: FloatArray
    sampling_std: FloatArray
    clipping_std: FloatArray
    tail_below: FloatArray
    tail_above: FloatArray
    status: tuple[tuple[str, ...], ...]
    noise_law: str
    lowest: FloatArray
    highest: FloatArray

    _forms: ClassVar[Mapping[str, Form]] = {
        "groups": _read_groups,
        "mean": OrNull(("groups", "dim"), math.nan),
        **dict.fromkeys(("count", "noise_std", "sampling_std", "clipping_std"), ("groups", "dim")),
        **dict.fromkeys(("tail_below", "tail_above"), OrNull(("groups", "dim"), math.inf)),
        "status": partial(read_lines, GROUP_STATUSES),
        "lowest": OrNull(("dim",), -math.inf),
        "highest": OrNull(("dim",), math.inf),
    }

    def _refuse_nonsense(self) -> None:
        fine = len(self.mean) == len(self.groups) and self.noise_law in ("gaussian", "laplace")
        if not fine or [len(line) for line in self.status] != [self.dim] * len(self.groups):
            raise InputError("this JSON text is not a GroupMeans: it needs a mean for each group and column")

    def __getitem__(self, group: Group) -> Any:
        """The mean of a group, a number where there is one column, else (dim,); KeyError for one that is not among `groups`."""
        places = {each: place for place, each in enumerate(self.groups)}
        mean = self.mean[places[group]]
        return float(mean[0]) if self.dim == 1 else mean

    @property
    def standard_error(self) -> FloatArray:
        """Standard deviation of each mean: privacy noise, sampling and what was allowed for clipped rows, (groups, dim)."""
        with np.errstate(over="ignore"):
            return np.hypot(np.hypot(self.noise_std, self.sampling_std), self.clipping_std)

    def confidence_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (groups, dim) each, of intervals for the means.

        Counts privacy noise, sampling, clipping, and what may lie where the counts show nothing; infinite where there is no mean.
        With `simultaneous`, all intervals hold together at this level, by the union bound. Under pure DP the quantile is a Laplace
        law's where that is larger.
        """
        level = validation.confidence_level(level)
        together = self.mean.size if validation.boolean("simultaneous", simultaneous) else 1
        middle = np.where(np.isnan(self.mean), 0.0, self.mean)
        with np.errstate(over="ignore"):
            width = deviations(self.noise_law, level, together) * self.standard_error
            lower, upper = middle - np.hypot(width, self.tail_below), middle + np.hypot(width, self.tail_above)
        return np.clip(lower, self.lowest, self.highest), np.clip(upper, self.lowest, self.highest)

    def plot(self, path: str | Path | None = None, *, level: float = LEVEL, x_pub: Any = None) -> Any:
        """Draw the means with their intervals, a line for each group below each column (needs matplotlib); returns the figure.

        `x_pub` is not drawn; it is there as other results draw public rows.
        """
        from fastpubpriv.results import plots as plotting

        lower, upper = (ends.T.ravel() for ends in self.confidence_interval(level))
        k = len(self.groups)
        groups = [(name, list(range(j * k, j * k + k))) for j, name in enumerate(self.labels)]
        return plotting.plot_forest(
            [plotting.Estimate("private", self.mean.T.ravel(), lower, upper)],
            [self._label(group) for group in self.groups] * self.dim,
            groups=groups, label=f"mean by {self.by}, with {level:.0%} intervals", path=path,
        )  # fmt: skip

    def _label(self, group: Group) -> str:
        return group if isinstance(group, str) else f"{group:g}"

    def _estimate(self) -> tuple[str, Any]:
        return "groups", len(self.groups)

    def _table(self, level: float = LEVEL) -> Table:
        lower, upper = (ends.reshape(-1) for ends in self.confidence_interval(level))
        count = self.count.reshape(-1)
        columns = [
            *([] if self.dim == 1 else [Column("column", list(self.labels) * len(self.groups))]),
            *with_ends("mean", self.mean.reshape(-1), (lower, upper), self.standard_error.reshape(-1)),
            Column("rows", count, np.full(len(count), max(self.count_noise_std, 1.0))),
            Column("status", [*chain(*self.status)]),
        ]
        return Table(self.by, [group for group in self.groups for _ in range(self.dim)], columns)

    def _details(self) -> list[tuple[str, str]]:
        return [("Rows of a group", f"released with noise of {self.count_noise_std:.3g}")]

    def _about(self, level: float) -> list[tuple[str, str]]:
        words = [*chain(*self.status)]
        interval = ("Interval", f"{percent(level)} each, from {self.noise_law} noise, sampling and clipping")
        return [interval, ("Status", tally(words)), *explained(words, GROUP_STATUSES)]
