"""Keep private content out of exceptions: run code that reads private rows, and replace every error whose text may hold values.

KeyboardInterrupt always passes. An error of this library passes where only code of this library can have raised it. Where other
code runs (a factory, a subclass of list, a column of a table), every other exception is replaced, also errors of this library,
SystemExit and MemoryError: the code that raises an exception chooses its text.
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
    """True for an interrupt, and for an error of this library: if our code raised it, its text holds no private content."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, FastPubPrivError) and type(error).__module__ == errors.__name__
    )


def replace_error(error: BaseException, message: str = READING_FAILED) -> BaseException:
    """Return the error to raise in place of one that other code may have raised; nothing of the original is in it."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    return OutOfMemoryError(NO_MEMORY) if isinstance(error, MemoryError) else InputError(message)


def reraise(error: BaseException) -> NoReturn:
    """Raise `error` if its text is safe, else what stands for it; without chained exceptions and without frames of other code."""
    if not passes(error):
        error = replace_error(error)
    error.__cause__ = None
    error.__context__ = None
    # `raise` inside an except block would chain the block's exception again: callers are outside of one.
    try:
        raise error.with_traceback(None)
    finally:
        del error  # else the frame and the exception would keep each other alive


def call_guarded(call: Callable[..., T], message: str = READING_FAILED, *, given: tuple[Any, ...] = ()) -> T:
    """Return call(*given), for code of this library; any other exception becomes InputError(message) and leaves no trace."""
    return _called(partial(call, *given), lambda error: error if passes(error) else replace_error(error, message))


def call_foreign(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """Return call(), for code that is not ours; every exception is replaced, also one of our classes: that code chose its text."""
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
    """Return call(), a function of the caller's at one private row; None where it raises, as an error would tell of the row."""
    # An interrupt passes, and that memory ran out.
    try:
        return call_foreign(call)
    except InputError:
        return None


def name_argument(argument: str, call: Callable[[], T]) -> T:
    """Return call(); an InputError of this library gets the name of the argument in front of its text."""

    def named(error: BaseException) -> BaseException:
        return InputError(f"{argument}: {error}") if passes(error) else replace_error(error)

    return _called(call, named, InputError)


def iterate_guarded(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of an iterator of this library; any other exception than ours is replaced."""
    return _items(iterator, lambda error: error if passes(error) else replace_error(error))


def iterate_foreign(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of an iterator that is not ours; every exception is replaced."""
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
