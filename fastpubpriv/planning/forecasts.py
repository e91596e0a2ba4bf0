"""Forecasts of means, of one Gaussian and of tables for `plan`, made of what the estimators predict."""

from __future__ import annotations

import math
from typing import Any

from fastpubpriv import validation
from fastpubpriv._types import Clipping, CovarianceMethod, Mode, RowWeight, Steps, Structure
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import count_persons, quantiles, value_counts, weighted_mean
from fastpubpriv.estimators.coinpress import coinpress_mean, predict_from_ball
from fastpubpriv.estimators.count_persons import checked_limit
from fastpubpriv.estimators.group_means import predict_groups
from fastpubpriv.estimators.key_lists import MOST_CELLS
from fastpubpriv.estimators.mean import estimate_mean
from fastpubpriv.estimators.mean_methods import (
    BALL,
    BallSettings,
    MeanSettings,
    changed_settings,
    method_of,
)
from fastpubpriv.estimators.radii import size
from fastpubpriv.gaussians.gaussian import estimate_gaussian
from fastpubpriv.gaussians.gaussian_methods import METHODS as GAUSSIAN_METHODS
from fastpubpriv.gaussians.gaussian_methods import choose_method
from fastpubpriv.gaussians.gaussian_options import Options
from fastpubpriv.planning.tasks import Forecast, defaults_of
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.session import PredictedError


@defaults_of(estimate_mean)
def plan_mean(
    *,
    dim: int,
    n_pub: int = 0,
    clipping: Clipping | MeanSettings,
    pub_priv_gap: float,
    steps: Steps,
    mode: Mode,
    failure_prob: float,
    groups: int | None = None,
) -> Forecast:
    """Forecast the expected l2 error of `estimate_mean`, in standard deviations of a row; "gaussian" with known covariance."""
    changed = changed_settings(locals())
    if n_pub < 1:
        raise InputError(
            "plan('mean') needs n_pub of at least 1; without public rows plan 'coinpress_mean'"
        )
    if groups is not None:
        others = [*changed]
        if clipping not in ("auto", "counts"):
            others.insert(0, "clipping")
        if others:
            raise InputError(
                f"groups= goes with the defaults of all other settings: leave out {', '.join(others)}"
            )
        return Forecast(
            predict=predict_groups(dim, n_pub, groups), unit="standard deviations within a group"
        )
    method, settings = method_of(clipping, changed)
    if method.predict is None:
        raise InputError(f"plan('mean') has no prediction for clipping={method.name!r}")
    return Forecast(
        predict=method.predict(dim, n_pub, settings), unit=method.unit, one_row=not method.gaps
    )


@defaults_of(coinpress_mean)
def plan_coinpress_mean(
    *, dim: int, radius: float, steps: Steps, mode: Mode, failure_prob: float
) -> Forecast:
    """Forecast the expected l2 error of `coinpress_mean` from a ball of this radius, in standard deviations."""
    ball = BallSettings(steps=steps, mode=mode, failure_prob=failure_prob).checked()
    reach = size("radius", radius)
    predict = predict_from_ball(dim, reach, ball.steps, ball.mode, ball.failure_prob, n_pub=0)
    return Forecast(predict=predict, unit=BALL.unit, one_row=True)


@defaults_of(weighted_mean.weighted_mean)
def plan_weighted_mean(
    *,
    dim: int,
    norm_bound: float,
    n_pub: int = 0,
    variance: float | None,
    row_weight: RowWeight,
) -> Forecast:
    """Forecast the root mean squared error of `weighted_mean`, in data units."""
    bound = size("norm_bound", norm_bound)
    spread = bound**2 if variance is None else size("variance", variance)
    if n_pub == 0 and row_weight == "throw_away":
        raise InputError(
            "row_weight='throw_away' keeps the public rows only: pass n_pub of at least 1"
        )
    return Forecast(
        predict=weighted_mean.predict(dim, n_pub, bound, spread, row_weight),
        unit="data units, root mean squared l2 distance",
        one_row=True,
    )


@defaults_of(estimate_gaussian)
def plan_gaussian(
    *,
    dim: int,
    n_pub: int = 0,
    method: CovarianceMethod,
    structure: Structure,
    pub_priv_gap: float,
    mode: Mode,
    failure_prob: float,
    cond_max: float,
) -> Forecast:
    """Forecast the relative Frobenius error of `estimate_gaussian`'s covariance; infinite if no number of rounds resolves it."""
    if n_pub < 2:
        raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
    options = Options(
        mode=mode,
        failure_prob=failure_prob,
        pub_priv_gap=pub_priv_gap,
        cond_max=cond_max,
        structure=structure,
    ).checked()
    chosen = choose_method(method, options)
    errors = chosen.predict
    if errors is None:
        able = [repr(name) for name, each in GAUSSIAN_METHODS.items() if each.predict is not None]
        raise InputError(
            f"plan('gaussian') has no prediction for method={method!r}; it has one for {', '.join(able)}"
        )

    def predict(n_priv: int, budget: Budget) -> PredictedError:
        spending = spending_of(budget, chosen.draws(dim))
        covariance, details = errors(options, dim, n_pub, n_priv, spending)
        # Pinsker's inequality, with the Kullback-Leibler divergence of two close Gaussians.
        distance = 0.5 * math.sqrt(0.5 * covariance**2 + details["mean_error"] ** 2)
        details["without_privacy"] = math.sqrt(dim * (dim + 1) / n_priv)
        details["total_variation"] = min(1.0, distance)
        return math.inf if details.get("unresolved") else covariance, details

    return Forecast(
        predict=predict,
        unit="relative Frobenius error of the covariance",
        one_row=bool(chosen.one_row_argument(options)),
    )


@defaults_of(quantiles.quantiles)
def plan_quantiles(*, dim: int, n_pub: int = 0, q: Any, groups: int = 1) -> Forecast:
    """Forecast the rank error, as a share of rows, of the least certain quantile of `quantiles`; groups have equal sizes."""
    if n_pub < 1:
        raise InputError("plan('quantiles') needs n_pub of at least 1")
    return Forecast(
        predict=quantiles.predict(dim, n_pub, quantiles.shares_of_rows(q).tolist(), groups),
        unit="share of the rows below; divided by the density, in units of the column",
    )


def plan_counts(*, cells: int) -> Forecast:
    """Forecast the noise of a count of `value_counts` with listed keys or bins, or groups times keys."""
    many = validation.integer("cells", cells, minimum=2, maximum=MOST_CELLS)
    return Forecast(
        predict=value_counts.predict(many),
        unit="share of the rows, standard deviation of the noise",
    )


def plan_count_persons(*, cells: int, keys_per_person: int | None = None) -> Forecast:
    """Forecast the noise of a count of `count_persons`, of which this many keys of a person count; None: all."""
    many = validation.integer("cells", cells, minimum=3, maximum=MOST_CELLS)
    limit = many if keys_per_person is None else checked_limit(keys_per_person, many)
    if limit is None:
        raise InputError(
            "plan('count_persons') cannot know what 'auto' chooses: pass a number as keys_per_person=, or leave it out for all keys"
        )
    return Forecast(
        predict=count_persons.predict(many, limit),
        unit="share of the persons, standard deviation of the noise",
    )
