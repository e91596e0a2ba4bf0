"""Noisy numbers of persons that have each of K public keys, where a person may have several.

Privacy note: `notes/person_keys.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv.mechanisms.sums import ArrayQuery, NoiseEvent, NoisyMeasurement
from fastpubpriv.privacy.spending import Spending
from fastpubpriv.sources.row_types import Chunk


def changed_cells(keys_per_person: int, cells: int) -> int:
    """Return the largest number of cells in which the histograms of neighbors differ, by one each: min(2 m, K)."""
    return min(2 * keys_per_person, cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyQuery(ArrayQuery):
    """For each cell, the number of entries of all rows with this code 0 ... K - 1; any other entry is in no cell."""

    def add(self, chunk: Chunk, accumulators: Any) -> None:
        """See `Query.add`."""
        (cells,) = self.shape
        inside = (chunk >= 0) & (chunk < cells)  # false for NaN
        counts = accumulators[0]
        counts += np.bincount(chunk[inside].astype(np.int64), minlength=cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonKeys(NoisyMeasurement):
    """Release the number of persons with each of `cells` codes; a row holds the distinct codes of a person, and NaN after them."""

    # Distinct codes are a promise of the rows: `sources/keys_of_persons.py` makes them, and the privacy note says why.
    keys_per_person: int  # entries of a row
    cells: int  # all codes that rows may hold

    def priced_query(self, spending: Spending, n: int) -> tuple[KeyQuery, NoiseEvent, float]:
        """See `NoisyMeasurement.priced_query`."""
        changed = changed_cells(self.keys_per_person, self.cells)
        grid = spending.grid("keys", self.cells, n, parts=changed)
        steps = grid.quant_bound
        query = KeyQuery(shape=(self.cells,), scale=steps, row_cost=24 * self.keys_per_person)
        return query, grid.event, 1.0 / steps
