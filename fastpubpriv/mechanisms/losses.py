"""The choice of one of a public list of models by its loss on private rows.

Privacy note: `notes/loss_choice.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels.alone import CALL, row_values
from fastpubpriv.losses import Loss, predictions
from fastpubpriv.mechanisms.selection.candidates import Chosen
from fastpubpriv.mechanisms.sums import Measurement
from fastpubpriv.privacy import SelectionEvent
from fastpubpriv.release.payer import Payer
from fastpubpriv.release.release import release_choice
from fastpubpriv.sources import Executor, Query, Rows
from fastpubpriv.sources.base import Chunk

STEPS = 1 << 12  # S: grid steps of a clipped difference of losses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossQuery(Query):
    """For each model, the sum over rows (z, label) of its loss less that of the first one, clipped to `clip`, in STEPS steps.

    `weights` is (models, dim); a difference that is not finite counts as zero. A loss of the caller's is asked about one row at a
    time, for all models.
    """

    weights: FloatArray
    loss: Loss
    clip: float

    def zeros(self) -> tuple[IntArray]:
        """See `Query.zeros`."""
        return (np.zeros(len(self.weights), dtype=np.int64),)

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        rows, labels = chunk[:, :-1].astype(np.float64), chunk[:, -1].astype(np.float64)
        values: Any = self.loss.values
        sums = accumulators[0]
        with np.errstate(all="ignore"):
            if self.loss.ours:
                first = values(predictions(self.weights[0], rows), labels)
                for index, weights in enumerate(self.weights):
                    sums[index] += self._steps(values(predictions(weights, rows), labels) - first).sum()
                return
            scores = np.stack([predictions(weights, rows) for weights in self.weights], axis=1)
            for one, label in zip(scores, labels.tolist(), strict=True):
                found = row_values(values, one, label)
                sums += self._steps(found - found[0])

    def _steps(self, differences: FloatArray) -> IntArray:
        """Differences of losses, clipped, on the grid: sums of whole numbers are exact."""
        found = differences / self.clip
        steps = np.rint(np.clip(np.where(np.isfinite(found), found, 0.0), -1.0, 1.0) * STEPS)
        whole: IntArray = steps.astype(np.int64)
        return whole

    @property
    def row_cost(self) -> int:
        """A sum and a loss for each model; for a loss of the caller's, a call."""
        return 3 * self.weights.size + (0 if self.loss.ours else CALL)

    def answer(self, accumulators: tuple[IntArray]) -> IntArray:
        """Scores: the smaller the loss, the better."""
        return -accumulators[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossChoice(Measurement[Fraction, Chosen]):
    """Choose one of `weights` (models, dim) by their losses on labelled rows. The cost is the epsilon of the choice.

    The score of a model is an integer that moves by at most 2 STEPS when a row is replaced.
    """

    weights: FloatArray
    loss: Loss
    clip: float
    law: str

    def release(self, account: Payer, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, score and choose."""
        event = SelectionEvent(epsilon=cost, sensitivity=2 * STEPS, candidates=len(self.weights), law=self.law)
        query = LossQuery(weights=self.weights, loss=self.loss, clip=self.clip)
        index = release_choice(account, name=name, query=partial(executor.run, query, rows), event=event)
        return Chosen(index=index, event=event)
