"""`Forecast`, which each task gives to `plan`, and those of means and of one Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.columns.scales import divide, draws
from fastpubpriv.estimators.gaussian import choose_method
from fastpubpriv.estimators.ladder.learn import METHOD as LADDER
from fastpubpriv.estimators.ladder.public_base import plain_strength
from fastpubpriv.estimators.ladder.schedule import CountShares, Noise, outlook
from fastpubpriv.estimators.learners import METHODS as GAUSSIAN_METHODS
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX, Options, precondition_bounds, trace_bounds
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
STRIDE = 16  # factor between the ends of the first range that is tried
MOST_PURE = 32.0  # a larger epsilon is refused as pure where much noise is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details that are worked out once, for the solution.

    `gaussian`: whether all noise would be Gaussian under zCDP, so that rho implies a smaller epsilon.
    """

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = lambda n_priv, budget: {}
    gaussian: Callable[[int, Budget], bool] = lambda n_priv, budget: True


def budget_maker(notion: type[Budget], delta: Any = None) -> Callable[[float], Budget]:
    """Budgets of a notion by their rho or epsilon; `delta` belongs to ApproxDP."""
    if delta is not None:
        return lambda amount: ApproxDP(epsilon=amount, delta=delta)
    return (lambda amount: PureDP(epsilon=amount)) if notion is PureDP else (lambda amount: ZCDP(rho=amount))


def most_amount(budget: Budget) -> float:
    """The largest rho or epsilon that is tried for budgets like this one."""
    return MOST_PURE if isinstance(budget, PureDP) else MOST_AMOUNT


Number = TypeVar("Number", int, float)


def halve(low: Number, high: Number, holds: Callable[[Number], bool], close: float = 1.0) -> Number:
    """The least number from which `holds` is true, to a factor `close`; it is false at `low` and true at `high`."""
    whole = isinstance(low, int)
    while high > low * close and not (whole and high - low <= 1):
        middle: Any = (low + high) // 2 if whole else math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def turning_point(start: Number, lowest: Number, highest: Number, holds: Callable[[Number], bool]) -> float:
    """About the least number, to 0.1 %, from which `holds` is true; infinite where it is false even at the highest."""
    low: Any = start
    high: Any = start
    while not holds(high):
        if high >= highest:
            return math.inf
        low, high = high, min(highest, high * STRIDE)
    if high == start:
        while low > lowest:
            high, low = low, max(lowest, low // STRIDE if isinstance(low, int) else low / STRIDE)
            if not holds(low):
                break
        else:
            return float(lowest)
    return float(halve(low, high, holds, 1.001))


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
