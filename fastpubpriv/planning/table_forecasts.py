"""Forecasts of quantiles and counts of tables."""

from __future__ import annotations

import math
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import quantiles
from fastpubpriv.estimators.columns.scales import divide
from fastpubpriv.estimators.value_counts import MOST_CELLS
from fastpubpriv.planning.forecasts import Forecast
from fastpubpriv.privacy import Budget
from fastpubpriv.session import allowance_of

SEEN_STDS = 4.0  # of noise, from which a count is told from none
CELLS, ENDS = 10, 3  # of the last counts, for each q and in all
ZOOMS = 1  # rounds between the first edges and the last ones, as columns without atoms usually take


def plan_quantiles(*, dim: int, n_pub: int = 0, q: Any = (0.25, 0.5, 0.75), groups: int = 1) -> Forecast:
    """Error of the rank, as a share, of the least certain quantile of `quantiles`; all groups have as many rows."""
    if n_pub < 1:
        raise InputError("plan('quantiles') needs n_pub of at least 1")
    qs = quantiles.shares_of_rows(q).tolist()

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, groups * quantiles.draws(dim, len(qs)))
        share = allowance * quantiles.ALL_SHARE if groups > 1 else allowance
        left = allowance - divide(dim, n_priv, share, pure=pure, n_pub=n_pub).cells
        cost = float(left * (1 - quantiles.FIRST - ZOOMS * quantiles.ZOOM))
        std, n = math.sqrt(8.0) * dim / cost if pure else math.sqrt(dim / cost), n_priv / groups
        cells = CELLS * len(qs) + ENDS
        # Counts below and above a quantile pull at each other, since all rows are in some cell.
        noise = [std * math.sqrt(cells * each * (1.0 - each)) for each in qs]
        errors = [math.hypot(math.sqrt(n * each * (1.0 - each)), own) for each, own in zip(qs, noise, strict=True)]
        worst = max(range(len(qs)), key=lambda i: errors[i])
        without = math.sqrt(n * qs[worst] * (1.0 - qs[worst]))
        return errors[worst] / n, {"count_std": std, "noise_rows": noise[worst], "without_privacy": without / n}

    return Forecast(predict=predict, unit="share of the rows below; divided by the density, in units of the column")


def plan_counts(*, cells: int | None = None) -> Forecast:
    """Noise of a count of `value_counts` and `crosstab` with listed keys, or groups times keys."""
    if cells is None:
        raise InputError("plan('counts') needs cells=, the combinations of keys, with '(other)' and '(missing)'")
    many = validation.integer("cells", cells, minimum=2, maximum=MOST_CELLS)

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, many)
        std = math.sqrt(8.0) / float(allowance) if pure else 1.0 / math.sqrt(float(allowance))
        std *= math.sqrt(1.0 - 1.0 / many)
        return std / n_priv, {"count_std": std, "smallest_share": SEEN_STDS * std / n_priv}

    return Forecast(predict=predict, unit="share of the rows, standard deviation of the noise")
