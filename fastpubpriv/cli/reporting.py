"""`fastpubpriv local privatize`: reads rows, writes reports, and can go on where it was stopped."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli import inputs, outputs, report, streams
from fastpubpriv.cli.app import Interrupted, Undelivered
from fastpubpriv.cli.randomizers import check_standardize, make_randomizer
from fastpubpriv.errors import InputError
from fastpubpriv.local.aggregate import Standard
from fastpubpriv.local.collector import CUT_SHORT, BatchReader
from fastpubpriv.local.sending import batch_rows_of, report_batches
from fastpubpriv.results import words
from fastpubpriv.sources.base import Chunk
from fastpubpriv.sources.public import public_table_of
from fastpubpriv.sources.readers.csv import csv_stream
from fastpubpriv.threads.progress import Progress


class Source:
    """Private rows on their way into reports: a file of known length, or the standard input."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.path, public_path = settings["private_path"], settings["public_path"]
        self.rows: Any = None
        self.stream: Iterator[Chunk] | None = None
        if outputs.is_stdout(self.path):
            names = inputs.split_names(settings["columns"])
            if names is None:
                raise click.UsageError(
                    "--private - needs --columns: which columns of the lines hold numbers is not looked up"
                )
            if settings["join_quoted_lines"]:
                raise click.UsageError("--join-quoted-lines is for files")
            self.stream = csv_stream("/dev/stdin", names)
            self.n, self.dim, self.notes = None, len(names), []
            public = (
                None
                if public_path is None
                else public_table_of(public_path, columns=names, dim=self.dim, argument="--public")[0]
            )
        else:
            opened = inputs.open_files(self.path, public_path, settings["columns"], settings["join_quoted_lines"])
            self.rows, public, self.notes = opened.private, opened.public, opened.notes
            self.n, self.dim = self.rows.n, self.rows.dim
        check_standardize(settings, self.dim)
        self.standard = Standard.of(public) if settings["standardize"] and public is not None else None
        self.public = public if public is None or self.standard is None else self.standard.chunk(public)

    def chunks(self, begin: int, chunk_rows: int) -> Iterator[Chunk]:
        """The rows from `begin` on, as they are reported."""
        for chunk in self._read(begin, chunk_rows):
            yield chunk if self.standard is None else self.standard.chunk(chunk)

    def _read(self, begin: int, chunk_rows: int) -> Iterator[Chunk]:
        if self.stream is None:
            yield from self.rows.chunks(begin, chunk_rows=chunk_rows)
            return
        for piece in self.stream:
            skipped = min(begin, len(piece))
            begin -= skipped
            for first in range(skipped, len(piece), chunk_rows):
                yield piece[first : first + chunk_rows]


def privatize(settings: dict[str, Any]) -> None:
    """Run the command."""
    out_path: Path = settings["out_path"]
    source = Source(settings)
    randomizer = make_randomizer(source.dim, settings, source.public)
    cost = randomizer.cost
    _check_output(settings)
    if not settings["quiet"]:
        for text in source.notes:
            report.note(text)
        if randomizer.norm_bound is None:
            report.note("without --norm-bound only the directions of rows are reported, not their lengths")
    warned: list[str] = []
    done = 0
    with report.nice_warnings(warned), _opened(settings, randomizer, source.n) as (out, begin):
        size = settings["batch_rows"] or batch_rows_of(randomizer)
        bar = Progress(source.n or 0, False if settings["quiet"] or source.n is None else None)
        try:
            batches = report_batches(
                randomizer, source.chunks(begin, size), random_state=settings["seed"], threads=settings["threads"]
            )
            for batch in batches:
                _write(out, batch.to_bytes())
                done += len(batch)
                bar.at(begin + done)
            out.flush()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {_left(out_path, done)}") from None
        except OSError as error:
            if outputs.is_stdout(out_path):
                streams.quiet(sys.stdout)
            raise Undelivered(f"{_name(out_path)} {streams.reason(error)}; {_left(out_path, done)}") from None
        finally:
            bar.close()
    if source.n is None and not begin + done:
        raise InputError(
            "the standard input has no rows: pass a header line with the names of the columns, and a line for each row"
        )
    if not settings["quiet"]:
        before = f", after {begin:,} that were there" if begin else ""
        streams.hint(
            f"Wrote {done:,} reports of {randomizer.report_bytes:,} bytes to {_name(out_path)}{before}. Each costs its user "
            f"{words.short(cost)}. To read them: {_reader(settings, randomizer)}"
        )


def _name(path: Path) -> str:
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
        if streams.output_is_gone():
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
