"""Keeping private content out of exceptions: run foreign code, and let nothing it says about values escape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from fastpubpriv.errors import FastPubPrivError, InputError

T = TypeVar("T")

READING_FAILED = (
    "reading the rows failed. The reason is withheld because it may quote private content: "
    "check the file or the chunk factory by hand, with data that you may look at"
)


def passes(error: BaseException) -> bool:
    """True for an error whose text is known to be free of content: ours, out of memory, and interrupts."""
    return isinstance(error, FastPubPrivError | MemoryError) or not isinstance(error, Exception)


def reraise(error: BaseException) -> NoReturn:
    """Raise `error` if its text is safe, else a generic InputError; without chained exceptions or foreign frames."""
    if not passes(error):
        error = InputError(READING_FAILED)
    error.__cause__ = None
    error.__context__ = None
    # `raise` inside an except block would chain the block's exception again: callers are outside of one.
    try:
        raise error.with_traceback(None)
    finally:
        del error  # else the frame and the exception would keep each other alive


def guarded(call: Callable[[], T], message: str = READING_FAILED) -> T:
    """call(), with any foreign exception replaced by InputError(message) that remembers nothing of it."""
    try:
        return call()
    except Exception as error:
        failure: BaseException = error if passes(error) else InputError(message)
    reraise(failure)


def guarded_iterator(iterator: Iterator[Any]) -> Iterator[Any]:
    """The items of `iterator`; a foreign exception becomes a generic InputError."""
    failure: BaseException | None = None
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            failure = error
        if failure is not None:
            reraise(failure)
        yield item
        del item  # a chunk must not stay alive while the next one is read
