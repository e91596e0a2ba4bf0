"""A mixture of Gaussians, the one value that all learners of this room read and return, or a batch of such mixtures.

Components are axis-aligned or have full covariances; which, the number of axes says. Lists for a choice (`Hypotheses`), tables for
kernels (`NormalTable`) and results (`MixtureResult`) are made from it, never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.estimators.linalg import lower_powers
from fastpubpriv.estimators.output_bounds import Box, inside
from fastpubpriv.kernels.mixture_rows import NormalTable
from fastpubpriv.mechanisms.hypotheses import Hypotheses

LEAST_STD = 2.0**-511  # its square is the smallest normal double
_SAME_SCORE = 2.0**-10


@dataclass(frozen=True, slots=True, eq=False)
class GaussianMixture:
    """Weights (..., k) and means (..., k, dim) of one mixture, or of a batch of them padded by components of weight zero.

    `scale` has standard deviations (..., k, dim) of axis-aligned components, or covariances (..., k, dim, dim). Batches of
    axis-aligned mixtures on the line may leave the axis of columns out.
    """

    weights: FloatArray
    means: FloatArray
    scale: FloatArray

    @property
    def size(self) -> int:
        """Number of mixtures of a batch."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.means.shape[-1])

    @property
    def is_full(self) -> bool:
        """Whether components have full covariances."""
        return self.scale.ndim > self.means.ndim

    @property
    def stds(self) -> FloatArray:
        """Standard deviations of the columns, as `means`."""
        return np.sqrt(np.einsum("...ii->...i", self.scale)) if self.is_full else self.scale

    @property
    def covariances(self) -> FloatArray:
        """Covariances (..., k, dim, dim)."""
        if self.is_full:
            return self.scale
        variances = np.square(np.maximum(self.scale, LEAST_STD))
        return variances[..., None] * np.eye(self.dim)

    @property
    def roots(self) -> FloatArray:
        """Lower Cholesky factors of the covariances (k, dim, dim)."""
        return self._powers()[0]

    @property
    def table(self) -> NormalTable:
        """The mixture in the form of the kernels."""
        roots, inverses = self._powers()
        constants = np.log(self.weights) - np.log(np.einsum("kii->ki", roots)).sum(axis=1)
        return NormalTable(self.means, inverses, constants)

    def _powers(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower Cholesky factors of the covariances, and their inverses, (k, dim, dim) each."""
        if not self.is_full:
            stds = np.maximum(self.scale, LEAST_STD)[..., None]
            return stds * np.eye(self.dim), np.eye(self.dim) / stds
        roots = np.empty_like(self.scale)
        inverses = np.empty_like(self.scale)
        for place, covariance in enumerate(self.scale):
            # Columns are scaled to unit variance, since their units may differ by many orders of magnitude.
            scale = np.sqrt(np.diag(covariance))
            root, inverse = lower_powers(covariance / np.outer(scale, scale))
            roots[place] = scale[:, None] * root
            inverses[place] = np.tril(inverse) / scale
        return roots, inverses

    @property
    def hypotheses(self) -> Hypotheses:
        """The list of the mixtures of a batch, for a choice among them, without unusable ones."""
        with np.errstate(all="ignore"):
            is_usable = np.isfinite(self.weights).all(axis=1)
            total = np.where(is_usable, self.weights.sum(axis=1), 1.0)
            spreads = self.scale if self.is_full else np.square(self.scale)
            return Hypotheses.from_arrays(self.weights / total[:, None], self.means, spreads)

    @property
    def normalized(self) -> GaussianMixture:
        """The mixture with weights of sum one."""
        return GaussianMixture(self.weights / self.weights.sum(), self.means, self.scale)

    @property
    def axis_aligned(self) -> GaussianMixture:
        """The mixture without the correlations of columns."""
        return GaussianMixture(self.weights, self.means, self.stds)

    @property
    def full(self) -> GaussianMixture:
        """The mixture with covariances for standard deviations."""
        return GaussianMixture(self.weights, self.means, self.covariances)

    def __getitem__(self, index: Any) -> GaussianMixture:
        """Return the mixtures selected by a slice, mask or index array; an integer gives one, and None makes a batch of one."""
        return GaussianMixture(self.weights[index], self.means[index], self.scale[index])

    def mapped(self, center: FloatArray | float, scale: FloatArray | float) -> GaussianMixture:
        """Return the mixtures of center + scale * rows."""
        factor = np.multiply.outer(scale, scale) if self.is_full else scale
        return GaussianMixture(self.weights, center + scale * self.means, factor * self.scale)

    def of_columns(self, places: Sequence[int]) -> GaussianMixture:
        """Return the distribution of some columns."""
        chosen = list(places)
        scale = self.scale[..., chosen]
        if self.is_full:
            scale = scale[..., chosen, :]
        return GaussianMixture(self.weights, self.means[..., chosen], scale)

    def within(self, box: Box | None) -> GaussianMixture:
        """Return the mixture with means within bounds, and variances that such values can have."""
        if box is None:
            return self
        means, covariances = inside(self.means, self.covariances, box)
        bounded = GaussianMixture(self.weights, means, covariances)
        return bounded if self.is_full else bounded.axis_aligned


def joined(batches: Sequence[GaussianMixture]) -> GaussianMixture:
    """Return one batch of mixtures; those with fewer components are padded with empty ones."""
    most = max(batch.weights.shape[1] for batch in batches)

    def wide(name: str, mode: Any) -> FloatArray:
        parts = [getattr(batch, name) for batch in batches]
        gaps = [[(0, 0), (0, most - part.shape[1]), *[(0, 0)] * (part.ndim - 2)] for part in parts]
        return np.concatenate(
            [np.pad(part, gap, mode) for part, gap in zip(parts, gaps, strict=True)]
        )

    return GaussianMixture(
        wide("weights", "constant"), wide("means", "edge"), wide("scale", "edge")
    )


def slices(batch: GaussianMixture, width: int, most: int) -> list[slice]:
    """Return slices of a batch whose (size, components, width) arrays have at most `most` entries."""
    size = max(1, most // (batch.weights.shape[1] * width))
    return [slice(first, first + size) for first in range(0, batch.size, size)]


def by_score(score: FloatArray) -> IntArray:
    """Return the indices of scores (such as -2 log likelihood) in ascending order; nearly equal scores keep their order."""
    # Many searches end in the same optimum; their order would depend on rounding, which differs between processors.
    return np.argsort(np.rint(score / _SAME_SCORE), kind="stable")
