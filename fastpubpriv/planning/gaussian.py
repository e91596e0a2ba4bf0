"""`plan("gaussian")`."""

from __future__ import annotations

import math

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import lifted
from fastpubpriv.estimators.gaussian import choose_method
from fastpubpriv.estimators.ladder.estimate import METHOD as LADDER
from fastpubpriv.estimators.ladder.norms import CountShares
from fastpubpriv.estimators.ladder.public_base import plain_strength
from fastpubpriv.estimators.ladder.rungs import outlook
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.estimators.learners import METHODS as GAUSSIAN_METHODS
from fastpubpriv.estimators.preconditioned import DEFAULT_COND_MAX, Options
from fastpubpriv.estimators.preconditioner import precondition_bounds, trace_bounds
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.methods import Method, allowance_of
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count
from fastpubpriv.privacy import Budget


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
        able = ", ".join(repr(name) for name, each in GAUSSIAN_METHODS.items() if each.predict is not None or each is LADDER)
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
