"""Keeping private content out of exceptions: run code that meets private rows, and let nothing it says about values escape.

One exception goes through as it is, KeyboardInterrupt. Errors of this library go through where this library alone could have raised
them; where code of others runs (a factory, a list of one's own class, a column of a table) they are replaced like all the rest,
SystemExit and MemoryError included, since whoever raises them chooses their text.
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
NO_MEMORY = "memory ran out while the rows were read: use fewer threads, or a machine with more memory"


def passes(error: BaseException) -> bool:
    """True for an interrupt, and for an error whose class is ours: its text holds no content if our code raised it."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, FastPubPrivError) and type(error).__module__ == errors.__name__
    )


def stand_in(error: BaseException, message: str = READING_FAILED) -> BaseException:
    """What to raise in place of an error that others may have raised: another one, which says nothing of it."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    return OutOfMemoryError(NO_MEMORY) if isinstance(error, MemoryError) else InputError(message)


def reraise(error: BaseException) -> NoReturn:
    """Raise `error` if its text is safe, else its stand-in; without chained exceptions or foreign frames."""
    if not passes(error):
        error = stand_in(error)
    error.__cause__ = None
    error.__context__ = None
    # `raise` inside an except block would chain the block's exception again: callers are outside of one.
    try:
        raise error.with_traceback(None)
    finally:
        del error  # else the frame and the exception would keep each other alive


def guarded(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """call() of our code, with any foreign exception replaced by InputError(message) that remembers nothing of it."""
    try:
        return call()
    except BaseException as error:
        failure = error if passes(error) else stand_in(error, message)
    try:
        reraise(failure)
    finally:
        del failure  # as above


def foreign(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """call() of code that is not ours, with any exception replaced: one of our classes says what it was given there."""
    try:
        return call()
    except BaseException as error:
        failure = stand_in(error, message)
    try:
        reraise(failure)
    finally:
        del failure  # as above


def naming(argument: str, call: Callable[[], T]) -> T:
    """call(), with the name of an argument in front of what an InputError of ours says."""
    try:
        return call()
    except InputError as error:
        failure = InputError(f"{argument}: {error}") if passes(error) else stand_in(error)
    try:
        reraise(failure)
    finally:
        del failure  # as above


def guarded_iterator(iterator: Iterator[Any]) -> Iterator[Any]:
    """The items of an iterator of ours; a foreign exception is replaced."""
    return _items(iterator, lambda error: error if passes(error) else stand_in(error))


def foreign_iterator(iterator: Iterator[Any]) -> Iterator[Any]:
    """The items of an iterator that is not ours; any exception is replaced."""
    return _items(iterator, stand_in)


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
