"""Private selection from a public list of mixtures or of models.

Mixtures are scored by Scheffe sets or log densities (paper C; MS08, AAK21), models by their loss on private rows.

Privacy notes: `notes/hypotheses.md`, `notes/selection.md`, `notes/loss_choice.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.densities import LARGEST_COUNT
from fastpubpriv.kernels.gradients import CALL, row_values
from fastpubpriv.mechanisms.hypotheses import Chosen, Hypotheses
from fastpubpriv.mechanisms.scores import (
    CELLS,
    MOST_CELL_ROWS,
    MOST_HYPOTHESES,
    CellSets,
    DensitySets,
    Evaluation,
    LogRatios,
    ScheffeSets,
)
from fastpubpriv.mechanisms.sums import ArrayQuery, Measurement, Released
from fastpubpriv.privacy import Budget, GaussianEvent, SelectionEvent
from fastpubpriv.privacy.calibration import gaussian_count_grid
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.rowwise.losses import Loss, predictions
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.row_types import Chunk

# hypotheses that are compared in pairs; for log ratios only the selection has a limit
MOST_COMPARED = 2**15
CLIP = 8.0  # nats
# Least accuracy accepted by `required_rows`: a smaller one is unattainable, and its square may underflow.
LEAST_ACCURACY = 1e-9
SHORT_LIST = 100  # hypotheses up to which "auto" computes exact sets, in about a tenth of a second


def law_for(account: Account, law: str = "auto") -> str:
    """Return `law`; for "auto", the cheaper mechanism."""
    return account.choice_law if law == "auto" else law


def choice_epsilon(budget: Budget) -> float:
    """Return the epsilon of permute-and-flip or, for ZCDP, of the exponential mechanism with epsilon^2 / 8 = rho."""
    amount = float(budget.amounts[0])
    return amount if budget.has_epsilon else math.sqrt(8.0 * amount)


def prepare(
    hypotheses: Hypotheses,
    n: int,
    *,
    method: str = "auto",
    score: str = "minimum_distance",
    cells: int = CELLS,
    draws: int | None = None,
    public_seed: int = 0,
    clip: float = CLIP,
    threads: int | None = None,
) -> tuple[str, Evaluation]:
    """Return the name of the method, and the evaluation (sets and masses) for n rows; reads no private data."""
    if score == "log_ratio":
        if method not in ("auto", "densities"):
            raise InputError(f'score="log_ratio" compares densities: leave out method={method!r}')
        return "densities", LogRatios.prepare(hypotheses, clip=clip)
    if hypotheses.size > MOST_COMPARED:
        raise InputError(
            f"pairs are compared among up to {MOST_COMPARED} hypotheses, got {hypotheses.size}: pass a shorter list, or "
            'score="log_ratio"'
        )
    if n > LARGEST_COUNT and (hypotheses.dim > 1 or method == "densities"):
        raise InputError(
            f"densities are compared at up to 2^31 - 1 rows, got {n}: pass a part of the rows"
        )
    if method == "auto":
        short = hypotheses.size <= SHORT_LIST
        method = "densities" if hypotheses.dim > 1 else "exact" if short else "cells"
    if score == "yatracos" and hypotheses.size > MOST_HYPOTHESES:
        raise InputError(
            f'score="yatracos" compares up to {MOST_HYPOTHESES} hypotheses, got {hypotheses.size}: pass '
            'score="minimum_distance" or a shorter list'
        )
    if method == "exact":
        return method, ScheffeSets.of_intervals(
            hypotheses, n, own_only=score != "yatracos", threads=threads
        )
    if score == "yatracos":
        if method == "cells":
            return method, ScheffeSets.of_cells(hypotheses, n, cells=cells)
        return method, ScheffeSets.of_densities(
            hypotheses, n, draws=draws, public_seed=public_seed, threads=threads
        )
    if method == "cells":
        return method, CellSets.prepare(hypotheses, n, cells=cells)
    return method, DensitySets.prepare(
        hypotheses, draws=draws, public_seed=public_seed, threads=threads
    )


def check_rows(n: int, dim: int) -> None:
    """Raise InputError, before the debit, if `prepare` could refuse n rows of `dim` columns."""
    most = LARGEST_COUNT if dim > 1 else MOST_CELL_ROWS
    if n > most:
        raise InputError(
            f"a choice compares up to {most} rows of {dim} columns, got {n}: pass a part of the rows"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HypothesisChoice(Measurement[Fraction, Chosen]):
    """Select one of `size` hypotheses by integer scores. The cost is the epsilon of the selection, in every notion."""

    evaluation: Evaluation
    size: int
    law: str

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Chosen:
        """Charge, score and select."""
        sensitivity = self.evaluation.sensitivity
        event = SelectionEvent(
            epsilon=cost, sensitivity=sensitivity, candidates=self.size, law=self.law
        )
        index = release_choice(
            account, name=name, query=lambda: -self.evaluation.scores(rows, executor), event=event
        )
        return Chosen(index=index, event=event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyScores(Measurement[Fraction, Released]):
    """Release the scores of `size` hypotheses, by clipped log densities, with Gaussian noise; the least one is selected."""

    # A replaced row changes each score by at most the sensitivity s of `evaluation`: size s^2 S^2 in squared l2, S grid steps for
    # a score. For a few hypotheses on a Gaussian account, which cannot charge a selection in epsilon. Privacy note:
    # `notes/noisy_scores.md`.
    evaluation: LogRatios
    size: int

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Released:
        """Charge `cost`, score and add noise."""
        most = self.evaluation.sensitivity
        # The grid for counts assumes the squared sensitivity 2 S^2.
        grid = gaussian_count_grid(2 * cost / (self.size * most**2), self.size, most * rows.n)
        steps = grid.quant_bound
        event = GaussianEvent(self.size * most**2 * steps**2, grid.log2_scale, self.size)

        def query() -> IntArray:
            return self.evaluation.scores(rows, executor) * steps

        value = release(
            account, name=name, query=query, shape=(self.size,), event=event, unit=1.0 / steps
        )
        return Released(value=value, noise_std=event.noise_std / steps, event=event)


def pairs_of(size: int) -> int:
    """Return the number of Scheffe sets of a list: one for each unordered pair."""
    return size * (size - 1) // 2


def _tail(size: int, failure_prob: float) -> float:
    """Return ln(size / b), b = failure_prob / 4, from logarithms, since a quotient by the smallest doubles would overflow."""
    return math.log(size) + math.log(4.0) - math.log(failure_prob)


def closed_form_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """Return a number of rows for 3 OPT + accuracy/2 (up to 1/n), with half the slack each for sampling and selection."""
    # max(32 ln(2 S / b) / accuracy^2, 8 ln(size / b) / (accuracy epsilon)) with S pairs and b = failure_prob / 4.
    if size < 2:
        return 1
    sampling = 32.0 * _tail(2 * pairs_of(size), failure_prob) / accuracy**2
    choosing = 8.0 * _tail(size, failure_prob) / (accuracy * epsilon)
    return math.ceil(max(sampling, choosing))


def required_rows(size: int, accuracy: float, epsilon: float, failure_prob: float) -> int:
    """Return the least number of rows at which `slack_at` is at most accuracy / 2."""
    if accuracy < LEAST_ACCURACY:
        raise InputError(
            f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1"
        )
    if size < 2:
        return 1
    low = 0
    high = closed_form_rows(size, accuracy, epsilon, failure_prob)
    while slack_at(size, high, epsilon, failure_prob) > accuracy / 2.0:
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if slack_at(size, middle, epsilon, failure_prob) <= accuracy / 2.0
            else (middle, high)
        )
    return high


def slack_at(size: int, n: int, epsilon: float, failure_prob: float) -> float:
    """Return 2 Delta + s at n rows: a bound, with probability 1 - failure_prob, on the excess of the selection over 3 OPT."""
    if size < 2:
        return 0.0
    sampling = 2.0 * math.sqrt(_tail(2 * pairs_of(size), failure_prob) / (2.0 * n))
    return sampling + 2.0 * _tail(size, failure_prob) / (n * epsilon) + 1.0 / n


STEPS = 1 << 12  # S: grid steps of a clipped difference of losses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossQuery(ArrayQuery):
    """For each model, the sum over rows (z, label) of its loss minus the first model's, clipped to `clip`, in STEPS steps."""

    # With a `scale` of -1 these are scores, larger for a smaller loss. A difference that is not finite counts as zero. A custom
    # loss is called for one row at a time, with all models.
    weights: FloatArray  # (models, dim)
    loss: Loss
    clip: float

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        rows = chunk[:, :-1].astype(np.float64)
        labels = chunk[:, -1].astype(np.float64)
        values: Any = self.loss.values
        sums = accumulators[0]
        with np.errstate(all="ignore"):
            if self.loss.ours:
                first = values(predictions(self.weights[0], rows), labels)
                for index, weights in enumerate(self.weights):
                    sums[index] += self._steps(
                        values(predictions(weights, rows), labels) - first
                    ).sum()
                return
            scores = np.stack([predictions(weights, rows) for weights in self.weights], axis=1)
            for one, label in zip(scores, labels.tolist(), strict=True):
                losses = row_values(values, one, label)
                sums += self._steps(losses - losses[0])

    def _steps(self, differences: FloatArray) -> IntArray:
        """Return clipped differences of losses in integer grid steps, so that their sums are exact."""
        scaled = differences / self.clip
        steps = np.rint(np.clip(np.where(np.isfinite(scaled), scaled, 0.0), -1.0, 1.0) * STEPS)
        return np.asarray(steps.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossChoice(Measurement[Fraction, Chosen]):
    """Select one of `weights` (models, dim) by their losses on labeled rows. The cost is the epsilon of the selection."""

    # The score of a model is an integer that changes by at most 2 STEPS when a row is replaced.
    weights: FloatArray
    loss: Loss
    clip: float
    law: str

    def release(
        self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction
    ) -> Chosen:
        """Charge, score and select."""
        # Work of a prediction and a loss for each model; for a custom loss, also a call.
        work = 3 * self.weights.size + (0 if self.loss.ours else CALL)
        models = (len(self.weights),)
        query = LossQuery(
            shape=models,
            scale=-1,
            row_cost=work,
            weights=self.weights,
            loss=self.loss,
            clip=self.clip,
        )
        event = SelectionEvent(
            epsilon=cost, sensitivity=2 * STEPS, candidates=models[0], law=self.law
        )
        index = release_choice(
            account, name=name, query=partial(executor.run, query, rows), event=event
        )
        return Chosen(index=index, event=event)
