"""Keep private content out of exceptions: run code that reads private rows, and replace every error whose text may hold values.

KeyboardInterrupt always propagates. An error of this library propagates where only code of this library can have raised it. Where
third-party code runs (a factory, a subclass of list, a column of a table), every other exception is replaced, also errors of this
library, SystemExit and MemoryError: the code that raises an exception chooses its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn, TypeVar

from fastpubpriv import errors
from fastpubpriv.errors import FastPubPrivError, InputError, OutOfMemoryError

T = TypeVar("T")

READING_FAILED = (
    "reading the rows failed. The reason is withheld because it may quote private content: "
    "check the file or the chunk factory by hand, with data that you may look at"
)
NO_MEMORY = "memory ran out while the rows were read: use fewer threads, or a machine with more memory"


def passes(error: BaseException) -> bool:
    """Return True for an interrupt and for an error of this library, which has no private content if this library raised it."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, FastPubPrivError) and type(error).__module__ == errors.__name__
    )


def replace_error(error: BaseException, message: str = READING_FAILED) -> BaseException:
    """Return the error to raise instead of one that third-party code may have raised; it has nothing of the original."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    return OutOfMemoryError(NO_MEMORY) if isinstance(error, MemoryError) else InputError(message)


def reraise(error: BaseException) -> NoReturn:
    """Raise `error` if its text is safe, else its replacement; without chained exceptions and without frames of other code."""
    if not passes(error):
        error = replace_error(error)
    error.__cause__ = None
    error.__context__ = None
    # Callers must be outside of an except block, whose exception `raise` would chain again.
    try:
        raise error.with_traceback(None)
    finally:
        del error  # breaks the reference cycle of frame and exception


def call_guarded(call: Callable[..., T], message: str = READING_FAILED, *, given: tuple[Any, ...] = ()) -> T:
    """Return call(*given), for code of this library; any foreign exception becomes InputError(message) without traceback."""
    return _called(partial(call, *given), lambda error: error if passes(error) else replace_error(error, message))


def call_foreign(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """Return call(), for third-party code; every exception is replaced, also one of this library: that code chose its text."""
    return _called(call, lambda error: replace_error(error, message))


def _called(
    call: Callable[[], T],
    replaced: Callable[[BaseException], BaseException],
    kind: type[BaseException] = BaseException,
) -> T:
    try:
        return call()
    except kind as error:
        failure = replaced(error)
    try:
        reraise(failure)
    finally:
        del failure  # as above


def attempt(call: Callable[[], T]) -> T | None:
    """Return call(), a user function of one private row; None if it raises, as an error would reveal something of the row."""
    # Interrupts and OutOfMemoryError propagate.
    try:
        return call_foreign(call)
    except InputError:
        return None


def name_argument(argument: str, call: Callable[[], T]) -> T:
    """Return call(); the message of an InputError of this library is prefixed by the name of the argument."""

    def named(error: BaseException) -> BaseException:
        return InputError(f"{argument}: {error}") if passes(error) else replace_error(error)

    return _called(call, named, InputError)


def iterate_guarded(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of an iterator of this library; any foreign exception is replaced."""
    return _items(iterator, lambda error: error if passes(error) else replace_error(error))


def iterate_foreign(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of a third-party iterator; every exception is replaced."""
    return _items(iterator, replace_error)


def _items(iterator: Iterator[Any], replaced: Callable[[BaseException], BaseException]) -> Iterator[Any]:
    failure: BaseException | None = None
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except BaseException as error:
            failure = replaced(error)
        if failure is not None:
            reraise(failure)
        yield item
        del item  # a chunk must not stay alive while the next one is read
