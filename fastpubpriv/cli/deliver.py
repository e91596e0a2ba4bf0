"""From the debit to the output: an answer that was paid for is never lost, and a user whose command stops learns what was charged.

What can be found out about the places to write to is found out before the debit. After it the whole result is stored first, the
table and the plot come later, and where the wanted place takes nothing the result goes to a new file whose name is told.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options, outputs, report, streams
from fastpubpriv.cli.app import TRACEBACK, Failure, Interrupted, Undelivered, unexpected, words_of
from fastpubpriv.errors import FastPubPrivError

if TYPE_CHECKING:
    from fastpubpriv.cli.report import Shown


class Witness(fpp.Ledger):
    """A ledger that remembers what this process did to it."""

    began = finished = False
    known = 0

    def debit(self, *arguments: Any, **named: Any) -> int:
        """Charge, and remember it; a refusal says by itself that nothing was charged."""
        self.known = len(self.entries)
        self.began = True
        try:
            number = super().debit(*arguments, **named)
        except FastPubPrivError:
            self.began = False
            raise
        self.finished = True
        return number

    def verdict(self) -> str:
        """What became of the budget."""
        if self.finished:
            return "the ledger was charged"
        if self.began:
            with contextlib.suppress(FastPubPrivError):
                if len(self.entries) == self.known:
                    return "nothing was charged to the ledger"
            return "the ledger may have been charged: look at what remains"
        return "nothing was charged to the ledger"


class Purchase:
    """One command that may pay: its ledger, and the answer once there is one."""

    def __init__(self) -> None:
        self.ledger: Witness | None = None
        self.text = ""  # the whole answer as JSON
        self.stored = ""  # words that say where it is
        self.problems: list[str] = []
        self.interrupted = False

    def verdict(self) -> str:
        """What became of the budget."""
        return "no ledger was given" if self.ledger is None else self.ledger.verdict()

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """If the block ends before there is an answer, the error says what was charged."""
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted before there was an answer; {self.verdict()}") from None
        except (FastPubPrivError, OSError, MemoryError) as error:
            paid = self.ledger is not None and self.ledger.began
            raise Failure(words_of(error) + (f" ({self.verdict()})" if paid else "")) from None
        except click.ClickException:
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            raise unexpected(error, f" ({self.verdict()})") from None
        finally:
            if self.ledger is not None:
                self.ledger.close()

    def store(self, make_text: Callable[[], str], plain_text: Callable[[], str], path: Path | None) -> None:
        """Store the answer, even after Ctrl-C; only output to the standard output can be interrupted."""

        def write() -> None:
            try:
                self.text = make_text()
            except Exception as error:
                self.text = plain_text()
                self.problems.append(f"the intervals could not be computed: {words_of(error)}")
            if path is not None and not outputs.is_stdout(path):
                outputs.replace_file(path, lambda place: place.write_text(self.text + "\n", encoding="utf-8"))
                self.stored = f"the whole result is in {str(path)!r}"

        def write_undisturbed() -> None:
            with signals_wait():
                write()

        self.attempt(repr(str(path)), write_undisturbed)
        if path is not None and outputs.is_stdout(path) and self.attempt("", self.emit):
            self.stored = "the whole result was written to the standard output"
        if path is not None and not self.stored:
            self.keep()

    def emit(self) -> None:
        """The answer to the standard output, up to its end."""
        streams.emit(self.text)
        streams.wait_for_reader()

    def keep(self) -> None:
        """Store the answer in a place that the user did not choose, so that it is not lost."""
        try:
            with signals_wait():
                self.stored = self.stored or outputs.keep(self.text)
        except KeyboardInterrupt:
            self.interrupted = True

    def attempt(self, what: str, act: Callable[[], Any]) -> bool:
        """Make one step of the output; a failure is noted, and the next step is still tried. After Ctrl-C no step is made."""
        if self.interrupted:
            return False
        try:
            act()
        except KeyboardInterrupt:
            self.interrupted = True
        except streams.OutputError as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{what} {streams.reason(error)}")
        except Exception as error:
            if os.environ.get(TRACEBACK):
                self.keep()
                streams.hint(self.stored)
                raise
            self.problems.append(f"{what} failed: {words_of(error)}")
        else:
            return True
        return False

    def finish(self) -> None:
        """Say what went wrong on the way to the reader, and where the answer is."""
        if not self.interrupted and not self.problems:
            return
        self.keep()
        said = "; ".join([*(["interrupted"] if self.interrupted else []), *dict.fromkeys(self.problems)])
        kind = Interrupted if self.interrupted else Undelivered
        raise kind(f"{said}. The answer was released ({self.verdict()}): {self.stored}")


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Ctrl-C has to wait until the answer is stored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def run(call: Callable[[Any], Shown], title: str, settings: dict[str, Any], **drawing: Any) -> None:
    """Spend, release, store, show: what the commands have in common. `call(ledger)` makes the release; `drawing` goes to `plot`."""
    level, json_path, plot_path = settings["level"], settings["json_path"], settings["plot_path"]
    warned: list[str] = list(settings.get("caveats", ()))
    new: list[str] = []
    purchase = Purchase()
    with purchase.told():
        purchase.ledger = options.open_ledger(
            settings["ledger"], settings["ledger_total"], settings["budget"], kind=Witness
        )
        with report.collected(new):
            result = call(purchase.ledger)
        warned += [text for text in new if text not in warned]

        def whole() -> str:
            return outputs.json_text(report.result_dict(result, level=level, warned=warned))

        def caution() -> None:
            for text in new:
                report.warn(text)

        def show() -> None:
            report.print_result(result, level=level, title=title, ledger=purchase.ledger)
            if not purchase.stored:
                streams.wait_for_reader()

        def draw(place: Path) -> None:
            result.plot(place, level=level, **drawing)

        purchase.store(whole, result.to_json, json_path)
        purchase.attempt("a warning", caution)
        if not settings["quiet"] and not outputs.is_stdout(json_path):
            purchase.attempt("the table", show)
        if plot_path is not None:
            purchase.attempt(repr(str(plot_path)), lambda: outputs.replace_file(plot_path, draw))
        purchase.finish()
        if not settings["quiet"]:
            outputs.written(
                [path for path in (json_path, plot_path) if path is not None and not outputs.is_stdout(path)]
            )
