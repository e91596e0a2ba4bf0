"""Private selection from a public list of mixtures or of models, and among Gaussians in one column.

Mixtures are scored by Scheffe sets or log densities (paper C; MS08, AAK21), models by their loss on private rows, Gaussians in one
column by Scheffe sets of a cover (in the role of BKSW19).

Privacy notes: `notes/hypotheses.md`, `notes/selection.md`, `notes/loss_choice.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.densities import LARGEST_COUNT
from fastpubpriv.kernels.gradients import CALL, row_values
from fastpubpriv.losses import Loss, predictions
from fastpubpriv.mechanisms.cells import CodeQuery
from fastpubpriv.mechanisms.group_covariances import total_times
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
from fastpubpriv.mechanisms.sums import AffineMap, ArrayQuery, Measurement, Released
from fastpubpriv.privacy import ZCDP, Budget, GaussianEvent, SelectionEvent
from fastpubpriv.privacy.calibrated_budget import laplace_epsilon
from fastpubpriv.privacy.calibration import gaussian_count_grid
from fastpubpriv.privacy.events import CHOICE_LAWS
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_choice
from fastpubpriv.release.transcript import BudgetAccount
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.sources.row_types import Chunk

METHODS = ("auto", "exact", "cells", "densities")
SCORES = ("minimum_distance", "yatracos", "log_ratio")
MOST_COMPARED = 2**15  # hypotheses that are compared in pairs; for log ratios only the selection has a limit
CLIP = 8.0  # nats
# Least accuracy accepted by `required_rows`: a smaller one is unattainable, and its square may underflow.
LEAST_ACCURACY = 1e-9
SHORT_LIST = 100  # hypotheses up to which "auto" computes exact sets, in about a tenth of a second
LAWS = ("auto", *CHOICE_LAWS)


def law_for(account: Account, law: str = "auto") -> str:
    """Return `law`; for "auto", the cheaper mechanism: permute-and-flip for a price in epsilon, exponential for one in rho."""
    if law != "auto":
        return law
    return "exponential" if isinstance(account.budget, ZCDP) else "permute_and_flip"


def epsilon_of(share: Fraction, law: str, *, pure: bool) -> Fraction:
    """Return the largest epsilon at which a selection costs at most `share`, in epsilon (pure) or rho."""
    if pure:
        return share
    if law == "exponential":
        return Fraction(math.isqrt(math.floor(share * 8 * 4**60)), 2**60)
    return laplace_epsilon(ZCDP(share), 1)


def choice_epsilon(budget: Budget) -> float:
    """Return the epsilon of permute-and-flip or, for ZCDP, of the exponential mechanism with epsilon^2 / 8 = rho."""
    amount = float(budget.amounts[0])
    return math.sqrt(8.0 * amount) if isinstance(budget, ZCDP) else amount


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
        raise InputError(f"densities are compared at up to 2^31 - 1 rows, got {n}: pass a part of the rows")
    if method == "auto":
        short = hypotheses.size <= SHORT_LIST
        method = "densities" if hypotheses.dim > 1 else "exact" if short else "cells"
    if score == "yatracos":
        if hypotheses.size > MOST_HYPOTHESES:
            raise InputError(
                f'score="yatracos" compares up to {MOST_HYPOTHESES} hypotheses, got {hypotheses.size}: pass '
                'score="minimum_distance" or a shorter list'
            )
        if method == "exact":
            return method, ScheffeSets.of_intervals(hypotheses, n, threads=threads)
        if method == "cells":
            return method, ScheffeSets.of_cells(hypotheses, n, cells=cells)
        return method, ScheffeSets.of_densities(hypotheses, n, draws=draws, public_seed=public_seed, threads=threads)
    if method == "exact":
        return method, ScheffeSets.of_intervals(hypotheses, n, own_only=True, threads=threads)
    if method == "cells":
        return method, CellSets.prepare(hypotheses, n, cells=cells)
    return method, DensitySets.prepare(hypotheses, draws=draws, public_seed=public_seed, threads=threads)


def check_rows(n: int, dim: int) -> None:
    """Raise InputError, before the debit, if `prepare` could refuse n rows of `dim` columns."""
    most = LARGEST_COUNT if dim > 1 else MOST_CELL_ROWS
    if n > most:
        raise InputError(f"a choice compares up to {most} rows of {dim} columns, got {n}: pass a part of the rows")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HypothesisChoice(Measurement[Fraction, Chosen]):
    """Select one of `size` hypotheses by integer scores. The cost is the epsilon of the selection, in every notion."""

    evaluation: Evaluation
    size: int
    law: str

    def release(self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, score and select."""
        sensitivity = self.evaluation.sensitivity
        event = SelectionEvent(epsilon=cost, sensitivity=sensitivity, candidates=self.size, law=self.law)
        index = release_choice(account, name=name, query=lambda: -self.evaluation.scores(rows, executor), event=event)
        return Chosen(index=index, event=event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyScores(Measurement[Fraction, Released]):
    """Release the scores of `size` hypotheses, by clipped log densities, with Gaussian noise; the least one is selected."""

    # A replaced row changes each score by at most the sensitivity s of `evaluation`: size s^2 S^2 in squared l2, S grid steps for
    # a score. For a few hypotheses on a Gaussian account, which cannot charge a selection in epsilon. Privacy note:
    # `notes/noisy_scores.md`.
    evaluation: LogRatios
    size: int

    def release(self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Released:
        """Charge `cost`, score and add noise."""
        most = self.evaluation.sensitivity
        # The grid for counts assumes the squared sensitivity 2 S^2.
        grid = gaussian_count_grid(2 * cost / (self.size * most**2), self.size, most * rows.n)
        steps = grid.quant_bound
        event = GaussianEvent(self.size * most**2 * steps**2, grid.log2_scale, self.size)

        def query() -> IntArray:
            return self.evaluation.scores(rows, executor) * steps

        value = release(account, name=name, query=query, shape=(self.size,), event=event, unit=1.0 / steps)
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
        raise InputError(f"accuracy must be at least {LEAST_ACCURACY:g}, got {accuracy:g}; for example 0.1")
    if size < 2:
        return 1
    low, high = 0, closed_form_rows(size, accuracy, epsilon, failure_prob)
    while slack_at(size, high, epsilon, failure_prob) > accuracy / 2.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if slack_at(size, middle, epsilon, failure_prob) <= accuracy / 2.0 else (middle, high)
    return high


def slack_at(size: int, n: int, epsilon: float, failure_prob: float) -> float:
    """Return 2 Delta + s at n rows: a bound, with probability 1 - failure_prob, on the excess of the selection over 3 OPT."""
    if size < 2:
        return 0.0
    sampling = 2.0 * math.sqrt(_tail(2 * pairs_of(size), failure_prob) / (2.0 * n))
    return sampling + 2.0 * _tail(size, failure_prob) / (n * epsilon) + 1.0 / n


_PAIRS = 1 << 20  # pairs of hypotheses handled at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cover:
    """Gaussians N(mean_i, std_i^2) in one column, and the public cells that make up their Scheffe sets."""

    # The line is cut at low + k step, k = 0 ... cuts - 1; each set is an interval between two cuts (or infinity), or the complement
    # of one.
    mean: FloatArray
    std: FloatArray
    accuracy: float  # the total variation alpha
    slack: float  # the zeta of the score
    low: float
    step: float
    cuts: int

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self.mean)

    @property
    def edges(self) -> FloatArray:
        """The cuts with infinity at both ends, (cuts + 2,)."""
        return np.concatenate([[-np.inf], self.low + self.step * np.arange(self.cuts), [np.inf]])


def scheffe_sets(cover: Cover, first: int, last: int) -> tuple[IntArray, IntArray, BoolArray]:
    """Return where hypotheses first ... last - 1 are likelier than each one: edges (begin, end); whether the set is outside."""
    mean_i, std_i = cover.mean[first:last, None], cover.std[first:last, None]
    mean_j, std_j = cover.mean[None, :], cover.std[None, :]
    with np.errstate(all="ignore"):
        # log(H_i / H_j) = a x^2 + b x + c
        a = 0.5 / std_j**2 - 0.5 / std_i**2
        b = mean_i / std_i**2 - mean_j / std_j**2
        c = 0.5 * (mean_j / std_j) ** 2 - 0.5 * (mean_i / std_i) ** 2 + np.log(std_j / std_i)
        middle = -b / (2.0 * a)
        half = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0)) / np.abs(2.0 * a)
        same = np.broadcast_to(std_i == std_j, a.shape)
        cross = (mean_i + mean_j) / 2.0
        low = np.where(same, np.where(mean_i > mean_j, cross, -np.inf), middle - half)
        high = np.where(same, np.where(mean_i > mean_j, np.inf, cross), middle + half)
    outside = ~same & (a > 0.0)

    def edge(point: FloatArray) -> IntArray:
        number = np.clip(np.rint((point - cover.low) / cover.step) + 1.0, 0.0, cover.cuts + 1.0)
        return number.astype(np.int64)

    return edge(low), edge(high), outside


def scores(cover: Cover, below: IntArray, n: int) -> IntArray:
    """Return the scores S_i = min_j Gamma_ij, (size,), from the number of rows below each edge, (cuts + 2,), of n rows."""
    # Gamma_ij = n if H_i and H_j are close, else max(0, rows in W_ij - ceil(n (H_j(W_ij) + (1 + slack / 2) accuracy))). The offset
    # is public, so a replaced row changes a score by at most one.
    edges = cover.edges
    best = np.full(cover.size, n, dtype=np.int64)
    rows = max(1, _PAIRS // cover.size)
    for first in range(0, cover.size, rows):
        last = min(first + rows, cover.size)
        begin, end, outside = scheffe_sets(cover, first, last)
        inside = below[end] - below[begin]
        held = np.where(outside, below[-1] - inside, inside)

        def mass(mean: FloatArray, std: FloatArray, left: FloatArray, right: FloatArray, out: Any) -> FloatArray:
            within = ndtr((right - mean) / std) - ndtr((left - mean) / std)
            return np.where(out, 1.0 - within, within)

        left, right = edges[begin], edges[end]
        own = mass(cover.mean[first:last, None], cover.std[first:last, None], left, right, outside)
        other = mass(cover.mean[None, :], cover.std[None, :], left, right, outside)
        offset = np.ceil(n * (other + (1.0 + cover.slack / 2.0) * cover.accuracy)).astype(np.int64)
        apart = own - other > (2.0 + cover.slack) * cover.accuracy
        gamma = np.where(apart, np.maximum(held - offset, 0), n)
        best[first:last] = gamma.min(axis=1)
    return best


def cover_cells(chunk: Any, *, cover: Cover, affine: AffineMap) -> list[IntArray]:
    """Return the cell of the cover that contains the coordinate affine(x) of each row; -1 if it is not finite."""
    # The coordinate is summed term by term in a fixed order, so the cell of a row does not depend on its chunk.
    center = np.zeros(affine.dim) if affine.center is None else affine.center
    weights = np.zeros(affine.dim) if affine.matrix is None else affine.matrix[0]
    value = total_times((chunk.astype(np.float64) - center).T, weights)
    return [np.where(np.isfinite(value), np.searchsorted(cover.edges[1:-1], value, side="right"), -1)]


def rows_below(rows: Rows, executor: Executor, cover: Cover, affine: AffineMap) -> IntArray:
    """Return the number of rows whose coordinate is below each edge of the cover, (cuts + 2,)."""
    codes = partial(cover_cells, cover=cover, affine=affine)
    cells = (cover.cuts + 1,)
    query = CodeQuery(shape=cells, cells=cells, codes=codes, cost=8 * affine.dim + 64)
    return np.append(0, np.cumsum(executor.run(query, rows)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverChoice(Measurement[Fraction, Chosen]):
    """Select the Gaussian of the cover that fits the coordinate affine(x), with (1, dim) matrix, of the rows."""

    # Exponential mechanism on integer scores of replace-one sensitivity one, exact up to 2^-100. The cost is its epsilon, in every
    # notion.
    affine: AffineMap
    cover: Cover

    def release(self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, run the pass, score and select."""
        event = SelectionEvent(epsilon=cost, sensitivity=1, candidates=self.cover.size)

        def query() -> IntArray:
            return scores(self.cover, rows_below(rows, executor, self.cover, self.affine), rows.n)

        return Chosen(index=release_choice(account, name=name, query=query, event=event), event=event)


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
                losses = row_values(values, one, label)
                sums += self._steps(losses - losses[0])

    def _steps(self, differences: FloatArray) -> IntArray:
        """Return clipped differences of losses in integer grid steps, so that their sums are exact."""
        scaled = differences / self.clip
        steps = np.rint(np.clip(np.where(np.isfinite(scaled), scaled, 0.0), -1.0, 1.0) * STEPS)
        return steps.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossChoice(Measurement[Fraction, Chosen]):
    """Select one of `weights` (models, dim) by their losses on labeled rows. The cost is the epsilon of the selection."""

    # The score of a model is an integer that changes by at most 2 STEPS when a row is replaced.
    weights: FloatArray
    loss: Loss
    clip: float
    law: str

    def release(self, account: BudgetAccount, rows: Rows, executor: Executor, *, name: str, cost: Fraction) -> Chosen:
        """Charge, score and select."""
        # Work of a prediction and a loss for each model; for a custom loss, also a call.
        work, models = 3 * self.weights.size + (0 if self.loss.ours else CALL), (len(self.weights),)
        query = LossQuery(shape=models, scale=-1, cost=work, weights=self.weights, loss=self.loss, clip=self.clip)
        event = SelectionEvent(epsilon=cost, sensitivity=2 * STEPS, candidates=models[0], law=self.law)
        index = release_choice(account, name=name, query=partial(executor.run, query, rows), event=event)
        return Chosen(index=index, event=event)
