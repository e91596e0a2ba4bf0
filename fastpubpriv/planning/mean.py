"""`plan("mean")`, `plan("coinpress_mean")` and `plan("weighted_mean")`."""

from __future__ import annotations

import math
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.columns.shares import divide, draws
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
from fastpubpriv.methods import allowance_of
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count
from fastpubpriv.privacy import Budget
from fastpubpriv.run import noise_per_radius


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
