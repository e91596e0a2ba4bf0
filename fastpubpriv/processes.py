"""Which process this is: a forked child must not go on as if it were its parent."""

from __future__ import annotations

import itertools
import os
from collections import deque

_forks = deque([0], maxlen=1)
# A step of an iterator is one call of C, in which no signal handler runs.
os.register_at_fork(after_in_child=map(_forks.append, itertools.count(1)).__next__)


def here() -> tuple[int, int]:
    """This process. A fork changes it, a fork by a C library too, and no process has that of an ancestor again."""
    # The number of a process is given to another once it has ended; how many forks lie behind one only grows.
    return os.getpid(), _forks[0]
