"""Output of answers: an answer that was charged is never lost, and an error message states what was charged.

The output files are checked as far as possible before the debit. After it the whole result is stored first, before the table and
the plot; if the requested file cannot be written, the result goes to a new file, whose name is printed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import json
import os
import re
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from fastpubpriv import errors
from fastpubpriv.cli import options, streams
from fastpubpriv.cli.opened_files import FileInputs
from fastpubpriv.cli.streams import Failure, in_one_line, refuse, words_of
from fastpubpriv.privacy import Neighbors
from fastpubpriv.results import base, result_tables
from fastpubpriv.results.base import shown
from fastpubpriv.results.by_key import CountResult, GroupMeans
from fastpubpriv.results.comparisons import Comparison
from fastpubpriv.results.estimates import GaussianResult, MeanResult
from fastpubpriv.results.histogram import HistogramResult
from fastpubpriv.results.json_fields import plain
from fastpubpriv.results.person_counts import PersonCounts
from fastpubpriv.results.ranks import QuantileResult
from fastpubpriv.results.result_tables import Facts, Table, label_of

Shown = Any  # a result with a plot
Drawn = Callable[[Shown], dict[str, Any]]  # the arguments of its plot
MOST_CORRELATIONS = 10  # columns up to which correlations are printed
MOST_HISTOGRAMS = 6  # histograms that are printed
INTERRUPTED = "interrupted"
LOUD = "NO: "  # a fact with this prefix is printed in red
STATUS_COLORS = {"caution": "bold yellow", "unreliable": "bold red"}


def is_stdout(path: Path | None) -> bool:
    """Return whether a name stands for the standard output."""
    return str(path) == "-"


def check_outputs(settings: dict[str, Any], inputs: Iterable[Path | None] = ()) -> None:
    """Raise UsageError, before anything is spent, for outputs that could not be written or would overwrite an input."""
    places = {
        name: path
        for name in ("json", "plot", "html")
        if (path := settings.get(f"{name}_path")) is not None
    }
    json_path = places.get("json")
    plot_path = places.get("plot")
    quiet = settings.get("quiet")
    for name, path in places.items():
        check_place(f"--{name}", path, inputs, "one of the files that are read, or the ledger")
    if plot_path is not None:
        both = json_path is not None and same_file(json_path, plot_path)
        refuse(both, "--json and --plot name the same file")
        known = plot_path.suffix.lower() in (".png", ".pdf", ".svg")
        refuse(
            not known, f"--plot: the name must end in .png, .pdf or .svg, got {plot_path.name!r}"
        )
        need_matplotlib()
    refuse(quiet and not places, "--quiet prints no answer: add --json FILE")
    unread = quiet is False and json_path is None and streams.output_is_gone()
    refuse(unread, "nobody reads the standard output: add --json FILE")


def check_place(
    option: str,
    path: Path,
    others: Iterable[Path | None] = (),
    what: str = "one of the files that are read",
) -> None:
    """Raise UsageError unless the file can be opened for writing and is none of the `others`; a new file is removed again."""
    if is_stdout(path):
        refuse(
            streams.output_is_gone(),
            f"{option} -: nobody reads the standard output; pass the name of a file",
        )
        return
    name = repr(str(path))
    folder = path.absolute().parent
    try:
        refuse(path.is_dir(), f"{option}: {name} is a folder; pass the name of a file")
        refuse(not folder.is_dir(), f"{option}: there is no folder {str(folder)!r}")
        refuse(
            path.is_symlink() and not path.exists(),
            f"{option}: {name} is a link that leads nowhere",
        )
        if path.is_fifo():
            pass  # opening it would wait for a reader
        elif path.exists():
            os.close(os.open(path, os.O_WRONLY))
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            path.unlink()
    except OSError as error:
        raise click.UsageError(f"{option}: {name} {streams.reason(error)}") from None
    read = any(
        other is not None and not is_stdout(other) and same_file(path, other) for other in others
    )
    refuse(read, f"{option}: {name} is also {what}")


def same_file(first: Path, second: Path) -> bool:
    """Return whether two names lead to the same file, existing or not."""
    try:
        return first.samefile(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def need_matplotlib() -> None:
    """Raise UsageError if matplotlib is not installed."""
    missing = importlib.util.find_spec("matplotlib") is None
    refuse(missing, "drawing needs matplotlib: pip install 'fastpubpriv[plot]'")


def json_text(data: dict[str, Any]) -> str:
    """Return the JSON text of values that `plain` has returned."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def write_text(text: str, path: Path | None) -> bool:
    """Write to a file if there is one, or to the standard output for "-"; return whether the latter is still unused."""
    if is_stdout(path):
        streams.emit(text)
    elif path is not None:
        attempt(lambda place: place.write_text(text, encoding="utf-8"), path)
    return not is_stdout(path)


def print_answer(
    data: dict[str, Any],
    json_path: Path | None,
    facts: Facts,
    table: Table | None = None,
    title: str = "",
) -> None:
    """Write an answer that costs nothing as JSON, and print it unless that went to the standard output."""
    if not write_text(json_text(data), json_path):
        return
    if table is not None:
        print_table(table, title=title)
    print_facts(facts)


def attempt(write: Callable[[Path], Any], path: Path) -> None:
    """Write a file; raise ClickException for an OSError such as a full disk."""
    try:
        replace_file(path, write)
    except OSError as error:
        raise click.ClickException(f"{str(path)!r} {streams.reason(error)}") from None


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Call write(temporary name beside `path`), then rename: a full disk leaves neither half a file nor a broken old one."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        write(target)  # a device or a pipe
        return
    try:
        number, name = tempfile.mkstemp(
            dir=target.parent, prefix=".fastpubpriv-", suffix=target.suffix
        )
    except PermissionError:
        write(target)  # a writable file in a folder that is not writable
        return
    os.close(number)
    beside = Path(name)
    os.umask(mask := os.umask(0o077))  # permissions that new files do not get
    try:
        write(beside)
        beside.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~mask)
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def keep(text: str) -> str:
    """Store an answer in a new file, readable by its owner only, or print it; return a phrase that says where it is."""
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        name = ""
        with contextlib.suppress(OSError, RuntimeError):
            number, name = tempfile.mkstemp(
                dir=folder(), prefix="fastpubpriv-result-", suffix=".json"
            )
            with open(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            return f"the whole result is in {name!r}"
        with contextlib.suppress(OSError):
            os.unlink(name)
    streams.hint(text)
    return "the whole result stands above, on the error stream, because no file could be written"


def watched(stream: Any) -> bool:
    """Return whether a stream is a terminal."""
    return not getattr(stream, "closed", True) and bool(stream.isatty())


def rendered(*things: Any, stream: Any = None) -> str:
    """Return the text for a stream, by default the standard output, in its encoding; wide unless it is a terminal."""
    stream = stream or sys.stdout
    page = io.TextIOWrapper(
        io.BytesIO(), getattr(stream, "encoding", None) or "utf-8", "backslashreplace", ""
    )
    console = Console(file=page, highlight=False, force_terminal=watched(stream) or None)
    if not console.is_terminal:
        console.width = max(console.width, 110)
    console.print(*things, sep="\n")
    page.seek(0)
    return page.read()


def show(*things: Any) -> None:
    """Print on the standard output."""
    streams.emit(rendered(*things))


def print_table(table: Table, *, title: str) -> None:
    """Print the table of a value in a frame; a status that is not "ok" is highlighted."""
    lines, more = result_tables.cells(table, rounded=True, where="--json FILE")
    show(f"[bold]{escape(title)}[/]")
    streams.emit(
        _frames(lines, list(range(1, len(lines[0])))) + "".join(f"{text}\n" for text in more)
    )


def _frames(lines: list[list[str]], places: list[int]) -> str:
    """Render the columns at these places after the first one, in several frames if one would be too narrow for its numbers."""
    framed = Framed()
    for name in (lines[0][place] for place in (0, *places)):
        left = name in ("column", "meaning", "status", "reasons")
        framed.add_column(
            escape(name), justify="left" if left else "right", no_wrap=name == "status"
        )
    for line in lines[1:]:
        marked = [
            f"[{STATUS_COLORS[cell]}]{cell}[/]"
            if name == "status" and cell in STATUS_COLORS
            else escape(cell)
            for name, cell in zip(lines[0], line, strict=True)
        ]
        framed.add_row(*(marked[place] for place in (0, *places)))
    text = rendered(framed)
    half = (len(places) + 1) // 2
    if ("…" in text or "\\u2026" in text) and len(places) > 1:
        return _frames(lines, places[:half]) + _frames(lines, places[half:])
    return text


def print_result(result: Shown, *, level: float, title: str, ledger: Any = None) -> None:
    """Print the tables of a result (of a histogram each, with the correlations of a Gaussian) and its facts."""
    table, facts = shown(result, level)
    if isinstance(result, HistogramResult):
        for item in result.histograms[:MOST_HISTOGRAMS]:
            largest = np.sort(np.argsort(-item.counts, kind="stable")[: result_tables.MOST_ROWS])
            arrays = ("keys", "counts", "lower", "upper", "frequency")
            shortened = replace(item, **{name: getattr(item, name)[largest] for name in arrays})
            note = (
                f", the {len(largest)} largest of {len(item)} bins"
                if len(largest) < len(item)
                else ""
            )
            level_note = f", level {item.level}" if item.level or len(result) > 1 else ""
            print_table(
                shown(replace(result, histograms=(shortened,)))[0],
                title=f"{title}{level_note}{note}",
            )
        if len(result) > MOST_HISTOGRAMS:
            show(
                f"... and {len(result) - MOST_HISTOGRAMS} more histograms; --json FILE writes all of them."
            )
    else:
        print_table(table, title=title)
    if isinstance(result, GaussianResult) and 1 < result.dim <= MOST_CORRELATIONS:
        pairs = list(zip(result.labels, np.round(result.correlation, 2).T + 0.0, strict=True))
        print_table(Table("column", result.labels, pairs), title="Correlations")
    if not result.private:
        facts[-1] = ("Private", f"{LOUD}the noise came from --seed")
    if ledger is not None:
        facts.append(("Ledger", ledger.left))
    print_facts(facts)


def print_facts(facts: Facts) -> None:
    """Print pairs in two columns, without lines."""
    grid = Framed.grid(padding=(0, 2))
    for name, text in facts:
        grid.add_row(
            f"[dim]{name}[/]",
            f"[bold red]{escape(text)}[/]" if text.startswith(LOUD) else escape(text),
        )
    show(grid)


def note(text: str, word: str = "[bold yellow]Warning:[/]") -> None:
    """Print a line of warning, or of advice, to the error stream."""
    streams.hint(rendered(f"{word} {escape(text)}", stream=sys.stderr))


def advise(settings: dict[str, Any], texts: Iterable[str]) -> None:
    """Print lines of advice, unless --quiet is given."""
    for text in () if settings["quiet"] else texts:
        note(text, "[yellow]Note:[/]")


def nice_warnings(
    texts: list[str], show: Callable[[str], None] = note
) -> contextlib.AbstractContextManager[None]:
    """Collect the library's warnings within the block in `texts`, each text once, and pass it to `show`."""

    def receive(text: str, category: type[Warning]) -> bool:
        text = " ".join(text.split())
        if text not in texts:
            texts.append(text)
            show(text)
        return False

    return errors.warnings_to(receive)


def comparisons_of(result: Shown, settings: dict[str, Any]) -> list[Comparison]:
    """Return the comparisons that --difference and --ratio ask for; raise InputError for a name that is not there."""
    compared = []
    for kind in ("difference", "ratio"):
        parts = settings.get(kind)
        if parts is None:
            continue
        if isinstance(result, CountResult | PersonCounts):
            names: Any = [key[0] if len(key) == 1 else key for key in result.keys]
        else:
            names = getattr(result, "groups", result.labels)
        named = {label_of(name): name for name in names}
        first, second = (named.get(text, text) for text in options.pair_of(parts))
        compared.append(getattr(result, kind)(first, second, settings["level"]))
    return compared


def result_dict(
    result: Shown, *, level: float, warned: list[str], compared: Sequence[Comparison] = ()
) -> dict[str, Any]:
    """Return the dictionary of a result, with derived values (intervals, correlation) and the warnings that were shown."""
    more: dict[str, Any] = {}
    if compared:
        more["comparisons"] = [each.to_dict() for each in compared]
    if isinstance(result, CountResult):
        more["published"] = plain(result.published)
    if isinstance(result, GaussianResult):
        more["correlation"] = plain(result.correlation)
    if isinstance(result, MeanResult):
        more["standard_error"] = plain(result.standard_error)
    if isinstance(result, MeanResult | GroupMeans | QuantileResult | CountResult | PersonCounts):
        lower, upper = result.confidence_interval(level)
        more["confidence_interval"] = {"level": level, "lower": plain(lower), "upper": plain(upper)}
    return {**result.to_dict(), **more, "warnings": warned}


class Witness(fpp.Ledger):
    """A ledger that records whether this process has charged it."""

    began = finished = False
    known = 0

    def debit(self, *arguments: Any, **named: Any) -> int:
        """Charge, and record it; an error of the library means that nothing was charged."""
        self.known = len(self.entries)
        self.began = True
        try:
            number = super().debit(*arguments, **named)
        except errors.FastPubPrivError:
            self.began = False
            raise
        self.finished = True
        return number


class Purchase:
    """One command that may charge a ledger: the ledger, and the answer once there is one."""

    def __init__(self, ledger: Witness | None) -> None:
        self.ledger = ledger
        self.text = ""  # the whole answer as JSON
        self.stored = ""  # phrase that says where it is
        self.problems: list[str] = []

    def verdict(self) -> str:
        """Return a phrase that says whether the ledger was charged."""
        ledger = self.ledger
        if ledger is None or ledger.finished:
            return "no ledger was given" if ledger is None else "the ledger was charged"
        with contextlib.suppress(errors.FastPubPrivError):
            if not ledger.began or len(ledger.entries) == ledger.known:
                return "nothing was charged to the ledger"
        return "the ledger may have been charged: look at what remains"

    def store(
        self, make_text: Callable[[], str], plain_text: Callable[[], str], path: Path | None
    ) -> None:
        """Store the answer, even after Ctrl-C; only output to the standard output can be interrupted."""

        @signals_wait()
        def write() -> None:
            try:
                self.text = make_text()
            except Exception as error:
                self.text = plain_text()
                self.problems.append(f"the intervals could not be computed: {words_of(error)}")
            if path is not None and not is_stdout(path):
                replace_file(path, lambda place: place.write_text(self.text, encoding="utf-8"))
                self.stored = f"the whole result is in {str(path)!r}"

        self.attempt(repr(str(path)), write)
        if is_stdout(path) and self.attempt("", lambda: streams.emit(self.text, whole=True)):
            self.stored = "the whole result was written to the standard output"
        if path is not None and not self.stored:
            self.keep()

    def keep(self) -> None:
        """Store the answer in a new file unless it is stored already, so that it is not lost."""
        try:
            with signals_wait():
                self.stored = self.stored or keep(self.text)
        except KeyboardInterrupt:
            self.problems.insert(0, INTERRUPTED)

    def attempt(self, what: str, act: Callable[[], Any]) -> bool:
        """Run one step of the output and return whether it succeeded; failures are recorded. After Ctrl-C no step is run."""
        if INTERRUPTED in self.problems:
            return False
        try:
            act()
        except KeyboardInterrupt:
            self.problems.insert(0, INTERRUPTED)
        except streams.OutputError as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{what} {streams.reason(error)}")
        except Exception as error:
            if os.environ.get(streams.TRACEBACK):
                self.keep()
                streams.hint(self.stored + "\n")
                raise
            self.problems.append(f"{what} failed: {words_of(error)}")
        else:
            return True
        return False

    def finish(self) -> None:
        """Raise Failure if a step of the output failed, with the problems and the place of the answer."""
        if self.problems:
            self.keep()
            code = 130 if INTERRUPTED in self.problems else 1
            problems = "; ".join(dict.fromkeys(self.problems))
            raise Failure(
                f"{problems}. The answer was released ({self.verdict()}): {self.stored}", code
            )


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block."""
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


def deliver(function: str, title: str, inputs: FileInputs, given: dict[str, Any]) -> None:
    """Release by the method of this name of a bound table, then store and print the result."""

    def call(ledger: Any) -> Shown:
        return getattr(inputs.table(ledger), function)(**given)

    def drawn(result: Shown) -> dict[str, Any]:
        is_drawn = "x_pub" in inspect.signature(result.plot).parameters
        return {"x_pub": inputs.shown_public()} if is_drawn and inputs.public is not None else {}

    deliver_call(call, title, inputs.settings, drawn)


def deliver_call(
    call: Callable[[Any], Shown],
    title: str,
    settings: dict[str, Any],
    drawn: Drawn,
) -> None:
    """Release with `call(ledger)`, then store and print the result, as all commands do; `drawn` returns arguments of `plot`."""
    level = settings["level"]
    json_path = settings["json_path"]
    plot_path = settings["plot_path"]
    warned: list[str] = list(settings.get("caveats", ()))
    relation = (
        Neighbors.REPLACE_PERSON if settings.get("person") is not None else Neighbors.REPLACE_ONE
    )
    ledger = options.open_ledger(Witness, settings, relation)
    purchase = Purchase(ledger)
    # An error before there is an answer states what was charged.
    sentence = in_one_line(purchase.verdict, lambda: ledger is not None and ledger.began)
    caveats = len(warned)
    for text in warned:  # before anything is spent
        note(text)
    with contextlib.nullcontext() if ledger is None else ledger, sentence:
        with nice_warnings(warned, lambda text: None):
            result = call(ledger)

        def table() -> None:
            persons = relation is Neighbors.REPLACE_PERSON
            unit = re.sub("(private )?rows", "persons", title, count=1) if persons else title
            counted = unit.format(n=result.n_priv)
            print_result(result, level=level, title=counted, ledger=ledger)
            for each in compared:
                print_table(base.shown(each)[0], title=each.in_words)
            if not purchase.stored:
                streams.wait_for_reader()

        compared: list[Comparison] = []
        purchase.attempt(
            "the comparison", lambda: compared.extend(comparisons_of(result, settings))
        )
        whole = lambda: json_text(  # noqa: E731
            result_dict(result, level=level, warned=warned, compared=compared)
        )
        purchase.store(whole, lambda: result.to_json() + "\n", json_path)
        shown = not settings["quiet"] and not is_stdout(json_path)
        # The table on a terminal already explains what is unreliable.
        explained = base.unreliable(result) if shown and watched(sys.stdout) else ""
        untold = [text for text in warned[caveats:] if not (explained and text.endswith(explained))]
        purchase.attempt("a warning", lambda: list(map(note, untold)))
        if shown:
            purchase.attempt("the table", table)
        html_path = settings.get("html_path")
        draw = lambda place: result.plot(place, level=level, **drawn(result))  # noqa: E731
        for path, write in (
            (plot_path, draw),
            (html_path, lambda place: result.to_html(place, level=level)),
        ):
            if path is not None:
                purchase.attempt(repr(str(path)), partial(replace_file, path, write))
        purchase.finish()
        files = [
            str(path)
            for path in (json_path, plot_path, html_path)
            if path is not None and not is_stdout(path)
        ]
        if files and not settings["quiet"]:
            streams.hint(f"Wrote {', '.join(files)}\n")
