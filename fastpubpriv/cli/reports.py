"""What `fastpubpriv local` does: reports of rows at one end, and their sums and the mean of the rows at the other."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fastpubpriv._types import FloatArray
from fastpubpriv.cli import app, inputs, outputs
from fastpubpriv.cli.app import Interrupted, Undelivered, words_of
from fastpubpriv.errors import InputError, warn
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection
from fastpubpriv.local.aggregate import Standard
from fastpubpriv.local.collector import CUT_SHORT, BatchReader, Collector, batch_rows_of, report_batches
from fastpubpriv.local.means import estimate_mean
from fastpubpriv.local.public_facts import public_norm_bound
from fastpubpriv.results import base
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.open import public_table_of
from fastpubpriv.sources.text_files import csv_stream
from fastpubpriv.threads.pool import Progress

DEFAULT_WORDS = 256
SAVE_SECONDS = 5.0
HASH = re.compile(rb"(?:[0-9a-fA-F]{2}){16,}")
UNREADABLE = "an input that cannot be read"


def make_randomizer(dim: int, settings: dict[str, Any], public: FloatArray | None = None) -> Any:
    """The randomizer of the options: family, epsilon, form and words, and norm_bound where rows may lie in a ball.

    `public` rows are those that "public" stands for, in the units that are reported.
    """
    family, epsilon, form, base = settings["family"], settings["epsilon"], settings["form"], settings["words"]
    norm_bound: Any = settings["norm_bound"]
    if norm_bound == "public":
        if public is None:
            raise click.UsageError("--norm-bound public needs --public FILE: it is the length of the longest row there")
        norm_bound = public_norm_bound(public)
    if base is not None and family != "subset-selection":
        raise click.UsageError("--words belongs to subset-selection")
    if family == "subset-selection":
        if form != "direct":
            raise click.UsageError("--form: a report of subset-selection names a word, it has no other form")
        return SubsetSelection(dim, epsilon, norm_bound=norm_bound, words=base or DEFAULT_WORDS)
    if family != "duchi":
        kind = PrivUnit if family == "privunit" else PrivUnitG
        return kind(dim, epsilon, norm_bound=norm_bound, form=form)
    if norm_bound is None:
        raise click.UsageError("--randomizer duchi is for rows in a ball: add --norm-bound")
    return Duchi(dim, epsilon, norm_bound, form=form)


def in_units(settings: dict[str, Any], dim: int, public: FloatArray | None) -> tuple[Standard | None, Any, Any]:
    """The units of --standardize, the public rows in the units that are reported, and the randomizer."""
    standard = None
    if settings["standardize"]:
        if public is None:
            raise click.UsageError("--standardize needs --public FILE: the units come from public rows")
        if settings["norm_bound"] is None:
            raise click.UsageError(
                "--standardize needs --norm-bound: pass public, for the length of the longest public row, or a number; rows of "
                f"{dim} such columns have a length of about {dim**0.5:.3g}"
            )
        standard = Standard.of(public)
        public = standard.chunk(public)
    return standard, public, make_randomizer(dim, settings, public)


class Lines:
    """Lines of .csv on the standard input: rows that can be read once, and that nobody has counted."""

    n = None

    def __init__(self, names: list[str]) -> None:
        self.dim, self._pieces = len(names), csv_stream("/dev/stdin", names)

    def chunks(self, begin: int, *, chunk_rows: int) -> Iterator[Chunk]:
        """The rows from `begin` on."""
        for piece in self._pieces:
            skipped = min(begin, len(piece))
            begin -= skipped
            for first in range(skipped, len(piece), chunk_rows):
                yield piece[first : first + chunk_rows]


def _rows(settings: dict[str, Any]) -> tuple[Any, FloatArray | None, list[str]]:
    """Private rows, public rows, and notes on the choice of columns."""
    path, public_path = settings["private_path"], settings["public_path"]
    if not outputs.is_stdout(path):
        opened = inputs.open_files(path, public_path, settings["columns"], settings["join_quoted_lines"])
        return opened.private, opened.public, opened.notes
    names = inputs.split_names(settings["columns"])
    if names is None:
        raise click.UsageError("--private - needs --columns: which columns of the lines hold numbers is not looked up")
    if settings["join_quoted_lines"]:
        raise click.UsageError("--join-quoted-lines is for files")
    rows, public = Lines(names), None
    if public_path is not None:
        public, _ = public_table_of(public_path, columns=names, dim=rows.dim, argument="--public")
    return rows, public, []


def privatize(settings: dict[str, Any]) -> None:
    """Run the command."""
    out_path: Path = settings["out_path"]
    rows, public, notes = _rows(settings)
    standard, _, randomizer = in_units(settings, rows.dim, public)
    _check_output(settings)
    if not settings["quiet"]:
        for text in notes:
            outputs.note(text)
        if randomizer.norm_bound is None:
            outputs.note("without --norm-bound only the directions of rows are reported, not their lengths")
    warned: list[str] = []
    done = 0
    with outputs.nice_warnings(warned), _opened(settings, randomizer, rows.n) as (out, begin):
        size = settings["batch_rows"] or batch_rows_of(randomizer)
        bar = Progress(rows.n or 0, False if settings["quiet"] or rows.n is None else None)
        try:
            chunks = rows.chunks(begin, chunk_rows=size)
            chunks = chunks if standard is None else map(standard.chunk, chunks)
            for batch in report_batches(randomizer, chunks, random_state=settings["seed"], threads=settings["threads"]):
                _write(out, batch.to_bytes())
                done += len(batch)
                bar.at(begin + done)
            out.flush()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {_left(out_path, done)}") from None
        except OSError as error:
            if outputs.is_stdout(out_path):
                app.quiet(sys.stdout)
            raise Undelivered(f"{_output_name(out_path)} {app.reason(error)}; {_left(out_path, done)}") from None
        finally:
            bar.close()
    if rows.n is None and not begin + done:
        raise InputError(
            "the standard input has no rows: pass a header line with the names of the columns, and a line for each row"
        )
    if not settings["quiet"]:
        before = f", after {begin:,} that were there" if begin else ""
        app.hint(
            f"Wrote {done:,} reports of {randomizer.report_bytes:,} bytes to {_output_name(out_path)}{before}. Each costs its user "
            f"{base.short(randomizer.cost)}. To read them: {_reader(settings, randomizer)}"
        )


def _output_name(path: Path) -> str:
    return "the standard output" if outputs.is_stdout(path) else repr(str(path))


def _reader(settings: dict[str, Any], randomizer: Any) -> str:
    """The command that reads these reports."""
    path: Path = settings["out_path"]
    place = "-" if outputs.is_stdout(path) else shlex.quote(str(path))
    parts = ["fastpubpriv local aggregate", place, f"--dim {randomizer.dim}", f"--epsilon {settings['epsilon']}"]
    if randomizer.norm_bound is not None:
        # The number, so that a reader without the public rows has it too.
        parts.append(f"--norm-bound {randomizer.norm_bound}")
    if settings["words"] is not None:
        parts.append(f"--words {settings['words']}")
    if settings["family"] != "privunit":
        parts.append(f"--randomizer {settings['family']}")
    if settings["form"] != "direct":
        parts.append(f"--form {settings['form']}")
    if settings["standardize"]:
        parts.append(f"--standardize --public {shlex.quote(str(settings['public_path']))}")
    return " ".join(parts)


def _left(path: Path, done: int) -> str:
    """What a run that stopped has left behind."""
    if outputs.is_stdout(path):
        return f"{done:,} reports were written, some of which may not have been read"
    return f"{done:,} new reports are in {str(path)!r}: --resume goes on after them"


def _check_output(settings: dict[str, Any]) -> None:
    """Refuse, before any report is drawn, what could not be written or would destroy something."""
    path: Path = settings["out_path"]
    if settings["resume"] and settings["seed"] is not None:
        raise click.UsageError(
            "--resume with --seed would draw the same coins for other rows: run it again from the beginning"
        )
    if outputs.is_stdout(path):
        if settings["resume"]:
            raise click.UsageError("--resume needs --out FILE: what was written to the standard output is gone")
        if app.output_is_gone():
            raise click.UsageError("--out -: nobody reads the standard output; pass the name of a file")
        if sys.stdout.isatty():
            raise click.UsageError(
                "--out -: reports are bytes, which a terminal cannot show; pass the name of a file, or a pipe"
            )
        return
    outputs.refuse_unwritable("--out", path)
    if any(
        other is not None and not outputs.is_stdout(other) and outputs.same_file(path, other)
        for other in (settings["private_path"], settings["public_path"])
    ):
        raise click.UsageError("--out is also one of the files that are read")
    if path.is_file() and path.stat().st_size and not settings["resume"]:
        raise click.UsageError(
            f"--out: {str(path)!r} is there already. Fresh reports of the same rows would cost their users as much again: pass "
            "--resume to go on with it, send it as it is, or name another file"
        )


@contextlib.contextmanager
def _opened(settings: dict[str, Any], randomizer: Any, n: int | None) -> Iterator[tuple[Any, int]]:
    """The stream to write to, and how many rows have their reports in it."""
    path: Path = settings["out_path"]
    if outputs.is_stdout(path):
        yield sys.stdout.buffer, 0
        return
    begin = 0
    if settings["resume"] and path.is_file():
        begin = _whole_reports(path, randomizer, n)
    with open(path, "ab", buffering=0) as out:
        yield out, begin


def _whole_reports(path: Path, randomizer: Any, n: int | None) -> int:
    """How many reports a file holds; a message that was cut short is taken off its end."""
    with open(path, "r+b") as file:
        reader = BatchReader(randomizer)
        for _ in reader.batches(file):
            pass
        if reader.reason not in (None, CUT_SHORT):
            raise InputError(f"--resume: {str(path)!r} cannot be continued, it holds something {reader.reason}")
        if n is not None and reader.reports > n:
            raise InputError(f"--resume: {str(path)!r} holds {reader.reports:,} reports, and there are {n:,} rows")
        file.truncate(reader.end)
        os.fsync(file.fileno())
    return reader.reports


def _write(out: Any, data: bytes) -> None:
    """All of the bytes: an unbuffered file may take a part of them."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def aggregate(settings: dict[str, Any]) -> None:
    """Run the command."""
    dim = settings["dim"]
    _check_places(settings)
    names: Any = inputs.split_names(settings["columns"])
    if names is not None and len(names) != dim:
        raise click.UsageError(f"--columns names {len(names)} columns, and --dim is {dim}")
    public = None
    if settings["public_path"] is not None:
        columns = None if settings["public_path"].suffix.lower() == ".npy" else names
        public, found = public_table_of(settings["public_path"], columns=columns, dim=dim, argument="--public")
        names = names or found
    standard, shown, randomizer = in_units(settings, dim, public)

    def call(ledger: Any) -> MeanResult:
        server = Server(settings, randomizer)
        server.run()
        result = estimate_mean(
            server.collector.total,
            x_pub=shown,
            target=settings["target"],
            reports_per_user=settings["reports_per_user"],
        )
        result = result if standard is None else standard.back(result)
        return dataclasses.replace(result, columns=None if names is None else tuple(names))

    settings.update(ledger=None, ledger_total=None, budget=None)
    drawing = {} if public is None or (settings["norm_bound"] is None) else {"x_pub": public}
    outputs.deliver(call, "Mean of the rows of users, from their reports", settings, **drawing)


def _check_places(settings: dict[str, Any]) -> None:
    """Refuse, before anything is read, what cannot be read or written."""
    state, users = settings["state_path"], settings["users_path"]
    found = [path for path in settings["inputs"] if not outputs.is_stdout(path)]
    for path in [*found, *settings["merge_paths"], *([] if users is None else [users])]:
        if not path.exists():
            raise click.UsageError(f"there is no file {str(path)!r}")
    if not settings["inputs"] and not settings["merge_paths"] and (state is None or not state.exists()):
        raise click.UsageError(
            "no reports: pass files, folders or - for the standard input, or a --state that has some"
        )
    if len(found) < len(settings["inputs"]) - 1:
        raise click.UsageError("- stands for the standard input, which can be read once")
    if state is not None:
        outputs.refuse_unwritable("--state", state)
        if any(outputs.same_file(state, other) for other in found):
            raise click.UsageError("--state is also one of the inputs")
        for name in ("json_path", "plot_path"):
            if settings[name] is not None and outputs.same_file(state, settings[name]):
                raise click.UsageError("--state is also one of the outputs")
    read = [*found, settings["public_path"], users, *settings["merge_paths"]]
    outputs.check_outputs(settings, read)


class Server:
    """One run: what it reads, what it keeps, and what it refuses."""

    def __init__(self, settings: dict[str, Any], randomizer: Any) -> None:
        self.settings = settings
        self.state: Path | None = settings["state_path"]
        cap = settings["reports_per_user"] if settings["users_path"] is not None else None
        self.collector = Collector(randomizer, reports_per_user=cap)
        if self.state is not None and self.state.exists() and self.state.stat().st_size:
            self.collector = _load(self.state, randomizer)
            if self.collector.total.reports_per_user != cap:
                raise click.UsageError(
                    "--state was begun with another --users or --reports-per-user: pass the same, or another file"
                )
        self.saved = time.monotonic()

    def run(self) -> None:
        """Read all inputs, save the sums, and warn of what was refused."""
        for path in self.settings["merge_paths"]:
            self.collector.merge(_load(path, self.collector.total.randomizer))
        users = None if self.settings["users_path"] is None else _hashes(self.settings["users_path"])
        places = list(_files(self.settings["inputs"]))
        bar = Progress(len(places), False if self.settings["quiet"] else None)
        try:
            for number, path in enumerate(places):
                self._read_checked(path, users)
                bar.at(number + 1)
        except KeyboardInterrupt:
            kept = "nothing was kept" if self.state is None else f"run it again to go on from {str(self.state)!r}"
            raise Interrupted(f"interrupted; {kept}") from None
        finally:
            bar.close()
        if users is not None and next(users, None) is not None:
            raise InputError("--users has more lines than there are reports: one line for each report, in their order")
        self.save()
        refused = "; ".join(f"{count:,} x {reason}" for reason, count in self.collector.refused.items())
        if self.collector.total.count == 0:
            raise InputError(f"no report was taken: {refused or 'the inputs are empty'}")
        if refused:
            warn(f"some of the inputs were left out: {refused}")
        if self.collector.total.refused:
            text = f"{self.collector.total.refused:,} reports were left out: their users had sent enough"
            warn(text)

    def _read_checked(self, path: Path, users: Iterator[bytes] | None) -> None:
        reason = self._read(path, users)
        if reason is None:
            return
        if users is not None:
            raise InputError(
                f"{_input_name(path)}: {reason}; with --users the lines after it belong to nobody: nothing was kept"
            )
        if self.settings["strict"]:
            self.save()
            raise InputError(
                f"{_input_name(path)}: {reason}; --strict stops here, and --state keeps what was read before"
            )

    def _read(self, path: Path, users: Iterator[bytes] | None) -> str | None:
        options = {"users": users, "most": self.settings["most_per_input"], "threads": self.settings["threads"]}
        if outputs.is_stdout(path):
            return self.collector.read(sys.stdin.buffer, after=self._after, **options)
        try:
            with open(path, "rb") as stream:
                return self.collector.read(stream, after=self._after, **options)
        except OSError as error:
            self.collector.refused[UNREADABLE] = self.collector.refused.get(UNREADABLE, 0) + 1
            return words_of(error)

    def _after(self, taken: int) -> None:
        # With names of users, only whole runs are kept: a wrong number of lines shows at the end.
        if self.settings["users_path"] is None and time.monotonic() - self.saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Store the sums in one step: a run that is stopped goes on from the last time."""
        if self.state is None:
            return
        data = self.collector.to_bytes()
        with outputs.signals_wait():
            outputs.attempt(lambda place: place.write_bytes(data), self.state)
        self.saved = time.monotonic()


def _load(path: Path, randomizer: Any) -> Collector:
    try:
        return Collector.from_bytes(path.read_bytes(), randomizer=randomizer)
    except InputError as error:
        raise InputError(f"{str(path)!r}: {error}") from None


def _files(found: tuple[Path, ...]) -> Iterator[Path]:
    """The inputs, with the files of a folder in the order of their names."""
    for path in found:
        if not outputs.is_stdout(path) and path.is_dir():
            yield from sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
        else:
            yield path


def _hashes(path: Path) -> Iterator[bytes]:
    """The names of users, line by line."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines):
            text = line.strip()
            if not HASH.fullmatch(text):
                raise InputError(
                    f"--users: line {number + 1} is not a hash of 32 or more hex digits, an even number of them"
                )
            yield bytes.fromhex(text.decode("ascii"))


def _input_name(path: Path) -> str:
    return "the standard input" if outputs.is_stdout(path) else repr(os.fspath(path))
