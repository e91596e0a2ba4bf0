"""What paper A's proofs about separated mixtures require: sample sizes, and Condition (2).

All of it is sufficient, and far above what is needed in practice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.planning.mixture_forecasts import public_rows_for


def mixture_needs(
    *,
    n_priv: int,
    n_components: int,
    min_weight: float,
    accuracy: float = 0.1,
    failure_prob: float = FAILURE_PROB,
) -> dict[str, float]:
    """Worst case of the sample sizes and the dimension that the proofs about separated mixtures require.

    Parameters
    ----------
    n_priv : int
        Private rows.
    n_components : int
        Components, k.
    min_weight : float in (0, 1 / n_components]
        Least mixing weight.
    accuracy : float in (0, 1)
        Target total-variation distance, alpha.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        beta in the paper.

    Returns
    -------
    dict of str to float
        All are sufficient, and far above what is needed in practice. "rows_per_component" (Lemma C.7): private rows after which
        every component's share is within accuracy / (9 k) of its weight. "public_rows": those after which every component has half
        of its expected share (Chernoff). "count_noise": largest noise of a count, in rows, in the proof of the partitioner, n
        min_weight / 1280. "dim": least number of columns for which a spherical component can meet Condition (2).

    Raises
    ------
    InputError
        Arguments out of range.

    Privacy
    -------
    Reads no data.

    Notes
    -----
    Paper A, Lemma C.7, Condition (2) for covariances that are multiples of the identity, and the proof of the
    partitioner. All practical runs violate Condition (2), which is sufficient, not necessary.

    Examples
    --------
    >>> from benchmarks.papers.regularity import mixture_needs
    >>> needs = mixture_needs(n_priv=100_000, n_components=4, min_weight=0.25)
    >>> f"{needs['rows_per_component']:.3g} rows, {needs['dim']:.0f} columns"
    '1.64e+06 rows, 2021 columns'
    """
    n = validation.integer("n_priv", n_priv, minimum=1)
    k = validation.integer("n_components", n_components, minimum=1)
    weight = validation.positive("min_weight", min_weight)
    if not weight <= (1.0 + 1e-9) / k:
        raise InputError(
            f"min_weight must be at most 1 / n_components = {1.0 / k:.4g}, got {weight:g}"
        )
    alpha = validation.probability("accuracy", accuracy)
    beta = failure_probability(failure_prob)
    tail = math.log(2.0 * k / beta)
    regular = math.log(n * k / beta)
    return {
        "rows_per_component": max(
            12.0 * tail / weight, 405.0 * k * k * tail / (2.0 * alpha * alpha)
        ),
        "public_rows": public_rows_for(k, weight, beta),
        "count_noise": n * weight / 1280.0,
        "dim": max(64.0 * regular, 8.0 * regular**2),
    }


def condition_two(
    covariances: Any, *, n_total: int, failure_prob: float = FAILURE_PROB
) -> list[bool]:
    """Whether each of the given or released covariances meets paper A's Condition (2).

    Parameters
    ----------
    covariances : (k, dim, dim) array-like
        Symmetric, positive semi-definite.
    n_total : int
        Rows, private and public.
    failure_prob : float in (0, 1), default 0.05
        Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
        beta in the logarithms of the condition.

    Returns
    -------
    list of bool
        True where |S|_F sqrt(log(N k / beta)) and |S|_2 log^2(N k / beta) are at most tr(S) / 8.

    Raises
    ------
    InputError
        Not a stack of square finite matrices, or arguments out of range.

    Privacy
    -------
    Reads no data: pass covariances that are known or released.

    Notes
    -----
    Paper A, appendix C, equation (2): the components are not too flat. Sufficient, not necessary.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.regularity import condition_two
    >>> condition_two([np.eye(50), np.eye(50)], n_total=100_000)
    [False, False]
    """
    try:
        array = np.asarray(covariances, dtype=np.float64)
    except (ValueError, TypeError):
        array = np.empty(0)
    if (
        array.ndim != 3
        or array.shape[1] != array.shape[2]
        or not np.isfinite(array).all()
        or not array.size
    ):
        raise InputError("covariances must be a stack (k, dim, dim) of finite matrices")
    n = validation.integer("n_total", n_total, minimum=1)
    tail = math.log(n * len(array) / failure_probability(failure_prob))
    sizes = [
        max(np.linalg.norm(each) * math.sqrt(tail), np.linalg.norm(each, 2) * tail**2)
        for each in array
    ]
    return [bool(size <= np.trace(each) / 8.0) for size, each in zip(sizes, array, strict=True)]
