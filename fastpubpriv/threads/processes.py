"""Identity of the process, which detects forks: a forked child must not continue a call of its parent."""

from __future__ import annotations

import itertools
import os
from collections import deque

_forks = deque([0], maxlen=1)
# Advancing an iterator is one C call, in which no signal handler runs.
os.register_at_fork(after_in_child=map(_forks.append, itertools.count(1)).__next__)


def here() -> tuple[int, int]:
    """Return an identifier of this process that every fork changes, also one by a C library, and that no descendant has again."""
    # Process ids are reused after a process ends; the number of forks before a process only grows.
    return os.getpid(), _forks[0]
