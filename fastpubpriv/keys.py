"""Where randomness starts: a 32-byte key for every release, from the operating system or, flagged, from a seed."""

from __future__ import annotations

import hashlib
import numbers
import os
import threading

from fastpubpriv.errors import BudgetError, EntropyError, InputError, SeededNoiseWarning, warn
from fastpubpriv.processes import here

KEY_BYTES = 32
_DOMAIN = b"fastpubpriv seeded key 1"
_MOST_SEED_BITS = 4096  # a longer number cannot be written out in decimal digits, which the keys are made of


class KeySource:
    """A source gives one key per release; `key_source` makes it."""

    # Keys of the operating system hold no state, so forked children, threads and copies of the process never share one. Those of a
    # seed depend on it and on how many were taken before, by whatever thread. From `check` on, a source serves one process: what
    # was paid there pays for one set of releases, and a forked child would make a second one.

    __slots__ = ("_calls", "_home", "_lock", "_seed", "private")

    def __init__(self, seed: int | None) -> None:
        self._seed = seed
        self._calls = 0
        self._lock = threading.Lock()
        self._home: tuple[int, int] | None = None
        self.private = seed is None  # from a seed the run repeats, and nothing released from it is private

    def __repr__(self) -> str:
        return f"KeySource(private={self.private})"

    def check(self) -> None:
        """Raise EntropyError where `fresh` would, before anything is paid, and keep the keys for this process alone."""
        if self._seed is None:
            _os_key()
        self._home = here()

    def check_process(self) -> None:
        """BudgetError in a process that was forked after `check`."""
        if self._home is not None and self._home != here():
            raise BudgetError(
                "this process was forked in the middle of a call, and what was paid pays for the releases of its parent "
                "alone; start the call again here, which pays for itself"
            )

    def fresh(self) -> bytes:
        """Return 32 bytes that this source has not given before; BudgetError in a process that was forked after `check`."""
        # Where the operating system gives no random bytes there is no fallback: no key, no release.
        self.check_process()
        if self._seed is None:
            return _os_key()
        with self._lock:
            index = self._calls
            self._calls += 1
        # Fixed-length digest of the seed first: no seed and index can then be read as another pair.
        seed_digest = hashlib.sha256(str(self._seed).encode()).digest()
        return hashlib.sha256(_DOMAIN + seed_digest + index.to_bytes(8, "little")).digest()


def _os_key() -> bytes:
    try:
        key = os.urandom(KEY_BYTES)
    except (OSError, NotImplementedError) as error:
        raise EntropyError("the operating system gave no random bytes; nothing was released") from error
    if len(key) != KEY_BYTES:
        raise EntropyError("the operating system gave too few random bytes; nothing was released")
    return key


def key_source(random_state: int | None) -> KeySource:
    """Return the source of keys that an argument `random_state` asks for; InputError for what is neither None nor such an int.

    None means keys from the operating system. A non-negative int makes the run repeatable, warns once per call, and marks the
    source `private=False`. NumPy generators are refused: they are not made for privacy.
    """
    if random_state is None:
        return KeySource(None)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    seed = int(random_state) if whole else -1
    if seed < 0:
        got = "a negative one" if whole else type(random_state).__name__
        raise InputError(f"random_state must be None or a non-negative int, got {got}; pass None for private noise")
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
