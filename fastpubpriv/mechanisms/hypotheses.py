"""The public list of hypotheses from which one is selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray, IntArray
from fastpubpriv.errors import InputError
from fastpubpriv.privacy import SelectionEvent
from fastpubpriv.results.base import frozen
from fastpubpriv.sources.column_names import column_order

_SUM_ERROR = 1e-6  # tolerance of the sum of weights


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """A public list of mixtures of Gaussians, fixed before the private rows that select among them are read.

    Build one with `from_arrays`, `from_mixtures` or `of`. A hypothesis with a non-finite parameter, a variance that is not
    positive, or a covariance that is not positive definite is left out; `positions` has the indices of the others in the list.

    Attributes
    ----------
    weights : (size, n_components) float64
        Each row sums to 1; a component that a mixture lacks has weight 0.
    means : (size, n_components, dim) float64
    spreads : (size, n_components, dim) or (size, n_components, dim, dim) float64
        Variances of axis-aligned components, or covariances.
    positions : (size,) int64
        Indices in the list as given.
    given : int
        Length of the list as given.
    columns : tuple of str or None
        Names of the columns, if the mixtures have them.

    Examples
    --------
    >>> listed = Hypotheses.from_arrays([[1.0], [1.0]], [[[0.0]], [[3.0]]], [[[1.0]], [[-1.0]]])
    >>> listed
    Hypotheses(size=1, n_components=1, dim=1, left_out=1)
    """

    weights: FloatArray
    means: FloatArray
    spreads: FloatArray
    positions: IntArray
    given: int
    columns: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """Number of hypotheses that can be selected."""
        return len(self.weights)

    @property
    def n_components(self) -> int:
        """Number of components of each hypothesis, including those of weight 0."""
        return int(self.weights.shape[1])

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.means.shape[2])

    @property
    def axis_aligned(self) -> bool:
        """True when `spreads` holds variances."""
        return self.spreads.ndim == 3

    def __repr__(self) -> str:
        return (
            f"Hypotheses(size={self.size}, n_components={self.n_components}, dim={self.dim}, "
            f"left_out={self.given - self.size})"
        )

    @classmethod
    def from_arrays(cls, weights: Any, means: Any, spreads: Any) -> Hypotheses:
        """Build from weights (m, k), means (m, k, dim) and variances (m, k, dim) or covariances (m, k, dim, dim).

        Raises
        ------
        InputError
            Inconsistent shapes, or finite weights that are negative or do not sum to 1.
        """
        weights = validation.real_array("weights of hypotheses", weights, "an array")
        means = validation.real_array("means of hypotheses", means, "an array")
        spreads = validation.real_array("spreads of hypotheses", spreads, "an array")
        if (
            weights.ndim != 2
            or means.ndim != 3
            or means.shape[:2] != weights.shape
            or 0 in means.shape[1:]
        ):
            raise InputError(
                "hypotheses need weights of shape (m, k) and means of shape (m, k, dim), "
                f"got {weights.shape} and {means.shape}"
            )
        if spreads.shape not in (means.shape, (*means.shape, means.shape[2])):
            raise InputError(
                f"hypotheses with means of shape {means.shape} need variances of the same shape, or covariances with "
                f"one axis more, got {spreads.shape}"
            )
        given = len(weights)
        with np.errstate(all="ignore"):
            # A component of weight 0 has no effect, whatever its parameters.
            usable = _usable(means, spreads) | (weights == 0.0)
            valid = np.isfinite(weights).all(axis=1) & usable.all(axis=1)
        weights = weights[valid]
        means = means[valid]
        spreads = spreads[valid]
        usable = usable[valid]
        totals = weights.sum(axis=1)
        if (weights < 0.0).any() or (np.abs(totals - 1.0) > _SUM_ERROR).any():
            worst = int(
                np.argmax(np.where((weights < 0.0).any(axis=1), np.inf, np.abs(totals - 1.0)))
            )
            raise InputError(
                "the weights of a hypothesis must be non-negative and sum to 1, but those at position "
                f"{int(np.flatnonzero(valid)[worst])} do not: divide them by their sum"
            )
        absent = weights == 0.0
        means = np.where(absent[..., None], 0.0, means)
        unit = np.ones(means.shape[2]) if spreads.ndim == 3 else np.eye(means.shape[2])
        spreads = np.where(absent[(...,) + (None,) * (spreads.ndim - 2)], unit, spreads)
        return cls(
            frozen(weights / totals[:, None]),
            frozen(means),
            frozen(spreads),
            np.flatnonzero(valid).astype(np.int64),
            given,
        )

    @classmethod
    def from_mixtures(cls, mixtures: Sequence[Any]) -> Hypotheses:
        """Build from mixtures with attributes `weights` (k,), `means` (k, dim) and `covariances` (k, dim, dim); k may differ.

        If they have an attribute `columns` (names of the columns), the columns are matched by name.
        """
        if not mixtures:
            raise InputError(
                "the list of hypotheses is empty: pass at least one mixture, or arrays of their parameters"
            )
        try:
            shapes = {
                (mixture.means.shape[1], *mixture.covariances.shape[1:]) for mixture in mixtures
            }
        except (AttributeError, IndexError, TypeError):
            raise InputError(
                "hypotheses must be mixtures with weights, means and covariances (such as a MixtureResult), a Hypotheses "
                "value, or a triple of arrays (weights, means, variances)"
            ) from None
        if len(shapes) > 1 or len(set(next(iter(shapes)))) > 1:
            raise InputError(
                "the hypotheses have different numbers of columns: all must describe the same rows"
            )
        dim = next(iter(shapes))[0]
        all_names = [getattr(mixture, "columns", None) for mixture in mixtures]
        names = next((labels for labels in all_names if labels is not None), None)
        size = len(mixtures)
        components = max(len(mixture.weights) for mixture in mixtures)
        weights = np.zeros((size, components))
        means = np.zeros((size, components, dim))
        covariances = np.tile(np.eye(dim), (size, components, 1, 1))
        for index, mixture in enumerate(mixtures):
            k = len(mixture.weights)
            within = f"the hypothesis at position {index}"
            order = column_order(names, all_names[index], of="another hypothesis", within=within)
            order = list(range(dim)) if order is None else order
            weights[index, :k], means[index, :k], covariances[index, :k] = (
                mixture.weights,
                mixture.means[:, order],
                mixture.covariances[:, order][:, :, order],
            )
        variances = np.diagonal(covariances, axis1=2, axis2=3)
        off_diagonal = covariances * (1.0 - np.eye(dim))
        listed = cls.from_arrays(weights, means, covariances if off_diagonal.any() else variances)
        return replace(listed, columns=None if names is None else tuple(names))

    def ordered(self, columns: Sequence[str] | None, *, show: bool) -> Hypotheses:
        """List with its columns in this order, if both have names; InputError if the names differ.

        `show`: whether the message may contain names that only `columns` has.
        """
        order = column_order(
            columns, self.columns, of="x_priv", within="the list of hypotheses", show=show
        )
        if order is None:
            return self
        spreads = (
            self.spreads[..., order]
            if self.axis_aligned
            else self.spreads[..., order, :][..., order]
        )
        means, spreads = (
            frozen(np.ascontiguousarray(array)) for array in (self.means[..., order], spreads)
        )
        return replace(self, means=means, spreads=spreads, columns=tuple(columns or ()))

    @classmethod
    def of(cls, hypotheses: Any) -> Hypotheses:
        """Convert a Hypotheses value, a triple of arrays or a sequence of mixtures to a Hypotheses value."""
        if isinstance(hypotheses, cls):
            return hypotheses
        if (
            isinstance(hypotheses, tuple)
            and len(hypotheses) == 3
            and not hasattr(hypotheses[0], "means")
        ):
            return cls.from_arrays(*hypotheses)
        if isinstance(hypotheses, list | tuple):
            return cls.from_mixtures(hypotheses)
        raise InputError(
            "hypotheses must be a Hypotheses value, a triple of arrays (weights, means, variances) or a list of mixtures, "
            f"got {type(hypotheses).__name__}"
        )

    def log_density(self, points: FloatArray, chosen: int) -> FloatArray:
        """Log density (n,) of one hypothesis at points (n, dim)."""
        from scipy.special import logsumexp

        joint = np.empty((len(points), self.n_components))
        for c in range(self.n_components):
            away = points - self.means[chosen, c]
            spread = self.spreads[chosen, c]
            if self.axis_aligned:
                distance = (away * away / spread).sum(axis=1)
                log_det = float(np.log(spread).sum())
            else:
                distance = np.einsum("ij,ij->i", away, np.linalg.solve(spread, away.T).T)
                log_det = float(np.linalg.slogdet(spread)[1])
            joint[:, c] = -0.5 * (distance + log_det + self.dim * np.log(2.0 * np.pi))
        return np.asarray(logsumexp(joint, axis=1, b=self.weights[chosen]))


def _usable(means: FloatArray, spreads: FloatArray) -> BoolArray:
    """Return which components (m, k) have valid parameters of a Gaussian."""
    fine: BoolArray = np.asarray(np.isfinite(means).all(axis=2))
    if spreads.ndim == 3:
        fine[...] &= (np.isfinite(spreads) & (spreads > 0.0)).all(axis=2)
        return fine
    fine &= np.isfinite(spreads).all(axis=(2, 3))
    fine &= (np.diagonal(spreads, axis1=2, axis2=3) > 0.0).all(axis=2)
    for place in zip(*np.nonzero(fine), strict=True):
        scale = np.sqrt(np.diag(spreads[place]))
        correlation = spreads[place] / np.outer(scale, scale)
        symmetric = np.abs(correlation - correlation.T).max() <= 1e-8
        try:
            np.linalg.cholesky(correlation)
        except np.linalg.LinAlgError:
            symmetric = False
        fine[place] = symmetric
    return fine


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """The index of the selected candidate in its list, and the event of the selection."""

    index: int
    event: SelectionEvent
    # empty: the event and the result have all facts
    facts: Mapping[str, Any] = field(default_factory=dict)
