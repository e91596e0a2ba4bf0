"""Privacy budgets and costs: exact amounts in one privacy notion, relative to one relation of neighbors.

A *budget* (`ZCDP`, `ApproxDP`, `PureDP`) is what a person grants: every part is positive and in a sensible range. A
`Cost` is an amount of the same notion that may be zero or arbitrarily small: what was spent, what remains, what one
release adds. All amounts are Fractions, so adding 0.1 ten times and subtracting it ten times gives exactly zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self

from fastpubpriv.errors import BudgetError, PrivacyWarning, warn
from fastpubpriv.privacy.rationals import Number, exact, float_for, from_ratio, show, to_ratio


class Neighbors(Enum):
    """The pairs of data sets that a guarantee must not tell apart.

    REPLACE_ONE: the same number of rows, one row exchanged for any other; n is public. The library promises this one.
    ADD_REMOVE_ONE: one row more or fewer. Calculators only, to compare with published tables; no fit reports it.

    Examples
    --------
    >>> Neighbors("replace_one")
    <Neighbors.REPLACE_ONE: 'replace_one'>
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE_ONE = "add_remove_one"


# Below 2^-30 the noise no longer fits the integer grids; above 2^10 there is no privacy left to account for.
_RANGES: dict[str, tuple[Fraction, Fraction, str]] = {
    "epsilon": (Fraction(1, 2**30), Fraction(2**10), "[2^-30, 2^10]"),
    "rho": (Fraction(1, 2**60), Fraction(10**6), "[2^-60, 1e6]"),
}
DELTA_MIN = Fraction(1, 2**100)  # the samplers themselves are within 2^-100 of exact: a smaller delta cannot be kept
_AMOUNT_BITS_MAX = 12_000


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
        raise BudgetError(f"{name} = {show(number)} is outside {text}: {why}; pass a number in that range")
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
        if not (isinstance(self.notion, type) and issubclass(self.notion, Budget) and self.notion.parts):
            raise BudgetError("notion must be ZCDP, ApproxDP or PureDP")
        if len(self.amounts) != len(self.notion.parts) or not all(type(a) is Fraction for a in self.amounts):
            parts = ", ".join(self.notion.parts)
            raise BudgetError(f"a cost in {self.notion.__name__} needs exact Fractions for {parts}")
        for name, amount in zip(self.notion.parts, self.amounts, strict=True):
            if amount < 0:
                raise BudgetError(f"a cost cannot be negative: {name} would be {show(amount)}")
            if max(amount.numerator.bit_length(), amount.denominator.bit_length()) > _AMOUNT_BITS_MAX:
                raise BudgetError(f"{name} has more than {_AMOUNT_BITS_MAX} bits; use budgets with short denominators")

    @classmethod
    def zero(cls, notion: type[Budget]) -> Cost:
        """Nothing spent, in this notion."""
        return cls(notion, (Fraction(0),) * len(notion.parts))

    @property
    def is_zero(self) -> bool:
        """True when every part is exactly zero."""
        return not any(self.amounts)

    def to_dict(self) -> dict[str, Any]:
        """Notion, exact texts and floats, ready for JSON."""
        return _to_dict(self.notion, self.amounts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """The inverse of `to_dict`; only the exact texts are read."""
        return cls(*_from_dict(data))

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

    def __ge__(self, other: Budget | Cost) -> bool:
        theirs = _amounts(self.notion, other, "compare")
        return all(a >= b for a, b in zip(self.amounts, theirs, strict=True))

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={show(a)}" for name, a in zip(self.notion.parts, self.amounts, strict=True))
        return f"Cost({self.notion.__name__}, {body})"


class Budget:
    """What the three notions share. Use ZCDP, ApproxDP or PureDP."""

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *amounts: Number) -> None:
        raise BudgetError("Budget is abstract; use ZCDP(rho), ApproxDP(epsilon, delta) or PureDP(epsilon)")

    @property
    def amounts(self) -> tuple[Fraction, ...]:
        """The exact amounts, in the order of `parts`."""
        return tuple(getattr(self, name) for name in self.parts)

    @property
    def cost(self) -> Cost:
        """The same amounts as a `Cost`."""
        return Cost(type(self), self.amounts)

    def split(self, *weights: Number) -> tuple[Self, ...]:
        """Parts in proportion to `weights` that add up exactly to this budget.

        Examples
        --------
        >>> ZCDP(1).split(1, 3)
        (ZCDP(rho=0.25), ZCDP(rho=0.75))
        """
        if not weights:
            raise BudgetError("split needs at least one weight, for example budget.split(1, 3)")
        exact_weights = [_positive(w, "weight") for w in weights]
        total = sum(exact_weights)
        return tuple(type(self)(*(a * (w / total) for a in self.amounts)) for w in exact_weights)

    def warn_if_weak(self, n: int) -> None:
        """Warn when delta is 1/n or more, n being the public number of rows: it allows publishing a whole row."""
        delta = getattr(self, "delta", None)
        if delta is not None and delta * n >= 1:
            warn(
                f"delta = {show(delta)} is at least 1/n = {1 / n:.3g}: a mechanism may then publish one person's row "
                "outright; pass a delta far below 1/n",
                PrivacyWarning,
            )

    def to_dict(self) -> dict[str, Any]:
        """Notion, exact texts and floats, ready for JSON."""
        return _to_dict(type(self), self.amounts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Budget:
        """The inverse of `to_dict`; called on a notion, it refuses the others."""
        notion, amounts = _from_dict(data)
        if cls is not Budget and cls is not notion:
            raise BudgetError(f"expected a {cls.__name__} budget, got {notion.__name__}")
        return notion(*amounts)

    def __add__(self, other: Budget) -> Self:
        if not isinstance(other, Budget):
            return NotImplemented
        theirs = _amounts(type(self), other, "add")
        return type(self)(*(a + b for a, b in zip(self.amounts, theirs, strict=True)))

    def __sub__(self, other: Budget | Cost) -> Cost:
        return self.cost - other

    def __mul__(self, factor: Number) -> Self:
        by = _positive(factor, "factor")
        return type(self)(*(a * by for a in self.amounts))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Self:
        by = _positive(divisor, "divisor")
        return type(self)(*(a / by for a in self.amounts))

    def __le__(self, other: Budget | Cost) -> bool:
        return self.cost <= other

    def __ge__(self, other: Budget | Cost) -> bool:
        return self.cost >= other

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={show(a)}" for name, a in zip(self.parts, self.amounts, strict=True))
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
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", _in_range("epsilon", epsilon))


_NOTIONS: dict[str, type[Budget]] = {notion.__name__: notion for notion in (ZCDP, ApproxDP, PureDP)}


def _positive(value: object, name: str) -> Fraction:
    number = exact(value, name)
    if number <= 0:
        raise BudgetError(f"{name} must be > 0, got {show(number)}")
    return number


def _amounts(notion: type[Budget], other: object, verb: str) -> tuple[Fraction, ...]:
    if not isinstance(other, Budget | Cost):
        raise BudgetError(f"cannot {verb} {notion.__name__} and {type(other).__name__}; both must be budgets or costs")
    theirs = other.notion if isinstance(other, Cost) else type(other)
    if theirs is not notion:
        raise BudgetError(
            f"cannot {verb} {notion.__name__} and {theirs.__name__}; convert first with fastpubpriv.privacy.conversions"
        )
    return other.amounts


def _to_dict(notion: type[Budget], amounts: tuple[Fraction, ...]) -> dict[str, Any]:
    data: dict[str, Any] = {"notion": notion.__name__}
    for name, amount in zip(notion.parts, amounts, strict=True):
        data[name] = to_ratio(amount)
        data[f"{name}_float"] = float_for(amount)
    return data


def _from_dict(data: Mapping[str, Any]) -> tuple[type[Budget], tuple[Fraction, ...]]:
    name = data.get("notion") if isinstance(data, Mapping) else None
    notion = _NOTIONS.get(name) if isinstance(name, str) else None
    if notion is None:
        raise BudgetError(f"unknown privacy notion; expected one of {', '.join(_NOTIONS)}")
    return notion, tuple(from_ratio(data.get(part), part) for part in notion.parts)
