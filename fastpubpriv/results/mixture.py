"""A released mixture of Gaussians, whichever learner made it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, ndtri

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.columns import points
from fastpubpriv.errors import InputError
from fastpubpriv.reading import refuse_no_covariances
from fastpubpriv.results.estimates import Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MixtureResult(Result):
    """A released mixture of Gaussians in data units.

    Attributes
    ----------
    weights : (n_components,) float64
        Positive, sum 1.
    means : (n_components, dim) float64
    covariances : (n_components, dim, dim) float64
        Positive definite; diagonal for an axis-aligned mixture.
    statuses : tuple of str
        For each component "ok", or why it is a substitute ("low_count": too few rows, a public summary stands in;
        "under_resolved"; "empty": a stage found nothing and a coarser answer stands in; "fallback"). Decided from released values
        only.
    method : str
        The algorithm that ran.
    tree : ClusterTree or None
        How rows are routed to components, where the algorithm clustered.
    diagnostics : dict
        Released or public numbers about the run.
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    statuses: tuple[str, ...]
    method: str
    tree: Any = None
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)
    columns: tuple[str, ...] | None = None

    @property
    def n_components(self) -> int:
        """Number of components found; may be fewer than asked for."""
        return len(self.weights)

    @property
    def variances(self) -> FloatArray:
        """Variances of the coordinates within each component, (n_components, dim)."""
        return np.ascontiguousarray(np.diagonal(self.covariances, axis1=1, axis2=2))

    def _factors(self) -> list[FloatArray]:
        """Lower factors of the covariances, through the correlations: columns may have very different units."""
        factors = []
        for covariance in self.covariances:
            scale = np.sqrt(np.diag(covariance))
            factors.append(scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale)))
        return factors

    def _joint_log_prob(self, rows: Any) -> FloatArray:
        array = np.atleast_2d(points(rows, self.dim, self.columns, finite=True))
        joint = np.empty((len(array), self.n_components))
        for index, factor in enumerate(self._factors()):
            white = solve_triangular(factor, (array - self.means[index]).T, lower=True)
            constant = self.dim * math.log(2.0 * math.pi) / 2.0 + float(np.log(np.diag(factor)).sum())
            joint[:, index] = math.log(self.weights[index]) - np.einsum("ij,ij->j", white, white) / 2.0 - constant
        return joint

    def score_samples(self, rows: Any) -> FloatArray:
        """Log density of the mixture at finite rows (n, dim), (n,). Columns of a frame are matched by name."""
        density: FloatArray = logsumexp(self._joint_log_prob(rows), axis=1)
        return density

    def predict_proba(self, rows: Any) -> FloatArray:
        """Posterior probability of each component at finite rows (n, dim), (n, n_components)."""
        joint = self._joint_log_prob(rows)
        posterior: FloatArray = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return posterior

    def predict(self, rows: Any) -> IntArray:
        """Most likely component of each finite row, (n,). Labels of private rows stay private data."""
        labels: IntArray = np.argmax(self._joint_log_prob(rows), axis=1)
        return labels

    def sample(self, n: int, *, random_state: Any = None) -> tuple[FloatArray, IntArray]:
        """Draw n synthetic rows (n, dim) and their components (n,); post-processing.

        `random_state` is None, an int or a NumPy generator.
        """
        # One block of uniforms for labels and coordinates: an int seed used twice would tie them together.
        uniform = stats.uniform.rvs(size=(n, self.dim + 1), random_state=random_state)
        ends = np.cumsum(self.weights)[:-1] / self.weights.sum()
        labels: IntArray = np.searchsorted(ends, uniform[:, 0], side="right").astype(np.int64)
        normals = ndtri(np.maximum(uniform[:, 1:], np.finfo(np.float64).tiny))
        rows = np.empty((n, self.dim))
        for index, factor in enumerate(self._factors()):
            mine = labels == index
            rows[mine] = self.means[index] + normals[mine] @ factor.T
        return rows, labels

    def plot(self, path: str | Path | None = None, *, level: float = 0.95, x_pub: Any = None) -> Any:
        """Draw the density (one column), or ellipses, released balls and the public rows `x_pub` in a plane; returns the figure.

        Needs matplotlib. `level` is the share of a component that its ellipse holds.
        """
        from fastpubpriv.results import mixture_plots as plotting

        return plotting.plot_mixture(self, path=path, level=level, x_pub=x_pub)

    @classmethod
    def from_json(cls, text: str) -> MixtureResult:
        """Read back what `to_json` wrote: the estimate and public fields (price and tree come back as plain values)."""
        k = "components"
        found = cls(**cls._fields_of(text, weights=(k,), means=(k, "dim"), covariances=(k, "dim", "dim")))
        weights = found.weights
        if len(found.statuses) != len(weights) or not (np.all(weights > 0.0) and abs(weights.sum() - 1.0) < 1e-6):
            raise InputError(
                "this JSON text is not a MixtureResult: its weights must be above 0, of sum 1, each with a status"
            )
        refuse_no_covariances(found.covariances)
        return found
