"""What `learn_axis_aligned_mixture` will do with public sizes: method, lists, rows, time."""

from __future__ import annotations

import math
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.mechanisms.selection.hypotheses import slack_at
from fastpubpriv.mixtures.axis_aligned import anchors, dp_em, univariate
from fastpubpriv.mixtures.axis_aligned.learn import METHODS, MOST_CANDIDATES, MOST_COMPONENTS, TABLE, chosen_method
from fastpubpriv.mixtures.list_decoding.sizes import mixture_sizes, wanted_accuracy
from fastpubpriv.planning.predictors import Predictor, allowance_of
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP

UNIT = "total variation beyond 3 times that of the best candidate (dp_em: standard deviations, a mean's l2 error)"

# Seconds on one core of a small shared machine, fitted to a table of runs: an order of magnitude, no more.
_SEARCH_SECONDS = 0.25  # of candidates for one column, for each component
_ROW_SECONDS = 4e-9  # of a pass, for each number that a row is turned into
_PAIR_SECONDS = 5e-8  # of two candidates on the line
_DENSITY_SECONDS = 2.5e-11  # of a product of densities in more columns


def choice_rows(method: str, n: int) -> int:
    """Rows that the choice among candidates is made on."""
    shares = {"univariate": univariate.SHARES, "anchors": anchors.SHARES, "theory": (1, 1, 1)}.get(method, (1,))
    return max(1, n * shares[-1] // sum(shares))


def em_error(dim: int, components: int, n: int, n_pub: int, budget: Budget) -> float:
    """Expected l2 error of the mean of a component of average weight after the last iteration, in its standard deviations."""
    _, allowance = allowance_of(budget, dp_em.draws(components, dim, known_std=False))
    radius = dp_em.Radii.of(dim, known_std=False).total
    last = float(allowance * dp_em.iteration_shares(dp_em.STEPS)[-1])
    length = dp_em.statistic_dim(components, dim, known_std=False)
    noise = math.sqrt(8.0 * length) / last if isinstance(budget, PureDP) else 2.0 / math.sqrt(2.0 * last)
    private = 1.0 / (components * n) + (radius * noise / n) ** 2
    public = 1.0 / (components * n_pub) if n_pub else math.inf
    return components * math.sqrt(dim / (1.0 / private + 1.0 / public))


def seconds(method: str, n: int, dim: int, components: int, size: int) -> float:
    """Rough run time on one core."""
    pairs = size * size / 2.0
    if method == "dp_em":
        return 0.1 + dp_em.STEPS * n * components * dim * 12.0 * _ROW_SECONDS
    if method == "univariate":
        return _SEARCH_SECONDS * components + 60.0 * n * _ROW_SECONDS + pairs * _PAIR_SECONDS / 10.0
    density = 2.0 * pairs * components * (dim + 4) * (1024 + choice_rows(method, n) / 2.0) * _DENSITY_SECONDS
    if method == "anchors":
        work = anchors.STEPS * n * components * dim * 3.0 * _ROW_SECONDS
        return dim * _SEARCH_SECONDS * components / 2.0 + work + density
    return 0.3 + (pairs * _PAIR_SECONDS + 60.0 * n * _ROW_SECONDS if dim == 1 else density)


def axis_aligned_predictor(
    dim: int, n_pub: int, n_components: Any, candidates: Any, method: str, failure_prob: float
) -> Predictor:
    """Slack of the choice (or error of a mean, for "dp_em"), with the length of its list and a time in the details."""
    if n_components is None:
        raise InputError("plan('axis_aligned_mixture') needs n_components=")
    components = validation.integer("n_components", n_components, minimum=1, maximum=MOST_COMPONENTS)
    wanted = validation.choice("method", method, METHODS)
    if candidates is not None:
        candidates = validation.integer("candidates", candidates, minimum=2, maximum=MOST_CANDIDATES)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        # Too few rows for the blocks are an infinite error, so that rows can be solved for.
        least = max(each.blocks for each in TABLE.values())
        chosen = chosen_method(wanted, dim=dim, n_priv=max(n_priv, least), has_public=n_pub > 0, budget=budget)
        size = TABLE[chosen].candidates if candidates is None else candidates
        details = {
            "candidates": float(size),
            "choice_rows": float(choice_rows(chosen, n_priv)),
            "seconds": seconds(chosen, n_priv, dim, components, size),
        }
        if chosen == "dp_em":
            error = em_error(dim, components, n_priv, n_pub, budget)
            details["public_rows_alone"] = math.sqrt(dim * components / n_pub)
            details["without_privacy"] = math.sqrt(dim * components / (n_pub + n_priv))
            return error, details
        amount = float(budget.amounts[0])
        epsilon = math.sqrt(8.0 * amount) if isinstance(budget, ZCDP) else amount
        rows = choice_rows(chosen, n_priv)
        details["without_privacy"] = slack_at(size, rows, math.inf, failure_prob)
        return slack_at(size, rows, epsilon, failure_prob), details

    return predict


def distant_details(
    components: int, dim: int, n_pub: int, n_priv: int, budget: Budget, method: str
) -> dict[str, float]:
    """Rows that components need of which no two share a scale, where scales are searched for."""
    chosen = chosen_method(method, dim=dim, n_priv=n_priv, has_public=n_pub > 0, budget=budget)
    if chosen != "univariate" or not isinstance(budget, ApproxDP):
        return {}
    return {"distant_components_rows": float(univariate.rows_for_distant(components, budget))}


def theory_details(
    components: int, dim: int, accuracy: float | None, budget: Budget, failure_prob: float
) -> dict[str, float]:
    """What the paper's algorithm would need, where it is defined: an (epsilon, delta) budget. Takes about a second."""
    accuracy = 0.1 if accuracy is None else wanted_accuracy(accuracy)
    if not isinstance(budget, ApproxDP):
        return {}
    try:
        sizes = mixture_sizes(components, dim, accuracy, budget, failure_prob=failure_prob)
    except (InfeasibleError, BudgetError, InputError):
        return {}
    return {
        "theory_accuracy": accuracy,
        "theory_log10_candidates": sizes.log10_candidates,
        "theory_rows": float(sizes.rows),
        "theory_scales": float(sizes.scales),
        "theory_means_per_scale": float(sizes.means_per_scale),
        "theory_weights": float(sizes.weights),
    }
