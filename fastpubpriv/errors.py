"""Exceptions and warnings. Their text may quote public values, shapes and dtypes, never the content of a private row."""


class FastPubPrivError(Exception):
    """Base of every error that this library raises on purpose."""


class InputError(FastPubPrivError, ValueError):
    """A public argument, or the form (shape, dtype, columns) of the private data, cannot be used."""


class BudgetError(FastPubPrivError, ValueError):
    """A privacy budget is malformed, of the wrong notion, or larger than what is left."""


class InfeasibleError(FastPubPrivError, ValueError):
    """Public sizes alone show that a request needs more rows or a longer list than can be had; nothing private was read for it."""


class LedgerError(FastPubPrivError, RuntimeError):
    """A ledger file is corrupt, foreign, locked by another process, or could not be written. Nothing was released."""


class EntropyError(FastPubPrivError, RuntimeError):
    """The operating system gave no fresh key. There is no fallback: nothing was released."""


class KernelError(FastPubPrivError, RuntimeError):
    """A compiled kernel refused its arguments: a bug in this library, not in the caller's data."""


class OutOfMemoryError(FastPubPrivError, MemoryError):
    """Memory ran out while private rows were read. What was debited stays debited: nothing was released."""


class ReplayError(FastPubPrivError, AssertionError):
    """Record/replay found a mechanism call that differs from the recorded one."""


class SeededNoiseWarning(UserWarning):
    """The noise was derived from a seed: the run repeats, and its result is not private."""


class PrivacyWarning(UserWarning):
    """A privacy parameter is legal but weak (for example delta of 1/n or more)."""


class AccuracyWarning(UserWarning):
    """The predicted error, from public quantities alone, is too large for the answer to be useful."""


class ExperimentalWarning(UserWarning):
    """A part of this library whose privacy proof is its own and has not been in use for long."""
