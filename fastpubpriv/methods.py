"""One record per algorithm, and one registry of them per task: what estimators, the command line and `plan` choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from fastpubpriv import validation
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.privacy import ApproxDP, Budget, PureDP, gaussian_rho, laplace_epsilon


def allowance_of(budget: Budget, draws: int) -> tuple[bool, Fraction]:
    """Whether a budget is pure, and what its releases may add up to, as an account works it out."""
    pure = isinstance(budget, PureDP)
    return pure, laplace_epsilon(budget, draws) if pure else gaussian_rho(budget, draws)


def nothing(*_: Any, **__: Any) -> None:
    """The `prepare` of a method that has nothing to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    """An algorithm for a task, exported by the module that implements it.

    What `prepare`, `learn`, `draws` and `predict` are called with is the same for all methods of a task; the module of the task's
    registry says it.
    """

    name: str  # the value of `method=`
    learn: Callable[..., Any]  # releases, after the debit, and returns what was learnt
    draws: Callable[..., int]  # a public upper bound on the draws of noise
    prepare: Callable[..., Any] = nothing  # before the debit: refuses what cannot be done, from public numbers alone
    # the error for public sizes and a budget, for `plan`; without it `plan` refuses the method
    predict: Callable[..., Any] | None = None
    # budget -> the part of it that is kept for releases with an (epsilon, delta) of their own
    reserved: Callable[[Budget], ApproxDP] | None = None
    needs_public: bool = False  # with needs_delta: it starts from public rows; its releases have a delta
    needs_delta: bool = False
    least_rows: int = 1  # private rows below which it is refused

    def check(self, *, has_public: bool, budget: Budget, n_priv: int) -> None:
        """Refuse, by public facts, a call that lacks what the method needs."""
        if self.needs_public and not has_public:
            raise InputError(f"method={self.name!r} starts from public rows: pass x_pub, or another method")
        if self.needs_delta and not isinstance(budget, ApproxDP):
            raise BudgetError(
                f"method={self.name!r} makes releases that need a delta: pass ApproxDP(epsilon=..., delta=...), or another method; "
                f"got {type(budget).__name__}"
            )
        if n_priv < self.least_rows:
            raise InputError(f"method={self.name!r} needs at least {self.least_rows} private rows, got {n_priv}")


Kind = TypeVar("Kind", bound=Method)


class Registry(dict[str, Kind], Generic[Kind]):
    """The methods of one task by their names, the default first; "auto" leads the choices of a task that can decide by itself."""

    def __init__(self, *methods: Kind, auto: bool = False) -> None:
        super().__init__()
        self.auto = auto
        for method in methods:
            self.add(method)

    def add(self, method: Kind) -> Kind:
        """Register a method; a name that is taken is refused."""
        if method.name in self or method.name == "auto":
            raise InputError(f"there is a method {method.name!r} already: give the new one another name")
        self[method.name] = method
        return method

    @property
    def choices(self) -> tuple[str, ...]:
        """All values of `method=`, the default first."""
        return ("auto", *self) if self.auto else tuple(self)

    def choose(self, name: Any) -> str:
        """The name, if it is one of the choices."""
        return validation.choice("method", name, self.choices)
