"""Privacy budgets and costs: exact amounts in one privacy notion, relative to one relation of neighbors.

A *budget* (`ZCDP`, `ApproxDP`, `PureDP`) is a limit set by the user: every part is positive and in a sensible range. A
`Cost` is an amount of the same notion that may be zero or arbitrarily small: the amount spent, the remainder, or the
cost of one release. All amounts are Fractions, so adding 0.1 ten times and subtracting it ten times gives exactly zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from fastpubpriv.errors import BudgetError, PrivacyWarning, warn

# ---- Exact numbers, and conversions to floats with directed rounding


Number: TypeAlias = int | float | Fraction | Decimal | np.floating[Any] | np.integer[Any]
"""What a privacy parameter may be given as. A float stands for its shortest decimal: 0.1 is one tenth."""

# A float of any size needs at most 2098 bits. The limit keeps a hostile Fraction or Decimal from filling the memory,
# and keeps every number short enough for Python's own limit of 4300 digits in a decimal string.
_MAX_BITS = 4096
_RATIO = re.compile(r"(0|[1-9][0-9]*)/([1-9][0-9]*)\Z")


def exact(value: object, name: str) -> Fraction:
    """Return `value` as an exact Fraction; BudgetError unless it is one finite real number."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_):
        raise BudgetError(
            f"{name} must be a number, got the bool {bool(value)}; pass for example {name}=1.0"
        )
    if isinstance(value, int | Fraction):
        number = Fraction(value)
    elif isinstance(value, np.integer):
        number = Fraction(int(value))
    elif isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise BudgetError(f"{name} must be finite, got {float(value)}; pass a finite number")
        # str() of a NumPy scalar is the shortest text of its own type
        number = Fraction(str(value))
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise BudgetError(
                f"{name} must be finite, got Decimal('{value}'); pass a finite number"
            )
        if value and abs(value.adjusted()) > 1200:
            raise BudgetError(
                f"{name} has a decimal exponent beyond 1200; pass a number between 1e-300 and 1e300"
            )
        number = Fraction(value)
    else:
        raise BudgetError(
            f"{name} must be an int, float, Fraction, Decimal or NumPy number, got {type(value).__name__}; "
            f"convert it first, for example {name}=float(...)"
        )
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MAX_BITS:
        raise BudgetError(
            f"{name} has more than {_MAX_BITS} bits; pass a float or a Fraction with a short denominator"
        )
    return number


def positive(value: object, name: str) -> Fraction:
    """Return `value` as an exact Fraction; BudgetError unless it is a finite number above zero."""
    number = exact(value, name)
    if number <= 0:
        raise BudgetError(f"{name} must be > 0, got {show(number)}")
    return number


def whole(value: object, name: str, *, at_least: int = 1) -> int:
    """Return `value` as an int; BudgetError unless it is an integer (no bool, no float) >= at_least."""
    if type(value) is int and value >= at_least:
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BudgetError(
            f"{name} must be an int, got {type(value).__name__}; pass a whole number >= {at_least}"
        )
    if value < at_least:
        raise BudgetError(f"{name} must be >= {at_least}, got {int(value)}")
    return int(value)


def keep_whole(held: object, name: str, *, at_least: int = 1) -> int:
    """Check an integer field of a frozen object, and keep it as a Python int, since NumPy's wrap around; return it."""
    number = whole(getattr(held, name), name, at_least=at_least)
    object.__setattr__(held, name, number)
    return number


def float_down(value: Fraction) -> float:
    """Return the largest float that is not above `value`, read as its binary number or as its shortest decimal."""
    rounded = float(value)
    while not math.isinf(rounded) and max(Fraction(rounded), Fraction(str(rounded))) > value:
        rounded = math.nextafter(rounded, -math.inf)
    return rounded


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below `value`, read as its binary number or as its shortest decimal."""
    return 0.0 - float_down(-value)  # and not -0.0 for zero


def float_for(value: Fraction, rounded: Callable[[Fraction], float] = float_up) -> float:
    """Return the float that stands for `value`, or `rounded(value)` if none does."""
    nearest = float(value)
    return nearest if Fraction(str(nearest)) == value else rounded(value)


def show(value: Fraction) -> str:
    """Return a short text for messages and reprs: the float that stands for the number, or six digits if none does."""
    try:
        nearest = float(value)
    except OverflowError:
        return "more than 1e308"
    return repr(nearest) if Fraction(str(nearest)) == value else f"{nearest:.6g}"


def to_ratio(value: Fraction) -> str:
    """Return the text "numerator/denominator", the exact form used in files."""
    return f"{value.numerator}/{value.denominator}"


def from_ratio(text: object, name: str) -> Fraction:
    """Inverse of `to_ratio`; BudgetError for any text that `to_ratio` would not have written."""
    match = _RATIO.match(text) if isinstance(text, str) and len(text) <= 8000 else None
    if match is None or max(map(len, match.groups())) > 4000:
        raise BudgetError(f"{name} is not an exact 'numerator/denominator' text")
    number = Fraction(int(match[1]), int(match[2]))
    if to_ratio(number) != text:
        raise BudgetError(f"{name} is not in lowest terms")
    return number


# ---- Relations, costs and budgets


class Neighbors(Enum):
    """Neighboring relation: the pairs of data sets that a guarantee makes indistinguishable.

    REPLACE_ONE: the same number of rows, one row exchanged for any other; n is public. The library promises this one.
    REPLACE_PERSON: the same persons, all rows of one exchanged for any others, at least one. Promised with `person=`.
    ADD_REMOVE_ONE: one row more or fewer. Calculators only, to compare with published tables; no fit reports it.

    Examples
    --------
    >>> Neighbors("replace_one")
    <Neighbors.REPLACE_ONE: 'replace_one'>
    """

    REPLACE_ONE = "replace_one"
    REPLACE_PERSON = "replace_person"
    ADD_REMOVE_ONE = "add_remove_one"

    @property
    def statement(self) -> str:
        """The relation in words, as printed in results."""
        return _STATEMENTS[self]


def checked_relation(value: object) -> Neighbors:
    """Return `value`; BudgetError unless it is a relation of neighbors."""
    if not isinstance(value, Neighbors):
        raise BudgetError(
            f"relation must be a Neighbors value such as Neighbors.REPLACE_ONE, got {type(value).__name__}"
        )
    return value


_STATEMENTS = {
    Neighbors.REPLACE_ONE: "replace one private row; the number of rows is public",
    Neighbors.REPLACE_PERSON: "replace all rows of one person; the number of persons is public",
    Neighbors.ADD_REMOVE_ONE: "add or remove one row",
}

# Below 2^-30 the noise no longer fits the integer grids; above 2^10 there is no privacy left to account for.
_RANGES: dict[str, tuple[Fraction, Fraction, str]] = {
    "epsilon": (Fraction(1, 2**30), Fraction(2**10), "[2^-30, 2^10]"),
    "rho": (Fraction(1, 2**60), Fraction(10**6), "[2^-60, 1e6]"),
}
DELTA_MIN = Fraction(1, 2**100)  # error of the noise samplers: no smaller delta can be guaranteed
_AMOUNT_BITS_MAX = 12_000  # bits of the numerator or denominator of an amount


def _in_range(name: str, value: object) -> Fraction:
    number = exact(value, name)
    if name == "delta":
        if not 0 < number < 1:
            raise BudgetError(
                f"delta must lie strictly between 0 and 1, got {show(number)}; pass something well below 1/n such as "
                "1e-6, or use PureDP(epsilon) for delta = 0"
            )
        if number < exact(float(DELTA_MIN), name):
            raise BudgetError(
                f"delta = {show(number)} is below 2^-100, the error of the noise samplers; pass at least 1e-30, "
                "or use PureDP(epsilon)"
            )
        return number
    low, high, text = _RANGES[name]
    if number <= 0:
        raise BudgetError(f"{name} must be > 0, got {show(number)}; pass for example {name}=1.0")
    if not exact(float(low), name) <= number <= high:
        why = "too small for any useful answer" if number < low else "too large to protect anybody"
        raise BudgetError(
            f"{name} = {show(number)} is outside {text}: {why}; pass a number in that range"
        )
    return number


@dataclass(frozen=True, slots=True)
class Cost:
    """An exact amount of one privacy notion; may be zero, never negative.

    Parameters
    ----------
    notion : type
        ZCDP, ApproxDP or PureDP.
    amounts : tuple of Fraction
        One per part of the notion, in its order: (rho,), (epsilon, delta) or (epsilon,).

    Examples
    --------
    >>> left = ZCDP(0.5) - ZCDP(0.25) - ZCDP(0.25)
    >>> left, left.is_zero
    (Cost(ZCDP, rho=0.0), True)
    """

    notion: type[Budget]
    amounts: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not (
            isinstance(self.notion, type) and issubclass(self.notion, Budget) and self.notion.parts
        ):
            raise BudgetError("notion must be ZCDP, ApproxDP or PureDP")
        if len(self.amounts) != len(self.notion.parts) or not all(
            type(a) is Fraction for a in self.amounts
        ):
            parts = ", ".join(self.notion.parts)
            raise BudgetError(f"a cost in {self.notion.__name__} needs exact Fractions for {parts}")
        for name, amount in zip(self.notion.parts, self.amounts, strict=True):
            if amount < 0:
                raise BudgetError(f"a cost cannot be negative: {name} would be {show(amount)}")
            if (
                max(amount.numerator.bit_length(), amount.denominator.bit_length())
                > _AMOUNT_BITS_MAX
            ):
                raise BudgetError(
                    f"{name} has more than {_AMOUNT_BITS_MAX} bits; use budgets with short denominators"
                )

    @classmethod
    def zero(cls, notion: type[Budget]) -> Cost:
        """Zero cost of `notion`."""
        return cls(notion, (Fraction(0),) * len(notion.parts))

    @property
    def is_zero(self) -> bool:
        """True when every part is exactly zero."""
        return not any(self.amounts)

    def to_dict(self) -> dict[str, Any]:
        """Notion and its amounts, as exact texts and as floats, ready for JSON."""
        data: dict[str, Any] = {"notion": self.notion.__name__}
        for name, amount in zip(self.notion.parts, self.amounts, strict=True):
            data[name] = to_ratio(amount)
            data[f"{name}_float"] = float_for(amount)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """Inverse of `to_dict`; only the exact texts are read."""
        name = data.get("notion") if isinstance(data, Mapping) else None
        notion = (
            {each.__name__: each for each in (ZCDP, ApproxDP, PureDP)}.get(name)
            if isinstance(name, str)
            else None
        )
        if notion is None:
            raise BudgetError("unknown privacy notion; expected one of ZCDP, ApproxDP, PureDP")
        return cls(notion, tuple(from_ratio(data.get(part), part) for part in notion.parts))

    def __add__(self, other: Budget | Cost) -> Cost:
        theirs = _amounts(self.notion, other, "add")
        return Cost(self.notion, tuple(a + b for a, b in zip(self.amounts, theirs, strict=True)))

    def __sub__(self, other: Budget | Cost) -> Cost:
        theirs = _amounts(self.notion, other, "subtract")
        for name, a, b in zip(self.notion.parts, self.amounts, theirs, strict=True):
            if b > a:
                raise BudgetError(
                    f"cannot subtract {name} = {show(b)} from {name} = {show(a)}: a budget never goes below zero"
                )
        return Cost(self.notion, tuple(a - b for a, b in zip(self.amounts, theirs, strict=True)))

    def __le__(self, other: Budget | Cost) -> bool:
        theirs = _amounts(self.notion, other, "compare")
        return all(a <= b for a, b in zip(self.amounts, theirs, strict=True))

    def __repr__(self) -> str:
        body = ", ".join(
            f"{name}={show(a)}" for name, a in zip(self.notion.parts, self.amounts, strict=True)
        )
        return f"Cost({self.notion.__name__}, {body})"


class Budget:
    """Base class of all budgets. Use ZCDP, ApproxDP or PureDP."""

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = ()
    called: ClassVar[str]  # name of the notion in texts

    def __init__(self, *amounts: Number) -> None:
        raise BudgetError(
            "Budget is abstract; use ZCDP(rho), ApproxDP(epsilon, delta) or PureDP(epsilon)"
        )

    @property
    def amounts(self) -> tuple[Fraction, ...]:
        """The exact amounts, in the order of `parts`."""
        return tuple(getattr(self, name) for name in self.parts)

    @property
    def has_epsilon(self) -> bool:
        """Whether the first amount is an epsilon."""
        return "epsilon" in self.parts

    @property
    def notion(self) -> type[Budget]:
        """The privacy notion of the amounts, as that of a `Cost`."""
        return next(base for base in type(self).__mro__ if "parts" in vars(base))

    @property
    def cost(self) -> Cost:
        """The same amounts as a `Cost`."""
        return Cost(type(self), self.amounts)

    def split(self, *weights: Number) -> tuple[Self, ...]:
        """Split into parts proportional to `weights` whose sum is exactly this budget.

        Examples
        --------
        >>> ZCDP(1).split(1, 3)
        (ZCDP(rho=0.25), ZCDP(rho=0.75))
        """
        if not weights:
            raise BudgetError("split needs at least one weight, for example budget.split(1, 3)")
        exact_weights = [positive(w, "weight") for w in weights]
        total = sum(exact_weights)
        return tuple(type(self)(*(a * (w / total) for a in self.amounts)) for w in exact_weights)

    def warn_if_weak(self, n: int) -> None:
        """Warn if delta is at least 1/n for n rows (public): such a delta permits publishing a whole row."""
        delta = getattr(self, "delta", None)
        if delta is not None and delta * n >= 1:
            warn(
                f"delta = {show(delta)} is at least 1/n = {1 / n:.3g}: a mechanism may then publish one person's row "
                "outright; pass a delta far below 1/n",
                PrivacyWarning,
            )

    def to_dict(self) -> dict[str, Any]:
        """Notion and its amounts, as exact texts and as floats, ready for JSON."""
        return self.cost.to_dict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Budget:
        """Inverse of `to_dict`; BudgetError if called on a subclass for another notion."""
        cost = Cost.from_dict(data)
        if cls is not Budget and cls is not cost.notion:
            raise BudgetError(f"expected a {cls.__name__} budget, got {cost.notion.__name__}")
        return cost.notion(*cost.amounts)

    def __add__(self, other: Budget) -> Self:
        if not isinstance(other, Budget):
            return NotImplemented
        theirs = _amounts(type(self), other, "add")
        return type(self)(*(a + b for a, b in zip(self.amounts, theirs, strict=True)))

    def __sub__(self, other: Budget | Cost) -> Cost:
        return self.cost - other

    def __mul__(self, factor: Number) -> Self:
        by = positive(factor, "factor")
        return type(self)(*(a * by for a in self.amounts))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Self:
        by = positive(divisor, "divisor")
        return type(self)(*(a / by for a in self.amounts))

    def __le__(self, other: Budget | Cost) -> bool:
        return self.cost <= other

    def __repr__(self) -> str:
        body = ", ".join(
            f"{name}={show(a)}" for name, a in zip(self.parts, self.amounts, strict=True)
        )
        return f"{type(self).__name__}({body})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZCDP(Budget):
    """Zero-concentrated differential privacy: Renyi divergence of every order alpha at most alpha * rho.

    Parameters
    ----------
    rho : int, float, Fraction, Decimal or NumPy number
        In [2^-60, 1e6]. A float stands for its shortest decimal: 0.1 is one tenth.

    Examples
    --------
    >>> ZCDP(0.5) + ZCDP(rho=0.25)
    ZCDP(rho=0.75)
    """

    parts: ClassVar[tuple[str, ...]] = ("rho",)
    called: ClassVar[str] = "zCDP"
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", _in_range("rho", rho))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Budget):
    """Approximate differential privacy: P(S) <= e^epsilon P'(S) + delta for every event S.

    Parameters
    ----------
    epsilon : int, float, Fraction, Decimal or NumPy number
        In [2^-30, 2^10].
    delta : int, float, Fraction, Decimal or NumPy number
        In [2^-100, 1). Choose it far below 1/n.

    Examples
    --------
    >>> ApproxDP(epsilon=1, delta=1e-6) / 2
    ApproxDP(epsilon=0.5, delta=5e-07)
    """

    parts: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    called: ClassVar[str] = "approximate DP"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", _in_range("epsilon", epsilon))
        object.__setattr__(self, "delta", _in_range("delta", delta))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Budget):
    """Pure differential privacy: P(S) <= e^epsilon P'(S) for every event S.

    Parameters
    ----------
    epsilon : int, float, Fraction, Decimal or NumPy number
        In [2^-30, 2^10], as the total of a ledger. One release refuses an epsilon above about 40 to 58, depending on its size:
        the samplers' cut tails would then add more to delta than 2^-100 (`calibrated_budget.laplace_epsilon`).

    Examples
    --------
    >>> PureDP(1) - PureDP(0.75)
    Cost(PureDP, epsilon=0.25)
    """

    parts: ClassVar[tuple[str, ...]] = ("epsilon",)
    called: ClassVar[str] = "pure DP"
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", _in_range("epsilon", epsilon))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RowApproxDP(ApproxDP):
    """Budget of a single row whose person, with `rows` rows, has the budget `person`. Built by `row_budget`."""

    person: ApproxDP
    rows: int

    def __init__(self, epsilon: Number, delta: Number, person: ApproxDP, rows: int) -> None:
        ApproxDP.__init__(self, epsilon, delta)
        object.__setattr__(self, "person", person)
        object.__setattr__(self, "rows", rows)


def _amounts(notion: type[Budget], other: object, verb: str) -> tuple[Fraction, ...]:
    if not isinstance(other, Budget | Cost):
        raise BudgetError(
            f"cannot {verb} {notion.__name__} and {type(other).__name__}; both must be budgets or costs"
        )
    theirs = other.notion if isinstance(other, Cost) else type(other)
    if theirs is not notion:
        raise BudgetError(
            f"cannot {verb} {notion.__name__} and {theirs.__name__}; convert first with fastpubpriv.privacy.conversions"
        )
    return other.amounts


# A release over disjoint clusters of rows has two costs: of a replaced row that stays in its cluster, and of one that moves to
# another (two clusters change). The same case applies to all releases over the *same* clusters, so together they cost the larger
# of the two sums, not the sum of the larger costs.


@dataclass(frozen=True, slots=True)
class Clusters:
    """The two sensitivities of a release over disjoint clusters of rows, squared l2 or l1 as in the event that holds it.

    Parameters
    ----------
    stay : int
        Sensitivity to a row replaced within one cluster.
    move : int
        Sensitivity to a row that leaves one cluster and enters another: twice that of entering or leaving one.
    lineage : tuple of str
        Identifies, by content, what decides membership. For the rows of one tree node: the nodes from the root to it.
    """

    stay: int
    move: int
    lineage: tuple[str, ...]

    def __post_init__(self) -> None:
        keep_whole(self, "stay", at_least=0)
        keep_whole(self, "move", at_least=0)
        if not self.lineage or not all(isinstance(name, str) for name in self.lineage):
            raise BudgetError("lineage must name the clusters: a tuple of at least one str")

    @property
    def worst(self) -> int:
        """The sensitivity of the release."""
        return max(self.stay, self.move)


class Composition:
    """The exact cost of several releases: costs add up, but those over the same clusters by case (the worse of stay and move).

    Examples
    --------
    >>> tally, half = Composition(), Fraction(1, 2)
    >>> tally.add(half)
    >>> tally.add(half, Clusters(0, 4, ("leaves",)))  # counts: free for a row that stays
    >>> tally.add(half, Clusters(4, 2, ("leaves",)))  # sums: cheaper for a row that moves
    >>> tally.total
    Fraction(5, 4)
    """

    def __init__(self) -> None:
        # Cost of a row that stays in its cluster, and of one that moves, by what decides membership; () without clusters.
        self._by_case: dict[tuple[str, ...], tuple[Fraction, Fraction]] = {}

    def add(self, cost: Fraction, clusters: Clusters | None = None) -> None:
        """Add the cost of a release; one over clusters is added by case."""
        lineage: tuple[str, ...] = ()
        stay = move = cost
        if clusters is not None and clusters.worst:
            lineage = clusters.lineage
            unit = cost / clusters.worst
            stay = unit * clusters.stay
            move = unit * clusters.move
        before = self._by_case.get(lineage, (Fraction(0), Fraction(0)))
        self._by_case[lineage] = before[0] + stay, before[1] + move

    @property
    def total(self) -> Fraction:
        """Total cost of the releases."""
        return sum((max(pair) for pair in self._by_case.values()), Fraction(0))

    def within(
        self, limit: Fraction, cost: Fraction, clusters: Clusters | None = None
    ) -> Composition | None:
        """Return a copy with one more release, or None if its total would exceed `limit`."""
        more = Composition()
        more._by_case = dict(self._by_case)
        more.add(cost, clusters)
        return more if more.total <= limit else None


def short(budget: Budget | Cost) -> str:
    """Return the parameters of a budget and their amounts: "rho = 0.5"."""
    parts = budget.notion.parts if isinstance(budget, Cost) else budget.parts
    return ", ".join(
        f"{name} = {float(value):.6g}" for name, value in zip(parts, budget.amounts, strict=True)
    )
