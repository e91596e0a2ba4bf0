"""`plan("axis_aligned_mixture")`: method, lists, rows, time."""

from __future__ import annotations

import math

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.mechanisms.selection.hypotheses import slack_at
from fastpubpriv.mixtures.axis_aligned.learn import METHODS as AXIS_ALIGNED_METHODS, MOST_CANDIDATES, MOST_COMPONENTS, chosen_method
from fastpubpriv.mixtures.list_decoding.sizes import mixture_sizes, wanted_accuracy
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget

UNIT = "total variation beyond 3 times that of the best candidate (dp_em: standard deviations, a mean's l2 error)"


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

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        # With too few rows for the blocks the error is infinite, so that `plan` can solve for rows.
        least = max(each.least_rows for each in AXIS_ALIGNED_METHODS.values())
        chosen = AXIS_ALIGNED_METHODS[chosen_method(wanted, dim=dim, n_priv=max(n_priv, least), has_public=n_pub > 0, budget=budget)]
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
        chosen = AXIS_ALIGNED_METHODS[chosen_method(wanted, dim=dim, n_priv=n_priv, has_public=n_pub > 0, budget=budget)]
        if not isinstance(budget, ApproxDP):
            return {}
        own = {} if chosen.details is None else chosen.details(components, budget)
        return own | list_decoding_details(components, dim, closeness, budget, failure)

    def gaussian(n_priv: int, budget: Budget) -> bool:
        chosen = AXIS_ALIGNED_METHODS[chosen_method(wanted, dim=dim, n_priv=n_priv, has_public=n_pub > 0, budget=budget)]
        return chosen.predict is not None  # the others choose from a list

    return Forecast(predict=predict, unit=UNIT, more=more, gaussian=gaussian)


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
