"""Where answers go: an answer that was paid for is never lost, and a user whose command stops learns what was charged.

What can be found out about the places to write to is found out before the debit. After it the whole result is stored first, the
table and the plot come later, and where the wanted place takes nothing the result goes to a new file whose name is told.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import os
import signal
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Framed

import fastpubpriv as fpp
from fastpubpriv.cli import app, options
from fastpubpriv.cli.app import TRACEBACK, Interrupted, Undelivered, in_one_line, words_of
from fastpubpriv.errors import (
    AccuracyWarning,
    ExperimentalWarning,
    FastPubPrivError,
    PrivacyWarning,
    SeededNoiseWarning,
)
from fastpubpriv.results import base
from fastpubpriv.results.base import Table, plain, shown
from fastpubpriv.results.describe import Description
from fastpubpriv.results.estimates import GaussianResult, MeanResult
from fastpubpriv.results.group_means import GroupMeans
from fastpubpriv.results.histogram import HistogramResult
from fastpubpriv.results.key_counts import CountResult
from fastpubpriv.results.mixture import MixtureResult
from fastpubpriv.results.models import TrainingResult
from fastpubpriv.results.ranks import QuantileResult

PICTURES = {".png", ".pdf", ".svg"}
Shown = (
    MeanResult | GaussianResult | MixtureResult | HistogramResult | QuantileResult | CountResult | TrainingResult
    | GroupMeans | Description
)  # fmt: skip
OURS = (AccuracyWarning, ExperimentalWarning, PrivacyWarning, SeededNoiseWarning)
MOST_CORRELATIONS = 10
MOST_HISTOGRAMS = 6


def is_stdout(path: Path | None) -> bool:
    """Whether a name stands for the standard output."""
    return str(path) == "-"


def check_outputs(settings: dict[str, Any], inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before anything is spent, what could not be written afterwards, and what would overwrite an input."""
    json_path, plot_path, quiet = settings["json_path"], settings.get("plot_path"), settings.get("quiet")
    for option, path in (("--json", json_path), ("--plot", plot_path), ("--html", settings.get("html_path"))):
        if path is None or (is_stdout(path) and option == "--json"):
            continue
        refuse_unwritable(option, path)
        if any(other is not None and same_file(path, other) for other in inputs):
            raise click.UsageError(f"{option}: {str(path)!r} is also one of the files that are read, or the ledger")
    if is_stdout(json_path) and app.output_is_gone():
        raise click.UsageError("--json -: nobody reads the standard output; pass the name of a file")
    if plot_path is not None:
        if json_path is not None and same_file(json_path, plot_path):
            raise click.UsageError("--json and --plot name the same file")
        if plot_path.suffix.lower() not in PICTURES:
            raise click.UsageError(f"--plot: the name must end in .png, .pdf or .svg, got {plot_path.name!r}")
        need_matplotlib()
    if quiet and json_path is None and plot_path is None:
        raise click.UsageError("--quiet prints no answer: add --json FILE")
    if quiet is False and json_path is None and app.output_is_gone():
        raise click.UsageError("nobody reads the standard output: add --json FILE")


def refuse_unwritable(option: str, path: Path) -> None:
    """A usage error unless the file can be opened for writing now; a new file is taken away again."""
    try:
        if path.is_dir():
            raise click.UsageError(f"{option}: {str(path)!r} is a folder; pass the name of a file")
        if not path.absolute().parent.is_dir():
            raise click.UsageError(f"{option}: there is no folder {str(path.absolute().parent)!r}")
        if path.is_fifo():
            return  # to open it would wait for a reader
        if path.exists():
            os.close(os.open(path, os.O_WRONLY))
        elif path.is_symlink():
            raise click.UsageError(f"{option}: {str(path)!r} is a link that leads nowhere")
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            path.unlink()
    except OSError as error:
        raise click.UsageError(f"{option}: {str(path)!r} {app.reason(error)}") from None


def same_file(first: Path, second: Path) -> bool:
    """Whether two names lead to one file, there or not."""
    try:
        return first.samefile(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def need_matplotlib() -> None:
    """A usage error when drawing is impossible."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("drawing needs matplotlib: pip install 'fastpubpriv[plot]'")


def json_text(data: dict[str, Any]) -> str:
    """The text to write; numbers that JSON does not have are null."""
    return json.dumps(finite_or_null(data), indent=2, allow_nan=False)


def finite_or_null(value: Any) -> Any:
    """The same in the same order, with None for infinities and NaN."""
    if isinstance(value, dict):
        return {name: finite_or_null(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(data: dict[str, Any], path: Path | None) -> bool:
    """Write to a file if there is one, or to the standard output for "-"; whether that may still show something else."""
    text = json_text(data)
    if is_stdout(path):
        app.emit(text)
    elif path is not None:
        attempt(lambda place: place.write_text(text + "\n", encoding="utf-8"), path)
    return not is_stdout(path)


def attempt(write: Callable[[Path], Any], path: Path) -> None:
    """Write a file; a full disk or the like is one line."""
    try:
        replace_file(path, write)
    except OSError as error:
        raise click.ClickException(f"{str(path)!r} {app.reason(error)}") from None


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """write(a name beside `path`), then move it there: a full disk leaves neither half a file nor a broken old one."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        write(target)  # a device or a pipe
        return
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=".fastpubpriv-", suffix=target.suffix)
    except PermissionError:
        write(target)  # a file of one's own in a folder of others
        return
    os.close(number)
    beside = Path(name)
    os.umask(mask := os.umask(0o077))  # what new files are not allowed
    try:
        write(beside)
        beside.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~mask)
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def keep(text: str) -> str:
    """Store an answer in a place that the user did not choose, readable by its owner alone; returns words that say where."""
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        name = ""
        with contextlib.suppress(OSError, RuntimeError):
            number, name = tempfile.mkstemp(dir=folder(), prefix="fastpubpriv-result-", suffix=".json")
            with open(number, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            return f"the whole result is in {name!r}"
        with contextlib.suppress(OSError):
            os.unlink(name)
    app.hint(text)
    return "the whole result stands above, on the error stream, because no file could be written"


def written(paths: list[Path]) -> None:
    """Say where the files are."""
    if paths:
        app.hint(f"Wrote {', '.join(str(path) for path in paths)}")


def console(*, stderr: bool = False) -> Console:
    """A console on the stream of the moment (tests replace it); wide output when nobody watches."""
    stream: Any = app.standard_error() if stderr else app.standard_output()
    made = Console(file=stream or io.StringIO(), highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(file=made.file, highlight=False, width=max(made.width, 110))


def print_table(table: Table, *, title: str) -> None:
    """The table of a value in a frame; words of a status that is not "ok" stand out."""
    (names, *lines), more = base.cells(table, rounded=True, where="--json FILE")
    framed = Framed(title=escape(title), title_justify="left", title_style="bold")
    for name in names:
        left = name in ("column", "meaning", "status")
        framed.add_column(escape(name), justify="left" if left else "right", no_wrap=name == "status")
    for line in lines:
        marked = [
            f"[bold yellow]{escape(cell)}[/]" if name == "status" and cell not in ("ok", "resolved") else escape(cell)
            for name, cell in zip(names, line, strict=True)
        ]
        framed.add_row(*marked)
    console().print(framed)
    for text in more:
        console().print(text)


def tables_of(result: Shown, *, level: float, title: str) -> Iterator[tuple[str, Table]]:
    """Title and table of what a terminal shows: the result's own, a histogram at a time, and the correlations of a Gaussian."""
    if not isinstance(result, HistogramResult):
        yield title, shown(result, level)[0]
        if isinstance(result, GaussianResult) and 1 < result.dim <= MOST_CORRELATIONS:
            pairs = list(zip(result.labels, np.round(result.correlation, 2).T, strict=True))
            yield "Correlations", Table("column", result.labels, pairs)
        return
    for item in result.histograms[:MOST_HISTOGRAMS]:
        largest = np.sort(np.argsort(-item.counts, kind="stable")[: base.MOST_ROWS])
        arrays = ("keys", "counts", "lower", "upper", "frequency")
        short = replace(item, **{name: getattr(item, name)[largest] for name in arrays})
        note = f", the {len(largest)} largest of {len(item)} bins" if len(largest) < len(item) else ""
        level_note = f", level {item.level}" if item.level or len(result) > 1 else ""
        yield f"{title}{level_note}{note}", shown(replace(result, histograms=(short,)))[0]


def print_result(result: Shown, *, level: float, title: str, ledger: Any = None) -> None:
    """The tables of a result and what a reader must know about it."""
    for name, table in tables_of(result, level=level, title=title):
        print_table(table, title=name)
    if isinstance(result, HistogramResult) and len(result) > MOST_HISTOGRAMS:
        console().print(f"... and {len(result) - MOST_HISTOGRAMS} more histograms; --json FILE writes all of them.")
    facts = [(name, escape(text)) for name, text in shown(result, level)[1]]
    if not result.private:
        facts[-1] = ("Private", "[bold red]NO: the noise came from --seed[/]")
    if ledger is not None:
        facts.append(("Ledger", f"{base.short(ledger.remaining)} remains of {base.short(ledger.total)}"))
    print_facts(facts)


def print_facts(facts: list[tuple[str, str]]) -> None:
    """Pairs in two columns, without lines."""
    grid = Framed.grid(padding=(0, 2))
    for name, text in facts:
        grid.add_row(f"[dim]{name}[/]", text)
    console().print(grid)


def note(text: str) -> None:
    """A line of advice on the error stream."""
    console(stderr=True).print(f"[yellow]Note:[/] {escape(text)}")


def warn(text: str) -> None:
    """A line of warning on the error stream."""
    console(stderr=True).print(f"[bold yellow]Warning:[/] {escape(text)}")


@contextlib.contextmanager
def collected(texts: list[str]) -> Iterator[None]:
    """Collect the library's own warnings, each text once; others are dropped, as they may quote rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for item in caught:
        text = " ".join(str(item.message).split())
        if issubclass(item.category, OURS) and text not in texts:
            texts.append(text)


@contextlib.contextmanager
def nice_warnings(texts: list[str]) -> Iterator[None]:
    """As `collected`, and show them."""
    new: list[str] = []
    with collected(new):
        yield
    for text in new:
        if text not in texts:
            texts.append(text)
            warn(text)


def result_dict(result: Shown, *, level: float, warned: list[str]) -> dict[str, Any]:
    """The result's own dictionary, with what a reader would compute from it and the warnings that were shown."""
    if isinstance(result, GaussianResult):
        return {**result.to_dict(), "correlation": result.correlation.tolist(), "warnings": warned}
    if not isinstance(result, MeanResult | QuantileResult | CountResult):
        return {**result.to_dict(), "warnings": warned}
    lower, upper = result.confidence_interval(level)
    error = {"standard_error": result.standard_error.tolist()} if isinstance(result, MeanResult) else {}
    return {
        **result.to_dict(),
        **error,
        "confidence_interval": {"level": level, "lower": plain(lower), "upper": plain(upper)},
        "warnings": warned,
    }


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
            with in_one_line(self.verdict, lambda: self.ledger is not None and self.ledger.began):
                yield
        finally:
            if self.ledger is not None:
                self.ledger.close()

    def store(self, make_text: Callable[[], str], plain_text: Callable[[], str], path: Path | None) -> None:
        """Store the answer, even after Ctrl-C; only output to the standard output can be interrupted."""

        @signals_wait()
        def write() -> None:
            try:
                self.text = make_text()
            except Exception as error:
                self.text = plain_text()
                self.problems.append(f"the intervals could not be computed: {words_of(error)}")
            if path is not None and not is_stdout(path):
                replace_file(path, lambda place: place.write_text(self.text + "\n", encoding="utf-8"))
                self.stored = f"the whole result is in {str(path)!r}"

        self.attempt(repr(str(path)), write)
        if path is not None and is_stdout(path) and self.attempt("", self.emit):
            self.stored = "the whole result was written to the standard output"
        if path is not None and not self.stored:
            self.keep()

    def emit(self) -> None:
        """The answer to the standard output, up to its end."""
        app.emit(self.text)
        app.wait_for_reader()

    def keep(self) -> None:
        """Store the answer in a place that the user did not choose, so that it is not lost."""
        try:
            with signals_wait():
                self.stored = self.stored or keep(self.text)
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
        except app.OutputError as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{what} {app.reason(error)}")
        except Exception as error:
            if os.environ.get(TRACEBACK):
                self.keep()
                app.hint(self.stored)
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


def deliver(call: Callable[[Any], Shown], title: str, settings: dict[str, Any], **drawing: Any) -> None:
    """Spend, release, store, show: what the commands have in common. `call(ledger)` makes the release; `drawing` goes to `plot`."""
    level, json_path, plot_path = settings["level"], settings["json_path"], settings["plot_path"]
    warned: list[str] = list(settings.get("caveats", ()))
    new: list[str] = []
    purchase = Purchase()
    with purchase.told():
        purchase.ledger = options.open_ledger(
            settings["ledger"], settings["ledger_total"], settings["budget"], kind=Witness
        )
        with collected(new):
            result = call(purchase.ledger)
        warned += [text for text in new if text not in warned]

        def whole() -> str:
            return json_text(result_dict(result, level=level, warned=warned))

        def caution() -> None:
            for text in new:
                warn(text)

        def show() -> None:
            print_result(result, level=level, title=title, ledger=purchase.ledger)
            if not purchase.stored:
                app.wait_for_reader()

        def draw(place: Path) -> None:
            result.plot(place, level=level, **drawing)

        purchase.store(whole, result.to_json, json_path)
        purchase.attempt("a warning", caution)
        if not settings["quiet"] and not is_stdout(json_path):
            purchase.attempt("the table", show)
        if plot_path is not None:
            purchase.attempt(repr(str(plot_path)), lambda: replace_file(plot_path, draw))
        html_path = settings.get("html_path")
        if html_path is not None:
            page = partial(result.to_html, level=level)  # type: ignore[union-attr]
            purchase.attempt(repr(str(html_path)), lambda: replace_file(html_path, page))
        purchase.finish()
        if not settings["quiet"]:
            written([path for path in (json_path, plot_path, html_path) if path is not None and not is_stdout(path)])
