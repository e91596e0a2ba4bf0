"""Groups of rows by the values of some columns: public lists of groups, opening of rows, and integer codes of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError, warn
from fastpubpriv.estimators.key_lists import (
    KeyCodes,
    Keys,
    ListedNumbers,
    code_of,
    keys_of,
    lists_by_column,
    sources_of,
)
from fastpubpriv.kernels.rows import Codes
from fastpubpriv.results.by_key import OTHER, Key, Part
from fastpubpriv.session import Session, open_rows
from fastpubpriv.sources import Rows
from fastpubpriv.sources.labeled import beside, labeled_rows, public_labeled
from fastpubpriv.sources.open import require_numbers
from fastpubpriv.sources.tables import asked_columns
from fastpubpriv.sources.views import AdjacentColumns

MOST_GROUPS = 10_000
MOST_NUMBERS = 4_000_000
# part of the budget of which the usual share pays for the cells of all rows
ALL_SHARE = Fraction(1, 4)
LISTED = 0.95  # fraction of public rows in listed groups below which a warning is given


@dataclass(frozen=True, slots=True, eq=False)
class GroupCodes:
    """Map from rows to group codes by their last columns, in row-major order; the last group has all rows of unlisted groups."""

    code: KeyCodes
    groups: int

    def __call__(self, chunk: Any) -> Codes:
        """Return the group code of each row, which depends on that row alone."""
        sizes = self.code.sizes
        group, *others = self.code(chunk)
        if not others:
            return np.minimum(group, np.int32(self.groups - 1))
        listed = group < sizes[0] - 2
        for place, size in zip(others, sizes[1:], strict=True):
            group = group * np.int32(size - 2) + place
            listed &= place < size - 2
        return np.where(listed, group, np.int32(self.groups - 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """Private and public rows, of which the last columns determine the group of a row if there are groups."""

    rows: Rows
    public: FloatArray  # numeric columns only
    names: tuple[str, ...] | None
    by: tuple[str, ...] = ()
    labels: tuple[Part | Key, ...] = ()  # OTHER last
    codes: GroupCodes | None = None
    source: str = ""

    @classmethod
    def of(
        cls, function: str, private: Any, other: Any, *, by: Any, groups: Any, columns: Any
    ) -> Grouping:
        """Open private rows and public rows `other`; reads the private schema only, no private values."""
        if by is None:
            if groups is not None:
                raise InputError("groups= needs by=")
            rows, given = open_rows(private, other, columns=columns, gaps=True)
            if given is None:
                raise InputError(f"{function} needs at least one public row: pass x_pub=")
            return cls(rows=rows, public=given, names=rows.columns)
        lists = {None: groups} if type(by) is int and by == -1 else lists_by_column(by, groups)
        keys = [keys_of(name, own, other, "groups", private) for name, own in lists.items()]
        if (number := math.prod(len(each.levels) for each in keys)) > MOST_GROUPS:
            raise InputError(
                f"at most {MOST_GROUPS:,} groups, got {number:,}: list those of interest in groups="
            )
        texts: Any = {str(key.name): key.rule for key in keys if key.rule is not None} or None
        label = by if keys[0].name is None else tuple(str(each.name) for each in keys)
        columns = None if columns is None else asked_columns(columns)
        rows = labeled_rows(private, None, label=label, columns=columns, texts=texts)
        public = public_labeled(
            other, None, label=label, columns=columns, private=rows, x_priv=private, texts=texts
        )
        labels: list[Any] = list(
            keys[0].levels if len(keys) == 1 else product(*(each.levels for each in keys))
        )
        codes = GroupCodes(code_of(keys, joint=False), len(labels) + 1)
        dim = rows.dim - len(keys)
        require_numbers(public[:, :dim], rows.columns)
        if (codes(public)[0] == len(labels)).mean() > 1.0 - LISTED:
            warn(
                f"{function}: more than {1.0 - LISTED:.0%} of the public rows are in no group: list all in groups="
            )
        return cls(
            by=("group",) if label == -1 else label,
            labels=(*labels, OTHER),
            codes=codes,
            rows=rows,
            public=public[:, :dim],
            names=None if rows.columns is None else rows.columns[:dim],
            source=sources_of(keys),
        )

    @classmethod
    def inside(cls, rows: Rows, public: FloatArray) -> Grouping:
        """Return the rows that are present as one listed group, and absent ones as all others."""
        presence = rows.presence
        assert presence is not None
        one = Keys(name="rows", levels=("inside",), codes=ListedNumbers.of([1.0]))
        codes = GroupCodes(code_of([one], joint=False), 2)
        both = beside(rows, presence)
        return cls(rows=both, public=public, names=rows.columns, codes=codes)

    @property
    def dim(self) -> int:
        """Number of numeric columns."""
        return int(self.public.shape[1])

    @property
    def size(self) -> int:
        """Number of groups; 1 without any."""
        return 1 if self.codes is None else self.codes.groups

    def numbers(self, each: int) -> int:
        """Return how many numbers are released with `each` per group; raise InputError if they are too many."""
        if (count := self.size * each) > MOST_NUMBERS:
            raise InputError(
                f"{self.size:,} groups of {self.dim} columns are too many: list fewer groups, or pass fewer columns"
            )
        return count

    def run_on(self, run: Session) -> Session:
        """Return the session restricted to the numeric columns."""
        return (
            run if self.codes is None else run.on(AdjacentColumns(self.rows, self.dim, self.names))
        )
