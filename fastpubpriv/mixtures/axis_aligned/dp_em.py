"""Expectation-maximisation that starts on public rows and continues on private ones, in any number of dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.kernels.densities import RowStatistic
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms.selection import check_rows
from fastpubpriv.mechanisms.sums import StatisticSum, check_sum_grids
from fastpubpriv.mixtures.axis_aligned import em
from fastpubpriv.mixtures.axis_aligned.em import PUBLIC_SEED, STD_FLOOR
from fastpubpriv.mixtures.axis_aligned.public_list import standardised
from fastpubpriv.mixtures.axis_aligned.types import AxisMethod, Learned, Task, choose, hypotheses_of, iterating
from fastpubpriv.privacy import Budget, PureDP
from fastpubpriv.release.account import Account
from fastpubpriv.run import Run, allowance_of
from fastpubpriv.sources import Rows
from fastpubpriv.sources.views import interleave_rows

STEPS = 3
GROWTH = 3  # of the budget from one iteration to the next: only the last one's noise stays in the answer
PUBLIC_STARTS = 20
# Standard deviation of what a weight was before, as evidence of what it is; and the error of a mean, in widths, beyond "ok".
UNSURE = 0.2
MOST_OPEN = 0.5
_LEAST_SHARE = 0.02
_BLOCK = 1 << 17  # numbers in one (dim, rows) array


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """One mixture: weights (k,), means and stds (k, dim)."""

    weights: FloatArray
    means: FloatArray
    stds: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """What one iteration ended with: the private share of its average, over the components, and the noise on the private sum."""

    parameters: Parameters
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


def row_statistic(chunk: Any, at: Parameters, radii: Radii) -> FloatArray:
    """Statistic of each row of a chunk (n, dim), (n, statistic_dim): shares, then first, then second moments by component.

    With r_c the posterior of component c and z_c the standardised row: r_c times (a, z_c, (z_c^2 - 1) / sqrt 2), the last two
    clipped. Zeros for a row with an entry that is not finite. Adds up in one fixed order, so that a row's numbers do not depend on
    the rows beside it.
    """
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
    at: Parameters, private: FloatArray, public: FloatArray | None, radii: Radii, *, noise: float, n: int, n_pub: int
) -> tuple[FloatArray, FloatArray]:
    """Average the statistics of private rows, public rows and "as before", each component by itself; and the private shares (k,).

    Inverse-variance weighting (paper B, equation 3): a light component has less signal under the same noise. That nothing changes
    counts as one row of the component, so that noise alone moves no component by more than its own width.
    """
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


def maximised(at: Parameters, average: FloatArray, radii: Radii, floor: FloatArray) -> Parameters:
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
    return Parameters(held / held.sum(), means, stds)


def public_start(public: FloatArray, components: int, *, known_std: bool) -> tuple[Parameters, FloatArray]:
    """The likeliest of several fits to the public rows, and the least standard deviation of each column."""
    rows, center, scale = standardised(public, known_std=known_std)
    found = em.fit(
        rows,
        em.starts(rows, components, PUBLIC_STARTS, seed=PUBLIC_SEED),
        steps=100,
        prior=0.3,
        fixed_std=known_std,
    )
    best = int(em.likeliest(found, rows)[0])
    return Parameters(
        found.weights[best], center + scale * found.means[best], scale * found.stds[best]
    ), STD_FLOOR * scale


def iteration_shares(steps: int) -> list[Fraction]:
    """Shares of the budget, each GROWTH times the one before: early iterations only have to come near."""
    total = sum(GROWTH**step for step in range(steps))
    return [Fraction(GROWTH**step, total) for step in range(steps)]


def draws(components: int, dim: int, *, known_std: bool, steps: int = STEPS) -> int:
    """Noise draws of a run."""
    return steps * statistic_dim(components, dim, known_std=known_std)


def check(account: Account, rows: Rows, components: int, *, known_std: bool, steps: int) -> None:
    """Raise now, before the debit, if an iteration with so many components has no integer grid."""
    costs = [account.allowance * part for part in iteration_shares(steps)]
    check_sum_grids(account, costs, statistic_dim(components, rows.dim, known_std=known_std), rows.n)


def iterate(task: Task, run: Run, at: Parameters, floor: FloatArray, *, steps: int) -> list[Iteration]:
    """Iterations on the private rows of a run (and the public ones, where there are any), with all of its account's budget."""
    components, dim = at.means.shape
    radii = Radii.of(dim, known_std=task.known_std)
    n, allowance = run.rows.n, run.account.allowance
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
            ),
            name=name,
            cost=allowance * part,
            clip_radius=radii.total,
        )
        public = None if task.public is None else row_statistic(task.public, at, radii).mean(axis=0)
        average, shares = shrunken(
            at, released.value / n, public, radii, noise=released.noise_std / n, n=n, n_pub=n_pub
        )
        at = maximised(at, average, radii, floor)
        path.append(Iteration(at, float(at.weights @ shares), released.noise_std))
    return path


def learn(task: Task, *, steps: int = STEPS) -> Learned:
    """Fit the public rows, then iterate on public and private rows together; with rows held out, these choose how far to go."""
    if task.public is None:
        raise InputError("method='dp_em' starts from public rows: pass x_pub")
    at, floor = public_start(task.public, task.n_components, known_std=task.known_std)
    account, rows = task.run.account, task.run.rows
    blocks = interleave_rows(rows, 100 - task.held_out, task.held_out) if task.held_out else (rows,)
    check(account, blocks[0], task.n_components, known_std=task.known_std, steps=steps)
    if task.held_out:
        check_rows(blocks[1].n, rows.dim)
    account.open()
    run = task.run.block(blocks[0]) if task.held_out else task.run
    path = iterate(task, run, at, floor, steps=steps)
    facts = {"steps": steps, "private_weight": [step.share for step in path]}
    noise = path[-1].noise_std / blocks[0].n
    if task.held_out:
        listed = [at, *(step.parameters for step in path)]
        arrays = (np.stack([getattr(each, name) for each in listed]) for name in ("weights", "means", "stds"))
        learned = choose(task, task.run.block(blocks[1]), hypotheses_of(*arrays), status="ok", diagnostics=facts)
    else:
        last = path[-1].parameters
        learned = Learned(weights=last.weights, means=last.means, stds=last.stds, diagnostics=facts)
    return replace(learned, low=lost_in_noise(learned.weights, rows.dim, blocks[0].n, len(task.public), noise))


def em_error(dim: int, components: int, n: int, n_pub: int, budget: Budget) -> float:
    """Expected l2 error of the mean of a component of average weight after the last iteration, in its standard deviations."""
    _, allowance = allowance_of(budget, draws(components, dim, known_std=False))
    radius = Radii.of(dim, known_std=False).total
    last = float(allowance * iteration_shares(STEPS)[-1])
    length = statistic_dim(components, dim, known_std=False)
    noise = math.sqrt(8.0 * length) / last if isinstance(budget, PureDP) else 2.0 / math.sqrt(2.0 * last)
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
    draws=lambda n, dim, components, known_std: draws(components, dim, known_std=known_std) + 1,
    predict=predict,
    seconds=partial(iterating, steps=STEPS),
    held_out_choices=STEPS + 1,
    needs_public=True,
)
