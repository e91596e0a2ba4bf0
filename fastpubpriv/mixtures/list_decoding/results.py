"""What the list decoders release: coarse lists for each column, and the fine nets that follow from them."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.list_decoding import nets
from fastpubpriv.reading import Form, read_array
from fastpubpriv.results.base import Result
from fastpubpriv.results.words import Table, tally


def _arrays(value: Any) -> tuple[FloatArray, ...]:
    """A list of numbers for each column, from JSON."""
    if type(value) is not list:
        raise InputError("this JSON text cannot be read: lists and counts must be lists")
    return tuple(read_array("of a list", item, ("entries",), {}) for item in value)


def _nested(value: Any) -> tuple[tuple[FloatArray, ...], ...]:
    if type(value) is not list:
        raise InputError("this JSON text cannot be read: lists and counts must be lists")
    return tuple(_arrays(item) for item in value)


def _factor(value: Any) -> FloatArray | None:
    return None if value is None else read_array("factor", value, ("dim", "dim"), {})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Lists(Result):
    """What all lists share."""

    status: tuple[str, ...]  # for each column "ok", or "empty" where nothing was found (or, in mode "theory", too much)
    mode: str  # "practical" or "theory": which constants were used
    min_weight: float  # weight from which on Gaussians are looked for

    @abstractmethod
    def _parts(self) -> dict[str, list[FloatArray]]:
        """What the entries of a list are called, and the numbers of each column; the first are the entries themselves."""

    def _refuse_nonsense(self) -> None:
        parts = list(self._parts().values())
        sizes = [[len(array) for array in arrays] for arrays in parts]
        if any(size != sizes[0] for size in sizes) or not len(sizes[0]) == len(self.status) == self.dim:
            raise InputError(
                f"this JSON text is not a {type(self).__name__}: each column needs a list, counts and a status"
            )

    def _table(self) -> Table:
        parts = self._parts()
        sizes = [len(array) for array in next(iter(parts.values()))]
        labels = [name for name, size in zip(self.labels, sizes, strict=True) for _ in range(size)]
        return Table("column", labels, [(name, np.concatenate(arrays)) for name, arrays in parts.items()])

    def _details(self) -> list[tuple[str, str]]:
        looked = f"Gaussians of weight {self.min_weight:g} and more, with the constants of mode {self.mode}"
        return [("Looked for", looked), ("Status", tally(self.status))]

    def _estimate(self) -> tuple[str, Any]:
        return "entries", len(self._table().labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ScaleLists(_Lists):
    """Coarse scales for each column.

    Attributes
    ----------
    scales : tuple of (t,) float64
        Powers of two, ascending.
    counts : tuple of (t,) float64
        Noisy counts of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_variances
    >>> values = np.random.default_rng(0).normal(1e6, 3.0, size=20_000)
    >>> lists = decode_variances(values, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> all(np.log2(scale) % 1 == 0 for scale in lists.scales[0])
    True
    """

    scales: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    _forms: ClassVar[Mapping[str, Form]] = {"scales": _arrays, "counts": _arrays}

    def _parts(self) -> dict[str, list[FloatArray]]:
        return {"scale": list(self.scales), "count": list(self.counts)}


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

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_means
    >>> lists = decode_means(np.full(5_000, 1e9), std=1.0, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> bool(abs(lists.means[0] - 1e9).min() < 2.0), bool(lists.counts[0].max() > 1_000)
    (True, True)
    """

    scale: FloatArray
    means: tuple[FloatArray, ...]
    counts: tuple[FloatArray, ...]

    _forms: ClassVar[Mapping[str, Form]] = {"scale": ("dim",), "means": _arrays, "counts": _arrays}

    def _parts(self) -> dict[str, list[FloatArray]]:
        return {"mean": list(self.means), "count": list(self.counts)}


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

    Examples
    --------
    >>> import numpy as np
    >>> from fastpubpriv import ApproxDP
    >>> from fastpubpriv.mixtures.list_decoding import decode_axis_aligned
    >>> rows = np.random.default_rng(0).normal([1e4, -3.0], [10.0, 0.2], size=(30_000, 2))
    >>> lists = decode_axis_aligned(rows, budget=ApproxDP(epsilon=1, delta=1e-6))
    >>> means, scales, counts = lists.coarse(0)
    >>> bool(np.any((abs(means - 1e4) < 40.0) & (scales >= 5.0) & (scales <= 40.0)))
    True
    """

    scales: tuple[FloatArray, ...]
    means: tuple[tuple[FloatArray, ...], ...]
    counts: tuple[tuple[FloatArray, ...], ...]
    factor: FloatArray | None = None

    _forms: ClassVar[Mapping[str, Form]] = {"scales": _arrays, "means": _nested, "counts": _nested, "factor": _factor}

    def _parts(self) -> dict[str, list[FloatArray]]:
        columns = [self.coarse(column) for column in range(self.dim)]
        return {name: [column[place] for column in columns] for place, name in enumerate(("mean", "scale", "count"))}

    def _refuse_nonsense(self) -> None:
        lengths = {len(self.scales), len(self.means), len(self.counts), len(self.status), self.dim}
        same = all(
            (not means or len(scales) == len(means)) and list(map(len, means)) == list(map(len, counts))
            for scales, means, counts in zip(self.scales, self.means, self.counts, strict=False)
        )
        if len(lengths) > 1 or not same or (self.factor is not None and len(self.factor) != self.dim):
            raise InputError(
                "this JSON text is not an AxisAlignedLists: its lists, counts and status do not fit together"
            )

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
