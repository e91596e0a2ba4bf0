"""From the columns of a table to the numbers that a model is linear in: public choices, applied to each row by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.columns import LEVEL, MISSING, NUMBER, OTHER, term_values
from fastpubpriv.errors import InputError
from fastpubpriv.training.stated import MOST_SCALE, range_units

REACH = 6.0  # public rows whose standardised numbers lie farther out count less
_FARTHEST = 1e6  # no number counts as farther out than this
INDICATOR_SHARE = 0.01  # public share of missing cells from which a column gets an indicator
MOST_LEVELS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """What becomes of the columns of a row: numbers as they are, indicators of missing cells, one indicator for each category."""

    columns: tuple[str, ...]  # names of the columns of the table
    terms: tuple[str, ...]  # names of the numbers that the model is linear in
    source: IntArray  # (p,), the column that each term comes from
    role: IntArray  # (p,), NUMBER, MISSING, LEVEL or OTHER, see `term_values`
    level: FloatArray  # (p,), the category of a term with role 2
    fill: FloatArray  # (dim,), what stands for a missing number, NaN where a row with one is ignored
    centre: FloatArray  # (p,), with scale: a term is standardised to (term - centre) / scale
    scale: FloatArray  # (p,)
    # (p,), public rows beyond it count less, see `leverage_weights`; infinite for indicators, which are bounded by
    # themselves
    reach: FloatArray
    # column of text -> the texts that its categories 0, 1, ... stand for
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def expand(self, rows: FloatArray) -> FloatArray:
        """Rows (k, dim) as terms (k, p), entry by entry; not finite where a missing cell has nothing to stand for it."""
        return term_values(rows, source=self.source, role=self.role, level=self.level, fill=self.fill)

    def standardise(self, rows: FloatArray) -> FloatArray:
        """Terms of rows (k, dim) in standard units, (k, p)."""
        with np.errstate(all="ignore"):
            found = self.expand(rows)
            found -= self.centre
            found /= self.scale
            np.clip(found, -_FARTHEST, _FARTHEST, out=found)
        return found

    def leverage_weights(self, terms: FloatArray) -> FloatArray:
        """Weights (m,) of standardised public terms (m, p), at most 1: no row has more leverage than one within reach.

        Weighing a row down leaves a linear law as it is; clipping its terms, as other libraries do, would bend it.
        """
        with np.errstate(divide="ignore"):
            found: FloatArray = np.min(self.reach / np.abs(terms), axis=1, initial=1.0) ** 2
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, ready for JSON."""
        texts = {"texts": {name: list(listed) for name, listed in self.texts.items()}} if self.texts else {}
        return {
            **texts,
            "columns": list(self.columns),
            "terms": list(self.terms),
            "source": self.source.tolist(),
            "role": self.role.tolist(),
            "level": self.level.tolist(),
            "fill": [None if np.isnan(value) else float(value) for value in self.fill],
        }


def named_design(design: Design | None, classes: Sequence[float] | None, names: Sequence[str]) -> dict[str, Any]:
    """What a result says of a design, with the names of classes that are texts."""
    found = {} if design is None else design.to_dict()
    return {**found, "classes": [names[int(each)] for each in classes or ()]} if names else found


def make_design(
    table: FloatArray,
    columns: Sequence[str],
    categories: Any,
    ranges: tuple[FloatArray, FloatArray] | None = None,
    texts: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Design, BoolArray]:
    """The design of public rows (m, dim) with NaN where a cell is missing, and which of the rows can be used.

    `columns` are names, or x0, x1 and so on. `categories` maps a name to its numeric levels, or to "public" for those that the
    public rows have. `ranges` are the lowest and highest value of each column, NaN where the public rows choose its units. `texts`
    maps a column of text to the texts whose places are its levels.
    """
    levels = _levels(table, columns, categories)
    names: list[str] = []
    source: list[int] = []
    role: list[int] = []
    level: list[float] = []
    fill = np.full(len(columns), np.nan)

    def term(name: str, column: int, kind: int, value: float = 0.0) -> None:
        names.append(name)
        source.append(column)
        role.append(kind)
        level.append(value)

    for j, name in enumerate(columns):
        if name in levels:
            for value in levels[name]:
                shown = f"{value:g}" if not texts or name not in texts else texts[name][int(value)]
                term(f"{name}={shown}", j, LEVEL, value)
            term(f"{name}=other", j, OTHER)
            continue
        missing = np.isnan(table[:, j])
        term(name, j, NUMBER)
        if missing.mean() > INDICATOR_SHARE:
            fill[j] = float(np.median(table[~missing, j])) if not missing.all() else 0.0
            term(f"{name} missing", j, MISSING)
    p = len(names)
    plain = Design(
        columns=tuple(columns),
        terms=tuple(names),
        source=np.array(source, dtype=np.int64),
        role=np.array(role, dtype=np.int64),
        level=np.array(level),
        fill=fill,
        centre=np.zeros(p),
        scale=np.ones(p),
        reach=np.full(p, np.inf),
        texts=texts or {},
    )
    expanded = plain.expand(table)
    usable: BoolArray = np.logical_and.reduce(np.isfinite(expanded), axis=1)
    if usable.sum() < 2:
        raise InputError("at least 2 public rows without missing cells are needed to choose scales from")
    return _scaled(plain, expanded[usable], ranges), usable


def _scaled(plain: Design, terms: FloatArray, ranges: tuple[FloatArray, FloatArray] | None) -> Design:
    """The design in standard units; terms without spread in the public rows are dropped."""
    centre = np.median(terms, axis=0)
    scale = 1.4826 * np.median(np.abs(terms - centre), axis=0)
    std = terms.std(axis=0)
    # Without the outermost rows, one of which may be an error, unless all that varies is there.
    inner = np.clip(terms, *np.quantile(terms, [0.01, 0.99], axis=0, method="nearest")).std(axis=0)
    sparse = scale < 0.2 * np.where(inner > 0.0, inner, std)
    scale[sparse] = std[sparse]
    kept = (np.ptp(terms, axis=0) > 0.0) & (scale > 0.0)
    stated = _stated_units(plain, terms, ranges, centre, scale)
    if not kept.any():
        raise InputError("no column varies in the public rows: there is nothing to learn from them")
    largest = np.max(np.abs(terms - centre), axis=0) / np.where(kept, scale, 1.0)
    reach = np.where((plain.role != NUMBER) | stated, np.inf, np.where(sparse, np.maximum(REACH, largest), REACH))
    return Design(
        columns=plain.columns,
        terms=tuple(name for name, keep in zip(plain.terms, kept, strict=True) if keep),
        source=plain.source[kept],
        role=plain.role[kept],
        level=plain.level[kept],
        fill=plain.fill,
        centre=centre[kept],
        scale=scale[kept],
        reach=reach[kept],
        texts=plain.texts,
    )


def _stated_units(
    plain: Design,
    terms: FloatArray,
    ranges: tuple[FloatArray, FloatArray] | None,
    centre: FloatArray,
    scale: FloatArray,
) -> BoolArray:
    """Write the units of columns with a stated range into `centre` and `scale`; which terms these are, (p,)."""
    if ranges is None:
        return np.zeros(len(centre), dtype=bool)
    low, high = (each[plain.source] for each in ranges)
    found: BoolArray = np.isfinite(low) & (plain.role == NUMBER)
    beyond = found & ((terms.min(axis=0) < low) | (terms.max(axis=0) > high))
    if beyond.any():
        place = int(np.flatnonzero(beyond)[0])
        raise InputError(
            f"public rows of column {plain.terms[place]!r} go from {terms[:, place].min():g} to {terms[:, place].max():g}, beyond "
            "x_bounds: pass wider bounds, or leave out those rows"
        )
    middle, unit = range_units(low, high)
    if np.any(unit[found] > MOST_SCALE) or not np.all(unit[found] > 0.0):
        raise InputError("x_bounds are too far apart or too close to compute with: change the unit of the column")
    centre[found], scale[found] = middle[found], unit[found]
    return found


def _levels(table: FloatArray, columns: Sequence[str], categories: Any) -> dict[str, list[float]]:
    """The levels of each categorical column, in ascending order."""
    if categories is None:
        return {}
    found = {}
    for name, given in categories.items():
        if name not in columns:
            raise InputError(f"categories names a column {name!r} that there is not")
        if isinstance(given, str):
            cells = table[:, list(columns).index(name)]
            values = np.unique(cells[np.isfinite(cells)])
        else:
            listed = list(given)
            values = np.unique(validation.finite_vector(f"categories[{name!r}]", listed, len(listed)))
        if not 1 <= len(values) <= MOST_LEVELS:
            raise InputError(f"column {name!r} must have 1 to {MOST_LEVELS} categories, got {len(values)}")
        found[name] = [float(value) for value in values]
    return found
