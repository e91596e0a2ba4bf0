"""The only clock of the ordinary tests: every time limit is ten times the time needed, because machines may be busy.

A tighter limit fails a correct library on a busy or an old machine. Speed is guarded by ratios within one run
(`benchmarks/guarded.py`), and `tests/test_rules.py` keeps clocks and short timeouts out of the other tests.
"""

import contextlib
import os
import signal
import threading
import time

import pytest

ROOM = 10
PATIENCE = 600.0  # seconds, for waits that would never end in a broken library
INTERRUPT = 0.2  # seconds within which long work must end after Ctrl-C


class Limit:
    """Time limit in seconds from now on; None is unlimited."""

    def __init__(self, seconds):
        self._end = None if seconds is None else time.monotonic() + seconds

    def over(self):
        return self._end is not None and time.monotonic() > self._end


@contextlib.contextmanager
def ten_times(needed, *, least=0.0):
    """Require the block to take at least `least` seconds and at most ten times `needed`, its seconds on an idle machine."""
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert took >= least
    assert took < ROOM * needed, f"{took:.2f} s, where {needed} s are needed"


def wait_until(condition):
    """Sleep until condition() is true; return False if it never becomes true."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


@contextlib.contextmanager
def ctrl_c(*, once=lambda: True, after=0.3):
    """Send SIGINT `after` seconds after once() is true; the block must end by it, at once.

    The work of the block must take far longer than ten times `INTERRUPT`, or the test has no power.
    """
    pressed = []
    over = threading.Event()

    def press():
        wait_until(lambda: over.is_set() or once())
        if not over.wait(after):  # a signal after the work would end the test run
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
        delay = time.monotonic() - pressed[0]
    finally:
        over.set()
        thread.join()
    assert delay < ROOM * INTERRUPT, (
        f"{delay:.2f} s until the work ended, where {INTERRUPT} s are promised"
    )
