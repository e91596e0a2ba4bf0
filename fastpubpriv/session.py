"""The session of a call (account, rows, releases) that all estimators share, and the records of their methods."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NotRequired, ParamSpec, TypedDict, TypeVar, Unpack

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import BoolArray, FloatArray
from fastpubpriv.errors import BudgetError, InputError, OutOfMemoryError, warn, warn_after_debit
from fastpubpriv.mechanisms.sums import Answer, Measurement, Price
from fastpubpriv.privacy import ApproxDP, Budget, Ledger, Neighbors
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.release.account import Account, NodeBudget, before_debit
from fastpubpriv.results.base import Result, unreliable
from fastpubpriv.results.reasons import Reason, Reasons, with_reason
from fastpubpriv.sources import Executor, Rows, private_rows
from fastpubpriv.sources.open import public_table_of, refuse_shared_memory, require_numbers
from fastpubpriv.sources.person_table import warn_of_persons
from fastpubpriv.threads.guard import naming
from fastpubpriv.threads.pool import has_memory, max_threads

Problem = ParamSpec("Problem")
# A predicted error, and numbers that explain it, by name.
PredictedError = tuple[float, dict[str, float]]
# Predicts the error from the number of private rows and the budget.
Predictor = Callable[[int, Budget], PredictedError]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method(Generic[Problem]):
    """An algorithm for a task, exported by the module that implements it; `Problem` is the public description of a call."""

    name: str  # the value of `method=`
    # makes the releases, after the debit, and returns the estimate; subclasses document the arguments of this and the others
    learn: Callable[..., Any]
    draws: Callable[Problem, int]  # a public upper bound on the number of noise draws
    # raises, before the debit, if public numbers show that the method cannot run
    prepare: Callable[..., Any] = lambda *_, **__: None
    # the error for public sizes and a budget, for `plan`; None if `plan` does not support the method
    predict: Callable[..., Any] | None = None
    # budget -> the part of it reserved for releases with their own (epsilon, delta)
    reserved: Callable[[Budget], ApproxDP] | None = None
    needs_public: bool = False  # whether the method starts from public rows
    needs_delta: bool = False  # whether its releases need a delta
    least_rows: int = 1  # minimum number of private rows

    def check(self, *, has_public: bool, budget: Budget, n_priv: int) -> None:
        """Raise if public rows, a delta or private rows that the method needs are missing."""
        if self.needs_public and not has_public:
            raise InputError(
                f"method={self.name!r} starts from public rows: pass x_pub, or another method"
            )
        if self.needs_delta and not has_delta(budget):
            raise BudgetError(
                f"method={self.name!r} makes releases that need a delta: pass ApproxDP(epsilon=..., delta=...), or another method; "
                f"got {type(budget).__name__}"
            )
        if n_priv < self.least_rows:
            raise InputError(
                f"method={self.name!r} needs at least {self.least_rows} private rows, got {n_priv}"
            )


# maximum predicted error of a private method that "auto" chooses, over the public rows' error
WORTH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodPlan:
    """The plan of a training method from public numbers, before the debit, with its error and that of public rows alone."""

    # predicted excess of the loss of the method, and in the same unit that of the public rows alone; None without a prediction
    predicted: Any
    public_excess: float | None
    steps: int  # passes over the private rows
    reads: bool = True  # whether private rows are read

    def beats(self, part: float) -> bool:
        """Whether the predicted error is below this fraction of the public rows' error; True without a prediction."""
        if self.predicted is None or self.public_excess is None:
            return True
        return bool(self.predicted < part * self.public_excess)

    @property
    def is_worth(self) -> bool:
        """Whether "auto" chooses the method over public rows alone."""
        return self.beats(WORTH)


Kind = TypeVar("Kind", bound=Method[Any])


class Registry(dict[str, Kind], Generic[Kind]):
    """The methods of one task by name, the default first; with `auto`, "auto" is the first of its choices."""

    def __init__(self, *methods: Kind, auto: bool = False) -> None:
        super().__init__()
        self.auto = auto
        for method in methods:
            self.add(method)

    def add(self, method: Kind) -> Kind:
        """Register a method. Raise InputError if its name is taken."""
        if method.name in self or method.name == "auto":
            raise InputError(
                f"there is a method {method.name!r} already: give the new one another name"
            )
        self[method.name] = method
        return method

    @property
    def choices(self) -> tuple[str, ...]:
        """All values of `method=`, the default first."""
        return ("auto", *self) if self.auto else tuple(self)

    def choose(self, name: Any, argument: str = "method") -> Any:
        """Return the name if it is one of the choices, else raise InputError."""
        return validation.choice(argument, name, self.choices)


def open_rows(
    x_priv: Any, x_pub: Any = None, *, columns: Any = None, min_pub: int = 1, gaps: bool = False
) -> tuple[Rows, FloatArray | None]:
    """Open both data sets, columns matched by name, after a check of their form; no private row is read."""
    # With `gaps`, public cells may be missing (NaN), but every column must have a number.
    with naming("x_priv"):
        rows = private_rows(x_priv, columns=columns)
    if x_pub is None:
        return rows, None
    refuse_shared_memory(x_priv, x_pub, columns=columns)
    if not rows.rows_per_person:
        warn_of_persons(x_pub)
    # The private source determines the order of the columns. No error quotes the first line of a private CSV file: it may be a row.
    show = rows.kind != "csv"
    form: Any = {
        "columns": columns,
        "dim": rows.dim,
        "min_rows": min_pub,
        "names": rows.columns,
        "show": show,
    }
    public, names = public_table_of(x_pub, finite=not gaps, **form)
    if gaps:
        require_numbers(public, names)
    return rows, public


class PaddedRowsError(InputError):
    """Rows that may be absent, for a method that takes a row without numbers for a row at its center."""


def refuse_padding(rows: Rows, name: str, other: str = "") -> None:
    """Raise PaddedRowsError, before the debit, if rows may be absent, whose number no release of this method shows.

    They pad persons with fewer rows than others, or are outside a condition.
    """
    if rows.may_be_absent and rows.rows_per_person <= 1:
        raise PaddedRowsError(
            f"{name} takes all rows: those outside where= would count as rows at a center, and nothing is released about their "
            f"number; leave out where={other and f', or call {other}'}"
        )
    if rows.may_be_absent:
        raise PaddedRowsError(
            f"{name} takes one row of each person: with more, those that a person does not have would count as rows at a "
            "center, and nothing is released about their number; pass rows_per_person=1, or keep='mean' for the mean of "
            f"each person{other and f', or call {other}'}"
        )


# bytes below which memory is not checked: the check would take longer than the call
_UNASKED_BYTES = 1 << 26


def require_memory(name: str, dim: int, needed: int) -> None:
    """Raise OutOfMemoryError, before the debit, if the system does not provide the bytes that public numbers predict."""
    if needed > _UNASKED_BYTES and not has_memory(needed):
        raise OutOfMemoryError(
            f"{name}: about {needed / 1e9:.3g} GB of memory are needed for {dim} columns, and the system does not give them: "
            "nothing was debited; pass fewer columns (project with a public matrix), or use a machine with more memory"
        )


def require_squares(name: str, dim: int, count: int) -> None:
    """Call `require_memory` for `count` simultaneous matrices (dim, dim); `test_forms_of_rows.py` checks the peaks."""
    require_memory(name, dim, 8 * dim * dim * count)


def warn_if_useless(name: str, predicted: float, public_only: float) -> None:
    """Warn, from public numbers alone, if the public rows alone have a smaller predicted error."""
    if predicted > public_only:
        warn(
            f"{name}: predicted error {predicted:.3g} exceeds the {public_only:.3g} of the public rows alone "
            "(in standard deviations); pass a larger budget or more private rows, or use weighted_mean",
        )


AnyResult = TypeVar("AnyResult", bound=Result)


def warned(name: str, result: AnyResult, known: Reasons = ()) -> AnyResult:
    """Return the result; warn, from released numbers, if it or a part of it is unreliable, except for reasons in `known`."""
    if text := unreliable(result, known):
        warn_after_debit(f"{name}: {text}")
    return result


def held_back(result: AnyResult, beyond: BoolArray, parts: int = 1) -> AnyResult:
    """Return the result with the reason "clipped" for the columns `beyond`, whose bounds public rows contradict.

    A warning about such bounds was given before the debit.
    """
    return with_reason_of_columns(result, Reason.CLIPPED, beyond, parts)


def with_reason_of_columns(
    result: AnyResult, reason: Reason, columns: BoolArray, parts: int = 1
) -> AnyResult:
    """Return the result with a reason for some columns, each of which has so many successive `parts`, and again in each group."""
    if not columns.any():
        return result
    holds = np.resize(np.repeat(columns, parts), len(result.part_reasons)).tolist()
    return replace(result, part_reasons=with_reason(result.part_reasons, reason, holds))


MORE_MISSING = 0.05  # share of the rows by which missing cells of a private file may exceed those of the public rows


def more_missing(
    run: Session, public: FloatArray, missing: FloatArray, std: FloatArray | float
) -> BoolArray:
    """Return for which columns of a CSV file surely more cells are missing than of the public rows, (dim,).

    `missing` are released numbers of missing cells, `std` the standard deviations of their noise. Surely: at the lower end of an
    interval of 99 %. Lines of another dialect are missing rows, which nothing may refuse before the release.
    """
    if run.rows.kind != "csv" or run.rows.may_be_absent:
        return np.zeros(len(missing), dtype=bool)
    usual = np.isnan(public).mean(axis=0)
    least = missing - deviations(run.account.spending.law, 0.99) * std
    more: BoolArray = least / run.rows.n > usual + MORE_MISSING
    return more


class WouldPay(BaseException):
    """Raised in a rehearsal when a call has checked its arguments and would be debited."""


def rehearsal() -> contextlib.AbstractContextManager[None]:
    """Stop calls within the block before their debit: `WouldPay` means that the arguments are accepted."""

    def stop() -> None:
        raise WouldPay

    return before_debit(stop)


@contextlib.contextmanager
def _after_debit() -> Iterator[None]:
    """Context after the debit: floating-point errors are ignored, and a MemoryError becomes an OutOfMemoryError."""
    try:
        with np.errstate(all="ignore"):
            yield
    except OutOfMemoryError:
        raise
    except MemoryError:
        # NumPy's message has the shape of an array, which is public, but does not mention the budget.
        raise OutOfMemoryError(
            "memory ran out while the result was worked out: what was debited stays debited; use a machine with more memory"
        ) from None


@dataclass(slots=True, eq=False)
class Session:
    """One call in progress: its account, its private rows, and the record of its releases."""

    account: Account
    rows: Rows
    executor: Executor
    log: list[dict[str, Any]] = field(default_factory=list)

    def paid(self) -> contextlib.AbstractContextManager[None]:
        """Debit the ledger; return the context of the releases."""
        # Released numbers may be of any size: their over- and underflow is neither visible in the caller's error state nor an
        # exception.
        self.account.open()
        return _after_debit()

    def release(
        self,
        measurement: Measurement[Price, Answer],
        *,
        name: str,
        cost: Price,
        payer: NodeBudget | None = None,
        **public: Any,
    ) -> Answer:
        """Charge the account, or the `payer` of a node; return the noisy answer, and record the release with `public` facts."""
        paying = self.account if payer is None else payer
        released = measurement.release(paying, self.rows, self.executor, name=name, cost=cost)
        # the first step of a run over sampled rows stands for all of its steps
        if released.event.follows is None:
            self.log.append({"name": name, **released.facts, **released.event.record(), **public})
        return released

    def block(self, rows: Rows) -> Session:
        """Return the session of a block of rows, disjoint from all others: separate costs, one record. Only after the debit."""
        return replace(self, account=self.account.block(), rows=rows)

    def on(self, rows: Rows) -> Session:
        """Return the session of a view of the rows, such as their pairs, with the same account."""
        return replace(self, rows=rows)

    def fields(self, n_pub: int) -> dict[str, Any]:
        """Return the fields that every result shares."""
        return {
            "relation": self.account.statement,
            "rows_per_person": self.account.rows_per_person,
            "about": self.rows.about,
            "n_priv": max(self.rows.n // self.account.rows_per_person, 1),
            "n_pub": n_pub,
            "dim": self.rows.dim,
            "spent": self.account.spent(),
            "private": self.account.private,
            "releases": tuple(self.log),
            "numerics": self.account.numerics(),
        }


class AccountArguments(TypedDict):
    """The account arguments of every public function that spends budget; `start` receives them unchanged."""

    ledger: Ledger | None
    random_state: int | None
    threads: int | None
    progress: bool | None
    max_memory: NotRequired[Any]


def asked(
    ledger: Ledger | None,
    random_state: int | None,
    threads: int | None,
    progress: bool | None,
    max_memory: Any = None,
) -> AccountArguments:
    """Bundle the arguments of a call about its account and the machine."""
    return AccountArguments(
        ledger=ledger,
        random_state=random_state,
        threads=threads,
        progress=progress,
        max_memory=max_memory,
    )


def start(
    name: str,
    rows: Rows,
    budget: Budget,
    *,
    draws: int,
    reserved: ApproxDP | None = None,
    **account_arguments: Unpack[AccountArguments],
) -> Session:
    """Create the session with its account; `Session.paid` debits the ledger once every public argument has been checked."""
    threads = account_arguments["threads"]
    progress = account_arguments["progress"]
    max_memory = account_arguments.get("max_memory")
    if threads is not None:
        threads = validation.integer("threads", threads, minimum=1, maximum=max_threads())
    if progress is not None and not isinstance(progress, bool):
        raise InputError(
            f"progress must be True, False or None, got a value of type {type(progress).__name__}"
        )
    account = Account(
        name,
        budget,
        draws=draws,
        reserved=reserved,
        ledger=account_arguments["ledger"],
        random_state=account_arguments["random_state"],
        relation=Neighbors.REPLACE_PERSON if rows.rows_per_person else Neighbors.REPLACE_ONE,
        rows_per_person=max(rows.rows_per_person, 1),
        person=None if rows.persons is None else rows.persons.name,
    )
    # Warn about a delta that is too large to protect anyone; everything in the warning is public.
    if has_delta(budget):
        budget.warn_if_weak(rows.n)
    most = None if max_memory is None else int(validation.positive("max_memory", max_memory))
    return Session(account, rows, Executor(threads=threads, progress=progress, max_memory=most))


def vector_or_number(name: str, value: Any, dim: int) -> FloatArray:
    """Return a public argument as a vector of `dim` entries; a number is used for all of them."""
    if isinstance(value, np.ndarray | list | tuple) and not (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return validation.finite_vector(name, value, dim)
    return np.full(dim, validation.finite(name, value))
