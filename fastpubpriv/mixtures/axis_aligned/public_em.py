"""Expectation-maximisation for axis-aligned mixtures on public rows: many starts and bootstraps side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.mixtures.axis_aligned.binned_em import by_score
from fastpubpriv.public_draws import draw_uniforms

STD_FLOOR = 1e-12  # of a column's standard deviation: differences of doubles still have three digits there
_NARROW = 1e-4  # below it squares of rows and means cancel, and differences are taken first
# Public rows decide nothing private, so that their coins may come from a fixed seed: the same rows give the same list.
PUBLIC_SEED = 20_240_607
_BATCH = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Axis-aligned mixtures: weights (size, k), means and stds (size, k, dim)."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray

    @property
    def size(self) -> int:
        """Number of mixtures."""
        return len(self.weights)

    def __getitem__(self, index: Any) -> Batch:
        """The mixtures that a slice, mask or index array picks."""
        return Batch(self.weights[index], self.means[index], self.stds[index])


def stacked(batches: list[Batch]) -> Batch:
    """One batch of all; a mixture with fewer components gets empty ones."""
    most = max(batch.weights.shape[1] for batch in batches)
    weights, means, stds = [], [], []
    for batch in batches:
        gap = most - batch.weights.shape[1]
        weights.append(np.pad(batch.weights, ((0, 0), (0, gap))))
        means.append(np.pad(batch.means, ((0, 0), (0, gap), (0, 0)), mode="edge"))
        stds.append(np.pad(batch.stds, ((0, 0), (0, gap), (0, 0)), mode="edge"))
    return Batch(np.concatenate(weights), np.concatenate(means), np.concatenate(stds))


def log_joint(batch: Batch, rows: FloatArray) -> FloatArray:
    """log of weight times density, (size, n, k), for rows of moderate size (standardised)."""
    if batch.stds.min() < _NARROW:
        logs = np.log(np.maximum(batch.weights, 1e-300)) - 0.5 * rows.shape[1] * math.log(2.0 * math.pi)
        found: FloatArray = np.repeat((logs - np.log(batch.stds).sum(axis=2))[:, None, :], len(rows), axis=1)
        for column in range(rows.shape[1]):
            found -= 0.5 * (differences(rows, batch.means, column) / batch.stds[:, None, :, column]) ** 2
        return found
    precision = 1.0 / batch.stds**2
    tilt = batch.means * precision
    constant = (
        np.log(np.maximum(batch.weights, 1e-300))
        - np.log(batch.stds).sum(axis=2)
        - 0.5 * np.einsum("skd,skd->sk", batch.means, tilt)
        - 0.5 * rows.shape[1] * math.log(2.0 * math.pi)
    )
    quadratic = np.matmul(rows * rows, precision.transpose(0, 2, 1))
    linear = np.matmul(rows, tilt.transpose(0, 2, 1))
    joint: FloatArray = linear - 0.5 * quadratic + constant[:, None, :]
    return joint


def differences(rows: FloatArray, means: FloatArray, column: int) -> FloatArray:
    """Rows less means in one column, (size, n, k)."""
    found: FloatArray = rows[None, :, None, column] - means[:, None, :, column]
    return found


def log_likelihood(batch: Batch, rows: FloatArray) -> FloatArray:
    """Mean log density of the rows, (size,)."""
    found = np.empty(batch.size)
    for part in parts(batch, len(rows)):
        found[part] = logsumexp(log_joint(batch[part], rows), axis=2).mean(axis=1)
    return found


def likeliest(batch: Batch, rows: FloatArray) -> IntArray:
    """Indices, likeliest first; those that are nearly as likely stay in order (`by_score`)."""
    return by_score(-2.0 * len(rows) * log_likelihood(batch, rows))


def parts(batch: Batch, n: int) -> list[slice]:
    """Slices of a batch whose (size, n, k) arrays stay small."""
    size = max(1, _BATCH // (n * batch.weights.shape[1]))
    return [slice(first, first + size) for first in range(0, batch.size, size)]


def starts(rows: FloatArray, components: int, size: int, *, seed: int) -> FloatArray:
    """Centres (size, k, dim) by the k-means++ rule: the next centre is a row, likelier the farther from those before it."""
    n = len(rows)
    uniform = draw_uniforms((size, components), random_state=seed)
    chosen = np.empty((size, components), dtype=np.int64)
    chosen[:, 0] = np.minimum((uniform[:, 0] * n).astype(np.int64), n - 1)
    nearest = np.full((size, n), np.inf)
    squares = np.einsum("nd,nd->n", rows, rows)
    for index in range(1, components):
        centre = rows[chosen[:, index - 1]]
        away = squares[None, :] - 2.0 * centre @ rows.T + np.einsum("sd,sd->s", centre, centre)[:, None]
        nearest = np.minimum(nearest, np.maximum(away, 0.0) + 1e-12)
        ends = np.cumsum(nearest, axis=1)
        chosen[:, index] = np.minimum((ends < uniform[:, index, None] * ends[:, -1:]).sum(axis=1), n - 1)
    return rows[chosen]


def fit(
    rows: FloatArray,
    centres: FloatArray,
    *,
    counts: FloatArray | None = None,
    steps: int = 60,
    prior: float = 1.0,
    fixed_std: bool = False,
) -> Batch:
    """Run EM from every start on standardised public rows (n, dim).

    `centres` (size, k, dim) are starting means; the first standard deviations are those of the rows, narrowed as k centres share
    them, and `fixed_std` keeps every one at one. `counts` (size, n) say how often each start sees each row (a bootstrap). `prior`
    rows' worth of belief, for each component, that its standard deviation is the harmonic mean of all components', by weight, keeps
    a component from collapsing on a few rows, and leaves narrow components that lie far apart their own scale.
    """
    size, components, dim = centres.shape
    spread = 1.0 if fixed_std else max(0.3, components ** (-1.0 / max(dim, 1)))
    batch = Batch(
        np.full((size, components), 1.0 / components), np.array(centres), np.full((size, components, dim), spread)
    )
    done = []
    for part in parts(batch, len(rows)):
        one, times = batch[part], None if counts is None else counts[part]
        for _ in range(steps):
            typical = 1.0 / np.einsum("sk,skd->sd", one.weights, 1.0 / one.stds)[:, None, :]
            one = step(one, rows, times, prior=prior, spread=np.minimum(typical, spread), fixed_std=fixed_std)
        done.append(one)
    return stacked(done)


def step(
    batch: Batch,
    rows: FloatArray,
    counts: FloatArray | None,
    *,
    prior: float,
    spread: float | FloatArray,
    fixed_std: bool,
) -> Batch:
    """One iteration for every mixture of a batch; `spread`, (size, 1, dim) or one number, is what the prior believes in."""
    joint = log_joint(batch, rows)
    share = np.exp(joint - logsumexp(joint, axis=2, keepdims=True))
    if counts is not None:
        share = share * counts[:, :, None]
    held = np.maximum(share.sum(axis=1), 1e-30)
    turned = share.transpose(0, 2, 1)
    means = np.matmul(turned, rows) / held[:, :, None]
    if fixed_std:
        stds = batch.stds
    else:
        if batch.stds.min() < _NARROW:
            squares = [(share * differences(rows, means, j) ** 2).sum(axis=1) for j in range(rows.shape[1])]
            second = np.stack(squares, axis=2) / held[:, :, None]
        else:
            second = np.matmul(turned, rows * rows) / held[:, :, None] - means**2
        mixed = (held[:, :, None] * np.maximum(second, 0.0) + prior * spread**2) / (held + prior)[:, :, None]
        stds = np.sqrt(np.maximum(mixed, STD_FLOOR**2))
    weights = (held + 0.5) / (held.sum(axis=1, keepdims=True) + 0.5 * held.shape[1])
    return Batch(weights, means, stds)
