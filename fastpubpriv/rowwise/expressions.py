"""Conditions on rows and new columns, as texts in the syntax of Python's expressions over the cells of one row.

A text is parsed by `ast` into a tree of steps, and only steps that are listed here are accepted: each makes one number, or one
truth value, of those of the same row and of constants. So a derived row is a function of one row and of public constants.

Truth is three-valued, as in SQL: a comparison with a missing number is unknown, and a row is inside only if its condition is true.
The kind of a column follows from its use: compared with texts it holds texts, compared with a text YYYY-MM-DD, or read by `year`
and the like, dates, else numbers. No value raises an error or a warning: arithmetic is that of IEEE 754.
"""

from __future__ import annotations

import ast
import datetime
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import InputError
from fastpubpriv.rowwise.intervals import name_of_interval

MOST_NODES = 500  # of a text, with those of the columns that it names
MOST_DEPTH = MOST_NODES // 4  # levels of nodes within nodes, far from the limit of recursion
MOST_LETTERS = 40 * MOST_NODES
OTHER = "(other)"  # what stands for numbers outside all bins

Kind = Literal["number", "truth", "text", "date"]
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_IN_WORDS = {"number": "numbers", "truth": "numbers", "text": "texts", "date": "dates"}


class Truth(NamedTuple):
    """Where a condition is true, and where it is false; it is unknown where it is neither."""

    true: BoolArray
    false: BoolArray


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on the values of others; a constant or a column has none below it."""

    name: str  # as in the text, or "column" or "number"
    below: tuple[Operation, ...] = ()
    value: Any = None  # the name of a column, a number, or the edges of bins
    kind: Kind = "number"

    @property
    def nodes(self) -> int:
        """Number of steps."""
        return 1 + sum(step.nodes for step in self.below)

    @property
    def depth(self) -> int:
        """Number of levels of steps."""
        return 1 + max((step.depth for step in self.below), default=0)


@dataclass(frozen=True, slots=True)
class UsedColumn:
    """A column that programs read, and what it holds; `texts` is the list by whose indices texts are compared."""

    name: str
    kind: Kind
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bins:
    """Intervals of numbers, closed on the left, between ascending edges."""

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the intervals, public: those of numbers outside all of them and of missing ones are not among them."""
        return tuple(name_of_interval(low, high) for low, high in pairwise(self.edges))

    def __call__(self, numbers: FloatArray) -> FloatArray:
        """Return the place of each number among the labels; the number of labels outside, NaN for a missing one."""
        outside = len(self.edges) - 1
        places = np.searchsorted(np.array(self.edges), numbers, side="right") - 1
        places = np.where(places < 0, outside, places)
        return np.where(np.isfinite(numbers), places, np.nan)


# Functions of arrays that this floor cannot reach: `log` and `exp` of the C library, `months` and `day` of the calendar.
Given = Mapping[str, Callable[[FloatArray], FloatArray]]


@dataclass(frozen=True, slots=True)
class RowProgram:
    """What is computed from each row: whether it is inside, and new columns. A frozen value of texts and public constants."""

    where: tuple[str, ...]  # the conditions as the caller wrote them
    condition: Operation | None
    derived: tuple[tuple[str, Operation], ...]  # name and step of each new column
    columns: tuple[UsedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the new columns."""
        return tuple(name for name, _ in self.derived)

    @property
    def about(self) -> str:
        """All conditions in one text; empty without any."""
        if len(self.where) < 2:
            return "".join(self.where)
        return " and ".join(f"({text})" for text in self.where)

    def bins_of(self, name: str) -> Bins | None:
        """Return the bins of a new column; None if it holds numbers, or there is none of this name."""
        step = dict(self.derived).get(name)
        return step.value if step is not None and step.name == "bin" else None

    def used_by(self, names: Sequence[str]) -> tuple[UsedColumn, ...]:
        """Return the columns that the condition and these new columns read."""
        steps = [step for name, step in self.derived if name in names]
        steps += [] if self.condition is None else [self.condition]
        read = {name for step in steps for name in _columns_of(step)}
        return tuple(column for column in self.columns if column.name in read)

    def inside(self, cells: Mapping[str, FloatArray], given: Given) -> BoolArray | None:
        """Return which rows are inside, (k,); None without a condition."""
        if self.condition is None:
            return None
        with np.errstate(all="ignore"):
            truth: Truth = _value(self.condition, cells, given)
        return truth.true

    def new_column(self, name: str, cells: Mapping[str, FloatArray], given: Given) -> FloatArray:
        """Return the numbers of a new column, (k,): of bins, the places among their labels."""
        with np.errstate(all="ignore"):
            numbers = _number(_value(dict(self.derived)[name], cells, given))
            # One pattern for a missing number, and one for zero.
            return np.where(np.isnan(numbers), np.nan, numbers + 0.0)


def _columns_of(step: Operation) -> set[str]:
    if step.name == "column":
        return {step.value}
    return set[str]().union(*map(_columns_of, step.below))


# ---- Evaluation ------------------------------------------------------------------------------------------------------


def _number(value: Any) -> FloatArray:
    """Return a truth value as a number: 1, 0, or NaN if it is unknown."""
    if isinstance(value, Truth):
        return np.where(value.true, 1.0, np.where(value.false, 0.0, np.nan))
    return np.asarray(value, dtype=np.float64)


def _first_if(chosen: BoolArray, one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the first number where it is chosen, else the other; NaN if either is."""
    # NumPy's minimum of 0.0 and -0.0 may be either; a comparison takes the first.
    return np.where(np.isnan(one) | np.isnan(other), np.nan, np.where(chosen, one, other))


def _all(*values: Truth) -> Truth:
    true, false = values[0]
    for value in values[1:]:
        true = true & value.true
        false = false | value.false
    return Truth(true, false)


def _inverse(value: Truth) -> Truth:
    return Truth(value.false, value.true)


def _any(*values: Truth) -> Truth:
    return _inverse(_all(*map(_inverse, values)))


def _equal(one: FloatArray, other: FloatArray) -> Truth:
    return Truth(one == other, (one < other) | (one > other))


def _chosen(condition: Truth, one: Any, other: Any) -> FloatArray:
    if_not = np.where(condition.false, _number(other), np.nan)
    return np.where(condition.true, _number(one), if_not)


# Each is elementwise, with the same bits for a number alone and among others: IEEE operations, comparisons and choices.


def _computed(name: str, x: FloatArray, y: FloatArray) -> FloatArray | None:
    """Return the number that arithmetic makes of one number or two; None for a comparison."""
    match name:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            return np.divide(x, y)
        case "negative":
            return -x
        case "** 2":
            return x * x
        case "** 3":
            return x * x * x
        case "** 4":
            return (x * x) * (x * x)
        case "abs" | "sqrt" | "floor" | "ceil" | "rint":
            return np.asarray(getattr(np, name)(x))
        case "min":
            return _first_if(x <= y, x, y)
        case "max":
            return _first_if(x >= y, x, y)
        case "year":
            return np.floor(x / 12.0) + 1970.0
        case "quarter":
            return np.floor(_remainder(x, 12.0) / 3.0) + 1.0
        case "month":
            return _remainder(x, 12.0) + 1.0
        case "weekday":  # day 0 was a Thursday; Monday is 0, as in `datetime.date.weekday`
            return _remainder(x + 3.0, 7.0)
    return None


def _compared(name: str, x: FloatArray, y: FloatArray) -> Truth:
    """Return where a comparison of numbers is true and where it is false."""
    match name:
        case "<":
            return Truth(x < y, x >= y)
        case "<=":
            return Truth(x <= y, x > y)
        case ">":
            return Truth(x > y, x <= y)
        case ">=":
            return Truth(x >= y, x < y)
        case "==":
            return _equal(x, y)
        case "!=":
            return _inverse(_equal(x, y))
        case "is true":
            return _inverse(_equal(x, np.zeros(())))
    assert name == "missing"
    return Truth(~np.isfinite(x), np.isfinite(x))


OF_TRUTHS: dict[str, Callable[..., Any]] = {
    "and": _all,
    "or": _any,
    "not": _inverse,
    "if": _chosen,
}


def _remainder(x: FloatArray, divisor: float) -> FloatArray:
    """Return the remainder of whole numbers, from 0 on."""
    return x - divisor * np.floor(x / divisor)


def _value(step: Operation, cells: Mapping[str, FloatArray], given: Given) -> Any:
    """Return the value of a step for all rows of a chunk: a Truth, an array (k,), or a number for a constant."""
    if step.name == "column":
        return cells[step.value]
    if step.name == "number":
        return np.float64(step.value)
    below = [_value(each, cells, given) for each in step.below]
    if step.name in OF_TRUTHS:
        return OF_TRUTHS[step.name](*below)
    numbers = [_number(each) for each in below]
    if step.name == "bin":
        return step.value(*numbers)
    if step.name in given:
        return given[step.name](*numbers)
    pair = (numbers[0], numbers[-1])
    computed = _computed(step.name, *pair)
    return _compared(step.name, *pair) if computed is None else computed


# ---- Parsing ---------------------------------------------------------------------------------------------------------

_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_OF_NUMBERS = ("abs", "sqrt", "floor", "ceil", "round", "log", "exp")
_NAMES = {"round": "rint"}  # of operations that NumPy calls otherwise
_OF_DATES = ("year", "quarter", "month", "day", "weekday")
GRAMMAR = (
    "write columns (of an array x0, x1, ...; col('my column')), numbers, True, False, texts, + - * /, ** 2 (3, 4), comparisons, in "
    "[...], and, or, not, a if c else b, "
    f"{', '.join(_OF_NUMBERS)}, min, max, missing, {', '.join(_OF_DATES)}, or bin(x, 18, 40, 65) as the whole text"
)
_INSTEAD = {
    ast.BitAnd: "write and",
    ast.BitOr: "write or",
    ast.BitXor: "write !=",
    ast.Invert: "write not",
    ast.Pow: "a power is ** 2, ** 3 or ** 4",
}


@dataclass(slots=True)
class _Parser:
    """The columns that texts use, what they hold, and the new columns."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    alike: list[tuple[str, str]] = field(default_factory=list)  # columns that are compared
    derived: dict[str, Operation] = field(default_factory=dict)
    what: str = ""  # the text that is being parsed, in words

    def refuse(self, problem: str) -> NoReturn:
        raise InputError(f"{self.what}: {problem}")

    def refuse_node(self, node: ast.AST, instead: str = "") -> NoReturn:
        """Raise InputError: this part of the text is none of the accepted steps."""
        problem = f"{_quoted(node)} is no step that is known to make each row of one row"
        self.refuse(f"{problem}: {instead or GRAMMAR}")

    def tree(self, text: str) -> ast.expr:
        """Return the tree of a text."""
        if not isinstance(text, str):
            self.refuse(f"a text is needed, such as 'age >= 40', got {type(text).__name__}")
        if len(text) > MOST_LETTERS or "\\" in text:
            self.refuse(f"at most {MOST_LETTERS:,} letters, and no backslash, make a text")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            nodes = sum(1 for _ in ast.walk(tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.refuse(f"this is no expression: {GRAMMAR}")
        if nodes > MOST_NODES or _depth(tree) > MOST_DEPTH:
            self.refuse(
                f"at most {MOST_NODES} nodes, {MOST_DEPTH} within each other, make a text: shorten it"
            )
        return tree

    def program(self, what: str, text: str, *, condition: bool) -> Operation:
        """Return the step of a text: a condition, or a new column."""
        self.what = what
        tree = self.tree(text)
        if condition:
            step = self.truth(tree)
        elif _called(tree) == "bin":
            step = self.bins(tree)
        else:
            step = self.step(tree)
            self.require_number(step, tree)
        if not _columns_of(step):
            self.refuse("the text names no column")
        if step.nodes > MOST_NODES or step.depth > MOST_DEPTH:
            self.refuse(
                f"at most {MOST_NODES} steps, {MOST_DEPTH} within each other, make a column, those of columns that it names among "
                "them: shorten it"
            )
        return step

    def use(self, step: Operation, kind: Kind, node: ast.AST) -> None:
        """Note that a step is used as a value of this kind; raise InputError if it is of another."""
        if step.name == "column":
            held = self.kinds.setdefault(step.value, kind)
            self.require_one_kind(step.value, held, kind)
        elif step.kind != kind and not {step.kind, kind} <= {"number", "truth"}:
            self.refuse_node(
                node, f"{_IN_WORDS[kind]} are needed here, and these are {_IN_WORDS[step.kind]}"
            )

    def require_one_kind(self, name: str, one: Kind, other: Kind) -> None:
        if one != other:
            self.refuse(
                f"column {name!r} is used as a column of {_IN_WORDS[one]} and of {_IN_WORDS[other]}: one that is compared with "
                "'2024-01-31', or read by year() and the like, holds dates, one compared with other texts texts, any other numbers"
            )

    def require_number(self, step: Operation, node: ast.AST) -> Operation:
        self.use(step, "number", node)
        return step

    def number(self, node: ast.expr) -> Operation:
        """Return the step of a node that is used as a number."""
        return self.require_number(self.step(node), node)

    def truth(self, node: ast.expr) -> Operation:
        """Return the step of a node that is used as a condition; a column of truth values is one."""
        step = self.step(node)
        if step.kind == "truth" and step.name != "number":
            return Operation("is true", (step,), kind="truth") if step.name == "if" else step
        if step.name != "column":
            self.refuse(f"{_quoted(node)} is no condition: write a comparison, such as age >= 40")
        return Operation("is true", (self.require_number(step, node),), kind="truth")

    def step(self, node: ast.expr) -> Operation:
        """Return the step of a node."""
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name(id=name):
                return self.column(name)
            case ast.BinOp(left=left, op=ast.Pow(), right=right) if _literal(right) in (2, 3, 4):
                return Operation(f"** {_literal(right):g}", (self.number(left),))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return Operation(_ARITHMETIC[type(op)], (self.number(left), self.number(right)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Operation("negative", (self.number(operand),))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.number(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Operation("not", (self.truth(operand),), kind="truth")
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                return Operation(name, tuple(map(self.truth, values)), kind="truth")
            case ast.Compare():
                return self.comparisons(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                branches = (self.number(body), self.number(orelse))
                kind: Kind = "truth" if all(each.kind == "truth" for each in branches) else "number"
                return Operation("if", (self.truth(test), *branches), kind=kind)
            case ast.Call():
                return self.call(node)
        self.refuse_node(node, _INSTEAD.get(type(getattr(node, "op", None)), ""))  # type: ignore[arg-type]

    def constant(self, node: ast.Constant) -> Operation:
        value = node.value
        if isinstance(value, bool):
            return Operation("number", value=float(value), kind="truth")
        if isinstance(value, str):
            if _DATE.fullmatch(value):
                return Operation("number", value=self.day(value), kind="date")
            self.refuse_node(node, "a text is compared with a column by ==, != or in [...]")
        if not isinstance(value, int | float):
            self.refuse_node(
                node, "write missing(x) for a cell without a value" if value is None else ""
            )
        if not abs(value) <= sys.float_info.max:
            self.refuse_node(node, "a number is finite, at most 1.79e308 in size")
        return Operation("number", value=float(value))

    def day(self, text: str) -> float:
        """Return the number of days from 1970-01-01 to a date."""
        try:
            return float(datetime.date.fromisoformat(text).toordinal() - _EPOCH)
        except ValueError:
            self.refuse(f"{text!r} is no day of the calendar: write one as '2024-01-31'")

    def column(self, name: str) -> Operation:
        """Return the step of a column, or of a new column by its name."""
        step = self.derived.get(name)
        if step is None:
            return Operation("column", value=name)
        if step.name == "bin":
            self.refuse(f"column {name!r} holds bins: compare the number that they are of")
        return step

    def comparisons(self, node: ast.Compare) -> Operation:
        """Return the step of one comparison, or of a chain of them, all of which must be true."""
        sides = [node.left, *node.comparators]
        pairs = zip(node.ops, pairwise(sides), strict=True)
        return _joined("and", [self.comparison(node, op, *pair) for op, pair in pairs])

    def comparison(
        self, node: ast.Compare, op: ast.cmpop, left: ast.expr, right: ast.expr
    ) -> Operation:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(right, ast.List | ast.Tuple) or not right.elts:
                self.refuse_node(node, "write in [...] with the numbers or texts that are listed")
            equal = [self.compared("==", node, left, each) for each in right.elts]
            is_listed = _joined("or", equal)
            if isinstance(op, ast.In):
                return is_listed
            return Operation("not", (is_listed,), kind="truth")
        if type(op) not in _COMPARISONS:
            self.refuse_node(node, "write == or != in place of is")
        return self.compared(_COMPARISONS[type(op)], node, left, right)

    def compared(self, name: str, node: ast.AST, left: ast.expr, right: ast.expr) -> Operation:
        """Return the comparison of two numbers, two dates, or a column and a text."""
        if _is_text(left):
            left, right = right, left
            if name not in ("==", "!=") or _is_text(left):
                self.refuse_text(node)
        if isinstance(right, ast.Constant) and isinstance(right.value, str) and _is_text(right):
            column = self.step(left)
            if name not in ("==", "!=") or column.name != "column":
                self.refuse_text(node)
            self.use(column, "text", node)
            place = self.place(column.value, right.value)
            return Operation(name, (column, Operation("number", value=place)), kind="truth")
        one = self.step(left)
        other = self.step(right)
        if one.name == other.name == "column":
            self.alike.append((one.value, other.value))
        else:
            self.use(other, self.used_kind(one, other), right)
            self.use(one, self.used_kind(other, one), left)
        return Operation(name, (one, other), kind="truth")

    def used_kind(self, one: Operation, other: Operation) -> Kind:
        """Return the kind of values with which a step may be compared."""
        known = other if one.name == "column" else one
        return "date" if known.kind == "date" else "number"

    def refuse_text(self, node: ast.AST) -> NoReturn:
        self.refuse_node(
            node, "a text has no order and no parts: compare a column with it by ==, != or in [...]"
        )

    def place(self, name: str, text: str) -> float:
        """Return the place of a text in the list of those with which a column is compared."""
        if not text or text != text.strip(" \t\n\v\f\r"):
            self.refuse(
                f"cells are compared without the blanks around them, and an empty one is missing: {text!r} equals none"
            )
        listed = self.texts.setdefault(name, [])
        if text not in listed:
            listed.append(text)
        return float(listed.index(text))

    def call(self, node: ast.Call) -> Operation:
        name = _called(node)
        given = node.args
        if node.keywords or any(isinstance(each, ast.Starred) for each in given):
            self.refuse_node(node)
        if name == "col":
            if len(given) != 1 or not isinstance(given[0], ast.Constant):
                self.refuse_node(node, "write col('my column')")
            if not isinstance(given[0].value, str):
                self.refuse_node(node, "write col('my column')")
            return self.column(given[0].value)
        if name == "bin":
            self.refuse_node(node, "bin(x, 18, 40, 65) is the whole text of a new column")
        if name in ("min", "max") and len(given) >= 2:
            best = self.number(given[0])
            for each in given[1:]:
                best = Operation(name, (best, self.number(each)))
            return best
        if len(given) != 1 or name not in (*_OF_NUMBERS, *_OF_DATES, "missing"):
            self.refuse_node(node)
        if name == "missing":
            return Operation(name, (self.step(given[0]),), kind="truth")
        if name in _OF_NUMBERS:
            return Operation(_NAMES.get(name, name), (self.number(given[0]),))
        return self.part_of_date(node, name)

    def part_of_date(self, node: ast.Call, name: str) -> Operation:
        date = self.step(node.args[0])
        self.use(date, "date", node)
        if name in ("year", "quarter", "month"):
            return Operation(name, (Operation("months", (date,)),))
        return Operation(name, (date,))

    def bins(self, node: ast.expr) -> Operation:
        """Return the step of `bin(x, e0, e1, ...)`."""
        assert isinstance(node, ast.Call)
        advice = "write bin(x, 18, 40, 65) with a number and edges that ascend, two at least"
        if node.keywords or len(node.args) < 3:
            self.refuse_node(node, advice)
        edges = [_literal(each) for each in node.args[1:]]
        finite = all(math.isfinite(edge) for edge in edges)
        if not finite or not all(low < high for low, high in pairwise(edges)):
            self.refuse_node(node, advice)
        return Operation("bin", (self.number(node.args[0]),), value=Bins(tuple(edges)), kind="text")

    def used_columns(self, steps: Sequence[Operation]) -> tuple[UsedColumn, ...]:
        """Return the columns that all steps read, and what they hold; raise InputError if one holds two kinds."""
        for _ in self.alike:
            for one, other in self.alike:
                for known, new in ((one, other), (other, one)):
                    if known in self.kinds:
                        held = self.kinds.setdefault(new, self.kinds[known])
                        self.require_one_kind(new, held, self.kinds[known])
        for one, other in self.alike:
            if "text" in (self.kinds.get(one), self.kinds.get(other)):
                self.refuse(
                    f"columns {one!r} and {other!r} of texts cannot be compared with each other"
                )
        names = set[str]().union(*map(_columns_of, steps))
        return tuple(map(self.used, sorted(names)))

    def used(self, name: str) -> UsedColumn:
        """Return a column that texts read, and what it holds."""
        texts = tuple(self.texts.get(name, ()))
        return UsedColumn(name, self.kinds.get(name, "number"), texts)


def _joined(name: str, conditions: Sequence[Operation]) -> Operation:
    """Return the conditions as one."""
    if len(conditions) == 1:
        return conditions[0]
    return Operation(name, tuple(conditions), kind="truth")


def _is_text(node: ast.AST) -> bool:
    """Return whether a node is a text that names no date."""
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and not _DATE.fullmatch(value)


def _called(node: ast.AST) -> str:
    """Return the name of the function that a node calls, empty if it calls none by its name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _literal(node: ast.expr) -> float:
    """Return the number that a node writes, with its sign; NaN for any other node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _literal(node.operand)
        return -number if isinstance(node.op, ast.USub) else number
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) + 0.0 if abs(value) <= sys.float_info.max else math.nan


def _depth(node: ast.AST) -> int:
    """Return the number of levels of a tree."""
    level = [node]
    depth = 0
    while level:
        level = [child for each in level for child in ast.iter_child_nodes(each)]
        depth += 1
    return depth


def _quoted(node: ast.AST) -> str:
    text = ast.unparse(node)
    return repr(f"{text:.77}{'...' * (len(text) > 77)}")


def row_program(where: Sequence[str], with_columns: Mapping[str, str]) -> RowProgram:
    """Return the program of conditions, all of which must be true, and of new columns by their names.

    A text may name new columns that are listed before it, and a condition all of them.

    Raises
    ------
    InputError
        A text is none of the grammar. It quotes the text, which is public, and says what to write instead.

    Examples
    --------
    >>> program = row_program(["bmi > 30"], {"bmi": "weight / height ** 2"})
    >>> program.inside({"weight": np.array([90.0, 60.0]), "height": np.array([1.7, 1.7])}, {}).tolist()
    [True, False]
    """
    if isinstance(where, str):
        where = (where,)
    if not isinstance(with_columns, Mapping):
        raise InputError("with_columns maps names of new columns to texts")
    parser = _Parser()
    for name, text in with_columns.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"with_columns: the name of a new column is a text, got {name!r:.80}")
        what = f"with_columns, {name}={text!r:.200}"
        parser.derived[name] = parser.program(what, text, condition=False)
    conditions = [parser.program(f"where={text!r:.200}", text, condition=True) for text in where]
    condition = _joined("and", conditions) if conditions else None
    steps = [*parser.derived.values(), *conditions]
    return RowProgram(
        where=tuple(where),
        condition=condition,
        derived=tuple(parser.derived.items()),
        columns=parser.used_columns(steps),
    )
