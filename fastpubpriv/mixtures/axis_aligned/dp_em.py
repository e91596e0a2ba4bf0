"""Expectation-maximization that starts from public rows and continues on private ones, in several columns.

The rounds are those of `soft_em` with the diagonals of second moments. Finding the range of the data costs no budget.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import warn
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.em_rounds import Radii, StartState, public_errors, statistic_dim
from fastpubpriv.mixtures.fit import count_draws, gaussian_tv
from fastpubpriv.mixtures.public_em import PublicFit, axis_aligned_start, grouped_fit, likeliest_fit
from fastpubpriv.mixtures.separated.soft_em import (
    MOST_ROUNDS,
    EmRoundPlan,
    budget_noise,
    run_rounds,
)
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import Spending, spending_of
from fastpubpriv.release.account import Account


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
    spending: Spending,
    *,
    known_std: bool = False,
) -> EmRoundPlan:
    """Plan the rounds by public numbers; k-means groups are a second start where races are cheap."""
    noise = whole_noise(dim, spending, known_std=known_std, wider=tuning.AXIS_EARLY_CLIP)
    races = (
        spending.carries_trees
        and not known_std
        and min(dim, k) > 1
        and budget_noise(dim, k, n, spending) <= tuning.NOISY
    )
    return EmRoundPlan.of_noise(
        noise * math.sqrt(2.0 * dim) * k / n,
        2 if races else 1,
        n=n,
        entries=2 * k * dim,
        spending=spending,
        diagonal=True,
    )


def public_start(task: Task, name: str, fit: PublicFit) -> StartState:
    """Return the start at a fit to the public rows."""
    assert task.public is not None
    at = axis_aligned_start(task.public, task.n_components, known_std=task.known_std, fit=fit)
    errors = public_errors(at.weights, *task.public.shape, diagonal=True)
    return StartState(name=name, at=at, errors=errors, known_std=task.known_std)


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
    starts = [public_start(task, "public", likeliest_fit)]
    plan = plan_of(dim, k, n, account.spending, known_std=known_std)
    check(account, n, dim, k, known_std=known_std, shares=[plan.early, plan.last])
    last = whole_noise(dim, account.spending.part(plan.last), known_std=known_std)
    if (predicted := k * math.sqrt(dim) * last / n) > 1.0:
        warn(
            f"{account.name}: noise of {predicted:.3g} standard deviations is predicted on a component's mean; pass a larger "
            "budget, more private rows, or fewer components or columns",
        )
    account.open()
    if plan.starts > 1:
        starts.append(public_start(task, "public, k-means", grouped_fit))
    state, facts = run_rounds(run, public, plan, starts)
    at = state.at.normalized
    low = lost_in_noise(at.weights, dim, n, len(public), state.count_std)
    learned = LearnedMixture(
        at=at,
        diagnostics={"rounds": state.rounds, **facts},
        low=low,
        predicted=gaussian_tv(*state.errors),
        may_be_merged=len(public) < tuning.FEWEST_ROWS * k,
    )
    return axis_method.measured(task, learned, run)


def most_draws(n: int, dim: int, components: int, *, known_std: bool) -> int:
    """Return the maximum noise draws of a run: rounds and the count."""
    rounds = MOST_ROUNDS * statistic_dim(components, dim, known_std=known_std)
    return rounds + 16 + count_draws(components)


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: Budget
) -> tuple[float, dict[str, float]]:
    """Return the expected l2 error of the mean of an average component, in its standard deviations, and comparisons."""
    spending = spending_of(budget, most_draws(n, dim, components, known_std=False))
    plan = plan_of(dim, components, n, spending)
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
    seconds=lambda n, dim, components: (
        0.3 + tuning.TYPICAL_STEPS * n * components * dim * 12.0 * axis_method.ROW_SECONDS
    ),
    needs_public=True,
    columns="several",
)
