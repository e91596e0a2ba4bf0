"""Distances from 64 rows at once: vector code that is the same in every kernel, in single and in double precision.

Numba finds vectors in such loops only for some lengths and types, and never a bit mask. A vector of 64 numbers is cut by LLVM
into what the machine has. Double precision adds up column by column without fused multiply-adds, so that its bits are those
of `reference.nearest.squared_distances`; single precision, which decides nothing, may fuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastpubpriv._types import IntArray
from fastpubpriv.kernels._jit import instruction

LANES = 64
TURNED = 8  # rows and columns that change places at a time


def _pointer(context: Any, builder: Any, kind: Any, array: Any, offset: Any = None) -> Any:
    """Address of element `offset` of a contiguous array."""
    data = context.make_array(kind)(context, builder, array).data
    return data if offset is None else builder.gep(data, [offset])


def _load(builder: Any, pointer: Any, vector: Any, align: int) -> Any:
    value = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    value.align = align  # NumPy promises no more than that of one number
    return value


def _vector(context: Any, kind: Any) -> tuple[Any, Any, int]:
    """The type of 64 numbers of an array, that of one, and the bytes of one."""
    from llvmlite import ir

    number = context.get_value_type(kind.dtype)
    return ir.VectorType(number, LANES), number, kind.dtype.bitwidth // 8


def _splat(builder: Any, vector: Any, number: Any) -> Any:
    from llvmlite import ir

    undefined = ir.Constant(vector, ir.Undefined)
    lane = ir.IntType(32)
    one = builder.insert_element(undefined, number, lane(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(lane, vector.count), [0] * vector.count))


def _emit_add_columns(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    panel, row, begin, end, out = values
    vector, _, size = _vector(context, kinds[0])
    flags = ("contract",) if size == 4 else ()
    index = ir.IntType(64)
    target = _pointer(context, builder, kinds[4], out)
    entry = builder.block
    loop, after = builder.append_basic_block("columns"), builder.append_basic_block("sums")
    fresh = builder.icmp_signed("==", begin, index(0))
    held = _load(builder, target, vector, size)
    start = builder.select(fresh, ir.Constant(vector, None), held)
    builder.cbranch(builder.icmp_signed("<", begin, end), loop, after)

    builder.position_at_end(loop)
    column, total = builder.phi(index), builder.phi(vector)
    number = builder.load(_pointer(context, builder, kinds[1], row, column))
    number.align = size
    lanes = _load(
        builder,
        _pointer(context, builder, kinds[0], panel, builder.mul(column, index(LANES))),
        vector,
        size,
    )
    difference = builder.fsub(lanes, _splat(builder, vector, number))
    sums = builder.fadd(total, builder.fmul(difference, difference, flags=flags), flags=flags)
    following = builder.add(column, index(1))
    column.add_incoming(begin, entry)
    column.add_incoming(following, loop)
    total.add_incoming(start, entry)
    total.add_incoming(sums, loop)
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)

    builder.position_at_end(after)
    result = builder.phi(vector)
    result.add_incoming(start, entry)
    result.add_incoming(sums, loop)
    store = builder.store(result, builder.bitcast(target, vector.as_pointer()))
    store.align = size
    return context.get_dummy_value()


@instruction(result="void", emit=_emit_add_columns)
def add_columns(panel: npt.NDArray[Any], row: npt.NDArray[Any], begin: int, end: int, out: npt.NDArray[Any]) -> None:
    """out (64,) += squared differences of row (dim,) and panel (dim, 64) in columns begin..end; begin = 0 starts at zero."""
    if begin == 0:
        out[:] = 0
    for k in range(begin, end):
        difference = panel[k] - row[k]
        out += difference * difference


def _emit_within(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    vector, _, size = _vector(context, kinds[0])
    bound = context.cast(builder, values[1], kinds[1], kinds[0].dtype)
    lanes = _load(builder, _pointer(context, builder, kinds[0], values[0]), vector, size)
    return builder.bitcast(builder.fcmp_ordered("<=", lanes, _splat(builder, vector, bound)), ir.IntType(64))


@instruction(result="uint64", emit=_emit_within)
def within(distances: npt.NDArray[Any], bound: float) -> np.uint64:
    """Bit v is set if distances[v] <= bound, for the 64 lanes; never for NaN."""
    return np.uint64(np.packbits(distances <= distances.dtype.type(bound), bitorder="little").view("<u8")[0])


def _emit_count(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    return builder.ctpop(values[0])


@instruction(result="int64", emit=_emit_count)
def count(bits: np.uint64) -> int:
    """How many of 64 bits are set."""
    return int(bits).bit_count()


def _emit_lowest(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))


@instruction(result="int64", emit=_emit_lowest)
def lowest(bits: np.uint64) -> int:
    """Place of the lowest bit that is set; 64 if there is none."""
    return (int(bits) & -int(bits)).bit_length() - 1 if bits else 64


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """Eight columns of eight rows of eight."""
    from llvmlite import ir

    block = list(rows)
    # Three rounds swap the off-diagonal quarters of blocks of 2, 4 and 8 numbers, each pair of rows by two shuffles.
    for step in (1, 2, 4):
        upper = [e for e in range(TURNED) if not e & step]
        first = [e if not e & step else e - step + TURNED for e in range(TURNED)]
        second = [e + step if not e & step else e + TURNED for e in range(TURNED)]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), TURNED), mask) for mask in (first, second)]
        for e in upper:
            a, b = block[e], block[e + step]
            block[e], block[e + step] = (builder.shuffle_vector(a, b, mask) for mask in masks)
    return block


def _emit_turn(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    rows, index, lane, column, panel = values
    word = ir.IntType(64)
    number, goal = (context.get_value_type(kinds[place].dtype) for place in (0, 4))
    size, goal_size = (kinds[place].dtype.bitwidth // 8 for place in (0, 4))
    vector, result = ir.VectorType(number, TURNED), ir.VectorType(goal, TURNED)
    width = builder.extract_value(context.make_array(kinds[0])(context, builder, rows).shape, 1)
    block = []
    for e in range(TURNED):
        which = builder.load(_pointer(context, builder, kinds[1], index, builder.add(lane, word(e))))
        start = builder.add(builder.mul(which, width), column)
        part = _load(builder, _pointer(context, builder, kinds[0], rows, start), vector, size)
        if size < goal_size:
            part = builder.fpext(part, result)
        elif size > goal_size:
            part = builder.fptrunc(part, result)
        block.append(part)
    block = _turned(builder, block)
    for e in range(TURNED):
        place = builder.add(builder.mul(builder.add(column, word(e)), word(LANES)), lane)
        target = builder.bitcast(_pointer(context, builder, kinds[4], panel, place), result.as_pointer())
        builder.store(block[e], target).align = goal_size
    return context.get_dummy_value()


@instruction(result="void", emit=_emit_turn)
def turn(rows: npt.NDArray[Any], index: IntArray, lane: int, column: int, panel: npt.NDArray[Any]) -> None:
    """panel (dim, 64) at 8 columns from column on and 8 lanes from lane on = rows (n, dim) that index (64,) names for them.

    Eight numbers are read from each row and written to eight rows of the panel, also beyond the last column.
    """
    width = rows.shape[1]
    for e in range(TURNED):
        start = index[lane + e] * width + column
        panel[column : column + TURNED, lane + e] = rows.reshape(-1)[start : start + TURNED]


def _emit_fetch(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    from llvmlite import ir

    rows, number = values
    small = ir.IntType(32)
    width = builder.extract_value(context.make_array(kinds[0])(context, builder, rows).shape, 1)
    start = _pointer(context, builder, kinds[0], rows, builder.mul(number, width))
    address = builder.bitcast(start, ir.IntType(8).as_pointer())
    code = ir.FunctionType(ir.VoidType(), [address.type, small, small, small])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], code)
    per_line = 64 * 8 // kinds[0].dtype.bitwidth
    lines = builder.udiv(builder.add(width, width.type(per_line - 1)), width.type(per_line))
    entry, loop, after = builder.block, builder.append_basic_block("lines"), builder.append_basic_block("asked")
    builder.branch(loop)
    builder.position_at_end(loop)
    line = builder.phi(width.type)
    where = builder.gep(address, [builder.mul(line, width.type(64))])
    builder.call(prefetch, [where, small(0), small(3), small(1)])  # to be read, and kept in all caches, as data
    following = builder.add(line, width.type(1))
    line.add_incoming(width.type(0), entry)
    line.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, lines), loop, after)
    builder.position_at_end(after)
    return context.get_dummy_value()


@instruction(result="void", emit=_emit_fetch)
def fetch(rows: npt.NDArray[Any], number: int) -> None:
    """Ask for row `number` of rows (n, dim), which may lie beyond the last, ahead of its use."""
