"""Forecasts of mixtures and of the selection of hypotheses for `plan`."""

from __future__ import annotations

import contextlib
import math
from typing import Any, get_args

from fastpubpriv import validation
from fastpubpriv._types import AxisMixtureMethod, MixtureMethod, Mode
from fastpubpriv.errors import BudgetError, InfeasibleError, InputError
from fastpubpriv.mechanisms import selection
from fastpubpriv.mechanisms.scores import CELLS, MOST_DENSITIES
from fastpubpriv.mixtures import mixture_tuning as tuning
from fastpubpriv.mixtures.axis_aligned import axis_aligned_mixture as axis_aligned
from fastpubpriv.mixtures.axis_aligned import bounded_range, list_method
from fastpubpriv.mixtures.fit import count_draws, count_share
from fastpubpriv.mixtures.list_decoding.results import mixture_sizes, wanted_accuracy
from fastpubpriv.mixtures.select import select_hypothesis
from fastpubpriv.mixtures.separated import leaf_gaussians, searches, without_public
from fastpubpriv.mixtures.separated import separated_mixture as separated
from fastpubpriv.mixtures.separated.soft_em import EmRoundPlan, soft_draws
from fastpubpriv.planning.tasks import Forecast, defaults_of
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.spending import noise_of, spending_of
from fastpubpriv.session import PredictedError

# ---- `plan("axis_aligned_mixture")`: method, lists, rows, time

AXIS_ALIGNED_UNIT = "standard deviations, a mean's l2 error (list_decoding: total variation beyond 3 times the best candidate's)"


@defaults_of(axis_aligned.learn_axis_aligned_mixture)
def plan_axis_aligned_mixture(
    *,
    dim: int,
    n_components: int,
    n_pub: int = 0,
    method: AxisMixtureMethod,
    accuracy: float | None,
    bounds: Any,
    failure_prob: float,
) -> Forecast:
    """Forecast the error of a mean, for "list_decoding" the slack of the selection; time, and length of a list, in the details."""
    components = validation.integer(
        "n_components", n_components, minimum=1, maximum=axis_aligned.MOST_COMPONENTS
    )
    wanted = axis_aligned.METHODS.choose(method)
    closeness = 0.1 if accuracy is None else wanted_accuracy(accuracy)
    box = validation.column_bounds(bounds, dim, endless=True)

    def chosen_for(n_priv: int, budget: Budget) -> Any:
        return axis_aligned.chosen_method(
            wanted, dim=dim, n_priv=n_priv, has_public=n_pub > 0, budget=budget, box=box
        )

    def predict(n_priv: int, budget: Budget) -> PredictedError:
        # With too few rows for the blocks the error is infinite and no exception, so that `plan` can solve for rows.
        least = max(each.least_rows for each in axis_aligned.METHODS.values())
        chosen = chosen_for(max(n_priv, least), budget)
        details = {"seconds": chosen.seconds(n_priv, dim, components)}
        if chosen.predict is not None:
            error, more = chosen.predict(n_priv, dim, components, n_pub, budget)
            return error, details | more
        size = list_method.MAX_CANDIDATES
        rows = list_method.choice_rows(n_priv)
        details |= {
            "candidates": float(size),
            "choice_rows": float(rows),
            "without_privacy": selection.slack_at(size, rows, math.inf, failure_prob),
        }
        return selection.slack_at(
            size, rows, selection.choice_epsilon(budget), failure_prob
        ), details

    def more(n_priv: int, budget: Budget) -> dict[str, float]:
        chosen = chosen_for(n_priv, budget)
        if not has_delta(budget):
            return {}
        details = dict[str, float]()
        if chosen.details is not None and not n_pub:
            details |= chosen.details(components, budget)
        # What the algorithm of paper C requires takes about a second, and is undefined for very long lists.
        with contextlib.suppress(InfeasibleError, BudgetError, InputError):
            sizes = mixture_sizes(components, dim, closeness, budget, failure_prob=failure_prob)
            details["list_decoding_accuracy"] = closeness
            for name in ("log10_candidates", "rows", "scales", "means_per_scale", "weights"):
                details[f"list_decoding_{name}"] = float(getattr(sizes, name))
        return details

    def gaussian(n_priv: int, budget: Budget) -> bool:
        # the other methods select from a list
        return chosen_for(n_priv, budget).predict is not None

    has_range = n_pub > 0 or bounded_range.covers(box)
    return Forecast(
        predict=predict, unit=AXIS_ALIGNED_UNIT, more=more, gaussian=gaussian, one_row=not has_range
    )


# ---- `plan("select_hypothesis")`

SELECTION_UNIT = (
    "total variation beyond 3 times that of the best hypothesis, with probability 1 - failure_prob"
)


@defaults_of(select_hypothesis)
def plan_select_hypothesis(*, dim: int, candidates: int, failure_prob: float) -> Forecast:
    """Forecast the slack of `select_hypothesis` over a list of `candidates` hypotheses."""
    size = validation.integer(
        "candidates",
        candidates,
        minimum=2,
        maximum=selection.MOST_COMPARED if dim == 1 else MOST_DENSITIES,
    )

    def predict(n_priv: int, budget: Budget) -> PredictedError:
        epsilon = selection.choice_epsilon(budget)
        slack = selection.slack_at(size, n_priv, epsilon, failure_prob)
        sampling = selection.slack_at(size, n_priv, math.inf, failure_prob)
        details = {
            "epsilon": epsilon,
            "without_privacy": sampling,
            "choice": slack - sampling,
            "comparisons": float(selection.pairs_of(size) * (CELLS if dim == 1 else n_priv)),
        }
        if slack < 0.5:
            details["closed_form_rows"] = float(
                selection.closed_form_rows(size, 2.0 * slack, epsilon, failure_prob)
            )
        return slack, details

    return Forecast(
        predict=predict, unit=SELECTION_UNIT, gaussian=lambda n_priv, budget: False, one_row=True
    )


# ---- `plan("separated_mixture")`


def public_rows_for(k: int, weight: float, failure_prob: float) -> float:
    """Return the public rows after which every one of k components has half of its expected share (Chernoff)."""
    return 8.0 * math.log(k / failure_prob) / weight


@defaults_of(separated.learn_separated_mixture)
def plan_separated_mixture(
    *,
    dim: int,
    n_components: int,
    n_pub: int = 0,
    min_weight: float | None,
    method: MixtureMethod,
    mode: Mode,
    bounds: Any,
    failure_prob: float,
) -> Forecast:
    """Forecast the relative Frobenius error of the smallest component's covariance, given that the component was identified."""
    if n_pub == 1:
        raise InputError(
            "plan('separated_mixture') needs n_pub of at least 2, better 2 to 20 for each component, or 0 for none"
        )
    # The number of private rows is not known yet: any number passes its check.
    k, weight = leaf_gaussians.check_components(
        n_components, min_weight, n_pub or None, leaf_gaussians.MOST_COMPONENTS
    )
    wanted = searches.METHODS.choose(method)
    mode = validation.choice("mode", mode, get_args(Mode))
    box = validation.column_bounds(bounds, dim, endless=True)
    shape = searches.Shape(
        dim=dim,
        n_pub=n_pub,
        n_components=k,
        min_weight=weight,
        mode=mode,
        failure_prob=failure_prob,
    )

    def sampling_error(n_priv: int) -> float:
        return math.sqrt(dim * (dim + 1) / max(1.0, n_priv * weight))

    def from_private_rows(n_priv: int, budget: Any) -> PredictedError:
        rows = max(n_priv, tuning.START_LEAST_ROWS)
        separated.check_without_public(shape, wanted, budget, rows, box)
        error, details = without_public.predict(n_priv, dim, k, weight, budget)
        details["mean_error"] = error.mean
        details["without_privacy"] = sampling_error(n_priv)
        return error.covariance, details

    def from_public_rows(n_priv: int, budget: Budget) -> PredictedError:
        chosen = searches.choose_method(wanted, shape, noise_of(budget))
        depth = searches.tree_depth(chosen, shape)
        share = searches.search_share(chosen, shape)
        rows = n_priv * weight
        draws = searches.search_draws(chosen, shape)
        details = {"public_rows_worst_case": public_rows_for(k, weight, failure_prob)}
        if mode == "practical":
            spending = spending_of(budget, draws + soft_draws(dim, k))
            plan = EmRoundPlan.of(chosen, shape, n_priv, spending)
            error = plan.predicted(dim, rows)
            details["starts"] = float(plan.starts)
            details["rounds"] = plan.rounds + 1.0
            details["last_share"] = float(plan.last)
        else:
            spending = spending_of(
                budget, draws + leaf_gaussians.leaf_draws(dim, k) + count_draws(k)
            )
            of_leaves = spending.part(1 - share - count_share(spending))
            error = leaf_gaussians.lifted_errors(shape, rows, of_leaves)
        if depth:
            # Spectral norm of the noise on the second moment of unit rows, divided by the rows of the smallest component.
            noise = spending.std("moment", dim, share / depth * chosen.directions_share)
            details["search_depth"] = float(depth)
            details["direction_noise"] = math.sqrt(2.0 * dim) * noise / rows
        first = {"mean_error": error.mean, "search_share": float(share)}
        first["without_privacy"] = sampling_error(n_priv)
        return error.covariance, first | details

    return Forecast(
        predict=from_public_rows if n_pub else from_private_rows,
        unit="relative Frobenius error of the smallest component's covariance",
        one_row=True,
    )
