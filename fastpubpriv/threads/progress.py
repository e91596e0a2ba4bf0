"""A progress bar for long passes: by default only on a terminal, and only after two seconds."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

DELAY_SECONDS = 2.0


class Progress:
    """Rows done so far. `progress` None shows them on a terminal after a delay, True at once, False never."""

    __slots__ = ("_bar", "_show_at", "_total", "wanted")

    def __init__(self, total: int, progress: bool | None) -> None:
        self.wanted = _on_terminal() if progress is None else bool(progress)
        self._total = total
        self._show_at = time.monotonic() + (0.0 if progress else DELAY_SECONDS)
        self._bar: Any = None

    def at(self, done: int) -> None:
        """Show how many rows are done."""
        if not self.wanted:
            return
        if self._bar is None and time.monotonic() < self._show_at:
            return
        try:
            if self._bar is None:
                self._bar = _bar(self._total)
            self._bar.update(done - self._bar.n)
        except (
            Exception
        ):  # for example a closed terminal: a pass that has been paid for must not fail because of its bar
            self.wanted = False

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            with contextlib.suppress(Exception):
                self._bar.close()


def _bar(total: int) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        """A bar without the monitor thread of tqdm: to start that may fail, or wait forever where memory is short."""

        monitor_interval = 0

    return Bar(total=total, unit=" rows", unit_scale=True, leave=False, file=sys.stderr)


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr at all, or a closed one
        return False
