"""Sources of randomness: a 32-byte key for every release, from the operating system or, marked as not private, from a seed."""

from __future__ import annotations

import hashlib
import numbers
import os
import threading

from fastpubpriv.errors import BudgetError, EntropyError, InputError, SeededNoiseWarning, warn
from fastpubpriv.threads.processes import here

KEY_BYTES = 32
_DOMAIN = b"fastpubpriv seeded key 1"
# Python refuses to write longer integers in decimal digits, from which keys are derived
_MOST_SEED_BITS = 4096


class KeySource:
    """A source of one key per release, created by `key_source`."""

    # Keys of the operating system have no state, so forked children, threads and copies of the process never share one. Those of a
    # seed depend on it and on the number of keys taken before, by any thread. After `check` a source serves one process only: the
    # debit there pays for one set of releases, and a forked child would make a second set.

    __slots__ = ("_calls", "_home", "_lock", "_seed", "private")

    def __init__(self, seed: int | None) -> None:
        self._seed = seed
        self._calls = 0
        self._lock = threading.Lock()
        self._home: tuple[int, int] | None = None
        # with a seed the call is repeatable, and its releases are not private
        self.private = seed is None

    def check(self) -> None:
        """Raise EntropyError, before the debit, if `fresh` would, and bind the source to this process."""
        if self._seed is None:
            _os_key()
        self._home = here()

    def check_process(self) -> None:
        """Raise BudgetError in a process that was forked after `check`."""
        if self._home is not None and self._home != here():
            raise BudgetError(
                "this process was forked in the middle of a call, and what was paid pays for the releases of its parent "
                "alone; start the call again here, which pays for itself"
            )

    def fresh(self) -> bytes:
        """Return 32 bytes that this source has not returned before. Raise BudgetError in a process forked after `check`."""
        # There is no fallback if the operating system returns no random bytes: without a key, no release.
        self.check_process()
        if self._seed is None:
            return _os_key()
        with self._lock:
            index = self._calls
            self._calls += 1
        # The digest of the seed has a fixed length, so that no two pairs of seed and index give the same bytes.
        seed_digest = hashlib.sha256(str(self._seed).encode()).digest()
        return hashlib.sha256(_DOMAIN + seed_digest + index.to_bytes(8, "little")).digest()


def _os_key() -> bytes:
    try:
        key = os.urandom(KEY_BYTES)
    except (OSError, NotImplementedError) as error:
        raise EntropyError(
            "the operating system gave no random bytes; nothing was released"
        ) from error
    if len(key) != KEY_BYTES:
        raise EntropyError("the operating system gave too few random bytes; nothing was released")
    return key


def key_source(random_state: int | None) -> KeySource:
    """Return the source of keys for the argument `random_state`. Raise InputError unless it is None or a non-negative int.

    None means keys from the operating system. A non-negative int makes the call repeatable, warns once per call, and marks the
    source `private=False`. NumPy generators are rejected because they are not cryptographically secure.
    """
    if random_state is None:
        return KeySource(None)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    seed = int(random_state) if whole else -1
    if seed < 0:
        got = "a negative one" if whole else type(random_state).__name__
        raise InputError(
            f"random_state must be None or a non-negative int, got {got}; pass None for private noise"
        )
    if seed.bit_length() > _MOST_SEED_BITS:
        raise InputError(
            f"random_state must be below 2^{_MOST_SEED_BITS}; pass None for private noise, or a smaller int"
        )
    warn(
        "random_state is an int: the noise can be repeated by anyone who knows it, so the result is not private; "
        "pass random_state=None for a release",
        SeededNoiseWarning,
    )
    return KeySource(seed)
