"""What the list decoders release: coarse lists for each column, and the fine nets that follow from them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.mixtures.list_decoding import nets
from fastpubpriv.results.estimates import Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Lists(Result):
    """What all lists share.

    Attributes
    ----------
    statuses : tuple of str
        For each column "ok", or "empty" where nothing was found (or, with theory constants, too much).
    constants : str
        "practical" or "theory".
    min_weight : float
        Weight from which on Gaussians are looked for.
    columns : tuple of str or None
        Names of the columns when the source had names.
    """

    statuses: tuple[str, ...]
    constants: str
    min_weight: float
    columns: tuple[str, ...] | None = None

    @property
    def status(self) -> str:
        """ "ok" when every column has a list, else "empty"."""
        return "ok" if all(status == "ok" for status in self.statuses) else "empty"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleLists(_Lists):
    """Coarse scales for each column.

    Attributes
    ----------
    scales : tuple of (t,) float64
        Powers of two, ascending.
    counts : tuple of (t,) float64
        Noisy counts of pairs.
    """

    scales: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeanLists(_Lists):
    """Coarse means for each column, at one public scale.

    Attributes
    ----------
    scale : (dim,) float64
        Width of the bins.
    means : tuple of (c,) float64
        Ascending.
    counts : tuple of (c,) float64
        Noisy counts of rows.
    """

    scale: FloatArray
    means: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AxisAlignedLists(_Lists):
    """Coarse (mean, scale) pairs for each column, as factors of a list that is never formed.

    Attributes
    ----------
    scales : tuple of (t,) float64
        The scales of each column.
    means, counts : tuple of tuple of (c,) float64
        For each column and scale, coarse means and their noisy counts of rows.
    factor : (dim, dim) float64 or None
        With a known covariance, its lower Cholesky factor: means are those of factor^-1 x, and every standard deviation is 1.
    """

    scales: tuple[FloatArray, ...]
    means: tuple[tuple[FloatArray, ...], ...]
    counts: tuple[tuple[FloatArray, ...], ...]
    factor: FloatArray | None = None

    def coarse(self, column: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, scales and noisy counts (c,) of one column, pair by pair."""
        means, counts = self.means[column], self.counts[column]
        if not means:
            return np.empty(0), np.empty(0), np.empty(0)
        scales = np.repeat(self.scales[column], [len(part) for part in means])
        return np.concatenate(means), scales, np.concatenate(counts)

    def net(self, column: int, accuracy: float) -> FloatArray:
        """Fine list of one column, (size, 2): means and standard deviations.

        If a coarse pair is right, a member has mean and standard deviation within accuracy * sigma, hence total variation at most
        accuracy (for accuracy up to 2/3). With a known covariance the steps of the means are 2 accuracy, and sigma is 1.
        """
        alpha = validation.positive("accuracy", accuracy)
        means, scales, _ = self.coarse(column)
        if self.factor is not None:
            steps = 2.0 * alpha * np.arange(-math.ceil(0.5 / alpha), math.ceil(0.5 / alpha) + 1)
            fine = (means[:, None] + steps).ravel()
            return np.column_stack([fine, np.ones_like(fine)])
        parts = [
            nets.gaussian_net(mean, scale, alpha) for mean, scale in zip(means.tolist(), scales.tolist(), strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def net_size(self, column: int, accuracy: float) -> int:
        """Length of `net`, without making it."""
        alpha = validation.positive("accuracy", accuracy)
        pairs = sum(len(part) for part in self.means[column])
        return pairs * (2 * math.ceil(0.5 / alpha) + 1 if self.factor is not None else nets.gaussian_net_size(alpha))

    def list_size(self, accuracy: float) -> int:
        """Length of the product of all columns' fine lists, exact; each column at accuracy / dim, so that products are at
        accuracy."""
        alpha = validation.positive("accuracy", accuracy)
        return nets.product_size([self.net_size(column, alpha / self.dim) for column in range(self.dim)])
