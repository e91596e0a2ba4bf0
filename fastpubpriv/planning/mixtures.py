"""The sample sizes that paper A's regularity conditions ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv.errors import InputError
from fastpubpriv.estimators.radii import failure_probability
from fastpubpriv.parameters import FAILURE_PROB, shared_docs
from fastpubpriv.results.base import Value
from fastpubpriv.results.words import Table

WORST_CASE = "worst case"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MixtureNeeds(Value):
    """Sample sizes from the proofs of paper A, each with its label; sufficient, and far above what practice needs.

    Attributes
    ----------
    rows_per_component : float
        Lemma C.7: private rows after which every component's share is within accuracy / (9 k) of its weight.
    public_rows : float
        Public rows after which every component has half of its expected share (Chernoff).
    count_noise : float
        Noise of a count, in rows, that the proof of the partitioner allows: n min_weight / 1280.
    dim : float
        Least number of columns for which a spherical component can meet Condition (2).
    label : str
        "worst case": a warning that belongs to every number here.

    Examples
    --------
    >>> from fastpubpriv.planning import mixture_needs
    >>> needs = mixture_needs(n_priv=100_000, n_components=4, min_weight=0.25)
    >>> needs.label
    'worst case'
    """

    rows_per_component: float
    public_rows: float
    count_noise: float
    dim: float
    label: str = WORST_CASE

    def __repr__(self) -> str:
        needs = f"{self.rows_per_component:.3g} private rows per component, {self.public_rows:.3g} public"
        return f"MixtureNeeds({needs}; {self.label})"

    def _table(self) -> Table:
        names = ("rows_per_component", "public_rows", "count_noise", "dim")
        return Table("number", names, [(self.label, [getattr(self, name) for name in names])])


@shared_docs
def mixture_needs(
    *, n_priv: int, n_components: int, min_weight: float, accuracy: float = 0.1, failure_prob: float = FAILURE_PROB
) -> MixtureNeeds:
    """Sample sizes and dimension that the proofs about separated mixtures ask for.

    Parameters
    ----------
    n_priv : int
        Private rows.
    n_components : int
        Components, k.
    min_weight : float in (0, 1 / n_components]
        Least mixing weight.
    accuracy : float in (0, 1)
        Total-variation distance aimed at, alpha.
    {failure_prob}
        beta in the paper.

    Returns
    -------
    MixtureNeeds
        Lemma C.7, the public rows, the count noise and Condition (2), labelled "worst case".

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
    >>> from fastpubpriv.planning import mixture_needs
    >>> needs = mixture_needs(n_priv=100_000, n_components=4, min_weight=0.25)
    >>> f"{needs.rows_per_component:.3g} rows, {needs.dim:.0f} columns ({needs.label})"
    '1.64e+06 rows, 2021 columns (worst case)'
    """
    n = validation.integer("n_priv", n_priv, minimum=1)
    k = validation.integer("n_components", n_components, minimum=1)
    weight = validation.positive("min_weight", min_weight)
    if not weight <= (1.0 + 1e-9) / k:
        raise InputError(f"min_weight must be at most 1 / n_components = {1.0 / k:.4g}, got {weight:g}")
    alpha = validation.probability("accuracy", accuracy)
    beta = failure_probability(failure_prob)
    tail = math.log(2.0 * k / beta)
    regular = math.log(n * k / beta)
    return MixtureNeeds(
        rows_per_component=max(12.0 * tail / weight, 405.0 * k * k * tail / (2.0 * alpha * alpha)),
        public_rows=8.0 * math.log(k / beta) / weight,
        count_noise=n * weight / 1280.0,
        dim=max(64.0 * regular, 8.0 * regular**2),
    )


@shared_docs
def condition_two(covariances: Any, *, n_total: int, failure_prob: float = FAILURE_PROB) -> list[bool]:
    """Whether covariances meet paper A's Condition (2), one answer for each; for given or released covariances.

    Parameters
    ----------
    covariances : (k, dim, dim) array-like
        Symmetric, positive semi-definite.
    n_total : int
        Rows, private and public.
    {failure_prob}
        The beta in its logarithms.

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
    >>> from fastpubpriv.planning import condition_two
    >>> condition_two([np.eye(50), np.eye(50)], n_total=100_000)
    [False, False]
    """
    array = np.asarray(covariances, dtype=np.float64)
    if array.ndim != 3 or array.shape[1] != array.shape[2] or not np.isfinite(array).all() or not array.size:
        raise InputError("covariances must be a stack (k, dim, dim) of finite matrices")
    n = validation.integer("n_total", n_total, minimum=1)
    tail = math.log(n * len(array) / failure_probability(failure_prob))
    answers: Sequence[bool] = [
        bool(
            max(np.linalg.norm(matrix) * math.sqrt(tail), np.linalg.norm(matrix, 2) * tail**2) <= np.trace(matrix) / 8.0
        )
        for matrix in array
    ]
    return list(answers)
