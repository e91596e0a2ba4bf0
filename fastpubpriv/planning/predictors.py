"""Predicted errors of the estimators as functions of (n_priv, budget): public numbers only, no data."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.learners import learner_draws
from fastpubpriv.estimators.preconditioner import precondition_bounds, trace_bounds
from fastpubpriv.estimators.radii import MAX_AUTO_STEPS, Mode, best_steps, expected_normal_norm, predict_steps
from fastpubpriv.estimators.weighted_mean import ErrorModel, checked_weight, noise_energy
from fastpubpriv.privacy import Budget, PureDP, gaussian_rho, laplace_epsilon
from fastpubpriv.run import noise_per_radius

# error and details of a task for (n_priv, budget)
Predictor = Callable[[int, Budget], tuple[float, dict[str, float]]]


def allowance_of(budget: Budget, draws: int) -> tuple[bool, Fraction]:
    """Whether a budget is pure, and what its releases may add up to, as an account works it out."""
    pure = isinstance(budget, PureDP)
    return pure, laplace_epsilon(budget, draws) if pure else gaussian_rho(budget, draws)


def coinpress_predictor(
    dim: int, radius: float, steps: int | str, mode: Mode, failure_prob: float, n_pub: int
) -> Predictor:
    """Expected l2 error of CoinPress from a ball, in standard deviations."""

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, MAX_AUTO_STEPS * dim)
        noise = noise_per_radius(dim, pure=pure, allowance=allowance)
        count = (
            best_steps(dim, n_priv, radius, noise_per_radius=noise, mode=mode, failure_prob=failure_prob)
            if isinstance(steps, str)
            else steps
        )
        path = predict_steps(
            dim, n_priv, radius, steps=count, noise_per_radius=noise, mode=mode, failure_prob=failure_prob
        )
        details = {
            "steps": float(count),
            "radius": radius,
            "clip_radius": path[-1].clip_radius,
            "noise_std": path[-1].noise_std,
            "without_privacy": expected_normal_norm(dim) / math.sqrt(n_priv),
        }
        if n_pub:
            details["public_rows_alone"] = expected_normal_norm(dim) / math.sqrt(n_pub)
        return path[-1].error, details

    return predict


def weighted_predictor(
    dim: int, n_pub: int, norm_bound: float, variance: float, row_weight: str | float, k_norm: bool
) -> Predictor:
    """Root mean squared error of the weighted mean, in data units."""

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, 2 * dim + 1)
        energy = noise_energy(dim, norm_bound, float(allowance), pure=pure, k_norm=k_norm and pure)
        model = ErrorModel(n_priv=n_priv, n_pub=n_pub, variance=variance, noise=energy)
        weight = checked_weight(row_weight, n_priv)
        details = {
            "private_weight": model.weight(weight),
            "throw_away": math.sqrt(model.mean_squared_error("throw_away")) if n_pub else math.inf,
            "gaussian": math.sqrt(model.mean_squared_error("gaussian")),
            "without_privacy": math.sqrt(variance / (n_priv + n_pub)),
        }
        return math.sqrt(model.mean_squared_error(weight)), details

    return predict


def gaussian_predictor(
    dim: int, n_pub: int, pub_priv_gap: float, mode: Mode, failure_prob: float, cond_max: float
) -> Predictor:
    """Relative Frobenius error of the covariance of `estimate_gaussian`; infinite when no number of rounds resolves it."""
    # Half of the failure probability belongs to the public rows, as in the estimator.
    if n_pub > dim:
        lower, upper, mean_radius = precondition_bounds(dim, n_pub, pub_priv_gap, failure_prob / 2.0)
        condition = upper / lower
    else:
        _, mean_radius, slack = trace_bounds(dim, n_pub, pub_priv_gap, failure_prob / 2.0)
        condition = cond_max * slack

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, learner_draws(dim, "lifted_coinpress"))
        problem = lifted.Problem(
            dim=dim, n=n_priv, mean_radius=mean_radius, condition=condition, mode=mode, failure_prob=failure_prob
        )
        noise = lifted.gram_noise(problem.lifted, pure=pure, allowance=allowance)
        rounds, under_resolved = lifted.choose_rounds(problem, noise)
        per_row = noise_per_radius(dim, pure=pure, allowance=allowance)
        covariance, mean = lifted.predicted_errors(problem, rounds, noise, per_row(lifted.MEAN_SHARE))
        details = {
            "rounds": float(rounds),
            "under_resolved": float(under_resolved),
            "mean_error": mean,
            "condition": condition,
            "mean_radius": mean_radius,
            "clip_radius": problem.row_radius(rounds),
            "without_privacy": math.sqrt(dim * (dim + 1) / n_priv),
            "public_rows_alone": math.sqrt(dim * (dim + 1) / (n_pub - 1)),
            # Pinsker, with the divergence of two close Gaussians.
            "total_variation": min(1.0, 0.5 * math.sqrt(0.5 * covariance**2 + mean**2)),
        }
        return math.inf if under_resolved else covariance, details

    return predict
