"""Panels of rows against balls in single precision: which radii can part a panel, and how many rows are surely within them.

As in `_lanes`, the loops are written as LLVM code: sums stay in registers through all columns, and masks become counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv.kernels._jit import instruction
from fastpubpriv.kernels._lanes import LANES, _load, _pointer, _splat, _vector


def _loop(builder: Any, begin: Any, end: Any, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """LLVM's loop over begin..end, which may be empty: body(number, carried) returns what the next turn is given."""
    entry = builder.block
    loop, after = builder.append_basic_block("turn"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", begin, end), loop, after)
    builder.position_at_end(loop)
    number = builder.phi(begin.type)
    values = [builder.phi(value.type) for value in carried]
    results = body(number, values)
    following = builder.add(number, begin.type(1))
    last = builder.block
    number.add_incoming(begin, entry)
    number.add_incoming(following, last)
    for value, start, result in zip(values, carried, results, strict=True):
        value.add_incoming(start, entry)
        value.add_incoming(result, last)
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    final = []
    for start, result in zip(carried, results, strict=True):
        value = builder.phi(start.type)
        value.add_incoming(start, entry)
        value.add_incoming(result, last)
        final.append(value)
    return final


def _width(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Columns of a matrix, or of the matrices that a table of them consists of."""
    return builder.extract_value(context.make_array(kind)(context, builder, array).shape, 1)


def _emit_reach(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    lower, _, tile, _, _, _, group, begin, end, _, _, counts, center = values
    vector, number, size = _vector(context, kinds[0])
    word, small = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
    zero = ir.Constant(vector, [0.0] * LANES)
    width, radii = (_width(context, builder, kinds[place], values[place]) for place in (0, 11))
    start, row, total = builder.mul(tile, width), builder.mul(group, width), builder.mul(center, radii)

    def one(place: int, index: Any) -> Any:
        value = builder.load(_pointer(context, builder, kinds[place], values[place], index))
        value.align = size
        return _splat(builder, vector, value)

    def column(k: Any, sums: list[Any]) -> list[Any]:
        x = one(3, builder.add(row, k))
        place = builder.mul(builder.add(start, k), word(LANES))
        sides = [_load(builder, _pointer(context, builder, kinds[e], values[e], place), vector, size) for e in (0, 1)]
        below, above = builder.fsub(sides[0], x), builder.fsub(x, sides[1])
        larger = builder.fcmp_ordered(">", below, above)
        gap, across = builder.select(larger, below, above), builder.select(larger, above, below)
        gap = builder.select(builder.fcmp_ordered(">", zero, gap), zero, gap)
        return [
            builder.fadd(held, builder.fmul(side, side, flags=("contract",)), flags=("contract",))
            for held, side in zip(sums, (gap, across), strict=True)
        ]

    near, far = _loop(builder, word(0), width, [zero, zero], column)
    allowed = one(4, group)
    fresh = _splat(builder, small, builder.trunc(begin, ir.IntType(32)))

    def radius(r: Any, sums: list[Any]) -> list[Any]:
        bound = one(5, r)
        outside = builder.fcmp_ordered(">", near, builder.fadd(bound, allowed))
        within = builder.fcmp_ordered("<=", far, builder.fsub(bound, allowed))
        whole = builder.ctpop(builder.bitcast(within, word))
        held = _pointer(context, builder, kinds[11], counts, builder.add(total, r))
        builder.store(builder.add(builder.load(held), builder.mul(whole, word(LANES))), held)
        return [
            builder.add(sums[0], builder.zext(outside, small)),
            builder.add(sums[1], builder.zext(builder.not_(within), small)),
        ]

    ranges = _loop(builder, begin, end, [fresh, fresh], radius)
    for place, total in zip((9, 10), ranges, strict=True):
        goal = _pointer(context, builder, kinds[place], values[place], builder.mul(group, word(LANES)))
        target = builder.bitcast(goal, small.as_pointer())
        builder.store(total, target).align = 4
    return builder.bitcast(builder.icmp_signed("<", *ranges), word)


@instruction(result="uint64", emit=_emit_reach)
def reach(
    lower: npt.NDArray[np.float32],
    upper: npt.NDArray[np.float32],
    tile: int,
    centers: npt.NDArray[np.float32],
    slack: npt.NDArray[np.float32],
    bounds: npt.NDArray[np.float32],
    g: int,
    begin: int,
    end: int,
    none: npt.NDArray[np.int32],
    full: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
    c: int,
) -> np.uint64:
    """Radii none[g] to full[g] (64,), of those from begin to end, may part the boxes of lower and upper[tile] (dim, 64).

    Distances from centers[g] (dim,) that differ from bounds (radii,) by at most slack[g] may be on either side of it.
    counts[c] (radii,) += 64 for each box that lies within a radius. Bit v is set if a radius may part box v.
    """
    x = centers[g, :, None]
    below, above = lower[tile] - x, x - upper[tile]
    near = (np.maximum(np.maximum(below, above), 0) ** 2).sum(axis=0)
    far = (np.minimum(below, above) ** 2).sum(axis=0)
    none[g] = begin + (near[:, None] > bounds[begin:end] + slack[g]).sum(axis=1)
    within = far[:, None] <= bounds[begin:end] - slack[g]
    full[g] = end - within.sum(axis=1)
    counts[c, begin:end] += LANES * within.sum(axis=0)
    return np.uint64(np.packbits(none[g] < full[g], bitorder="little").view("<u8")[0])


def _emit_count_lanes(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    panels, place, _, _, _, group, begin, end, out, counts, center = values
    vector, _, size = _vector(context, kinds[0])
    word = ir.IntType(64)
    width, radii = (_width(context, builder, kinds[e], values[e]) for e in (0, 9))
    start, row, sums = builder.mul(place, width), builder.mul(group, width), builder.mul(center, radii)

    def one(array: int, index: Any) -> Any:
        value = builder.load(_pointer(context, builder, kinds[array], values[array], index))
        value.align = size
        return _splat(builder, vector, value)

    def column(k: Any, squares: list[Any]) -> list[Any]:
        where = builder.mul(builder.add(start, k), word(LANES))
        lanes = _load(builder, _pointer(context, builder, kinds[0], panels, where), vector, size)
        difference = builder.fsub(one(2, builder.add(row, k)), lanes)
        square = builder.fmul(difference, difference, flags=("contract",))
        return [builder.fadd(squares[0], square, flags=("contract",))]

    (total,) = _loop(builder, word(0), width, [ir.Constant(vector, [0.0] * LANES)], column)
    target = builder.bitcast(_pointer(context, builder, kinds[8], out), vector.as_pointer())
    builder.store(total, target).align = size

    # Comparing twice with each radius would take twice the masks, which are what this loop waits for.
    bits = ir.VectorType(ir.IntType(32), LANES)
    no_sign = ir.Constant(bits, [0x7FFFFFFF] * LANES)

    def radius(r: Any, closest: list[Any]) -> list[Any]:
        bound = one(4, r)
        inside = builder.bitcast(builder.fcmp_ordered("<=", total, bound), word)
        held = _pointer(context, builder, kinds[9], counts, builder.add(sums, r))
        builder.store(builder.add(builder.load(held), builder.ctpop(inside)), held)
        apart = builder.bitcast(builder.and_(builder.bitcast(builder.fsub(total, bound), bits), no_sign), vector)
        return [builder.select(builder.fcmp_ordered("<", apart, closest[0]), apart, closest[0])]

    (closest,) = _loop(builder, begin, end, [ir.Constant(vector, [float("inf")] * LANES)], radius)
    return builder.bitcast(builder.fcmp_ordered("<=", closest, one(3, group)), word)


@instruction(result="uint64", emit=_emit_count_lanes)
def count_lanes(
    panels: npt.NDArray[np.float32],
    p: int,
    centers: npt.NDArray[np.float32],
    slack: npt.NDArray[np.float32],
    bounds: npt.NDArray[np.float32],
    g: int,
    begin: int,
    end: int,
    out: npt.NDArray[np.float32],
    counts: npt.NDArray[np.int64],
    c: int,
) -> np.uint64:
    """out (64,) = squared distances of panels[p] (dim, 64) from centers[g] (dim,); counts[c] (radii,) += those within bounds.

    Of bounds (radii,), those from begin to end. Bit v is set if distance v differs from one of them by at most slack[g].
    """
    difference = centers[g, :, None] - panels[p]
    out[:] = (difference * difference).sum(axis=0)
    counts[c, begin:end] += (out[:, None] <= bounds[begin:end]).sum(axis=0)
    unclear = (np.abs(out[:, None] - bounds[begin:end]) <= slack[g]).any(axis=1)
    return np.uint64(np.packbits(unclear, bitorder="little").view("<u8")[0])


def _emit_extent(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    panel, row, out = values
    vector, number, size = _vector(context, kinds[0])
    word, small = ir.IntType(64), ir.IntType(32)
    lanes = _load(
        builder, _pointer(context, builder, kinds[0], panel, builder.mul(row, word(LANES))), vector, size
    )
    for place, sign in ((0, "<"), (1, ">")):
        best, half = lanes, LANES // 2
        while half > 0:
            parts = [
                builder.shuffle_vector(best, best, ir.Constant(ir.VectorType(small, half), list(range(e, e + half))))
                for e in (0, half)
            ]
            best = builder.select(builder.fcmp_ordered(sign, parts[1], parts[0]), parts[1], parts[0])
            half //= 2
        builder.store(builder.extract_element(best, small(0)), _pointer(context, builder, kinds[2], out, word(place)))
    return context.get_dummy_value()


@instruction(result="void", emit=_emit_extent)
def extent(panel: npt.NDArray[Any], row: int, out: npt.NDArray[Any]) -> None:
    """out (2,) = the least and the largest of panel[row] (64,), where NaN may only follow numbers."""
    out[0], out[1] = np.fmin.reduce(panel[row]), np.fmax.reduce(panel[row])
