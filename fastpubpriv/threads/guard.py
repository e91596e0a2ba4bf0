"""Keep private content out of exceptions: run code that reads private rows, and replace every error whose text may hold values.

KeyboardInterrupt always propagates. An error of this library propagates where only code of this library can have raised it. Where
third-party code runs (a factory, a subclass of list, a column of a table), every other exception is replaced, also errors of this
library, SystemExit and MemoryError: the code that raises an exception chooses its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from fastpubpriv import errors
from fastpubpriv.errors import FastPubPrivError, InputError, OutOfMemoryError

T = TypeVar("T")

READING_FAILED = (
    "reading the rows failed. The reason is withheld because it may quote private content: "
    "check the file or the chunk factory by hand, with data that you may look at"
)
NO_MEMORY = (
    "memory ran out while the rows were read: use fewer threads, or a machine with more memory"
)


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
    try:
        raise error.with_traceback(None)
    except BaseException:
        error.__context__ = None  # `raise` chains the exception that is being handled
        raise
    finally:
        del error  # breaks the reference cycle of frame and exception


class _Replacing:
    """Context that replaces the exceptions of one kind by those that `replaced` returns."""

    __slots__ = ("_kind", "_replaced")

    def __init__(
        self,
        replaced: Callable[[BaseException], BaseException],
        kind: type[BaseException] = BaseException,
    ) -> None:
        self._replaced = replaced
        self._kind = kind

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any, /
    ) -> None:
        failure = self._replaced(error) if isinstance(error, self._kind) else None
        del kind, error, trace  # the traceback of the replacement has this frame
        try:
            if failure is not None:
                reraise(failure)
        finally:
            del failure  # as above


def guarded(message: str = READING_FAILED) -> _Replacing:
    """Return the context of code of this library; any foreign exception becomes InputError(message) without traceback."""
    return _Replacing(lambda error: error if passes(error) else replace_error(error, message))


def foreign(message: str = READING_FAILED) -> _Replacing:
    """Return the context of third-party code; every exception is replaced, also one of this library: that code chose its text."""
    return _Replacing(lambda error: replace_error(error, message))


def naming(argument: str) -> _Replacing:
    """Return a context in which the message of an InputError of this library is prefixed by the name of the argument."""

    def named(error: BaseException) -> BaseException:
        return InputError(f"{argument}: {error}") if passes(error) else replace_error(error)

    return _Replacing(named, InputError)


def call_guarded(
    call: Callable[..., T], message: str = READING_FAILED, *, given: tuple[Any, ...] = ()
) -> T:
    """Return call(*given) within `guarded(message)`."""
    with guarded(message):
        return call(*given)


def call_foreign(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """Return call() within `foreign(message)`."""
    with foreign(message):
        return call()


def attempt(call: Callable[[], T]) -> T | None:
    """Return call(), a user function of one private row; None if it raises, as an error would reveal something of the row."""
    # Interrupts and OutOfMemoryError propagate.
    try:
        return call_foreign(call)
    except InputError:
        return None


def iterate_guarded(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of an iterator of this library; any foreign exception is replaced."""
    return _items(iterator, lambda error: error if passes(error) else replace_error(error))


def iterate_foreign(iterator: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of a third-party iterator; every exception is replaced."""
    return _items(iterator, replace_error)


def _items(
    iterator: Iterator[Any], replaced: Callable[[BaseException], BaseException]
) -> Iterator[Any]:
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except BaseException as error:
            reraise(replaced(error))
        yield item
        del item  # a chunk must not stay alive while the next one is read
