"""Panels of rows against balls, fused: which radii can part a panel, how many of its rows are within, and rows as they come.

As in `_lanes`, the loops are written as LLVM code: sums stay in registers through all columns, and masks become counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.kernels._jit import instruction
from fastpubpriv.kernels._lanes import LANES, TURNED, _load, _pointer, _splat, _turned, _vector

_AHEAD = 8192  # bytes to ask memory for before their turn


def _loop(
    builder: Any, begin: Any, end: Any, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
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

    _, _, tile, _, _, _, group, begin, end, _, _, counts, center = values
    vector, _, size = _vector(context, kinds[0])
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
    counts: IntArray,
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
    counts: IntArray,
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
    vector, _, size = _vector(context, kinds[0])
    word, small = ir.IntType(64), ir.IntType(32)
    lanes = _load(builder, _pointer(context, builder, kinds[0], panel, builder.mul(row, word(LANES))), vector, size)
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


def _emit_measure(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    rows, first, centers, center, out = values
    number, word = context.get_value_type(kinds[0].dtype), ir.IntType(64)
    size, eight, small = kinds[0].dtype.bitwidth // 8, ir.VectorType(ir.DoubleType(), TURNED), ir.IntType(32)
    width = _width(context, builder, kinds[0], rows)
    start = builder.mul(center, width)

    byte = ir.IntType(8).as_pointer()
    code = ir.FunctionType(ir.VoidType(), [byte, small, small, small])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], code)

    def load(place: Any) -> Any:
        pointer = _pointer(context, builder, kinds[0], rows, place)
        later = builder.gep(builder.bitcast(pointer, byte), [word(_AHEAD)])
        builder.call(prefetch, [later, small(0), small(3), small(1)])  # to be read, and kept in all caches, as data
        return _load(builder, pointer, ir.VectorType(number, TURNED), size)

    def add(total: Any, lanes: Any, column: Any) -> Any:
        lanes = builder.fpext(lanes, eight) if size < 8 else lanes
        at = builder.load(_pointer(context, builder, kinds[2], centers, builder.add(start, column)))
        difference = builder.fsub(lanes, _splat(builder, eight, at))
        square = builder.fmul(difference, difference)
        return builder.fadd(total, square)

    zero = ir.Constant(eight, [0.0] * TURNED)

    def shuffle(a: Any, b: Any, mask: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(small, TURNED), mask))

    def both(a: Any, b: Any, odd: int) -> Any:
        return shuffle(a, b, [e // 2 * 2 + odd + TURNED * (e % 2) for e in range(TURNED)])

    def pairs(a: Any, b: Any, odd: int) -> Any:
        return shuffle(a, b, [start + 2 * odd + e for start in (0, 4, 8, 12) for e in (0, 1)])

    def narrow(columns: int) -> Callable[[Any], Any]:
        def rows_of(place: Any) -> Any:
            # Neighbours first change places in pairs of numbers, then the pairs do: where a row ends up does not matter.
            block = [load(builder.add(place, word(TURNED * e))) for e in range(columns)]
            if columns > 1:
                block = [both(block[e], block[e + 1], odd) for e in range(0, columns, 2) for odd in (0, 1)]
            if columns > 2:
                block = [pairs(block[k % 2], block[2 + k % 2], k // 2) for k in range(4)]
            total = zero
            for k in range(columns):
                total = add(total, block[k], word(k))
            return total

        return rows_of

    def wide(place: Any) -> Any:
        def part(number: Any, sums: list[Any]) -> list[Any]:
            column, total = builder.mul(number, word(TURNED)), sums[0]
            block = [load(builder.add(place, builder.add(column, builder.mul(width, word(e))))) for e in range(TURNED)]
            for e, lanes in enumerate(_turned(builder, block)):
                total = add(total, lanes, builder.add(column, word(e)))
            return [total]

        return _loop(builder, word(0), builder.udiv(width, word(TURNED)), [zero], part)[0]

    done = builder.append_basic_block("measured")
    ways = {columns: builder.append_basic_block("narrow") for columns in (1, 2, 4)}
    other = builder.append_basic_block("wide")
    choice = builder.switch(width, other)
    for columns, way in ways.items():
        choice.add_case(word(columns), way)
    for way, rows_of in [*((way, narrow(columns)) for columns, way in ways.items()), (other, wide)]:
        builder.position_at_end(way)

        def group(number: Any, _: list[Any], rows_of: Callable[[Any], Any] = rows_of) -> list[Any]:
            lane = builder.mul(number, word(TURNED))
            total = rows_of(builder.mul(builder.add(first, lane), width))
            goal = builder.bitcast(_pointer(context, builder, kinds[4], out, lane), eight.as_pointer())
            builder.store(total, goal).align = 8
            return []

        _loop(builder, word(0), word(LANES // TURNED), [], group)
        builder.branch(done)
    builder.position_at_end(done)
    return context.get_dummy_value()


@instruction(result="void", emit=_emit_measure)
def measure(rows: npt.NDArray[Any], first: int, centers: FloatArray, c: int, out: FloatArray) -> None:
    """out (64,) = squared distances of centers[c] (dim,) from rows (n, dim) from first on; 1, 2, 4 or 8 p columns.

    With 2 or 4 columns the order is another in each eight rows. The columns are added up one by one, as
    `add_columns` does, but rows go from memory to sums without a panel in between.
    """
    out[:] = 0.0
    for k in range(rows.shape[1]):
        difference = rows[first : first + LANES, k] - centers[c, k]
        out += difference * difference
