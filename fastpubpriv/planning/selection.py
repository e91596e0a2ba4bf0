"""`plan("select_hypothesis")`."""

from __future__ import annotations

import math

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.mechanisms.selection.densities import MOST_HYPOTHESES
from fastpubpriv.mechanisms.selection.hypotheses import MOST_COMPARED, closed_form_rows, pairs_of, slack_at
from fastpubpriv.mechanisms.selection.scheffe import CELLS
from fastpubpriv.parameters import FAILURE_PROB
from fastpubpriv.planning.forecast import Forecast, count, never
from fastpubpriv.privacy import ZCDP, ApproxDP, Budget, PureDP

UNIT = "total variation beyond 3 times that of the best hypothesis, with probability 1 - failure_prob"


def plan_select_hypothesis(*, dim: int, candidates: int | None = None, failure_prob: float = FAILURE_PROB) -> Forecast:
    """Slack of `select_hypothesis` over a list of `candidates`."""
    dim, failure_prob = count("dim", dim, minimum=1), failure_probability(failure_prob)
    if candidates is None:
        raise InputError("plan('select_hypothesis') needs candidates=, the length of the list")
    size = validation.integer(
        "candidates", candidates, minimum=2, maximum=MOST_COMPARED if dim == 1 else MOST_HYPOTHESES
    )

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        # Permute-and-flip at epsilon, or the exponential mechanism at the epsilon with epsilon^2 / 8 = rho.
        epsilon = math.inf
        if isinstance(budget, ZCDP):
            epsilon = math.sqrt(8.0 * float(budget.rho))
        elif isinstance(budget, PureDP | ApproxDP):
            epsilon = float(budget.epsilon)
        slack = slack_at(size, n_priv, epsilon, failure_prob)
        sampling = slack_at(size, n_priv, math.inf, failure_prob)
        details = {
            "epsilon": epsilon,
            "without_privacy": sampling,
            "choice": slack - sampling,
            "comparisons": float(pairs_of(size) * (CELLS if dim == 1 else n_priv)),
        }
        if slack < 0.5:
            details["closed_form_rows"] = float(closed_form_rows(size, 2.0 * slack, epsilon, failure_prob))
        return slack, details

    return Forecast(predict=predict, unit=UNIT, gaussian=never)
