"""Scores of very long lists: clipped log densities, summed over the rows. Time grows with the list, not with its square.

Privacy note: `notes/hypotheses.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fastpubpriv._types import IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels import hypotheses as kernels
from fastpubpriv.kernels.hypotheses import CODES_PER_NAT, PANEL, TOP_CODE
from fastpubpriv.maps import MixtureTable
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.densities import CHUNK_ROWS, Codes, CodesQuery
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.threads.steps import share_out

STEPS = 4  # steps of a score within the clip: also the sensitivity of a score, so the noise is several steps wide
CLIP_LEAST, CLIP_MOST = STEPS / CODES_PER_NAT, 31.0  # at least one code per step; codes end at 32 nats
_CODES_HELD = 2**26
_PANELS = 64  # summed at once


def checked_clip(clip: float) -> float:
    """`clip` if it is within its bounds."""
    if not CLIP_LEAST <= clip <= CLIP_MOST:
        raise InputError(f"clip must be from 1/512 to {CLIP_MOST:g} nats, got {clip!r}")
    return clip


@dataclass(frozen=True, slots=True, eq=False)
class LogRatios:
    """Hypotheses on any number of columns, by how far their log density stays below the largest of the list at each row.

    `unit` is a step of a score, in codes: a row counts for up to STEPS of them.
    """

    sensitivity: ClassVar[int] = STEPS
    table: MixtureTable
    size: int
    unit: int

    @classmethod
    def prepare(cls, hypotheses: Hypotheses, *, clip: float) -> LogRatios:
        """Lay out the densities; `clip` in nats, rounded to 512ths."""
        table = kernels.mixture_table(hypotheses.weights, hypotheses.means, hypotheses.spreads)
        return cls(table, hypotheses.size, round(checked_clip(clip) * CODES_PER_NAT / STEPS))

    @property
    def clip(self) -> float:
        """The clip that is used, in nats."""
        return self.unit * STEPS / CODES_PER_NAT

    def scores(self, rows: Rows, executor: Executor) -> IntArray:
        """floor(sum over rows of min(codes below the best, STEPS unit) / unit), (size,); moves by at most STEPS."""
        capacity = min(rows.n, CHUNK_ROWS, max(64, _CODES_HELD // (self.table.panels * PANEL)))
        query = RatioQuery(
            table=self.table, capacity=capacity, threads=executor.threads, size=self.size, unit=self.unit
        )
        scores: IntArray = executor.run(query, rows)
        return scores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatioQuery(CodesQuery):
    """Scores (size,) of `LogRatios`."""

    size: int
    unit: int

    def totals(self) -> list[IntArray]:
        """See `CodesQuery.totals`."""
        return [np.zeros((self.table.panels, PANEL), dtype=np.int64)]

    def use(self, codes: Codes, taken: int, totals: list[IntArray]) -> None:
        """See `CodesQuery.use`."""
        most = np.int32(STEPS * self.unit)

        def summed(part: int) -> None:
            span = slice(part * _PANELS, (part + 1) * _PANELS)
            below = TOP_CODE - codes[span, :taken].astype(np.int32)
            totals[0][span] += np.minimum(below, most, out=below).sum(axis=1)

        share_out(summed, -(-self.table.panels // _PANELS), threads=self.threads)

    def answer(self, accumulators: Any) -> IntArray:
        """See `Query.answer`."""
        scores: IntArray = accumulators[1].reshape(-1)[: self.size] // self.unit
        return scores
