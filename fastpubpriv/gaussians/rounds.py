"""Maps of the rows of the next round of second moments"""

from __future__ import annotations

from fastpubpriv._types import FloatArray
from fastpubpriv.mechanisms.sums import AffineMap


def lift(base: AffineMap, contraction: FloatArray) -> AffineMap:
    """Return the map x -> contraction (v, 1) for v = base(x) and a lower triangular contraction."""
    return after(base, contraction[:, : base.dim], offset=contraction[:, base.dim])


def after(base: AffineMap, left: FloatArray, *, offset: FloatArray | None = None) -> AffineMap:
    """Return the map x -> left base(x) + offset for a lower triangular `left`, which may have more rows than columns."""
    if base.offset is not None:
        moved = left @ base.offset
        offset = moved if offset is None else offset + moved
    lower = base.matrix is None or base.matrix.ndim == 1 or base.lower
    matrix = base.times(left)
    matrix.flags.writeable = False  # so that the kernels make no copy
    return AffineMap(dim=base.dim, center=base.center, matrix=matrix, offset=offset, lower=lower)


def mean_map(base: AffineMap, start: FloatArray, inverse_root: FloatArray) -> AffineMap:
    """Return the map x -> inverse_root (v - start) for v = base(x)."""
    return after(base, inverse_root, offset=-(inverse_root @ start))
