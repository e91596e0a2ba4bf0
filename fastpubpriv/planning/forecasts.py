"""`Forecast`, and what each task except `train` gives to `plan`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.columns.shares import divide, draws
from fastpubpriv.estimators.gaussian import choose_method
from fastpubpriv.estimators.ladder.estimate import METHOD as LADDER
from fastpubpriv.estimators.ladder.norms import CountShares
from fastpubpriv.estimators.ladder.public_base import plain_strength
from fastpubpriv.estimators.ladder.rungs import outlook
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.estimators.learners import METHODS as GAUSSIAN_METHODS
from fastpubpriv.estimators.preconditioned import DEFAULT_COND_MAX, Options
from fastpubpriv.estimators.preconditioner import precondition_bounds, trace_bounds
from fastpubpriv.estimators.radii import (
    MAX_AUTO_STEPS,
    Mode,
    best_steps,
    expected_normal_norm,
    failure_probability,
    gap_radius,
    predict_steps,
    size,
    step_count,
)
from fastpubpriv.estimators.weighted_mean import ErrorModel, checked_weight, noise_energy
from fastpubpriv.mechanisms.scores import CELLS, MOST_DENSITIES
from fastpubpriv.mechanisms.selection import MOST_COMPARED, closed_form_rows, pairs_of, slack_at
from fastpubpriv.mixtures.axis_aligned.learn import METHODS as AXIS_ALIGNED_METHODS
from fastpubpriv.mixtures.axis_aligned.learn import MOST_CANDIDATES, MOST_COMPONENTS, chosen_method
from fastpubpriv.mixtures.list_decoding.results import mixture_sizes, wanted_accuracy
from fastpubpriv.mixtures.separated.leaf_estimates import leaf_costs
from fastpubpriv.mixtures.separated.learn import (
    LADDER_STAGE,
    LIFTED_STAGE,
    SEARCH_SHARE,
    check_components,
    component_errors,
)
from fastpubpriv.mixtures.separated.searches import METHODS as SEARCH_METHODS
from fastpubpriv.mixtures.separated.searches import Shape, search_draws, tree_depth
from fastpubpriv.mixtures.separated.searches import choose_method as choose_search
from fastpubpriv.planning.orders import mixture_needs
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP
from fastpubpriv.session import Method, allowance_of, noise_per_radius
from fastpubpriv.shared_docs import FAILURE_PROB

# `Forecast`, which each task gives to `plan`: its error for rows and a budget, from public numbers only.

# error and details of a task for (n_priv, budget)
Predictor = Callable[[int, Budget], tuple[float, dict[str, float]]]
# Limit on everything that is counted: a float holds every whole number up to here.
MOST_COUNT = 2**53
# Search range of rows, and of a budget in rho or epsilon: what the budget types accept.
MOST_ROWS = 2**40
LEAST_AMOUNT, MOST_AMOUNT = 2.0**-28, 2.0**9
MOST_PURE = 32.0  # a larger epsilon is refused as pure where much noise is drawn


def nothing_more(n_priv: int, budget: Budget) -> dict[str, float]:
    """No further details."""
    return {}


def always(n_priv: int, budget: Budget) -> bool:
    """True."""
    return True


def never(n_priv: int, budget: Budget) -> bool:
    """False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details that are worked out once, for the solution.

    `gaussian`: whether all noise would be Gaussian under zCDP, so that rho implies a smaller epsilon.
    """

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = nothing_more
    gaussian: Callable[[int, Budget], bool] = always


def budget_maker(notion: type[Budget], delta: Any = None) -> Callable[[float], Budget]:
    """Budgets of a notion by their rho or epsilon; `delta` belongs to ApproxDP."""
    if delta is not None:
        return lambda amount: ApproxDP(epsilon=amount, delta=delta)
    return (lambda amount: PureDP(epsilon=amount)) if notion is PureDP else (lambda amount: ZCDP(rho=amount))


def count(name: str, value: Any, *, minimum: int = 0) -> int:
    """A checked number of rows or columns."""
    return validation.integer(name, value, minimum=minimum, maximum=MOST_COUNT)


# `plan("mean")`, `plan("coinpress_mean")` and `plan("weighted_mean")`.


def plan_mean(
    *,
    dim: int,
    n_pub: int = 0,
    clipping: str = "auto",
    pub_priv_gap: float = 0.0,
    steps: int | str = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Expected l2 error of `estimate_mean`, in standard deviations of a row; for "gaussian" clipping with known covariance."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_pub < 1:
        raise InputError("plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'")
    if validation.choice("clipping", clipping, ("auto", "gaussian")) == "auto":
        if (pub_priv_gap, steps, mode, failure_prob) != (0.0, 2, "practical", FAILURE_PROB):
            raise InputError("pub_priv_gap, steps, mode and failure_prob belong to clipping='gaussian': leave them out")
        return _from_counts(dim, n_pub)
    gap = validation.fraction("pub_priv_gap", pub_priv_gap)
    failure = failure_probability(failure_prob)
    return _from_ball(dim, gap_radius(dim, n_pub, failure / 2.0, gap), steps, mode, failure, n_pub)


def _from_counts(dim: int, n_pub: int) -> Forecast:
    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, draws(dim))
        shares = divide(dim, n_priv, allowance, pure=pure, n_pub=n_pub)
        root = math.sqrt(dim)
        error = shares.predicted_error()
        details = {
            "count_share": float(shares.cells / allowance),
            "count_std": shares.count_std,
            "noise_std": math.sqrt(max(0.0, error**2 - 1.0 / n_priv)),
            "without_privacy": root / math.sqrt(n_priv),
            "public_rows_alone": root / math.sqrt(n_pub),
        }
        return root * error, details

    return Forecast(predict=predict, unit="standard deviations, root mean squared l2 distance")


def plan_coinpress_mean(
    *,
    dim: int,
    radius: float | None = None,
    steps: int | str = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Expected l2 error of `coinpress_mean` from a ball of this radius, in standard deviations."""
    if radius is None:
        raise InputError("plan('coinpress_mean') needs radius=, that of the ball that holds the mean")
    dim = count("dim", dim, minimum=1)
    return _from_ball(dim, size("radius", radius), steps, mode, failure_probability(failure_prob), 0)


def _from_ball(dim: int, radius: float, steps: Any, mode: Any, failure_prob: float, n_pub: int) -> Forecast:
    checked_mode: Mode = validation.choice("mode", mode, ("practical", "theory"))
    steps = step_count(steps)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, MAX_AUTO_STEPS * dim)
        settings: dict[str, Any] = {
            "noise_per_radius": noise_per_radius(dim, pure=pure, allowance=allowance),
            "mode": checked_mode,
            "failure_prob": failure_prob,
        }
        number = best_steps(dim, n_priv, radius, **settings) if isinstance(steps, str) else steps
        last = predict_steps(dim, n_priv, radius, steps=number, **settings)[-1]
        details = {
            "steps": float(number),
            "radius": radius,
            "clip_radius": last.clip_radius,
            "noise_std": last.noise_std,
            "without_privacy": expected_normal_norm(dim) / math.sqrt(n_priv),
        }
        if n_pub:
            details["public_rows_alone"] = expected_normal_norm(dim) / math.sqrt(n_pub)
        return last.error, details

    return Forecast(predict=predict, unit="standard deviations, expected l2 distance")


def plan_weighted_mean(
    *,
    dim: int,
    n_pub: int = 0,
    norm_bound: float | None = None,
    variance: float | None = None,
    row_weight: str | float = "optimal",
    noise: str = "laplace",
) -> Forecast:
    """Root mean squared error of `weighted_mean`, in data units."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if norm_bound is None:
        raise InputError("plan('weighted_mean') needs norm_bound=, the radius to which rows are clipped")
    bound = size("norm_bound", norm_bound)
    spread = bound**2 if variance is None else size("variance", variance)
    validation.choice("noise", noise, ("laplace",))
    if n_pub == 0 and row_weight == "throw_away":
        raise InputError("row_weight='throw_away' keeps the public rows only: pass n_pub of at least 1")

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, dim)
        energy = noise_energy(dim, bound, float(allowance), pure=pure)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=spread, noise=energy)
        weight = checked_weight(row_weight, n_priv)
        details = {
            "private_weight": model.weight(weight),
            "throw_away": math.sqrt(model.mean_squared_error("throw_away")) if n_pub else math.inf,
            "gaussian": math.sqrt(model.mean_squared_error("gaussian")),
            "without_privacy": math.sqrt(spread / (n_priv + n_pub)),
        }
        return math.sqrt(model.mean_squared_error(weight)), details

    return Forecast(predict=predict, unit="data units, root mean squared l2 distance")


# `plan("gaussian")`.


def plan_gaussian(
    *,
    dim: int,
    n_pub: int = 0,
    method: str = "auto",
    structure: str = "auto",
    pub_priv_gap: float = 0.0,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    cond_max: float = DEFAULT_COND_MAX,
) -> Forecast:
    """Relative Frobenius error of the covariance of `estimate_gaussian`; infinite when no number of rounds resolves it."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_pub < 2:
        raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
    options = Options(
        mode=validation.choice("mode", mode, ("practical", "theory")),
        failure_prob=failure_probability(failure_prob),
        pub_priv_gap=validation.fraction("pub_priv_gap", pub_priv_gap),
        cond_max=max(validation.positive("cond_max", cond_max), 1.0),
    )
    chosen, structure = choose_method(method, structure, options)
    if chosen.predict is None and chosen is not LADDER:
        able = ", ".join(
            repr(name) for name, each in GAUSSIAN_METHODS.items() if each.predict is not None or each is LADDER
        )
        raise InputError(f"plan('gaussian') has no prediction for method={method!r}; it has one for {able}")
    return _ladder(dim, n_pub, structure) if chosen is LADDER else _preconditioned(dim, n_pub, chosen, options)


def _ladder(dim: int, n_pub: int, structure: str) -> Forecast:
    """The rung that public rows without special structure would lead to, and the errors predicted for all rungs.

    The public rows themselves may lead to another one, for example if all columns have one scale.
    """
    strength = plain_strength(dim, n_pub)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, LADDER.draws(dim))
        noise = Noise(pure, allowance)
        view = outlook(strength, n_priv, noise, CountShares.of(n_priv, noise))
        taken = view.best if structure == "auto" else structure
        details = {"mean_error": view.rungs[taken].mean}
        for name, each in view.rungs.items():
            details[f"takes_{name}"] = float(name == taken)
            details[f"{name}_covariance_error"] = each.covariance
            details[f"{name}_mean_error"] = each.mean
        details["without_privacy"] = math.sqrt(dim * (dim + 1) / n_priv)
        found = view.rungs[taken]
        details["total_variation"] = min(1.0, 0.5 * math.sqrt(0.5 * found.covariance**2 + found.mean**2))
        return found.covariance, details

    return Forecast(predict=predict, unit="relative Frobenius error of the covariance")


def _preconditioned(dim: int, n_pub: int, chosen: Method, options: Options) -> Forecast:
    """The error of a method that starts from bounds which hold for the least favourable public rows."""
    predict_errors, failure, gap = chosen.predict, options.failure_prob, options.pub_priv_gap
    assert predict_errors is not None
    # Half of the failure probability belongs to the public rows, as in the estimator.
    if n_pub > dim:
        lower, upper, mean_radius = precondition_bounds(dim, n_pub, gap, failure / 2.0)
        condition = upper / lower
    else:
        _, mean_radius, slack = trace_bounds(dim, n_pub, gap, failure / 2.0)
        condition = options.cond_max * slack

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, chosen.draws(dim))
        problem = lifted.Problem(
            dim=dim, n=n_priv, mean_radius=mean_radius, condition=condition, mode=options.mode, failure_prob=failure
        )
        found: lifted.Prepared = predict_errors(problem, pure=pure, allowance=allowance)
        covariance, mean = found.covariance_error, found.mean_error
        details = {
            "rounds": float(found.rounds),
            "under_resolved": float(found.status == "under_resolved"),
            "mean_error": mean,
            "condition": condition,
            "mean_radius": mean_radius,
            "clip_radius": problem.row_radius(found.rounds),
            "without_privacy": math.sqrt(dim * (dim + 1) / n_priv),
            "public_rows_alone": math.sqrt(dim * (dim + 1) / (n_pub - 1)),
            # Pinsker, with the divergence of two close Gaussians.
            "total_variation": min(1.0, 0.5 * math.sqrt(0.5 * covariance**2 + mean**2)),
        }
        return math.inf if found.status == "under_resolved" else covariance, details

    return Forecast(predict=predict, unit="relative Frobenius error of the covariance")


# `plan("axis_aligned_mixture")`: method, lists, rows, time.

AXIS_ALIGNED_UNIT = (
    "total variation beyond 3 times that of the best candidate (dp_em: standard deviations, a mean's l2 error)"
)


def plan_axis_aligned_mixture(
    *,
    dim: int,
    n_pub: int = 0,
    n_components: int | None = None,
    candidates: int | None = None,
    method: str = "auto",
    accuracy: float | None = None,
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Forecast the slack of the choice (for "dp_em" the error of a mean); the details have the length of its list and a time."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_components is None:
        raise InputError("plan('axis_aligned_mixture') needs n_components=")
    components = validation.integer("n_components", n_components, minimum=1, maximum=MOST_COMPONENTS)
    wanted = AXIS_ALIGNED_METHODS.choose(method)
    if candidates is not None:
        candidates = validation.integer("candidates", candidates, minimum=2, maximum=MOST_CANDIDATES)
    failure = failure_probability(failure_prob)
    closeness = 0.1 if accuracy is None else wanted_accuracy(accuracy)

    def chosen_for(n_priv: int, budget: Budget) -> Any:
        name = chosen_method(wanted, dim=dim, n_priv=n_priv, has_public=n_pub > 0, budget=budget)
        return AXIS_ALIGNED_METHODS[name]

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        # With too few rows for the blocks the error is infinite, so that `plan` can solve for rows.
        chosen = chosen_for(max(n_priv, *(each.least_rows for each in AXIS_ALIGNED_METHODS.values())), budget)
        size = chosen.candidates if candidates is None else candidates
        details = {
            "candidates": float(size),
            "choice_rows": float(chosen.choice_rows(n_priv)),
            "seconds": chosen.seconds(n_priv, dim, components, size),
        }
        if chosen.predict is not None:
            error, more = chosen.predict(n_priv, dim, components, n_pub, budget)
            return error, details | more
        amount = float(budget.amounts[0])
        epsilon = math.sqrt(8.0 * amount) if isinstance(budget, ZCDP) else amount
        rows = chosen.choice_rows(n_priv)
        details["without_privacy"] = slack_at(size, rows, math.inf, failure)
        return slack_at(size, rows, epsilon, failure), details

    def more(n_priv: int, budget: Budget) -> dict[str, float]:
        chosen = chosen_for(n_priv, budget)
        if not isinstance(budget, ApproxDP):
            return {}
        own = {} if chosen.details is None else chosen.details(components, budget)
        return own | list_decoding_details(components, dim, closeness, budget, failure)

    def gaussian(n_priv: int, budget: Budget) -> bool:
        return chosen_for(n_priv, budget).predict is not None  # the others choose from a list

    return Forecast(predict=predict, unit=AXIS_ALIGNED_UNIT, more=more, gaussian=gaussian)


def list_decoding_details(
    components: int, dim: int, accuracy: float, budget: ApproxDP, failure_prob: float
) -> dict[str, float]:
    """What the algorithm of paper C would need, where it is defined. Takes about a second."""
    try:
        sizes = mixture_sizes(components, dim, accuracy, budget, failure_prob=failure_prob)
    except (InfeasibleError, BudgetError, InputError):
        return {}
    return {
        "list_decoding_accuracy": accuracy,
        "list_decoding_log10_candidates": sizes.log10_candidates,
        "list_decoding_rows": float(sizes.rows),
        "list_decoding_scales": float(sizes.scales),
        "list_decoding_means_per_scale": float(sizes.means_per_scale),
        "list_decoding_weights": float(sizes.weights),
    }


# `plan("select_hypothesis")`.

SELECTION_UNIT = "total variation beyond 3 times that of the best hypothesis, with probability 1 - failure_prob"


def plan_select_hypothesis(*, dim: int, candidates: int | None = None, failure_prob: float = FAILURE_PROB) -> Forecast:
    """Slack of `select_hypothesis` over a list of `candidates`."""
    dim, failure_prob = count("dim", dim, minimum=1), failure_probability(failure_prob)
    if candidates is None:
        raise InputError("plan('select_hypothesis') needs candidates=, the length of the list")
    size = validation.integer(
        "candidates", candidates, minimum=2, maximum=MOST_COMPARED if dim == 1 else MOST_DENSITIES
    )

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        # Permute-and-flip at epsilon, or the exponential mechanism at the epsilon with epsilon^2 / 8 = rho.
        epsilon = math.inf
        if isinstance(budget, ZCDP):
            epsilon = math.sqrt(8.0 * float(budget.rho))
        elif isinstance(budget, PureDP | ApproxDP):
            epsilon = float(budget.epsilon)
        slack = slack_at(size, n_priv, epsilon, failure_prob)
        sampling = slack_at(size, n_priv, math.inf, failure_prob)
        details = {
            "epsilon": epsilon,
            "without_privacy": sampling,
            "choice": slack - sampling,
            "comparisons": float(pairs_of(size) * (CELLS if dim == 1 else n_priv)),
        }
        if slack < 0.5:
            details["closed_form_rows"] = float(closed_form_rows(size, 2.0 * slack, epsilon, failure_prob))
        return slack, details

    return Forecast(predict=predict, unit=SELECTION_UNIT, gaussian=never)


# `plan("separated_mixture")`.


def plan_separated_mixture(
    *,
    dim: int,
    n_pub: int = 0,
    n_components: int | None = None,
    min_weight: float | None = None,
    method: str = "auto",
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Relative Frobenius error of the covariance of the smallest component, once it has been found."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_components is None or min_weight is None:
        raise InputError("plan('separated_mixture') needs n_components= and min_weight=")
    if n_pub < 2:
        raise InputError("plan('separated_mixture') needs n_pub of at least 2, better 2 to 20 for each component")
    # As many private rows as components there will be.
    k, weight = check_components(n_components, min_weight, n_pub, n_pub)
    wanted = SEARCH_METHODS.choose(method)
    checked_mode: Mode = validation.choice("mode", mode, ("practical", "theory"))
    failure = failure_probability(failure_prob)
    shape = Shape(dim=dim, n_pub=n_pub, n_components=k, min_weight=weight, mode=checked_mode, failure_prob=failure)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure = isinstance(budget, PureDP)
        chosen = choose_search(wanted, shape, pure=pure)
        depth = tree_depth(chosen, shape)
        if pure and depth:
            raise BudgetError("PureDP cannot pay for a search that reads private rows; pass method='public_pca'")
        stage = LADDER_STAGE if checked_mode == "practical" else LIFTED_STAGE
        _, allowance = allowance_of(budget, search_draws(chosen, shape) + stage.draws(dim, k))
        search = allowance * SEARCH_SHARE if depth else 0 * allowance
        rows = n_priv * weight
        found = component_errors(shape, n_priv, pure=pure, allowance=allowance - search)
        counts = float(leaf_costs(allowance - search, pure=pure).counts)
        noise = math.sqrt(8.0) / counts if pure else 1.0 / math.sqrt(counts)
        details = {
            "mean_error": found.mean,
            "weight_error": math.hypot(math.sqrt(weight * (1.0 - weight) / n_priv), noise / n_priv),
            "search_depth": float(depth),
            "search_share": float(search / allowance),
            "without_privacy": math.sqrt(dim * (dim + 1) / max(1.0, rows)),
            "public_rows_worst_case": mixture_needs(
                n_priv=n_priv, n_components=k, min_weight=weight, failure_prob=failure
            ).public_rows,
        }
        if depth:
            # Spectral norm of the noise on the second moment of unit rows, for each row of the smallest component.
            share = float(search / depth * chosen.directions_share)
            details["direction_noise"] = math.sqrt(2.0 * dim / share) / rows
        return found.covariance, details

    return Forecast(predict=predict, unit="relative Frobenius error of the smallest component's covariance")
