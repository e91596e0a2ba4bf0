"""Cases for the row kernels: maps of every kind, rows of every bit pattern, layouts that NumPy can make, and instruction sets."""

from dataclasses import dataclass

import numpy as np
from helpers.instructions import instruction_set
from hypothesis import strategies as st

from fastpubpriv.kernels import rows as kernels
from fastpubpriv.kernels._cext import lib
from fastpubpriv.rowwise.row_maps import MatrixKind, RowMap

LEVELS = range(lib.fpp_isa_detect() + 1)
DIMS = (1, 2, 7, 8, 9, 15, 16, 17, 64, 257)  # around the lane widths, the register rows and a panel
KINDS = tuple(MatrixKind)
SIGNALLING_NAN = 0x7FF0000000000001
# Zeros, the least and the largest number, infinities, NaN, 1 and 2^52.
SPECIAL_BITS = (
    0,
    1 << 63,
    1,
    0x7FEFFFFFFFFFFFFF,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    SIGNALLING_NAN,
    0x3FF0000000000000,
    0x4330000000000000,
)


def same_at_every_level(expected, call, /, *arguments, **options):
    """The call gives these numbers on each instruction set of this machine."""
    for level in LEVELS:
        with instruction_set(level):
            np.testing.assert_array_equal(call(*arguments, **options), expected)


def hostile_float64():
    """A float64 of any bit pattern, the notorious ones often."""
    bits = st.one_of(st.sampled_from(SPECIAL_BITS), st.integers(0, 2**64 - 1))
    return bits.map(lambda word: float(np.uint64(word).view(np.float64)))


def make_map(
    rng, dim, kind, *, quant_bound=2000, limit=None, scale=300.0, center=True, offset=True
):
    """A map of the given kind with random public parts."""
    change = {MatrixKind.FULL: int(rng.integers(-3, 4)), MatrixKind.LOWER: int(rng.integers(0, 4))}
    out_dim = max(1, dim + change.get(kind, 0))
    matrix = {
        MatrixKind.IDENTITY: lambda: None,
        MatrixKind.DIAGONAL: lambda: rng.standard_normal(dim),
        MatrixKind.LOWER: lambda: rng.standard_normal((out_dim, dim)),
        MatrixKind.FULL: lambda: rng.standard_normal((out_dim, dim)),
    }[kind]()
    return RowMap(
        dim=dim,
        quant_bound=quant_bound,
        inv_step=scale,
        limit=float(limit or max(1.0, quant_bound - np.ceil(np.sqrt(out_dim) / 2) - 1)),
        matrix=matrix,
        lower=kind is MatrixKind.LOWER,
        center=rng.standard_normal(dim) if center else None,
        offset=rng.standard_normal(out_dim) if offset else None,
    )


def make_rows(rng, n, dim, bits=()):
    """Rows of all sizes; the float64 bit patterns in `bits` are spread over them."""
    x = rng.standard_normal((n, dim)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    regime = rng.random(n)
    x[regime < 0.08] *= 1e300
    x[(regime > 0.08) & (regime < 0.12)] = 1.7e308
    x[(regime > 0.12) & (regime < 0.2)] *= 1e-310
    if x.size:
        x.reshape(-1)[rng.integers(0, x.size, size=len(bits))] = bits
    return x


def lay_out(x, layout):
    """The same rows in another memory layout that the kernels accept."""
    n, dim = x.shape
    if layout == "read-only":
        x = x.copy()
        x.flags.writeable = False
        return x
    if layout == "columns of a wider array":
        wide = np.full((n, dim + 5), np.nan, dtype=x.dtype)
        wide[:, 2 : 2 + dim] = x
        return wide[:, 2 : 2 + dim]
    if layout == "every other row":
        twice = np.full((2 * n, dim), np.nan, dtype=x.dtype)
        twice[::2] = x
        return twice[::2]
    if layout == "backwards":
        return x[::-1].copy()[::-1]
    return np.ascontiguousarray(x)


LAYOUTS = ("contiguous", "read-only", "columns of a wider array", "every other row", "backwards")


@dataclass(frozen=True)
class Case:
    """One call: rows in some layout and a map."""

    chunk: np.ndarray
    row_map: RowMap

    def __repr__(self):
        m = self.row_map
        return (
            f"Case({self.chunk.shape}, {self.chunk.dtype}, {self.chunk.strides}, {m.kind.name}, out_dim={m.out_dim}, "
            f"Q={m.quant_bound}, limit={m.limit}, center={m.center is not None}, offset={m.offset is not None})"
        )


@st.composite
def cases(draw, dims=DIMS, kinds=KINDS, max_rows=90):
    """Whole calls; in some the clip norm is above the integer bound, so that rows fail the integer check."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dim = draw(st.sampled_from(dims))
    n = draw(st.one_of(st.sampled_from((0, 1, 7, 8, 9, 17)), st.integers(0, max_rows)))
    bound = draw(st.integers(20, 2896))
    row_map = make_map(
        rng,
        dim,
        draw(st.sampled_from(kinds)),
        quant_bound=bound,
        limit=draw(st.sampled_from((None, 0.5 * bound, bound + 0.3, 3.0 * bound))),
        scale=draw(st.sampled_from((300.0, 1.0, 1e-300, 1e300, 0.1))),
        center=draw(st.booleans()),
        offset=draw(st.booleans()),
    )
    x = make_rows(rng, n, dim, draw(st.lists(hostile_float64(), max_size=6)))
    if draw(st.booleans()):
        with np.errstate(all="ignore"):
            x = x.astype(np.float32)
    return Case(lay_out(x, draw(st.sampled_from(LAYOUTS))), row_map)


def sum_of(chunk, row_map, module=kernels):
    sums = np.zeros(row_map.out_dim, dtype=np.int64)
    module.rows_sum(chunk, row_map, sums)
    return sums


def gram_of(chunk, row_map, module=kernels):
    gram = np.zeros((row_map.out_dim, row_map.out_dim), dtype=np.int64)
    module.rows_gram(chunk, row_map, gram)
    return gram


def counted_sum_of(chunk, row_map, module=kernels):
    """The sum, and behind it the number of rows with an entry that is not finite."""
    sums = np.zeros(row_map.out_dim, dtype=np.int64)
    neutral = np.zeros(1, dtype=np.int64)
    module.rows_sum_counted(chunk, row_map, sums, neutral)
    return np.concatenate([sums, neutral])


def counted_gram_of(chunk, row_map, module=kernels):
    gram = np.zeros((row_map.out_dim, row_map.out_dim), dtype=np.int64)
    neutral = np.zeros(1, dtype=np.int64)
    module.rows_gram_counted(chunk, row_map, gram, neutral)
    return np.concatenate([gram.reshape(-1), neutral])


def pieces_of(chunk, row_map, module=kernels):
    grams = np.zeros((2, row_map.out_dim, row_map.out_dim), dtype=np.int64)
    module.rows_pieces(chunk, row_map, grams)
    return grams


def radial_of(chunk, row_map, bound=2000, module=kernels):
    """Both sums, and the squares of whole rows that reach to this bound."""
    dim = row_map.out_dim
    sums = np.zeros((2, dim), dtype=np.int64)
    gram = np.zeros((dim, dim), dtype=np.int64)
    counts = np.zeros(10, dtype=np.int64)
    edges_sq = row_map.limit**2 * 4.0 ** np.arange(-6, 3)
    module.rows_radial(
        chunk, row_map, sums, gram, bound / (2.0 * row_map.limit), bound, edges_sq, counts
    )
    return np.concatenate([sums.ravel(), gram.ravel(), counts])


def integers_of(chunk, row_map, module=kernels):
    out = np.full((chunk.shape[0], row_map.out_dim), 77, dtype=np.int32)
    module.rows_quantise(chunk, row_map, out)
    single = np.full((chunk.shape[0], row_map.out_dim + 2), 7.0, dtype=np.float32)
    if row_map.quant_bound <= 2**24:
        module.rows_single(chunk, row_map, single)
        np.testing.assert_array_equal(single[:, :-2], out)
        assert (single[:, -2:] == 7.0).all()
    return out


def counts_of(chunk, row_map, edges_sq, module=kernels):
    counts = np.zeros(edges_sq.size + 1, dtype=np.int64)
    module.rows_shell_counts(chunk, row_map, counts, edges_sq)
    return counts
