"""Noisy numbers of persons by how many rows, or keys, each has: what "auto" chooses from, and how many have more than are used.

Privacy notes: `mechanisms/notes/cell_counts.md`, `mechanisms/notes/person_keys.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.mechanisms.cells import CellCounts
from fastpubpriv.mechanisms.person_keys import PersonKeys
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results.publishable import nearest_with_sum
from fastpubpriv.session import Session
from fastpubpriv.sources.person_table import MORE_ROWS, PersonRows
from fastpubpriv.sources.row_types import Persons

CELLS = 12  # persons with 1, 2, 3-4, 5-8, ..., 1025 or more rows
# Counts below EMPTY_STDS noise standard deviations are set to zero, as are all counts after the last one above zero at LAST_LEVEL,
# that of a two-sided interval: 3.5 standard deviations of Gaussian noise, 5.4 of Laplace noise.
EMPTY_STDS = 2.0
LAST_LEVEL = 0.999534742
# In the record: whether surely more than MOST_LEFT_OUT of the persons have more rows, or keys, than are used.
MANY_MORE = "persons_with_more_are_many"
MOST_LEFT_OUT = 0.02
# Share of a budget that chooses how many rows, or keys, of a person are used.
CHOICE_SHARE = Fraction(1, 16)
# Share of a budget that says how many persons have more than a given number: it adds .8 % to the noise of the answer.
MORE_SHARE = Fraction(1, 64)


@dataclass(frozen=True, slots=True, eq=False)
class PersonSizes:
    """Noisy numbers of persons by how many rows or keys they have, in cells up to `most`."""

    counts: FloatArray  # as released
    noise_std: float
    law: str
    persons: int
    # the largest size of each cell; of a last cell without an upper end the number that the others would go on with
    most: FloatArray

    @property
    def shrunk(self) -> FloatArray:
        """The counts, with zeros where noise hides them."""
        surely = deviations(self.law, LAST_LEVEL) * self.noise_std
        occupied = np.flatnonzero(self.counts > surely)
        counts = np.where(self.counts < EMPTY_STDS * self.noise_std, 0.0, self.counts)
        counts[(occupied[-1] if len(occupied) else 0) + 1 :] = 0.0
        return counts

    @property
    def typical(self) -> FloatArray:
        """A size in the middle of each cell."""
        least = np.append(0.0, self.most[:-1]) + 1.0
        return (least + self.most) / 2.0

    @property
    def projected(self) -> FloatArray:
        """Nearest counts that are not negative and add up to the public number of persons, from those that noise does not hide."""
        # Noise of many cells would add up to persons with many keys that nobody has.
        hidden = self.counts < EMPTY_STDS * self.noise_std
        return nearest_with_sum(np.where(hidden, 0.0, self.counts), self.persons)

    def used(self, most: FloatArray, counts: FloatArray) -> FloatArray:
        """Return how many rows or keys are used, over all persons in these cells, if `most` are the most of a person."""
        return np.asarray(np.minimum(self.typical, np.reshape(most, (-1, 1))) @ counts)

    def with_more(self, cell: int) -> dict[str, Any]:
        """Return what is known of the persons in cells after this one: see `persons_with_more`."""
        beyond = slice(cell + 1, None)
        counts = self.counts[beyond]
        return persons_with_more(
            counts, self.shrunk[beyond], self.noise_std, self.law, self.persons
        )


def powers_of_two(cells: int) -> FloatArray:
    """Return the largest size of each of so many cells, 1, 2, 4, ..."""
    return np.ldexp(1.0, np.arange(cells))


def release_sizes(run: Session, most: FloatArray, cost: Fraction, name: str) -> PersonSizes:
    """Release the numbers of persons by size, in cells up to `most`, the last without an end; the rows of the run are the sizes."""
    counts = CellCounts(edges=[most[:-1] + 0.5])
    released = run.release(counts, name=name, cost=cost)
    law = run.account.spending.law
    return PersonSizes(released.value, released.noise_std, law, run.rows.n, most)


def on_numbers(run: Session, numbers: FloatArray) -> Session:
    """Return the session of one row of `numbers` (persons, ...) for each person, with the same account."""
    who = None if run.rows.persons is None else run.rows.persons.name
    return run.on(PersonRows(numbers, "persons", None, Persons(who, rows_each=1)))


class WithMore(NamedTuple):
    """A released number of persons with more rows, or keys, than are used, and what `persons_with_more` says of it."""

    persons: float
    noise_std: float
    record: dict[str, Any]


def release_with_more(run: Session, more: BoolArray, cost: Fraction, name: str) -> WithMore:
    """Release how many persons have `more` (persons,) than are used: one cell, in which neighbors differ by one."""
    measured = PersonKeys(keys_per_person=1, cells=1)
    counting = on_numbers(run, np.where(more, 0.0, np.nan)[:, None])
    released = counting.release(measured, name=name, cost=cost)
    noise_std = released.noise_std
    shrunk = np.where(released.value < EMPTY_STDS * noise_std, 0.0, released.value)
    law = run.account.spending.law
    record = persons_with_more(released.value, shrunk, noise_std, law, len(more))
    run.log[-1] |= record
    return WithMore(float(released.value[0]), noise_std, record)


def persons_with_more(
    released: FloatArray, shrunk: FloatArray, noise_std: float, law: str, n: int
) -> dict[str, Any]:
    """Return the share of n persons in cells of more rows than are used, its 95 % interval, and whether it is above MOST_LEFT_OUT.

    `released` are the noisy counts of these cells, `shrunk` the same with zeros where noise hides them.
    """
    count = min(float(shrunk.sum()), float(n))
    highest = float(released.sum()) + deviations(law, 0.95) * noise_std * math.sqrt(len(released))
    upper = min(max(highest, count), float(n))
    lower = min(least_count(released, shrunk, noise_std, law, 0.95), count)
    surely = least_count(released, shrunk, noise_std, law, 0.98)  # a lower end at 99 %
    shares = dict(zip(MORE_ROWS, (count / n, lower / n, upper / n), strict=True))
    return {**shares, MANY_MORE: surely > MOST_LEFT_OUT * n}


def least_count(
    released: FloatArray, shrunk: FloatArray, noise_std: float, law: str, level: float
) -> float:
    """Return the lower end of a two-sided interval at `level` for the number of persons in all cells."""
    # No cell is negative, so the lower end for some cells holds for all: the best of those from a cell to the last one seen.
    visible = int(np.append(-1, np.flatnonzero(shrunk))[-1]) + 1
    sums = np.cumsum(released[:visible][::-1])
    width = deviations(law, level, max(visible, 1)) * noise_std * np.sqrt(np.arange(1, visible + 1))
    return max(float(np.max(sums - width, initial=0.0)), 0.0)
