"""`Forecast`, which each task gives to `plan`, and those of means, of one Gaussian and of tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_args

from fastpubpriv import validation
from fastpubpriv._types import Clipping, CovarianceMethod, Mode, PureNoise, RowWeight, Steps, Structure
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import quantiles, radii
from fastpubpriv.estimators.columns.scales import divide
from fastpubpriv.estimators.gaussian import choose_method
from fastpubpriv.estimators.gaussian_methods import METHODS as GAUSSIAN_METHODS
from fastpubpriv.estimators.group_means import predict_groups
from fastpubpriv.estimators.mean import BALL, MeanSettings, Predictor, method_of, predict_from_ball
from fastpubpriv.estimators.mean import METHODS as MEAN_METHODS
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX, Options
from fastpubpriv.estimators.radii import failure_probability, step_count
from fastpubpriv.estimators.value_counts import MOST_CELLS
from fastpubpriv.estimators.weighted_mean import ErrorModel, checked_weight, noise_energy
from fastpubpriv.privacy import Budget, PureDP
from fastpubpriv.session import allowance_of
from fastpubpriv.shared_docs import FAILURE_PROB

# Limit on everything that is counted: a float holds every whole number up to here.
MOST_COUNT = 2**53
# Search range of rows, and of a budget in rho or epsilon: what the budget types accept.
MOST_ROWS = 2**40
LEAST_AMOUNT, MOST_AMOUNT = 2.0**-28, 2.0**9
STRIDE = 16  # factor between the ends of the first range that is tried
MOST_PURE = 32.0  # a larger epsilon is refused as pure where much noise is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details that are worked out once, for the solution."""

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = lambda n_priv, budget: {}
    # whether all noise would be Gaussian under zCDP, so that rho implies a smaller epsilon
    gaussian: Callable[[int, Budget], bool] = lambda n_priv, budget: True


def amounts_tried(budget: Budget) -> tuple[float, float]:
    """The smallest and the largest rho or epsilon that are tried for budgets like this one."""
    return LEAST_AMOUNT, MOST_PURE if isinstance(budget, PureDP) else MOST_AMOUNT


Number = TypeVar("Number", int, float)


def halve(low: Number, high: Number, holds: Callable[[Number], bool], close: float = 1.0) -> Number:
    """The least number from which `holds` is true, to a factor `close`; it is false at `low` and true at `high`."""
    whole = isinstance(low, int) and isinstance(high, int)
    while high > low * close and not (whole and high - low <= 1):
        middle: Any = (low + high) // 2 if whole else math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def turning_point(
    start: Number, lowest: Number, highest: Number, holds: Callable[[Number], bool], close: float = 1.001
) -> float:
    """The least number, to a factor `close`, from which `holds` is true; infinite where it is false even at the highest."""
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
    return float(halve(low, high, holds, close))


# Arguments that mean the same in every task; what is checked here, a task takes as it is.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "dim": partial(validation.integer, "dim", minimum=1, maximum=MOST_COUNT),
    "n_pub": partial(validation.integer, "n_pub", minimum=0, maximum=MOST_COUNT),
    "groups": partial(validation.integer, "groups", minimum=1, maximum=10_000),
    "mode": partial(validation.choice, "mode", options=("practical", "theory")),
    "pub_priv_gap": partial(validation.fraction, "pub_priv_gap"),
    "failure_prob": failure_probability,
}

# `plan("mean")`, `plan("coinpress_mean")` and `plan("weighted_mean")`.


def plan_mean(
    *,
    dim: int,
    n_pub: int = 0,
    clipping: Clipping = "auto",
    pub_priv_gap: float = 0.0,
    steps: Steps = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    groups: int | None = None,
) -> Forecast:
    """Expected l2 error of `estimate_mean`, in standard deviations of a row; for "gaussian" clipping with known covariance."""
    if n_pub < 1:
        raise InputError("plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'")
    settings = MeanSettings(pub_priv_gap=pub_priv_gap, failure_prob=failure_prob, steps=step_count(steps), mode=mode)
    if groups is not None:
        if (clipping, pub_priv_gap, steps, mode, failure_prob) != ("auto", 0.0, 2, "practical", FAILURE_PROB):
            raise InputError("groups= goes with the defaults of all other settings")
        return Forecast(predict=predict_groups(dim, n_pub, groups), unit="standard deviations within a group")
    method = method_of(MEAN_METHODS.choose(clipping, "clipping"), settings)
    if method.ignored(settings):
        raise InputError("pub_priv_gap, steps, mode and failure_prob belong to clipping='gaussian': leave them out")
    if method.predict is None:
        raise InputError(f"plan('mean') has no prediction for clipping={clipping!r}")
    return Forecast(predict=method.predict(dim, n_pub, settings), unit=method.unit)


def plan_coinpress_mean(
    *,
    dim: int,
    radius: float | None = None,
    steps: Steps = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Expected l2 error of `coinpress_mean` from a ball of this radius, in standard deviations."""
    if radius is None:
        raise InputError("plan('coinpress_mean') needs radius=, that of the ball that holds the mean")
    predict = predict_from_ball(dim, radii.size("radius", radius), step_count(steps), mode, failure_prob, 0)
    return Forecast(predict=predict, unit=BALL.unit)


def plan_weighted_mean(
    *,
    dim: int,
    n_pub: int = 0,
    norm_bound: float | None = None,
    variance: float | None = None,
    row_weight: RowWeight = "optimal",
    noise: PureNoise = "laplace",
) -> Forecast:
    """Root mean squared error of `weighted_mean`, in data units."""
    if norm_bound is None:
        raise InputError("plan('weighted_mean') needs norm_bound=, the radius to which rows are clipped")
    bound = radii.size("norm_bound", norm_bound)
    spread = bound**2 if variance is None else radii.size("variance", variance)
    validation.choice("noise", noise, ("laplace",))
    if n_pub == 0 and row_weight == "throw_away":
        raise InputError("row_weight='throw_away' keeps the public rows only: pass n_pub of at least 1")

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, dim)
        energy = noise_energy(dim, bound, float(allowance), pure=pure)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=spread, noise=energy)
        weight = checked_weight(row_weight, n_priv)
        return math.sqrt(model.mean_squared_error(weight)), {
            "private_weight": model.weight(weight),
            "throw_away": math.sqrt(model.mean_squared_error("throw_away")) if n_pub else math.inf,
            "gaussian": math.sqrt(model.mean_squared_error("gaussian")),
            "without_privacy": math.sqrt(spread / (n_priv + n_pub)),
        }

    return Forecast(predict=predict, unit="data units, root mean squared l2 distance")


def plan_gaussian(
    *,
    dim: int,
    n_pub: int = 0,
    method: CovarianceMethod = "auto",
    structure: Structure = "auto",
    pub_priv_gap: float = 0.0,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    cond_max: float = DEFAULT_COND_MAX,
) -> Forecast:
    """Relative Frobenius error of the covariance of `estimate_gaussian`; infinite when no number of rounds resolves it."""
    if n_pub < 2:
        raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
    options = Options(
        mode=mode,
        failure_prob=failure_prob,
        pub_priv_gap=pub_priv_gap,
        cond_max=max(validation.positive("cond_max", cond_max), 1.0),
        structure=validation.choice("structure", structure, get_args(Structure)),
    )
    errors = choose_method(method, options).predict
    if errors is None:
        able = ", ".join(repr(name) for name, each in GAUSSIAN_METHODS.items() if each.predict is not None)
        raise InputError(f"plan('gaussian') has no prediction for method={method!r}; it has one for {able}")

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        covariance, details = errors(options, dim, n_pub, n_priv, budget)
        details["without_privacy"] = math.sqrt(dim * (dim + 1) / n_priv)
        # Pinsker, with the divergence of two close Gaussians.
        details["total_variation"] = min(1.0, 0.5 * math.sqrt(0.5 * covariance**2 + details["mean_error"] ** 2))
        return math.inf if details.get("unresolved") else covariance, details

    return Forecast(predict=predict, unit="relative Frobenius error of the covariance")


# Quantiles and counts of tables.

SEEN_STDS = 4.0  # of noise, from which a count is told from none
CELLS, ENDS = 10, 3  # of the last counts, for each q and in all
ZOOMS = 1  # rounds between the first edges and the last ones, as columns without atoms usually take


def plan_quantiles(*, dim: int, n_pub: int = 0, q: Any = (0.25, 0.5, 0.75), groups: int = 1) -> Forecast:
    """Error of the rank, as a share, of the least certain quantile of `quantiles`; all groups have as many rows."""
    if n_pub < 1:
        raise InputError("plan('quantiles') needs n_pub of at least 1")
    qs = quantiles.shares_of_rows(q).tolist()

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, groups * quantiles.draws(dim, len(qs)))
        share = allowance * quantiles.ALL_SHARE if groups > 1 else allowance
        left = allowance - divide(dim, n_priv, share, pure=pure, n_pub=n_pub).cells
        cost = float(left * (1 - quantiles.FIRST - ZOOMS * quantiles.ZOOM))
        std, n = math.sqrt(8.0) * dim / cost if pure else math.sqrt(dim / cost), n_priv / groups
        cells = CELLS * len(qs) + ENDS
        # Counts below and above a quantile pull at each other, since all rows are in some cell.
        noise = [std * math.sqrt(cells * each * (1.0 - each)) for each in qs]
        errors = [math.hypot(math.sqrt(n * each * (1.0 - each)), own) for each, own in zip(qs, noise, strict=True)]
        worst = max(range(len(qs)), key=lambda i: errors[i])
        without = math.sqrt(n * qs[worst] * (1.0 - qs[worst]))
        return errors[worst] / n, {"count_std": std, "noise_rows": noise[worst], "without_privacy": without / n}

    return Forecast(predict=predict, unit="share of the rows below; divided by the density, in units of the column")


def plan_counts(*, cells: int | None = None) -> Forecast:
    """Noise of a count of `value_counts` and `crosstab` with listed keys, or groups times keys."""
    if cells is None:
        raise InputError("plan('counts') needs cells=, the combinations of keys, with '(other)' and '(missing)'")
    many = validation.integer("cells", cells, minimum=2, maximum=MOST_CELLS)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, many)
        std = math.sqrt(8.0) / float(allowance) if pure else 1.0 / math.sqrt(float(allowance))
        std *= math.sqrt(1.0 - 1.0 / many)
        return std / n_priv, {"count_std": std, "smallest_share": SEEN_STDS * std / n_priv}

    return Forecast(predict=predict, unit="share of the rows, standard deviation of the noise")
