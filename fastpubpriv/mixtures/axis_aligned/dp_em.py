"""Methods that start on public rows: expectation-maximization, and a choice from a list of public mixtures.

The list may depend on the public rows in any way, so all private rows are left for the choice, and the range of the data costs
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.densities import RowStatistic
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mechanisms.sums import StatisticSum, statistic_grid
from fastpubpriv.mixtures.axis_aligned import em
from fastpubpriv.mixtures.axis_aligned.em import AxisMethod, LearnedMixture, Mixtures, Task, choose
from fastpubpriv.mixtures.fit import count_draws, count_share
from fastpubpriv.privacy import Budget, PureDP
from fastpubpriv.public_draws import draw_exponentials, draw_normals, draw_uniforms
from fastpubpriv.release.account import Account
from fastpubpriv.session import Run, allowance_of
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import interleave_rows

PLAIN_STARTS = 20
BOOTSTRAPS = 100
_PRIOR = 0.3
_STEPS = 60
_DEPTH = 6.0  # a fit this many units of log likelihood below the best gets 1 / e of its points
_SPREAD = (0.3, 1.5)  # of a standard error, between the fits and the points around them
_PAIR_STARTS = 200
_EMPTIEST = 0.01


def standardized(public: FloatArray, *, known_std: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Public rows with mean zero and (unless standard deviations are known) standard deviation one; center and scale."""
    with np.errstate(over="ignore"):
        center = public.mean(axis=0)
        scale = np.ones(public.shape[1]) if known_std else public.std(axis=0)
    if not (np.isfinite(center).all() and np.isfinite(scale).all()):
        raise InputError("x_pub spans more than a double can square: divide the columns by a constant")
    scale = np.where(scale > 0.0, scale, np.maximum(np.abs(center), 1.0))
    return (public - center) / scale, center, scale


def fits(rows: FloatArray, components: int, *, known_std: bool) -> Mixtures:
    """EM on the rows from several starts, and on random weightings of them (the Bayesian bootstrap), likeliest first."""
    size = PLAIN_STARTS + BOOTSTRAPS
    drawn = draw_exponentials((BOOTSTRAPS, len(rows)), random_state=em.PUBLIC_SEED + 1)
    counts = np.concatenate([np.ones((PLAIN_STARTS, len(rows))), drawn])
    centers = em.starts(rows, components, size, seed=em.PUBLIC_SEED)
    found = em.fit(rows, centers, counts=counts, steps=_STEPS, prior=_PRIOR, fixed_std=known_std)
    return found[em.likeliest(found, rows)]


def scattered(heads: Mixtures, score: FloatArray, n_pub: int, size: int, *, known_std: bool) -> Mixtures:
    """Points around the fits, a random fraction of their own standard errors away, more around the likelier ones."""
    components, dim = heads.means.shape[1:]
    share = np.exp(np.maximum(score - score.max(), -400.0) / _DEPTH)
    uniform = draw_uniforms((size, 2), random_state=em.PUBLIC_SEED + 2)
    normal = draw_normals((size, components, 2 * dim + 1), random_state=em.PUBLIC_SEED + 3)
    picked = np.minimum(np.searchsorted(np.cumsum(share) / share.sum(), uniform[:, 0]), heads.size - 1)
    reach = (_SPREAD[0] + (_SPREAD[1] - _SPREAD[0]) * uniform[:, 1])[:, None]
    weights, means, stds = heads.weights[picked], heads.means[picked], heads.stds[picked]
    held = np.maximum(weights * n_pub, 1.0)
    root = (reach / np.sqrt(held))[:, :, None]
    means = means + stds * root * normal[:, :, :dim]
    if not known_std:
        stds = stds * np.exp(root / np.sqrt(2.0) * normal[:, :, dim : 2 * dim])
    weights = weights + reach * np.sqrt(weights * (1.0 - weights) / n_pub) * normal[:, :, -1]
    weights = np.clip(weights, _EMPTIEST, 1.0)
    return Mixtures(weights / weights.sum(axis=1, keepdims=True), means, stds)


def from_pairs(rows: FloatArray, components: int, size: int, *, known_std: bool) -> Mixtures:
    """Components that two public rows describe, a mean and a distance (sample compression): the likeliest combinations."""
    # Every component of weight w needs no more than two public rows, so this part of the list is good even where EM has too few.
    n = len(rows)
    centers = em.starts(rows, components, _PAIR_STARTS, seed=em.PUBLIC_SEED + 4)
    uniform = draw_uniforms((_PAIR_STARTS, components, 2), random_state=em.PUBLIC_SEED + 5)
    away = np.einsum("skd,skd->sk", centers, centers)[:, :, None] - 2.0 * centers @ rows.T
    near = np.argsort(away + np.einsum("nd,nd->n", rows, rows), axis=2)
    reach = max(1, n // components - 1)
    place = 1 + np.minimum((uniform[:, :, 0] * reach).astype(np.int64), n - 2)
    partner = rows[np.take_along_axis(near, place[:, :, None], axis=2)[:, :, 0]]
    octave = 2.0 ** np.floor(3.0 * uniform[:, :, 1, None] - 1.0)
    stds = np.ones_like(centers) if known_std else np.abs(partner - centers) * np.sqrt(0.5) * octave
    batch = Mixtures(
        np.full((_PAIR_STARTS, components), 1.0 / components), centers, np.maximum(stds, 20.0 * em.STD_FLOOR)
    )
    held = em.step(batch, rows, None, prior=_PRIOR, spread=1.0, fixed_std=known_std)
    batch = Mixtures(held.weights, batch.means, batch.stds)
    return batch[em.likeliest(batch, rows)[:size]]


def public_candidates(public: FloatArray, components: int, size: int, *, known_std: bool = False) -> Mixtures:
    """Up to `size` mixtures of at most `components` axis-aligned Gaussians that the public rows make likely."""
    rows, center, scale = standardized(public, known_std=known_std)
    parts = [fits(rows, fewer, known_std=known_std)[:3] for fewer in range(1, components)]
    heads = fits(rows, components, known_std=known_std)
    parts.append(heads)
    few = max(1, size // 20)
    parts.append(from_pairs(rows, components, few, known_std=known_std))
    left = size - sum(part.size for part in parts)
    if left > 0:
        score = len(rows) * em.log_likelihood(heads, rows)
        parts.append(scattered(heads, score, len(rows), left, known_std=known_std))
    found = em.joined(parts)[:size]
    return Mixtures(found.weights, center + scale * found.means, scale * found.stds)


def learn_from_list(task: Task) -> LearnedMixture:
    """The list from the public rows, the choice from all private rows."""
    assert task.public is not None
    found = public_candidates(task.public, task.n_components, task.candidates, known_std=task.known_std)
    listed = em.hypotheses_of(found)
    check_rows(task.run.rows.n, task.run.rows.dim)
    task.run.account.open()
    share = 1 - count_share(pure=task.run.account.pure)
    return em.measured(task, task.run, choose(task, task.run, listed, diagnostics={}, share=share))


PUBLIC_LIST = AxisMethod(
    name="public_list",
    learn=learn_from_list,
    draws=lambda n, dim, components, known_std: 1 + count_draws(components),
    seconds=em.choosing,
    candidates=1000,
    choice_only=True,
    needs_public=True,
)


# Expectation-maximization that starts on public rows and continues on private ones, in any number of dimensions.

STEPS = 3
GROWTH = 3  # of the budget from one iteration to the next: only the last one's noise stays in the answer
PUBLIC_STARTS = 20
# Standard deviation of what a weight was before, as evidence of what it is; and the error of a mean, in widths, beyond "ok".
UNSURE = 0.2
MOST_OPEN = 0.5
_LEAST_SHARE = 0.02
_BLOCK = 1 << 17  # numbers in one (dim, rows) array


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """What one iteration ended with: the private share of its average, over the components, and the noise on the private sum."""

    at: Mixtures
    share: float
    noise_std: float


@dataclass(frozen=True, slots=True)
class Radii:
    """Lengths to which the three parts of a row's statistic are clipped; public functions of the dimension."""

    share: float
    first: float
    second: float

    @classmethod
    def of(cls, dim: int, *, known_std: bool) -> Radii:
        """A standard normal in `dim` dimensions has norm about sqrt(dim), within two but for a few per cent."""
        first = math.sqrt(dim) + 2.0
        return cls(first / 2.0, first, 0.0 if known_std else math.sqrt(dim) + 3.0)

    @property
    def total(self) -> float:
        """Bound of the norm of a row's statistic: its shares add up to one."""
        return math.sqrt(self.share**2 + self.first**2 + self.second**2)


def statistic_dim(components: int, dim: int, *, known_std: bool) -> int:
    """Length of a row's statistic."""
    return components * (1 + dim * (1 if known_std else 2))


def component_of(components: int, dim: int, *, known_std: bool) -> IntArray:
    """Component of each entry of a row's statistic; the norms of the components' entries add up to at most `Radii.total`."""
    each = np.arange(components)
    return np.concatenate([each, np.tile(np.repeat(each, dim), 1 if known_std else 2)])


def row_statistic(chunk: Any, at: Mixtures, radii: Radii) -> FloatArray:
    """Statistic of each row of a chunk (n, dim), (n, statistic_dim): shares, then first, then second moments by component."""
    # With r_c the posterior of component c and z_c the standardized row: r_c times (a, z_c, (z_c^2 - 1) / sqrt 2), the last two
    # clipped; zeros where an entry is not finite. Sums have one fixed order, so a row's numbers do not depend on its company.
    count, dim = chunk.shape
    with_second = radii.second > 0.0
    out = np.empty((count, statistic_dim(len(at.weights), dim, known_std=not with_second)))
    rows = RowStatistic(np.ascontiguousarray(at.means), np.ascontiguousarray(at.stds))
    size = max(1, _BLOCK // dim)
    with np.errstate(all="ignore"):
        constants = np.log(at.weights) - np.log(at.stds).sum(axis=1)
        for begin in range(0, count, size):
            part = chunk[begin : begin + size]
            found = rows.distances(part if part.strides[1] == part.itemsize else np.ascontiguousarray(part))
            joint = constants[:, None] - 0.5 * found[0]
            share = np.exp(joint - np.maximum.reduce(joint, axis=0))
            share /= group_covariances.total(share)
            rows.moments(found, share, (radii.share, radii.first, radii.second), out[begin : begin + size])
    return out


def shrunken(
    at: Mixtures, private: FloatArray, public: FloatArray | None, radii: Radii, *, noise: float, n: int, n_pub: int
) -> tuple[FloatArray, FloatArray]:
    """Average the statistics of private rows, public rows and "as before", each component by itself; and private shares (k,)."""
    # Inverse variances (paper B, equation 3); "as before" is one row of the component, so noise alone moves none beyond its width.
    components, dim = at.means.shape
    before = np.concatenate([radii.share * at.weights, np.zeros(len(private) - components)])
    sources = np.stack([private, before if public is None else public, before])
    heaviness = np.maximum(at.weights * (1.0 - at.weights), 1e-12)
    precision = np.stack(
        [1.0 / (heaviness / n + (noise / radii.share) ** 2), n_pub / heaviness, np.full(components, UNSURE**-2)]
    )
    mass = np.sum(precision * sources[:, :components], axis=0) / precision.sum(axis=0)
    held = np.maximum(mass / radii.share, _LEAST_SHARE)
    precision = np.stack([1.0 / (held / n + noise**2), n_pub / held, 1.0 / held**2])
    moments = sources[:, components:].reshape(len(sources), -1, components, dim)
    total = precision.sum(axis=0)
    combined = np.sum(precision[:, None, :, None] * moments, axis=0) / total[:, None]
    return np.concatenate([mass, combined.ravel()]), precision[0] / total


def lost_in_noise(weights: FloatArray, dim: int, n: int, n_pub: int, noise: float) -> BoolArray:
    """Which components (k,) have means or widths that noise and few rows leave too far open; `noise` is that of the average."""
    precision = 1.0 / (weights / n + noise**2) + n_pub / weights
    return 1.0 / (weights * np.sqrt(precision)) > min(MOST_OPEN, math.sqrt(2.0 / dim))


def maximized(at: Mixtures, average: FloatArray, radii: Radii, floor: FloatArray) -> Mixtures:
    """The M step from an average statistic; changes of scale are limited to a factor of about two, against noise."""
    components, dim = at.means.shape
    held = np.maximum(average[:components] / radii.share, _LEAST_SHARE)
    first = average[components : components * (1 + dim)].reshape(components, dim) / held[:, None]
    means = at.means + at.stds * first
    stds = at.stds
    if radii.second > 0.0:
        second = average[components * (1 + dim) :].reshape(components, dim) / held[:, None]
        stds = stds * np.sqrt(np.clip(1.0 + math.sqrt(2.0) * second - first**2, 0.2, 5.0))
        stds = np.maximum(stds, floor)
    return Mixtures(held / held.sum(), means, stds)


def public_start(public: FloatArray, components: int, *, known_std: bool) -> tuple[Mixtures, FloatArray]:
    """The likeliest of several fits to the public rows, and the least standard deviation of each column."""
    rows, center, scale = standardized(public, known_std=known_std)
    found = em.fit(
        rows,
        em.starts(rows, components, PUBLIC_STARTS, seed=em.PUBLIC_SEED),
        steps=100,
        prior=0.3,
        fixed_std=known_std,
    )
    best = int(em.likeliest(found, rows)[0])
    return Mixtures(
        found.weights[best], center + scale * found.means[best], scale * found.stds[best]
    ), em.STD_FLOOR * scale


def iteration_shares(steps: int) -> list[Fraction]:
    """Shares of the budget, each GROWTH times the one before: early iterations only have to come near."""
    total = sum(GROWTH**step for step in range(steps))
    return [Fraction(GROWTH**step, total) for step in range(steps)]


def draws(components: int, dim: int, *, known_std: bool, steps: int = STEPS) -> int:
    """Noise draws of a run."""
    return steps * statistic_dim(components, dim, known_std=known_std)


def check(
    account: Account, rows: Rows, components: int, *, known_std: bool, steps: int, share: Fraction = Fraction(1)
) -> None:
    """Raise now, before the debit, if an iteration with so many components has no integer grid."""
    width = statistic_dim(1, rows.dim, known_std=known_std)
    for part in iteration_shares(steps):
        statistic_grid(account, share * account.allowance * part, components, width, rows.n)


def iterate(
    task: Task, run: Run, at: Mixtures, floor: FloatArray, *, steps: int, share: Fraction = Fraction(1)
) -> list[Iteration]:
    """Iterations on the private rows of a run (and the public ones, where there are any), with this share of its budget."""
    components, dim = at.means.shape
    radii = Radii.of(dim, known_std=task.known_std)
    n, allowance = run.rows.n, share * run.account.allowance
    n_pub = 0 if task.public is None else len(task.public)
    path: list[Iteration] = []
    for number, part in enumerate(iteration_shares(steps), start=1):
        name = f"responsibilities {number}"
        released = run.release(
            StatisticSum(
                statistic=partial(row_statistic, at=at, radii=radii),
                dim=statistic_dim(components, dim, known_std=task.known_std),
                radius=radii.total,
                row_cost=12 * components * dim + 20 * components,
                part_of=component_of(components, dim, known_std=task.known_std),
            ),
            name=name,
            cost=allowance * part,
            clip_radius=radii.total,
        )
        public = None if task.public is None else row_statistic(task.public, at, radii).mean(axis=0)
        average, shares = shrunken(
            at, released.value / n, public, radii, noise=released.noise_std / n, n=n, n_pub=n_pub
        )
        at = maximized(at, average, radii, floor)
        path.append(Iteration(at, float(at.weights @ shares), released.noise_std))
    return path


def learn(task: Task, *, steps: int = STEPS) -> LearnedMixture:
    """Fit the public rows, then iterate on public and private rows together; with rows held out, these choose how far to go."""
    assert task.public is not None
    at, floor = public_start(task.public, task.n_components, known_std=task.known_std)
    account, rows = task.run.account, task.run.rows
    blocks = interleave_rows(rows, 100 - task.held_out, task.held_out) if task.held_out else (rows,)
    share = 1 - count_share(pure=account.pure)
    check(account, blocks[0], task.n_components, known_std=task.known_std, steps=steps, share=share)
    if task.held_out:
        check_rows(blocks[1].n, rows.dim)
    account.open()
    run = task.run.block(blocks[0]) if task.held_out else task.run
    path = iterate(task, run, at, floor, steps=steps, share=share)
    facts = {"steps": steps, "private_weight": [step.share for step in path]}
    noise = path[-1].noise_std / blocks[0].n
    if task.held_out:
        listed = em.stacked([at, *(step.at for step in path)])
        learned = choose(task, task.run.block(blocks[1]), listed, diagnostics=facts)
    else:
        last = path[-1].at
        learned = LearnedMixture(weights=last.weights, means=last.means, stds=last.stds, diagnostics=facts)
    low = lost_in_noise(learned.weights, rows.dim, blocks[0].n, len(task.public), noise)
    return em.measured(task, run, replace(learned, low=low))


def em_error(dim: int, components: int, n: int, n_pub: int, budget: Budget) -> float:
    """Expected l2 error of the mean of a component of average weight after the last iteration, in its standard deviations."""
    _, allowance = allowance_of(budget, draws(components, dim, known_std=False))
    radius = Radii.of(dim, known_std=False).total
    pure = isinstance(budget, PureDP)
    last = float(allowance * (1 - count_share(pure=pure)) * iteration_shares(STEPS)[-1])
    width = statistic_dim(1, dim, known_std=False)
    noise = math.sqrt(8.0 * width) / last if pure else 2.0 / math.sqrt(2.0 * last)
    private = 1.0 / (components * n) + (radius * noise / n) ** 2
    public = 1.0 / (components * n_pub) if n_pub else math.inf
    return components * math.sqrt(dim / (1.0 / private + 1.0 / public))


def predict(n: int, dim: int, components: int, n_pub: int, budget: Budget) -> tuple[float, dict[str, float]]:
    """The error of a mean beside that of the public rows alone, and without noise."""
    details = {
        "public_rows_alone": math.sqrt(dim * components / n_pub),
        "without_privacy": math.sqrt(dim * components / (n_pub + n)),
    }
    return em_error(dim, components, n, n_pub, budget), details


METHOD = AxisMethod(
    name="dp_em",
    learn=learn,
    draws=lambda n, dim, components, known_std: (
        draws(components, dim, known_std=known_std) + 1 + count_draws(components)
    ),
    predict=predict,
    seconds=lambda n, dim, components, size: 0.1 + STEPS * n * components * dim * 12.0 * em.ROW_SECONDS,
    held_out_choices=STEPS + 1,
    needs_public=True,
)
