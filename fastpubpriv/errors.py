"""Exceptions and warnings. Their text may quote public values, shapes and dtypes, never the content of a private row."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar

# Packages whose frames a warning is not attributed to: this one, contextlib, and those whose pipelines and searches fit its
# estimators. By name, as compiled files and frozen programs keep the paths of the machine that compiled them.
_PASSED_OVER = {"fastpubpriv", "contextlib", "sklearn", "joblib"}
# What receives warnings of this thread or task in place of `warnings.warn`, if anything does. Filters of `warnings` belong to the
# whole process, so that no code of the package changes them.
_RECEIVER: ContextVar[Callable[[str, type[Warning]], bool] | None] = ContextVar(
    "fastpubpriv_receiver", default=None
)


class FastPubPrivError(Exception):
    """Base of every error that this library raises on purpose.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> try:
    ...     fpp.estimate_mean([[1.0]], x_pub=[["one"]], budget=fpp.ZCDP(rho=1))
    ... except fpp.FastPubPrivError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(FastPubPrivError, ValueError):
    """A public argument, or the form (shape, dtype, columns) of the private data, is invalid.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> try:
    ...     fpp.estimate_mean([[1.0, 2.0]], x_pub=[[1.0, float("inf")]], budget=fpp.ZCDP(rho=1))
    ... except fpp.InputError as error:
    ...     print("finite" in str(error))
    True
    """


class BudgetError(FastPubPrivError, ValueError):
    """A privacy budget is malformed, of the wrong notion, or larger than what is left.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> ledger = fpp.Ledger(fpp.ZCDP(rho=1))
    >>> try:
    ...     ledger.debit(fpp.ZCDP(rho=2), name="mean")
    ... except fpp.BudgetError:
    ...     print(ledger.remaining)
    Cost(ZCDP, rho=1.0)
    """


class InfeasibleError(FastPubPrivError, ValueError):
    """Public sizes alone show that a request needs more rows or a longer list than possible; no private row was read for it.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> options = {"budget": fpp.ApproxDP(epsilon=1, delta=1e-6), "method": "list_decoding", "accuracy": 0.5}
    >>> try:
    ...     fpp.learn_axis_aligned_mixture(np.zeros((100, 1)), n_components=1, **options)
    ... except fpp.InfeasibleError as error:
    ...     print("rows" in str(error))
    True
    """


class LedgerError(FastPubPrivError, RuntimeError):
    """A ledger file is corrupt, foreign, locked by another process, or could not be written. Nothing was released.

    Examples
    --------
    >>> from pathlib import Path
    >>> import fastpubpriv as fpp
    >>> _ = Path("not-a-ledger.txt").write_text("private notes")
    >>> try:
    ...     fpp.Ledger(fpp.ZCDP(rho=1), path="not-a-ledger.txt")
    ... except fpp.LedgerError:
    ...     print("refused, and left as it was")
    refused, and left as it was
    """


class EntropyError(FastPubPrivError, RuntimeError):
    """The operating system returned no random bytes for a key. There is no fallback: nothing was released.

    Examples
    --------
    >>> from unittest.mock import patch
    >>> import fastpubpriv as fpp
    >>> with patch("os.urandom", side_effect=OSError):  # simulate an operating system without randomness
    ...     try:
    ...         fpp.coinpress_mean([[1.0]], center=0.0, radius=5.0, budget=fpp.ZCDP(rho=1))
    ...     except fpp.EntropyError as error:
    ...         print(error)
    the operating system gave no random bytes; nothing was released
    """


class KernelError(FastPubPrivError, RuntimeError):
    """A kernel or a release received invalid input: a bug in this library or in a custom mechanism, never in the rows.

    Please report it if you use no custom mechanism.

    Examples
    --------
    A query that returns floats, although only integers have a proven sensitivity:

    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> from fastpubpriv.privacy import GaussianEvent
    >>> from fastpubpriv.release.release import release
    >>> from fastpubpriv.session import start
    >>> from fastpubpriv.sources import private_rows
    >>> rows = private_rows([[1.0], [2.0]])
    >>> own = start("own", rows, fpp.ZCDP(rho=1), draws=1, ledger=None, random_state=None, threads=1, progress=False)
    >>> question = {"query": lambda: np.array([3.0]), "shape": (1,), "event": GaussianEvent(2, 10, 1), "unit": 1.0}
    >>> try:
    ...     with own.paid():
    ...         release(own.account, name="sum", **question)
    ... except fpp.KernelError as error:
    ...     print(error)
    release 'sum': the query must return an int64 array of shape (1,)
    """


class OutOfMemoryError(FastPubPrivError, MemoryError):
    """Memory ran out while private rows were read, or while the result was computed. What was debited stays debited.

    Examples
    --------
    A source without memory for its next chunk; `except MemoryError` catches the error as well:

    >>> import fastpubpriv as fpp
    >>> def chunks():
    ...     raise MemoryError
    >>> rows = fpp.Rows.from_chunks(chunks, n=5, dim=1)
    >>> ledger = fpp.Ledger(fpp.ZCDP(rho=1))
    >>> try:
    ...     fpp.coinpress_mean(rows, center=0.0, radius=5.0, budget=fpp.ZCDP(rho=1), ledger=ledger)
    ... except MemoryError as error:
    ...     print(type(error).__name__, "and spent is", ledger.spent)
    OutOfMemoryError and spent is Cost(ZCDP, rho=1.0)
    """


class ReplayError(FastPubPrivError, AssertionError):
    """Record/replay found a mechanism call that differs from the recorded one.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> from fastpubpriv.auditing import record_replay
    >>> def twice_as_much_for_some(rows):
    ...     return fpp.coinpress_mean(rows, center=0.0, radius=5.0 + len(rows) % 2, budget=fpp.ZCDP(rho=1))
    >>> try:
    ...     record_replay(twice_as_much_for_some, np.zeros((8, 1)), np.zeros((9, 1)), budget=fpp.ZCDP(rho=1))
    ... except fpp.ReplayError:
    ...     print("not the same calls")
    not the same calls
    """


class SeededNoiseWarning(UserWarning):
    """The noise was derived from a seed: the call is repeatable, and its result is not private.

    Examples
    --------
    >>> import warnings
    >>> import fastpubpriv as fpp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = fpp.coinpress_mean([[1.0]], center=0.0, radius=5.0, budget=fpp.ZCDP(rho=1), random_state=0)
    >>> result.private, any(warning.category is fpp.SeededNoiseWarning for warning in caught)
    (False, True)
    """


class PrivacyWarning(UserWarning):
    """A privacy parameter is legal but weak (for example delta of 1/n or more).

    Examples
    --------
    >>> import warnings
    >>> import fastpubpriv as fpp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = fpp.coinpress_mean([[1.0]] * 9, center=0.0, radius=5.0, budget=fpp.ApproxDP(epsilon=1, delta=0.5))
    >>> any(warning.category is fpp.PrivacyWarning for warning in caught)  # delta is above 1/9
    True
    """


class AccuracyWarning(UserWarning):
    """The predicted error, from public quantities alone, is too large for the answer to be useful.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(size=(300, 3))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = fpp.linear_regression(
    ...         rows[200:], x_pub=rows[:200].copy(), label=-1, budget=fpp.ZCDP(rho=1e-9), method="newton"
    ...     )
    >>> any(warning.category is fpp.AccuracyWarning for warning in caught)
    True
    """


class ExperimentalWarning(UserWarning):
    """A part of this library was used whose privacy proof is not from the literature, and which is recent.

    Examples
    --------
    >>> import warnings
    >>> import fastpubpriv as fpp
    >>> warnings.simplefilter("error", fpp.ExperimentalWarning)  # to exclude such parts
    >>> warnings.resetwarnings()
    """


@contextlib.contextmanager
def warnings_to(receive: Callable[[str, type[Warning]], bool]) -> Iterator[None]:
    """Give each warning of this thread or task to `receive(text, category)`; one for which it returns True goes further out."""
    outer = _RECEIVER.get()

    def chained(text: str, category: type[Warning]) -> bool:
        return receive(text, category) and (outer is None or outer(text, category))

    token = _RECEIVER.set(chained)
    try:
        yield
    finally:
        _RECEIVER.reset(token)


def warn(text: str, category: type[Warning] = AccuracyWarning) -> None:
    """Warn at the line that called this package, the innermost frame outside of it, unless the receiver keeps the warning."""
    receive = _RECEIVER.get()
    if receive is not None and not receive(text, category):
        return
    frame = sys._getframe(0)
    depth = 1
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER
    ):
        frame = frame.f_back
        depth = depth + 1
    warnings.warn(text, category, stacklevel=depth)


def warn_after_debit(text: str, category: type[Warning] = AccuracyWarning) -> None:
    """Warn without raising: a result that is paid for must not be lost if the user turns warnings into errors."""
    with contextlib.suppress(Warning):
        warn(text, category)
