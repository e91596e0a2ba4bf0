"""Values that describe what a pass does with a row: maps to sums and gradients, cluster trees, distributions of local reports.

They are frozen and can be pickled. `kernels` converts them for the C library.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError, KernelError
from fastpubpriv.validation import integer

_EXACT = 2**53
_F64 = np.dtype(np.float64)
_DIM_MAX = 2**24


class _Value:
    """Base of values that pickle as their arguments, so that unpickling validates them and makes arrays read-only again."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}  # type: ignore[arg-type]
        return functools.partial(type(self), **given), ()

    def _check_positive(self, *names: str) -> None:
        """Raise InputError unless these fields are positive and finite."""
        for name in names:
            if not 0.0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be positive and finite, got {getattr(self, name)}")


class MatrixKind(enum.Enum):
    """Shape of the linear part of a row map; the numbers are those of `fpp.h`."""

    IDENTITY = 0
    DIAGONAL = 1
    LOWER = 2
    FULL = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScore(_Value):
    """A labeled row (z, label), or (z, label, weight), becomes f step z by itself, which a `RowMap` has to bound."""

    # f is the weight, at most 1, times `residual` at unit <slope, z> and the label, 0 where that is not finite; of a `curvature`
    # the root of the weight times minus the residual's derivative. Where z has whole numbers up to 2^24, <slope, z> is exact.
    # of the squared or the logistic loss, or of the latter with weights of the classes
    residual: Callable[[float, float], float]
    slope: FloatArray  # (dim,), whole numbers of norm at most 2^29
    unit: float
    step: float
    weighted: bool = False
    curvature: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", _array("slope", self.slope, 1))
        self._check_positive("unit", "step")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AffineMap(_Value):
    """The public map y = offset + matrix (x - center) that a pass applies to each row before clipping."""

    dim: int  # columns of a row
    center: FloatArray | None = None  # (dim,), as `offset` (out_dim,); None means zero
    matrix: FloatArray | None = None  # None (identity), (dim,) (diagonal) or (out_dim, dim)
    offset: FloatArray | None = None
    # a `matrix` (out_dim, dim) has zeros above its diagonal, and no fewer rows than columns
    lower: bool = False
    # what labeled rows become before; then there is no center and no offset
    score: RowScore | None = None

    @property
    def out_dim(self) -> int:
        """Number of coordinates of y."""
        return (
            self.matrix.shape[0] if self.matrix is not None and self.matrix.ndim == 2 else self.dim
        )

    @property
    def dense(self) -> FloatArray:
        """The matrix in full, (out_dim, dim)."""
        if self.matrix is None:
            return np.eye(self.dim)
        return np.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix

    def times(self, left: FloatArray) -> FloatArray:
        """Return left @ matrix, (len(left), dim), contiguous."""
        if self.matrix is None:
            return np.ascontiguousarray(left)
        return np.ascontiguousarray(
            left * self.matrix if self.matrix.ndim == 1 else left @ self.matrix
        )

    def row_map(self, *, quant_bound: int = 8, inv_step: float = 1.0, limit: float = 1.0) -> RowMap:
        """Return this map with a grid."""
        given = {each.name: getattr(self, each.name) for each in fields(AffineMap)}
        return RowMap(**given, quant_bound=quant_bound, inv_step=inv_step, limit=limit)

    def on_grid(self, grid: Any, radius: float) -> RowMap:
        """Return the map that clips to `radius` on a `Grid` of `privacy.calibration`."""
        step = grid.step(radius)
        limit = float(grid.clip_steps)
        return self.row_map(quant_bound=grid.quant_bound, inv_step=1.0 / step, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMap(AffineMap):
    """Map a row x to y = offset + matrix (x - center), scaled to grid steps, clipped, rounded and checked before it is summed."""

    # A row with a NaN or an infinity becomes the zero row; a finite row is clipped, never dropped (up to inv_step = 1e150).
    # Every integer row q satisfies sum q**2 <= quant_bound**2: replacing one row moves a sum by at most 2 Q in norm, and a full
    # symmetric Gram matrix by at most sqrt(2) Q**2.
    quant_bound: int  # Q, the largest integer norm that passes the check; out_dim * Q**2 <= 2**53
    inv_step: float  # grid steps per unit of y
    limit: float  # norm to which longer rows are clipped, in grid steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", integer("dim", self.dim, minimum=1, maximum=_DIM_MAX))
        object.__setattr__(self, "quant_bound", integer("quant_bound", self.quant_bound, minimum=1))
        if self.matrix is not None:
            lines = () if np.ndim(self.matrix) == 1 else np.shape(self.matrix)[:1]
            object.__setattr__(self, "matrix", _array("matrix", self.matrix, (*lines, self.dim)))
            if self.lower and lines and lines[0] < self.dim:
                raise InputError(
                    f"a lower matrix has a row for each of {self.dim} columns or more, got {lines[0]}"
                )
        out_dim = integer("out_dim", self.out_dim, minimum=1, maximum=_DIM_MAX)
        bound = self.quant_bound
        if out_dim * bound**2 > _EXACT:
            raise InputError(
                f"out_dim * quant_bound**2 must be at most 2**53 for exact checks: use quant_bound <= "
                f"{math.isqrt(_EXACT // out_dim)} with out_dim={out_dim}, got {bound}"
            )
        object.__setattr__(self, "inv_step", float(self.inv_step))
        object.__setattr__(self, "limit", float(self.limit))
        self._check_positive("inv_step", "limit")
        if self.center is not None:
            object.__setattr__(self, "center", _array("center", self.center, (self.dim,)))
        if self.offset is not None:
            object.__setattr__(self, "offset", _array("offset", self.offset, (out_dim,)))
        if self.score is not None and (
            len(self.score.slope) != self.dim or self.center is not None or self.offset is not None
        ):
            raise InputError(
                f"a score has a slope of {self.dim} entries, and its map no center and no offset"
            )

    @property
    def kind(self) -> MatrixKind:
        """Shape of the matrix."""
        if self.matrix is None:
            return MatrixKind.IDENTITY
        return (
            MatrixKind.DIAGONAL
            if self.matrix.ndim == 1
            else MatrixKind.LOWER
            if self.lower
            else MatrixKind.FULL
        )

    @property
    def width(self) -> int:
        """Columns of a row as it comes, label and weight among them."""
        return self.dim if self.score is None else self.dim + 1 + self.score.weighted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnBox(_Value):
    """Map each row to y = (clip(x - center, lower, upper) - middle) / width; a `RowMap` must bound the norm of y."""

    center: FloatArray  # (dim,), finite as all others, with lower <= upper and width > 0
    lower: FloatArray  # (dim,)
    upper: FloatArray  # (dim,)
    middle: FloatArray  # (dim,)
    width: FloatArray  # (dim,)
    absent: FloatArray  # (dim,), y for a number that is not finite
    # a row with a number that is not finite becomes NaN in all columns, and later kernels ignore it
    neutral: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _array("center", self.center, 1))
        for each in ("lower", "upper", "middle", "width", "absent"):
            object.__setattr__(self, each, _array(each, getattr(self, each), self.center.shape))
        if not (np.all(self.lower <= self.upper) and np.all(self.width > 0.0)):
            raise InputError("a box has lower <= upper and width > 0")

    @property
    def dim(self) -> int:
        """Number of columns of a row."""
        return len(self.center)


class Rule(enum.Enum):
    """How a node chooses among its children; the numbers are those of `fpp.h`."""

    BALL = 1
    NEAREST = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split(_Value):
    """Inner node of a cluster tree: it routes y = projection (x - origin) by a ball or to the nearest of several centers."""

    # Sums over columns are computed in ascending order of the column, so a row is routed equally in every pass, chunk, thread and
    # instruction set.
    # BALL: a row with |y - center|^2 <= radius_sq goes to the first child, all others (NaN too) to the second. NEAREST:
    # it goes to the child of least |y - center|^2, the first of equal ones
    rule: Rule
    origin: FloatArray  # (dim,)
    projection: FloatArray | None  # (out_dim, dim), None is the identity
    centers: FloatArray  # (n_centers, out_dim), one for BALL
    first_child: int  # id of the first child; the others follow
    radius_sq: float = 0.0  # BALL only

    def __post_init__(self) -> None:
        origin = _array("origin", self.origin, 1)
        centers = _array("centers", self.centers, 2)
        out_dim = len(origin)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "centers", centers)
        if self.projection is not None:
            projection = _array("projection", self.projection, 2)
            if projection.shape[1] != len(origin):
                raise InputError(
                    f"projection must have shape (l, {len(origin)}), got {projection.shape}"
                )
            out_dim = len(projection)
            object.__setattr__(self, "projection", projection)
        if centers.shape[1] != out_dim:
            raise InputError(f"centers must have shape (n_centers, {out_dim}), got {centers.shape}")
        if self.rule is Rule.BALL and len(centers) != 1:
            raise InputError(f"a ball has one center, got {len(centers)}")
        radius_sq = float(self.radius_sq)
        if not 0.0 <= radius_sq <= math.inf:
            raise InputError(f"the squared radius must be at least 0, got {radius_sq}")
        object.__setattr__(self, "radius_sq", radius_sq)

    @property
    def children(self) -> range:
        """Ids of the children."""
        return range(
            self.first_child,
            self.first_child + (2 if self.rule is Rule.BALL else len(self.centers)),
        )

    def named(self, above: str) -> str:
        """Return a hash of everything that decides the routing of rows here, including the name of the path `above`."""
        content = hashlib.sha256(above.encode())
        parts = (
            [self.origin, self.centers]
            if self.projection is None
            else [self.origin, self.centers, self.projection]
        )
        for part in parts:
            content.update(repr(part.shape).encode() + part.astype("<f8").tobytes())
        content.update(repr((self.rule.name, self.radius_sq.hex())).encode())
        return content.hexdigest()[:32]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RowTree(_Value):
    """A cluster tree for the kernels: rows that reach target i get label i, all other rows get -1."""

    dim: int  # columns of a row
    # nodes by id, None for a leaf; node 0 is the root, and children come after their parent
    splits: Sequence[Split | None]
    targets: Sequence[int]  # ids of leaves or inner nodes, none below another
    # identifies the labels by everything that decides them: for one target a hash of each split on the path and the index of the
    # child, so that it begins with the lineage of its parent; for several targets, one hash
    lineage: tuple[str, ...] = field(init=False)
    # nodes on the paths from the root to the targets, without these
    above: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= _DIM_MAX:
            raise InputError(f"rows have 1 to {_DIM_MAX} columns, got {self.dim}")
        object.__setattr__(self, "splits", tuple(self.splits))
        object.__setattr__(self, "targets", tuple(self.targets))
        parents = parents_of(self.splits)
        paths = [path_to(parents, target) for target in self.targets]
        above = frozenset(node for path in paths for node in path[:-1])
        object.__setattr__(self, "above", above)
        if (
            not self.targets
            or above & set(self.targets)
            or len(set(self.targets)) < len(self.targets)
        ):
            raise InputError(
                "targets must be different nodes of the tree, at least one, none of them below another"
            )
        for node in above:
            split = self.splits[node]
            if split is None or len(split.origin) != self.dim:
                raise InputError(f"node {node} does not split rows of {self.dim} columns")
        lineage = self._lineage(paths[0])
        if len(paths) > 1:
            ends = "\n".join(self._lineage(path)[-1] for path in paths)
            lineage = (hashlib.sha256(ends.encode()).hexdigest()[:32],)
        object.__setattr__(self, "lineage", lineage)

    @property
    def n_labels(self) -> int:
        """Number of targets."""
        return len(self.targets)

    def _lineage(self, path: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the nodes of a path from the root: the split above, and the index of the child."""
        names = [f"{self.dim} columns"]
        for node, child in itertools.pairwise(path):
            split = self.splits[node]
            assert split is not None
            names.append(f"{split.named(names[-1])}/{child - split.first_child}")
        return tuple(names)


def parents_of(splits: Sequence[Split | None]) -> list[int]:
    """Return the parent of each node, -1 for the root. Raise InputError if a child does not come after its parent."""
    parents = [-1] * len(splits)
    for index, split in enumerate(splits):
        for child in () if split is None else split.children:
            if not index < child < len(splits):
                raise InputError(f"node {index} has a child {child} that does not come after it")
            parents[child] = index
    return parents


def path_to(parents: Sequence[int], node: int) -> list[int]:
    """Return the nodes of the path from the root to `node`."""
    if (
        isinstance(node, bool)
        or not isinstance(node, int | np.integer)
        or not 0 <= node < len(parents)
    ):
        raise InputError(f"a node is a number from 0 to {len(parents) - 1}, got {node!r}")
    path = [int(node)]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    if path[-1] != 0:
        raise KernelError(f"node {node} does not hang on the root")
    return path[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class MixtureTable:
    """Mixtures of Gaussians in the memory layout of the kernels."""

    means: FloatArray  # (panels, components, dim, PANEL)
    factors: FloatArray  # (panels, components, dim or dim (dim + 1) / 2, PANEL)
    constants: FloatArray  # (panels, components, PANEL)
    lower: bool  # whether factors are lower triangles, row by row; else diagonals

    @property
    def panels(self) -> int:
        """Number of panels."""
        return len(self.means)

    @property
    def dim(self) -> int:
        """Number of columns of a row."""
        return int(self.means.shape[2])


def _array(name: str, value: npt.ArrayLike | None, shape: int | tuple[int, ...]) -> FloatArray:
    """Return a public array as read-only float64, a copy if needed; `shape` may be the number of axes, none of them empty."""
    # A read-only array that owns its memory is not copied: it will not change, and a matrix may be large.
    flags = value.flags if type(value) is np.ndarray and value.dtype == _F64 else None
    settled = flags is not None and flags.owndata and flags.c_contiguous and not flags.writeable
    array: FloatArray = value if settled else np.array(value, dtype=_F64, order="C")  # type: ignore[assignment]
    if isinstance(shape, int) and (array.ndim != shape or 0 in array.shape):
        raise InputError(f"{name} must have {shape} axes and no empty one, got shape {array.shape}")
    if isinstance(shape, tuple) and array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}")
    if b"\0" in np.isfinite(array).tobytes():  # `all` takes three times as long for a short vector
        raise InputError(f"{name} must be finite")
    if not settled:
        array.flags.writeable = False
    return array


# ---- Maps of a labeled row to its contribution to a gradient


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientMap(_Value):
    """Map a labeled row (z, label) to its gradient c z, clipped in norm, rounded to a grid and checked."""

    # c = s min(1, clip_norm / (|s| |z|)), see `residual`; a row whose s or label is not finite adds nothing.
    # Every integer row q satisfies sum q**2 <= quant_bound**2, whatever `residual` returns: a new row moves a sum by at most 2 Q.
    # (dim,); or (outputs, dim), then s has an entry and c z a row for each output
    weights: FloatArray
    # s = residual(<weights, z>, label); for outputs, residual(scores, label, s) fills s. Minus the derivative of a loss in its
    # predictions, which Numba can compile
    residual: Callable[..., Any]
    clip_norm: float
    inv_step: float
    quant_bound: int  # Q, with outputs dim Q^2 <= 2^53

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "weights", _array("weights", self.weights, max(1, min(2, np.ndim(self.weights))))
        )
        self._check_positive("clip_norm", "inv_step")
        if not 1 <= self.quant_bound <= math.isqrt(_EXACT // self.weights.size):
            raise InputError(
                f"outputs * dim * quant_bound**2 must be at most 2**53, got {self.weights.shape}, Q={self.quant_bound}"
            )

    @property
    def dim(self) -> int:
        """Number of coordinates of z."""
        return int(self.weights.shape[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualMap(GradientMap):
    """Map a labeled row (z, label) to the part factor(row) (spread z) of a sum, with row and residual clipped apart."""

    # factor = min(1, clip_norm / |spread z|) clip(residual(<weights, z>, label) / scale) / clip / step, 0 if that is not finite.
    spread: FloatArray  # (dim,)
    scale: float
    clip: float  # bound on residuals, in units of `scale`
    # a row is (z, label, weight): factor times the weight, at most 1; 0 unless that is above 0
    weighted: bool = False

    def __post_init__(self) -> None:
        GradientMap.__post_init__(self)
        object.__setattr__(self, "spread", _array("spread", self.spread, self.weights.shape))
        self._check_positive("scale", "clip")


# ---- Distributions of local reports


@dataclass(frozen=True, slots=True)
class ReportLaw:
    """Distribution of the report of one user (`fpp_report_law` in fpp.h)."""

    dim: int  # columns of a row and of a report
    gaussian: bool  # False: a cap of the sphere; True: a tail of a normal distribution
    # reports are integers, in steps of 2^-log2_grid of the root mean square of a coordinate
    log2_grid: int
    ball: bool  # True: rows lie in the ball of `radius`; False: only their direction is used
    threshold: float  # least cosine, or least value, inside the cap
    miss: float  # probability of a draw from outside the cap
    radius: float  # radius of the ball
    tail: float = 0.5  # for seeds: probability of accepting one outside the cap


@dataclass(frozen=True, slots=True)
class CodeLaw:
    """Distribution of the word that a user chooses from a codebook of random vectors (`fpp_report_book` in fpp.h)."""

    words: int  # number of words of a codebook
    chosen: int  # number of words, those nearest to the row, with a higher probability
    miss: int  # probability of another word, in units of 2^-62
    vectors: ReportLaw  # columns, ball and radius of the rows, and the grid of the words
