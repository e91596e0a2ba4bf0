"""Expectation-maximization that starts from public rows and continues on private ones, in several columns.

The rounds are those of `soft_em` with the diagonals of second moments. Finding the range of the data costs no budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import warn
from fastpubpriv.kernels.densities import RowStatistic
from fastpubpriv.kernels.tree import tree_assign
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms.sums import StatisticSum
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import em
from fastpubpriv.mixtures.axis_aligned.em import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.fit import count_draws, gaussian_tv
from fastpubpriv.mixtures.mixture import Mixture
from fastpubpriv.mixtures.public_em import axis_aligned_start
from fastpubpriv.mixtures.separated.searches import MOST_CELLS, Shape
from fastpubpriv.mixtures.separated.soft_em import (
    MOST_ROUNDS,
    RoundMoments,
    RowShares,
    SoftPlan,
    StartState,
    budget_noise,
    changed,
    check_searches,
    first_searches,
    learn_rounds,
    public_errors,
    weighed_count,
)
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import Spending, spending_of
from fastpubpriv.release.account import Account
from fastpubpriv.rowwise.row_maps import RowTree
from fastpubpriv.session import Session

_BLOCK = 1 << 17  # maximum entries of one (dim, rows) array


@dataclass(frozen=True, slots=True)
class Radii:
    """Clip radii of the three parts of a row's statistic; public functions of the dimension."""

    share: float
    first: float
    second: float

    @classmethod
    def of(cls, dim: int, *, known_std: bool, wider: float = 1.0) -> Radii:
        """Return radii a little above the norm of a standard normal, about sqrt(dim), times `wider`."""
        first = wider * (math.sqrt(dim) + 2.0)
        return cls(first / 2.0, first, 0.0 if known_std else wider * (math.sqrt(dim) + 3.0))

    @property
    def total(self) -> float:
        """Bound on the norm of a row's statistic, whose shares add up to one."""
        return math.sqrt(self.share**2 + self.first**2 + self.second**2)


def statistic_dim(components: int, dim: int, *, known_std: bool) -> int:
    """Return the length of a row's statistic."""
    return components * (1 + dim * (1 if known_std else 2))


@dataclass(frozen=True, slots=True, eq=False)
class LabelShares:
    """The component of each row by the labels of a tree, as shares 0 or 1."""

    labels: RowTree
    components: int

    def __call__(self, rows: Any) -> FloatArray:
        """Return the shares of rows (n, dim), (components, n)."""
        reached = np.empty(len(rows), dtype=np.int32)
        tree_assign(rows, self.labels, reached)
        shares: FloatArray = (reached == np.arange(self.components)[:, None]) * 1.0
        return shares


def row_statistic(
    chunk: Any, at: Mixture, radii: Radii, assigned: RowShares | None = None
) -> FloatArray:
    """Return the statistic of each row of a chunk (n, dim), (n, statistic_dim): shares, first, then second moments by component."""
    # With r_c the posterior of component c, or its share as `assigned`, and z_c the standardized row: r_c times (a, z_c,
    # (z_c^2 - 1) / sqrt 2), the last two clipped; zeros where an entry is not finite. Sums have one fixed order, so that the
    # statistic of a row does not depend on other rows.
    count, dim = chunk.shape
    with_second = radii.second > 0.0
    out = np.empty((count, statistic_dim(len(at.weights), dim, known_std=not with_second)))
    rows = RowStatistic(np.ascontiguousarray(at.means), np.ascontiguousarray(at.stds))
    size = max(1, _BLOCK // dim)
    with np.errstate(all="ignore"):
        constants = np.log(at.weights) - np.log(at.stds).sum(axis=1)
        for begin in range(0, count, size):
            part = chunk[begin : begin + size]
            distances = rows.distances(
                part if part.strides[1] == part.itemsize else np.ascontiguousarray(part)
            )
            if assigned is None:
                joint = constants[:, None] - 0.5 * distances[0]
                share = np.exp(joint - np.maximum.reduce(joint, axis=0))
                share /= group_covariances.total(share)
            else:
                share = assigned(part)
            rows.moments(
                distances,
                share,
                (radii.share, radii.first, radii.second),
                out[begin : begin + size],
            )
    return out


def advance(
    run: Session,
    public: FloatArray,
    state: StartState,
    *,
    share: Fraction,
    name: str,
    known_std: bool,
    floor: FloatArray,
) -> StartState:
    """Run one private round of means and variances, as `soft_em.advance`; `floor` (dim,) has the least standard deviations."""
    at = state.at.normalized
    k, dim = at.means.shape
    assigned = None if state.rounds else state.assigned
    if state.labels is not None:
        assigned = LabelShares(state.labels, k)
    wider = tuning.AXIS_EARLY_CLIP if state.rounds < tuning.EARLY_ROUNDS else 1.0
    wider = wider if assigned is None else tuning.AXIS_LABELED_CLIP
    radii = Radii.of(dim, known_std=known_std, wider=wider)
    statistic = partial(row_statistic, at=at, radii=radii, assigned=assigned)
    # The component of each entry of a row's statistic; norms of components' entries sum to at most the radius.
    component_of = np.concatenate(
        [np.arange(k), np.tile(np.repeat(np.arange(k), dim), 1 if known_std else 2)]
    )
    released = run.release(
        StatisticSum(
            statistic=statistic,
            dim=len(component_of),
            radius=radii.total,
            row_cost=12 * k * dim + 20 * k,
            part_of=component_of,
        ),
        name=name,
        cost=run.account.allowance * share,
        clip_radius=radii.total,
    )
    totals = statistic(public).sum(axis=0)
    m = len(public)
    count_std = released.noise_std / radii.share
    counts = released.value[:k] / radii.share
    joins = totals[:k] / radii.share
    sums, known = (each[k:].reshape(-1, k, dim) for each in (released.value, totals))
    moments = []
    for j, (count, joined, weight) in enumerate(
        zip(counts, joins, at.weights.tolist(), strict=True)
    ):
        held = weighed_count(
            float(count), count_std, joined if m else None, weight, n=run.rows.n, m=m
        )
        private = 1.0 / ((released.noise_std / held) ** 2 + 1.0 / held)
        share_of = private / (private + joined)
        noise = share_of * released.noise_std / held
        own = share_of * sums[:, j] / held + (1.0 - share_of) * known[:, j] / max(joined, 1e-12)
        own *= noise <= tuning.MOST_HIDDEN  # components hidden by noise do not change
        second = None if known_std else np.diag(1.0 + math.sqrt(2.0) * own[1] - own[0] ** 2)
        on = math.sqrt(2.0) * noise
        moments.append(
            RoundMoments(
                rows=held, public=joined, first=own[0], second=second, mean_noise=noise, on=on
            )
        )
    after = changed(state, moments, count_std=count_std)
    stds = at.stds if known_std else np.maximum(after.at.stds, floor)
    return replace(after, at=replace(after.at, scale=stds))


def lost_in_noise(weights: FloatArray, dim: int, n: int, n_pub: int, count_std: float) -> BoolArray:
    """Return which components (k,) have too large errors of means or widths from noise and sampling; `count_std` is in rows."""
    noise = count_std * Radii.of(dim, known_std=True).share / n
    precision = 1.0 / (weights / n + noise**2) + n_pub / weights
    return 1.0 / (weights * np.sqrt(precision)) > min(tuning.MOST_HIDDEN, math.sqrt(2.0 / dim))


def check(
    account: Account, n: int, dim: int, components: int, *, known_std: bool, shares: list[Fraction]
) -> None:
    """Raise before the debit if a round with this number of components has no integer grid."""
    width = statistic_dim(1, dim, known_std=known_std)
    for share in shares:
        account.spending.part(share).grid("parts", width, n, parts=components)


def whole_noise(
    dim: int, spending: Spending, *, known_std: bool = False, wider: float = 1.0
) -> float:
    """Return the standard deviation of the noise on a sum of statistics that costs the whole of a budget."""
    radius = Radii.of(dim, known_std=known_std, wider=wider).total
    return radius * spending.std("sum", statistic_dim(1, dim, known_std=known_std))


def plan_of(
    dim: int,
    k: int,
    n: int,
    n_pub: int,
    spending: Spending,
    *,
    known_std: bool = False,
) -> SoftPlan:
    """Plan the rounds from public numbers; searches are added to the public start if full covariances would not be too noisy."""
    noise = whole_noise(dim, spending, known_std=known_std, wider=tuning.AXIS_EARLY_CLIP)
    searched = (
        spending.carries_trees
        and not known_std
        and min(dim, k) > 1
        and budget_noise(dim, k, n, spending) <= tuning.NOISY
    )
    searches: dict[str, Fraction] = {}
    if searched:
        searches = first_searches(2 if n_pub < tuning.TREE_START_ROWS * k else 1)
    return SoftPlan.shared(
        noise * math.sqrt(2.0 * dim) * k / n,
        1,
        searches,
        n=n,
        entries=2 * k * dim,
        spending=spending,
        diagonal=True,
    )


def learn(task: Task) -> LearnedMixture:
    """Fit the public rows, then run rounds on public and private rows together."""
    public = task.public
    assert public is not None
    run = task.run
    account = run.account
    n = run.rows.n
    dim = run.rows.dim
    k = task.n_components
    known_std = task.known_std
    at, floor = axis_aligned_start(public, k, known_std=known_std)
    sizes = {"dim": dim, "n_pub": len(public), "n_components": k}
    shape = Shape(
        **sizes, min_weight=task.min_weight, mode="practical", failure_prob=task.failure_prob
    )
    plan = plan_of(dim, k, n, len(public), account.spending, known_std=known_std)
    check(account, n, dim, k, known_std=known_std, shares=[plan.early, plan.last])
    check_searches(plan, shape, n)
    last = whole_noise(dim, account.spending.part(plan.last), known_std=known_std)
    if (predicted := k * math.sqrt(dim) * last / n) > 1.0:
        warn(
            f"{account.name}: noise of {predicted:.3g} standard deviations is predicted on a component's mean; pass a larger "
            "budget, more private rows, or fewer components or columns",
        )
    account.open()
    errors = public_errors(at.weights, *public.shape, diagonal=True)
    start = StartState(name="public", at=at, errors=errors)
    state, facts = learn_rounds(
        run, public, shape, plan, [start], partial(advance, known_std=known_std, floor=floor)
    )
    at = state.at.normalized
    learned = LearnedMixture(
        at=at,
        diagnostics={"rounds": state.rounds, **facts},
        low=lost_in_noise(at.weights, dim, n, len(public), state.count_std),
        predicted=gaussian_tv(*state.errors),
    )
    return em.measured(task, learned, run)


def most_draws(n: int, dim: int, components: int, *, known_std: bool) -> int:
    """Return the maximum noise draws of a run: rounds, searches and the count."""
    draws = (
        MOST_ROUNDS * statistic_dim(components, dim, known_std=known_std)
        + 16
        + count_draws(components)
    )
    return draws + 2 * components * (dim**2 + tuning.ATTEMPTS * MOST_CELLS)


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: Budget
) -> tuple[float, dict[str, float]]:
    """Return the expected l2 error of the mean of an average component, in its standard deviations, and comparisons."""
    spending = spending_of(budget, most_draws(n, dim, components, known_std=False))
    plan = plan_of(dim, components, n, n_pub, spending)
    noise = whole_noise(dim, spending.part(plan.last))
    private = 1.0 / (components * n) + (noise / n) ** 2
    public = 1.0 / (components * n_pub) if n_pub else math.inf
    details = {
        "public_rows_alone": math.sqrt(dim * components / n_pub),
        "without_privacy": math.sqrt(dim * components / (n_pub + n)),
    }
    return components * math.sqrt(dim / (1.0 / private + 1.0 / public)), details


METHOD = AxisMethod(
    name="dp_em",
    learn=learn,
    draws=most_draws,
    predict=predict,
    seconds=lambda n, dim, components, size: (
        0.3 + tuning.TYPICAL_STEPS * n * components * dim * 12.0 * em.ROW_SECONDS
    ),
    needs_public=True,
    columns="several",
)
