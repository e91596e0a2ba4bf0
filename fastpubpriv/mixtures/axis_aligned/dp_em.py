"""Expectation-maximization that starts from public rows and continues on private ones, in several columns.

The rounds are those of `soft_em` with the diagonals of second moments. Public rows show the range of the data; where they are too
few to show the components, directions that private rows show give another start (`private_start`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from fastpubpriv.errors import warn
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_method, private_start
from fastpubpriv.mixtures.axis_aligned.axis_method import AxisMethod, LearnedMixture, Task
from fastpubpriv.mixtures.em_rounds import (
    StartState,
    check_axis_rounds,
    lost_in_noise,
    public_errors,
    statistic_dim,
    whole_noise,
)
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


def plan_of(
    dim: int,
    k: int,
    n: int,
    spending: Spending,
    *,
    known_std: bool = False,
    n_pub: int | None = None,
) -> EmRoundPlan:
    """Plan the rounds by public numbers; k-means groups are a second start where races are cheap.

    With `n_pub` public rows, directions that private rows show are the second start where these rows are few; their share is
    `EmRoundPlan.search`.
    """
    noise = whole_noise(dim, spending, known_std=known_std, wider=tuning.AXIS_EARLY_CLIP)
    relative = noise * math.sqrt(2.0 * dim) * k / n
    is_precise = spending.carries_trees and relative <= tuning.NOISY
    search = Fraction(0)
    if is_precise and n_pub is not None:
        search = private_start.share_near_public(n_pub, dim, k)
    races = (
        spending.carries_trees
        and not known_std
        and min(dim, k) > 1
        and budget_noise(dim, k, n, spending) <= tuning.NOISY
    )
    return EmRoundPlan.of_noise(
        relative,
        2 if races or search else 1,
        n=n,
        entries=2 * k * dim,
        spending=spending,
        search=search,
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
    plan = plan_of(dim, k, n, account.spending, known_std=known_std, n_pub=len(public))
    if plan.search:
        private_start.check_near_public(account.spending, n, dim)
    check_axis_rounds(account, n, dim, k, known_std=known_std, shares=[plan.early, plan.last])
    last = whole_noise(dim, account.spending.part(plan.last), known_std=known_std)
    if (predicted := k * math.sqrt(dim) * last / n) > 1.0:
        warn(
            f"{account.name}: noise of {predicted:.3g} standard deviations is predicted on a component's mean; pass a larger "
            "budget, more private rows, or fewer components or columns",
        )
    account.open()
    if plan.search:
        at = private_start.start_near_public(task, public)
        starts.append(StartState(name="private directions", at=at, known_std=known_std))
    elif plan.starts > 1:
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
    return rounds + 16 + private_start.draws_near_public(dim) + count_draws(components)


def predict(
    n: int, dim: int, components: int, n_pub: int, budget: Budget
) -> tuple[float, dict[str, float]]:
    """Return the expected l2 error of the mean of an average component, in its standard deviations, and comparisons."""
    spending = spending_of(budget, most_draws(n, dim, components, known_std=False))
    plan = plan_of(dim, components, n, spending, n_pub=n_pub)
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
