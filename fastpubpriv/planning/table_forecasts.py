"""Forecasts of what is asked of tables: quantiles, counts, and means of groups of equal size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import quantiles
from fastpubpriv.estimators.columns.scales import divide, draws
from fastpubpriv.estimators.group_means import ALL_SHARE, CELL_SHARE, FEW_STDS
from fastpubpriv.estimators.value_counts import MOST_CELLS
from fastpubpriv.planning.forecasts import Forecast
from fastpubpriv.privacy import Budget
from fastpubpriv.session import allowance_of

CLIP_STDS = 3.0  # half of a group's box
COUNT_WEIGHT, PURE_WEIGHT = math.sqrt(0.75), 0.25  # of a count beside a sum; see `mechanisms.group_moments`
SEEN_STDS = 4.0  # of noise, from which a count is told from none
CELLS, ENDS = 10, 3  # of the last counts, for each q and in all
ZOOMS = 1  # rounds between the first edges and the last ones, as columns without atoms usually take


def predict_groups(dim: int, n_pub: int, groups: int) -> Callable[[int, Budget], tuple[float, dict[str, float]]]:
    """Error of `estimate_mean` with `by=`, in deviations within a group, where all groups have as many rows."""

    def predict(n_priv: int, budget: Budget) -> tuple[float, dict[str, float]]:
        pure, allowance = allowance_of(budget, draws(dim) + 3 * groups * dim)
        cells = divide(dim, n_priv, allowance * ALL_SHARE, pure=pure, n_pub=n_pub).cells
        cost = float((allowance - cells) * (1 - CELL_SHARE))
        noise = math.sqrt(2.0) * 2.5 * dim / cost if pure else math.sqrt(2.0 * dim / cost)
        n, count_std = n_priv / groups, noise / (PURE_WEIGHT if pure else COUNT_WEIGHT)
        error = math.sqrt(dim) * math.hypot(1.0 / math.sqrt(n), CLIP_STDS * noise / n)
        return error, {
            "count_std": count_std,
            "noise_std": CLIP_STDS * noise / n,
            "smallest_group": FEW_STDS * count_std,
            "without_privacy": math.sqrt(dim / n),
        }

    return predict


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
