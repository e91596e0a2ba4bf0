"""The class `Forecast`, which `plan` uses for each task, and the forecasts of means, of one Gaussian and of tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_args

from fastpubpriv import validation
from fastpubpriv._types import Clipping, CovarianceMethod, Mode, RowWeight, Steps, Structure
from fastpubpriv.distributions.budget_split import divide
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import grouping, quantiles, radii
from fastpubpriv.estimators.coinpress import Predictor, predict_from_ball
from fastpubpriv.estimators.count_persons import KeyPlan, checked_limit
from fastpubpriv.estimators.group_means import predict_groups
from fastpubpriv.estimators.key_lists import MOST_CELLS
from fastpubpriv.estimators.mean_methods import BALL, MeanSettings, changed_settings, method_of
from fastpubpriv.estimators.person_sizes import MORE_SHARE
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX
from fastpubpriv.estimators.radii import failure_probability, step_count
from fastpubpriv.estimators.weighted_mean import ErrorModel, checked_weight
from fastpubpriv.gaussians.gaussian_methods import METHODS as GAUSSIAN_METHODS
from fastpubpriv.gaussians.gaussian_methods import choose_method
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.mechanisms.person_keys import changed_cells
from fastpubpriv.privacy import Budget, PureDP
from fastpubpriv.privacy.calibrated_budget import row_budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.shared_docs import FAILURE_PROB

# Upper bound on all integer arguments: floats represent every integer up to it.
MOST_COUNT = 2**53
# Search ranges of rows and of budgets in rho or epsilon, within the limits of the budget types.
MOST_ROWS = 2**40
LEAST_AMOUNT = 2.0**-28
MOST_AMOUNT = 2.0**9
STRIDE = 16  # ratio of the ends of the first bracket of a search
# other maxima: a larger epsilon of pure budgets is rejected for releases with many noise draws
MOST_AMOUNTS: dict[type[Budget], float] = {PureDP: 32.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The error of a task as a function of rows and budget, its unit, and details computed only for the solution (`more`)."""

    predict: Predictor
    unit: str
    more: Callable[[int, Budget], dict[str, float]] = lambda n_priv, budget: {}
    # whether all noise is Gaussian under zCDP, for which rho implies a smaller epsilon
    gaussian: Callable[[int, Budget], bool] = lambda n_priv, budget: True


def of_persons(forecast: Forecast, rows_per_person: int) -> Forecast:
    """Return the forecast for so many rows of each person, whose number and whose budget it is then a function of."""

    def spent_on(budget: Budget) -> Budget:
        return row_budget(budget * (1 - MORE_SHARE), rows_per_person)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        return forecast.predict(n_priv * rows_per_person, spent_on(budget))

    def gaussian(n_priv: int, budget: Budget) -> bool:
        return forecast.gaussian(n_priv * rows_per_person, spent_on(budget))

    return Forecast(predict=predict, unit=forecast.unit, gaussian=gaussian)


def amounts_tried(budget: Budget) -> tuple[float, float]:
    """Return the smallest and the largest rho or epsilon of the search for budgets of this notion."""
    return LEAST_AMOUNT, MOST_AMOUNTS.get(budget.notion, MOST_AMOUNT)


Number = TypeVar("Number", int, float)


def halve(low: Number, high: Number, holds: Callable[[Number], bool], close: float = 1.0) -> Number:
    """Bisect for the least number at which monotone `holds` is true, to a factor `close`; it is false at `low`, true at `high`."""
    whole = isinstance(low, int) and isinstance(high, int)
    while high > low * close and not (whole and high - low <= 1):
        middle: Any = (low + high) // 2 if whole else math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def turning_point(
    start: Number,
    lowest: Number,
    highest: Number,
    holds: Callable[[Number], bool],
    close: float = 1.001,
) -> float:
    """Return the least number, to a factor `close`, at which monotone `holds` is true; inf if it is false at `highest`."""
    low: Any = start
    high: Any = start
    while not holds(high):
        if high >= highest:
            return math.inf
        low = high
        high = min(highest, high * STRIDE)
    if high == start:
        while low > lowest:
            high = low
            low = max(lowest, low // STRIDE if isinstance(low, int) else low / STRIDE)
            if not holds(low):
                break
        else:
            return float(lowest)
    return float(halve(low, high, holds, close))


# Validation of the arguments that have the same meaning in every task; tasks do not check them again.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "dim": partial(validation.integer, "dim", minimum=1, maximum=MOST_COUNT),
    "n_pub": partial(validation.integer, "n_pub", minimum=0, maximum=MOST_COUNT),
    "groups": partial(validation.integer, "groups", minimum=1, maximum=10_000),
    "mode": partial(validation.choice, "mode", options=("practical", "theory")),
    "pub_priv_gap": partial(validation.fraction, "pub_priv_gap"),
    "failure_prob": failure_probability,
}

# ---- `plan("mean")`, `plan("coinpress_mean")`, `plan("weighted_mean")` and `plan("gaussian")`


def plan_mean(
    *,
    dim: int,
    n_pub: int = 0,
    clipping: Clipping | MeanSettings = "auto",
    pub_priv_gap: float = 0.0,
    steps: Steps = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    groups: int | None = None,
) -> Forecast:
    """Forecast the expected l2 error of `estimate_mean`, in standard deviations of a row; "gaussian" with known covariance."""
    if n_pub < 1:
        raise InputError(
            "plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'"
        )
    changed = changed_settings(locals())
    if groups is not None:
        if clipping not in ("auto", "counts") or changed:
            raise InputError("groups= goes with the defaults of all other settings")
        return Forecast(
            predict=predict_groups(dim, n_pub, groups), unit="standard deviations within a group"
        )
    method, settings = method_of(clipping, changed)
    if method.predict is None:
        raise InputError(f"plan('mean') has no prediction for clipping={method.name!r}")
    return Forecast(predict=method.predict(dim, n_pub, settings), unit=method.unit)


def plan_coinpress_mean(
    *,
    dim: int,
    radius: float,
    steps: Steps = 2,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
) -> Forecast:
    """Forecast the expected l2 error of `coinpress_mean` from a ball of this radius, in standard deviations."""
    predict = predict_from_ball(
        dim, radii.size("radius", radius), step_count(steps), mode, failure_prob, 0
    )
    return Forecast(predict=predict, unit=BALL.unit)


def plan_weighted_mean(
    *,
    dim: int,
    norm_bound: float,
    n_pub: int = 0,
    variance: float | None = None,
    row_weight: RowWeight = "optimal",
) -> Forecast:
    """Forecast the root mean squared error of `weighted_mean`, in data units."""
    bound = radii.size("norm_bound", norm_bound)
    spread = bound**2 if variance is None else radii.size("variance", variance)
    if n_pub == 0 and row_weight == "throw_away":
        raise InputError(
            "row_weight='throw_away' keeps the public rows only: pass n_pub of at least 1"
        )

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        energy = spending_of(budget, dim).energy(dim, bound)
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
    """Forecast the relative Frobenius error of `estimate_gaussian`'s covariance; infinite if no number of rounds resolves it."""
    if n_pub < 2:
        raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
    options = Options(
        mode=mode,
        failure_prob=failure_prob,
        pub_priv_gap=pub_priv_gap,
        cond_max=max(validation.positive("cond_max", cond_max), 1.0),
        structure=validation.choice("structure", structure, get_args(Structure)),
    )
    chosen = choose_method(method, options)
    errors = chosen.predict
    if errors is None:
        able = ", ".join(
            repr(name) for name, each in GAUSSIAN_METHODS.items() if each.predict is not None
        )
        raise InputError(
            f"plan('gaussian') has no prediction for method={method!r}; it has one for {able}"
        )

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        spending = spending_of(budget, chosen.draws(dim))
        covariance, details = errors(options, dim, n_pub, n_priv, spending)
        details["without_privacy"] = math.sqrt(dim * (dim + 1) / n_priv)
        # Pinsker's inequality, with the Kullback-Leibler divergence of two close Gaussians.
        details["total_variation"] = min(
            1.0, 0.5 * math.sqrt(0.5 * covariance**2 + details["mean_error"] ** 2)
        )
        return math.inf if details.get("unresolved") else covariance, details

    return Forecast(predict=predict, unit="relative Frobenius error of the covariance")


# ---- Quantiles and counts of tables

SEEN_STDS = 4.0  # noise standard deviations above which a count is distinguished from zero
CELLS, ENDS = 10, 3  # cells of the last counts for each q, and additional cells in all
ZOOMS = 1  # typical number of rounds between the first and the last edges for columns without atoms


def plan_quantiles(
    *, dim: int, n_pub: int = 0, q: Any = (0.25, 0.5, 0.75), groups: int = 1
) -> Forecast:
    """Forecast the rank error, as a share of rows, of the least certain quantile of `quantiles`; groups have equal sizes."""
    if n_pub < 1:
        raise InputError("plan('quantiles') needs n_pub of at least 1")
    qs = quantiles.shares_of_rows(q).tolist()

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        spending = spending_of(budget, groups * quantiles.draws(dim, len(qs)))
        of_columns = spending.part(grouping.ALL_SHARE) if groups > 1 else spending
        left = spending.allowance - divide(dim, n_priv, of_columns, n_pub=n_pub).cells
        std = spending.at(left * (1 - (1 + ZOOMS) * quantiles.ZOOM)).std("counts", dim)
        n = n_priv / groups
        cells = CELLS * len(qs) + ENDS
        # The total number of rows is known, so noise below and above a quantile partly cancels (a Brownian bridge).
        noise = [std * math.sqrt(cells * each * (1.0 - each)) for each in qs]
        errors = [
            math.hypot(math.sqrt(n * each * (1.0 - each)), own)
            for each, own in zip(qs, noise, strict=True)
        ]
        worst = max(range(len(qs)), key=lambda i: errors[i])
        without = math.sqrt(n * qs[worst] * (1.0 - qs[worst]))
        return errors[worst] / n, {
            "count_std": std,
            "noise_rows": noise[worst],
            "without_privacy": without / n,
        }

    return Forecast(
        predict=predict,
        unit="share of the rows below; divided by the density, in units of the column",
    )


def plan_counts(*, cells: int) -> Forecast:
    """Forecast the noise of a count of `value_counts` with listed keys or bins, or groups times keys."""
    many = validation.integer("cells", cells, minimum=2, maximum=MOST_CELLS)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        std = spending_of(budget, many).std("count") * math.sqrt(1.0 - 1.0 / many)
        return std / n_priv, {"count_std": std, "smallest_share": SEEN_STDS * std / n_priv}

    return Forecast(predict=predict, unit="share of the rows, standard deviation of the noise")


def plan_count_persons(*, cells: int, keys_per_person: int | None = None) -> Forecast:
    """Forecast the noise of a count of `count_persons`, of which this many keys of a person count; None: all."""
    many = validation.integer("cells", cells, minimum=3, maximum=MOST_CELLS)
    limit = many if keys_per_person is None else checked_limit(keys_per_person, many)
    if limit is None:
        raise InputError(
            "plan('count_persons') needs a number as keys_per_person=, or none: all keys"
        )
    of_counts = KeyPlan(many, limit)
    changed = changed_cells(limit, many)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        spending = spending_of(budget, many + of_counts.side_cells)
        std = spending.std("keys", changed, of_counts.share)
        return std / n_priv, {"count_std": std, "smallest_share": SEEN_STDS * std / n_priv}

    return Forecast(predict=predict, unit="share of the persons, standard deviation of the noise")
