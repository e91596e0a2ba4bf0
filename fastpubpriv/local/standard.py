"""Columns of different units in one ball: shifted and scaled by public rows before they are reported, and back afterwards."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources import Rows
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.views.each import each_row


@dataclass(frozen=True, slots=True, eq=False)
class Standard:
    """A public affine map of columns: (value - center) / scale, each (dim,)."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, public: FloatArray) -> Standard:
        """Mean and standard deviation of public rows, at least two; a column that is constant there is not scaled."""
        if len(public) < 2:
            raise InputError(f"to standardize columns takes at least two public rows, got {len(public)}")
        spread = np.std(public, axis=0, ddof=1)
        return cls(np.mean(public, axis=0), np.where(spread > 0.0, spread, 1.0))

    def rows(self, rows: Rows) -> Rows:
        """The rows in these units; a missing cell is that of the centre, so that the other columns count."""
        return each_row(rows, self.chunk, rows.dim, rows.columns)

    def chunk(self, chunk: Chunk) -> FloatArray:
        """Rows (k, dim), each by itself."""
        with np.errstate(all="ignore"):
            found: FloatArray = (chunk.astype(np.float64) - self.center) / self.scale
        return np.nan_to_num(found, copy=False, nan=0.0, posinf=1e300, neginf=-1e300)

    def back(self, result: MeanResult) -> MeanResult:
        """A mean in these units as one in the units of the data."""
        return dataclasses.replace(
            result,
            mean=frozen(result.mean * self.scale + self.center),
            noise_std=frozen(result.noise_std * self.scale),
            sampling_std=frozen(result.sampling_std * self.scale),
            clipping_std=None if result.clipping_std is None else frozen(result.clipping_std * self.scale),
            provenance={**result.provenance, "units": "public rows"},
        )
