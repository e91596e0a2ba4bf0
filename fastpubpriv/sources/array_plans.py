"""The check of the task graph of a Dask array: each row of a chunk must be made of one row, each time of another one.

Every task is given the places of the rows that its value holds. Accepted are steps that keep these places: elementwise functions
known by identity, columns alone as an index, joining and cutting of blocks as `rechunk` does. All else is refused.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from fastpubpriv.errors import InputError
from fastpubpriv.sources.lazy_modules import (
    dask_array,
    dask_chunk,
    dask_core,
    dask_frames,
    dask_shuffle,
    dask_utils,
    old_spec,
    pandas,
    spec,
)

# Operators that raise for no value, elementwise on arrays. Powers of integers do (negative exponents), and are treated apart.
_OPERATORS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.neg,
    operator.abs,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
    operator.and_,
    operator.or_,
    operator.invert,
)
_POWERS = (operator.pow, np.power)
# Further functions, with the largest number of their arguments by position: the next one would be an array to write into.
_FUNCTIONS = ((np.clip, 3), (np.where, 3), (np.nan_to_num, 1), (np.round, 2))
_OPTIONS = frozenset({"min", "max", "a_min", "a_max", "decimals", "nan", "posinf", "neginf"})


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows `begin` to `end` (None: to the last) of a source: a block in memory, an object read by slices, or a loading task."""

    source: Any
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Placed:
    """The value of a task that holds rows: their places, in order along the first axis, and its number of dimensions."""

    places: tuple[Segment, ...]
    ndim: int

    @property
    def rows(self) -> int | None:
        """Number of rows, None if a source does not say its own."""
        ends = [part.end for part in self.places]
        return (
            None
            if None in ends
            else sum(part.end - part.begin for part in self.places if part.end is not None)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A value in the graph: a block of rows or a constant, which is decided where it is used."""

    value: Any
    key: Any = None

    @property
    def source(self) -> Any:
        """The identity of its rows: blocks of columns (name, i, 0), (name, i, 1) hold the same rows."""
        if self.key is None:
            return "value", id(self.value)
        return self.key[:2] if isinstance(self.key, tuple) else self.key


def nodes_of(graph: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the tasks of a graph in the current form; futures are left unchanged."""
    if all(isinstance(node, spec.GraphNode) for node in graph.values()):
        return dict(graph)
    return {**graph, **old_spec.convert_legacy_graph(graph)}


def check_array(
    nodes: Mapping[Any, Any], chunks: Iterable[Any], what: str = "the Dask array"
) -> None:
    """Raise InputError unless each row of the tasks `chunks` is made of one row of the sources, and no two rows of the same one."""
    walk = _Graph(what)
    values = walk.values(_needed(nodes, chunks), {})
    used: dict[Any, list[tuple[int, float]]] = {}
    for key in chunks:
        for part in walk.placed(values[key]).places:
            end = np.inf if part.end is None else part.end
            if end > part.begin:
                used.setdefault(part.source, []).append((part.begin, end))
    walk.check_objects()
    for ranges in used.values():
        if any(later[0] < sooner[1] for sooner, later in itertools.pairwise(sorted(ranges))):
            walk.refuse("the same rows at two places")
    if walk.constants & {_name(source) for source in used}:
        walk.refuse("arithmetic of rows with other rows")


def _needed(nodes: Mapping[Any, Any], chunks: Iterable[Any]) -> dict[Any, Any]:
    """Return the tasks that the chunks depend on."""
    needed = {}
    waiting = list(chunks)
    while waiting:
        key = waiting.pop()
        if key not in needed:
            needed[key] = nodes[key]
            waiting += _dependencies(nodes[key])
    return needed


def _dependencies(node: Any) -> Iterable[Any]:
    return node.dependencies if isinstance(node, spec.GraphNode) else ()


def _name(source: Any) -> Any:
    return source[0] if isinstance(source, tuple) and source[0] != "value" else source


class _Graph:
    """The walk over a graph, and the names of the blocks that it has taken for constants."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.constants: set[Any] = set()
        self._objects = False  # whether some block holds objects, which are read cell by cell
        self._computes = False  # whether some step may fail for some of them

    def check_objects(self) -> None:
        """Refuse arithmetic in a graph with objects: it fails for some of them."""
        if self._objects and self._computes:
            self.refuse("arithmetic of objects, which may fail for some of them")

    def refuse(self, step: str) -> NoReturn:
        """Raise InputError naming the step."""
        raise InputError(
            f"the plan of {self._what} has a step ({step}) that is not known to make each row of one row: it might let rows see "
            "each other, or their number, which is published, depend on what they hold. Pass columns made row by row (arithmetic "
            "with numbers, clip, where, astype to a float, columns), or x.persist() if you know that each row of x is made of one "
            "row"
        )

    def values(self, nodes: Mapping[Any, Any], given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the `Placed` or `Held` value of each task, with those `given` for tasks outside."""
        inner = {
            key: {each for each in _dependencies(node) if each in nodes}
            for key, node in nodes.items()
        }
        values = dict(given)
        for key in dask_core.toposort(nodes, dependencies=inner):
            values[key] = self._value(key, nodes[key], values)
        return values

    def _value(self, key: Any, node: Any, values: Mapping[Any, Any]) -> Any:
        if isinstance(node, spec.Alias):
            value = values[node.target]
            known = isinstance(key, tuple) and isinstance(value, Placed) and value.ndim == 0
            # A delayed function does not say the form of its rows, but the array that is made of it does.
            return replace(value, ndim=len(key) - 1) if known else value
        if isinstance(node, spec.DataNode):
            return Held(node.value, key)
        if not isinstance(node, spec.GraphNode):
            return Held(node, key)
        if not isinstance(node, spec.Task):
            self.refuse(type(node).__name__)
        return self._of_task(key, node, values)

    def _of_task(self, key: Any, task: Any, values: Mapping[Any, Any]) -> Any:
        function = task.func
        if function is old_spec._execute_subgraph:
            return self._of_subgraph(task, values)
        if function in (dask_array.getter, dask_array.getter_nofancy, dask_array.getter_inline):
            return self._read(self._arguments(task.args[:2], values))
        if _elementwise(function):
            return self._elementwise(key, task, values)
        if function in (
            dask_chunk.getitem,
            operator.getitem,
            getattr(dask_shuffle, "_getitem", None),
        ):
            return self._columns(function, self._arguments(task.args, values))
        if function is dask_chunk.astype:
            return self._astype(task, values)
        if function is dask_array.concatenate_shaped:
            return self._joined(task.args[0], task.args[1], values)
        if isinstance(function, dask_utils.methodcaller) and function.method == "reshape":
            return self._reshaped(task, values)
        if _makes_frame(task):
            return self.placed(self._arguments(task.args[:1], values)[0])
        if task.dependencies or any(
            _holds_task(part) for part in (*task.args, *task.kwargs.values())
        ):
            self.refuse(_called(function))
        # A function of constants alone loads its rows, as those of `from_map` do.
        return Placed(
            (Segment(Held(None, key).source, 0, None),),
            len(key) - 1 if isinstance(key, tuple) else 0,
        )

    def _of_subgraph(self, task: Any, values: Mapping[Any, Any]) -> Any:
        """Return the value of tasks that Dask has fused into one."""
        inner, last, outer, *given = task.args
        values_given = dict(zip(outer, self._arguments(given, values), strict=True))
        return self.values(inner, values_given)[last]

    def _arguments(self, parts: Sequence[Any], values: Mapping[Any, Any]) -> list[Any]:
        """Return the values of the arguments of a task."""
        arguments = []
        for part in parts:
            if isinstance(part, spec.TaskRef):
                arguments.append(values[part.key])
            elif isinstance(part, spec.Alias):
                arguments.append(values[part.target])
            elif isinstance(part, spec.DataNode):
                arguments.append(Held(part.value))
            elif (
                isinstance(part, spec.Task)
                and part.func is dask_array.concatenate_axes
                and part.args[1:] == ([1],)
            ):
                # all columns, for a partition of a frame
                arguments.append(self._joined(part.args[0], None, values))
            elif isinstance(part, spec.GraphNode):
                self.refuse("a step within another")
            else:
                arguments.append(Held(part))
        return arguments

    def placed(self, value: Any) -> Placed:
        """Return a value as rows; refuse one that has none."""
        if isinstance(value, Placed):
            return value
        if type(value.value) in (np.ndarray, np.memmap):
            if value.value.dtype.kind not in "biufO" or not value.value.ndim:
                self.refuse("a block that does not hold numbers")
            self._objects |= value.value.dtype.kind == "O"
            return Placed((Segment(value.source, 0, len(value.value)),), value.value.ndim)
        if not isinstance(value.key, tuple):
            self.refuse(f"a block of type {type(value.value).__name__}")
        # a future, or a partition of a frame
        return Placed((Segment(value.source, 0, None),), len(value.key) - 1)

    def _elementwise(self, key: Any, task: Any, values: Mapping[Any, Any]) -> Placed:
        """Return the rows of an elementwise function: all operands have the same ones in the same places, or are constants."""
        self._computes = True
        called = _called(task.func)
        operands = self._arguments(task.args, values)
        options = self._arguments(list(task.kwargs.values()), values)
        plain = all(isinstance(each, Held) and _is_scalar(each.value) for each in options)
        if not plain or set(task.kwargs) - _OPTIONS or len(operands) > _most_operands(task.func):
            self.refuse(f"{called} with other options than numbers")
        if task.func is np.where and len(operands) < 3:
            self.refuse("where without values, whose number of rows depends on what they hold")
        if task.func in _POWERS and not _is_power(operands[-1]):
            self.refuse(
                "a power, which fails for some values: one with a number from 0 on does not"
            )
        block = self._block(key, operands, called)
        for operand in operands:
            if isinstance(operand, Held) and self._is_constant(operand, block):
                continue
            if self.placed(operand) != block:
                self.refuse(f"{called} of rows with rows of other places")
        return block

    def _block(self, key: Any, operands: Sequence[Any], called: str) -> Placed:
        """Return the rows of the operand that has some; of several blocks in memory, of that with the place of the task."""
        for operand in operands:
            if isinstance(operand, Placed):
                return operand
        arrays = [self.placed(each) for each in operands if not _is_scalar(each.value)]
        widest = max((each.ndim for each in arrays), default=0)
        candidates = list(dict.fromkeys(each for each in arrays if each.ndim == widest))
        if len(candidates) > 1:
            candidates = [each for each in candidates if each.rows != 1] or [
                each for each in candidates if each.places[0].source[1:] == key[1:2]
            ]
        if len(candidates) != 1:
            self.refuse(f"{called} of rows with rows of other places")
        return candidates[0]

    def _is_constant(self, operand: Held, block: Placed) -> bool:
        """Return whether a value is the same for all rows of the block: it has no axis of rows, or one of length 1."""
        value = operand.value
        if _is_scalar(value):
            return True
        if type(value) not in (np.ndarray, np.memmap) or self.placed(operand) == block:
            return False
        constant = value.ndim < block.ndim or (value.ndim == block.ndim and len(value) == 1)
        if constant:
            self.constants.add(_name(operand.source))
        return constant

    def _read(self, given: Sequence[Any]) -> Placed:
        """Return the rows that a slice of an array or file holds."""
        original, index = given
        if (
            not isinstance(original, Held)
            or not isinstance(index, Held)
            or not isinstance(index.value, tuple)
        ):
            self.refuse("a slice of what is no array")
        if np.dtype(getattr(original.value, "dtype", float)).kind not in "biuf":
            self.refuse("a slice of an array that does not hold numbers")
        rows, *others = index.value
        if not all(isinstance(each, slice | int | np.integer) for each in others):
            self.refuse("a slice with other than columns")
        axes = getattr(original.value, "ndim", len(index.value)) - sum(
            not isinstance(each, slice) for each in others
        )
        # One file may have two names in the graph.
        whole = Placed((Segment(("value", id(original.value)), 0, None),), axes)
        return self._cut(whole, rows)

    def _cut(self, block: Placed, rows: Any) -> Placed:
        """Return the rows of a slice, forward and without gaps."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            self.refuse("an index of rows")
        if rows.start is None and rows.stop is None:
            return block
        begin = rows.start or 0
        if begin < 0 or (rows.stop is not None and rows.stop < 0):
            self.refuse("an index of rows from the end")
        if block.rows is None and len(block.places) > 1:
            self.refuse("an index of rows")
        return replace(block, places=tuple(_between(block.places, begin, rows.stop)))

    def _columns(self, function: Any, given: Sequence[Any]) -> Placed:
        """Return the rows of an index of columns, beside a slice of rows."""
        block = self.placed(given[0])
        index = given[1].value if isinstance(given[1], Held) else None
        if function is getattr(dask_shuffle, "_getitem", None) and isinstance(index, tuple):
            index = index[1]
        rows, *others = index if isinstance(index, tuple) else (index,)
        lists = [each for each in others if isinstance(each, list | np.ndarray)]
        plain = [
            each
            for each in others
            if each is None or isinstance(each, slice | np.integer) or type(each) is int
        ]
        # More than one list, or one beside an integer, may put the axis of rows elsewhere.
        if len(lists) + len(plain) != len(others) or (
            lists and (len(others) > 1 or np.ndim(lists[0]) != 1)
        ):
            self.refuse("an index of other than columns")
        axes = sum(each is None for each in others) - sum(
            isinstance(each, int | np.integer) for each in others
        )
        return replace(self._cut(block, rows), ndim=block.ndim + axes)

    def _astype(self, task: Any, values: Mapping[Any, Any]) -> Placed:
        self._computes = True
        target = task.kwargs.get("astype_dtype")
        target = target.value if isinstance(target, spec.DataNode) else target
        if (
            set(task.kwargs) - {"astype_dtype", "copy"}
            or not isinstance(target, np.dtype)
            or target.kind != "f"
        ):
            self.refuse("astype to other than a float")
        return self.placed(self._arguments(task.args[:1], values)[0])

    def _joined(self, listed: Any, shape: Any, values: Mapping[Any, Any]) -> Placed:
        """Return the rows of blocks put together, as `rechunk` does: beside each other only where they hold the same rows."""
        parts = listed.args if isinstance(listed, spec.GraphNode) else listed
        blocks = [self.placed(each) for each in self._arguments(parts, values)]
        shape = shape.value if isinstance(shape, spec.DataNode) else shape
        beside = len(blocks) if shape is None else int(np.prod(shape[1:]))
        for first in range(0, len(blocks), beside):
            if len(set(blocks[first : first + beside])) > 1:
                self.refuse("columns of two arrays beside each other")
        stacked = blocks[::beside]
        if len({each.ndim for each in stacked}) > 1:
            self.refuse("blocks of other forms on each other")
        return Placed(
            tuple(_merged(part for each in stacked for part in each.places)), stacked[0].ndim
        )

    def _reshaped(self, task: Any, values: Mapping[Any, Any]) -> Placed:
        block, *shapes = self._arguments(task.args, values)
        block = self.placed(block)
        shape = shapes[0].value if len(shapes) == 1 and isinstance(shapes[0], Held) else None
        if task.kwargs or not isinstance(shape, tuple) or shape[0] != block.rows:
            self.refuse("a reshape that may move parts of rows")
        return replace(block, ndim=len(shape))


def _elementwise(function: Any) -> bool:
    """Return whether a function is known, by identity, to compute each element from the elements at the same place."""
    if isinstance(function, np.ufunc):  # neither `numpy.matmul` nor what `numpy.frompyfunc` makes
        return (
            function.signature is None
            and function.nout == 1
            and getattr(np, function.__name__, None) is function
        )
    return any(
        function is each for each in (*_OPERATORS, *_POWERS, *(each for each, _ in _FUNCTIONS))
    )


def _most_operands(function: Any) -> int:
    """Return the number of operands of an elementwise function."""
    return function.nin if isinstance(function, np.ufunc) else dict(_FUNCTIONS).get(function, 2)


def _makes_frame(task: Any) -> bool:
    """Return whether a task makes a partition of a frame from a block of an array, as `dask.dataframe.from_dask_array` does."""
    if task.func is not getattr(dask_frames, "_partition_from_array", None):
        return False
    given = [
        part.value if isinstance(part, spec.DataNode) else part for part in task.kwargs.values()
    ]
    return (
        any(each is pandas.DataFrame or each is pandas.Series for each in given)
        and len(task.dependencies) <= 1
    )


def _is_scalar(value: Any) -> bool:
    return value is None or (
        isinstance(value, Real | np.generic) and not isinstance(value, np.void | np.object_)
    )


def _is_power(exponent: Any) -> bool:
    return (
        isinstance(exponent, Held)
        and isinstance(exponent.value, Real)
        and float(exponent.value) >= 0.0
    )


def _holds_task(part: Any) -> bool:
    """Return whether an argument has a task in it."""
    if isinstance(part, spec.List | dict | list | tuple):
        inner = (
            part.args
            if isinstance(part, spec.List)
            else part.values()
            if isinstance(part, dict)
            else part
        )
        return any(_holds_task(each) for each in inner)
    return isinstance(part, spec.GraphNode) and not isinstance(part, spec.DataNode)


def _called(function: Any) -> str:
    """Return the name of a function, of a partial one that of what it calls."""
    function = getattr(function, "func", function)
    return str(getattr(function, "__name__", type(function).__name__))


def _between(places: Sequence[Segment], begin: int, stop: int | None) -> Iterator[Segment]:
    """Yield rows `begin` to `stop` of segments."""
    first = 0
    for part in places:
        low = part.begin + max(begin - first, 0)
        high = part.end
        if stop is not None:
            asked = part.begin + max(stop - first, 0)
            high = asked if high is None else min(high, asked)
        if high is None or low < high:
            yield Segment(part.source, low, high)
        first += 0 if part.end is None else part.end - part.begin


def _merged(places: Iterable[Segment]) -> list[Segment]:
    """Return segments with those joined that follow each other in one source."""
    joined: list[Segment] = []
    for part in places:
        if joined and joined[-1].source == part.source and joined[-1].end == part.begin:
            joined[-1] = replace(joined[-1], end=part.end)
        else:
            joined.append(part)
    return joined
