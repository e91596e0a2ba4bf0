"""`plan("separated_mixture")`."""

from __future__ import annotations

import math

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.estimators.radii import Mode, failure_probability
from fastpubpriv.methods import allowance_of
from fastpubpriv.mixtures.separated.leaf_gaussians import leaf_costs
from fastpubpriv.mixtures.separated.learn import (
    LADDER_STAGE,
    LIFTED_STAGE,
    SEARCH_SHARE,
    check_components,
    component_errors,
)
from fastpubpriv.mixtures.separated.searches import METHODS as SEARCH_METHODS, Shape, choose_method as choose_search, search_draws, tree_depth
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count
from fastpubpriv.planning.mixtures import mixture_needs
from fastpubpriv.privacy import Budget, PureDP


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
