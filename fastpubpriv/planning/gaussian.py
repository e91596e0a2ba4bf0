"""`plan("gaussian")`."""

from __future__ import annotations

import math

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.gaussian import DEFAULT_COND_MAX
from fastpubpriv.estimators.learners import METHODS
from fastpubpriv.estimators.preconditioner import precondition_bounds, trace_bounds
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.methods import allowance_of
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count
from fastpubpriv.privacy import Budget


def plan_gaussian(
    *,
    dim: int,
    n_pub: int = 0,
    method: str = "lifted_coinpress",
    pub_priv_gap: float = 0.0,
    mode: Mode = "practical",
    failure_prob: float = FAILURE_PROB,
    cond_max: float = DEFAULT_COND_MAX,
) -> Forecast:
    """Relative Frobenius error of the covariance of `estimate_gaussian`; infinite when no number of rounds resolves it."""
    dim, n_pub = count("dim", dim, minimum=1), count("n_pub", n_pub)
    if n_pub < 2:
        raise InputError("plan('gaussian') needs n_pub of at least 2, better dim + 1")
    chosen = METHODS[METHODS.choose(method)]
    predict_errors = chosen.predict
    if predict_errors is None:
        able = ", ".join(repr(name) for name, each in METHODS.items() if each.predict is not None)
        raise InputError(f"plan('gaussian') has no prediction for method={method!r}; it has one for {able}")
    gap = validation.fraction("pub_priv_gap", pub_priv_gap)
    checked_mode: Mode = validation.choice("mode", mode, ("practical", "theory"))
    failure = failure_probability(failure_prob)
    widest = max(validation.positive("cond_max", cond_max), 1.0)
    # Half of the failure probability belongs to the public rows, as in the estimator.
    if n_pub > dim:
        lower, upper, mean_radius = precondition_bounds(dim, n_pub, gap, failure / 2.0)
        condition = upper / lower
    else:
        _, mean_radius, slack = trace_bounds(dim, n_pub, gap, failure / 2.0)
        condition = widest * slack

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, chosen.draws(dim))
        problem = lifted.Problem(
            dim=dim, n=n_priv, mean_radius=mean_radius, condition=condition, mode=checked_mode, failure_prob=failure
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
