"""Implementation of `fastpubpriv local`: draw reports of rows on a device; sum reports and estimate the mean on a server."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastpubpriv._types import FloatArray
from fastpubpriv.cli import options, outputs, streams
from fastpubpriv.cli.opened_files import inputs_of
from fastpubpriv.cli.outputs import is_stdout
from fastpubpriv.cli.streams import Failure, refuse
from fastpubpriv.errors import InputError, warn
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection
from fastpubpriv.local.aggregate import Aggregator, Standard
from fastpubpriv.local.collector import (
    CUT_SHORT,
    BatchReader,
    Collector,
    batch_rows_of,
    report_batches,
)
from fastpubpriv.local.means import estimate_mean
from fastpubpriv.privacy.budgets import short
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources.open import private_rows, public_rows, public_table_of
from fastpubpriv.sources.row_types import Chunk
from fastpubpriv.sources.text_files import csv_stream
from fastpubpriv.threads.pool import Progress

FAMILIES: dict[str, Any] = {
    "privunit": PrivUnit,
    "privunit-g": PrivUnitG,
    "duchi": Duchi,
    "subset-selection": SubsetSelection,
}
SAVE_SECONDS = 5.0  # between two saves of the sums
UNREADABLE = "an input that cannot be read"
DIRECTIONS = (
    "without --norm-bound only the directions of rows are reported, not their lengths, and the mean is "
    "that of the directions"
)


def make_randomizer(dim: int, settings: dict[str, Any], public: FloatArray | None = None) -> Any:
    """Return the randomizer of the options; `public` rows, in the units of reports, define a norm bound of "public"."""
    family, words, bound, form = (
        settings[name] for name in ("family", "words", "norm_bound", "form")
    )
    few = family == "subset-selection"
    by_rows = bound == "public"
    longest = "--norm-bound public needs --public FILE: it is the length of the longest row there"
    refuse(by_rows and public is None, longest)
    refuse(words is not None and not few, "--words belongs to subset-selection")
    refuse(
        few and form != "direct",
        "--form: a report of subset-selection names a word, it has no other form",
    )
    refuse(
        family == "duchi" and bound is None,
        "--randomizer duchi is for rows in a ball: add --norm-bound",
    )
    more: dict[str, Any] = {} if few else {"form": form}
    more |= {} if words is None else {"words": words}
    more |= {"x_pub": public} if by_rows else {}
    return FAMILIES[family](dim, settings["epsilon"], norm_bound=bound, **more)


def in_units(
    settings: dict[str, Any], dim: int, public: FloatArray | None
) -> tuple[Standard | None, Any, Any]:
    """Return the units of --standardize, the public rows in the units of reports, and the randomizer."""
    standard = None
    if settings["standardize"]:
        refuse(public is None, "--standardize needs --public FILE: the units come from public rows")
        advice = "pass public, for the length of the longest public row, or a number; rows of"
        usual = f"{dim} such columns have a length of about {dim**0.5:.3g}"
        refuse(
            settings["norm_bound"] is None, f"--standardize needs --norm-bound: {advice} {usual}"
        )
        assert public is not None
        standard = Standard.of(public)
        public = standard.chunk(public)
    return standard, public, make_randomizer(dim, settings, public)


class InputLines:
    """Rows of .csv on the standard input, which can be read once, and whose number is unknown."""

    n = None

    def __init__(self, names: list[str]) -> None:
        self.dim = len(names)
        self.columns = tuple(names)
        self._pieces = csv_stream("/dev/stdin", names)

    def chunks(self, begin: int, *, chunk_rows: int) -> Iterator[Chunk]:
        """Yield the rows from `begin` on."""
        for piece in self._pieces:
            skipped = min(begin, len(piece))
            begin -= skipped
            for first in range(skipped, len(piece), chunk_rows):
                yield piece[first : first + chunk_rows]


def _opened_rows(settings: dict[str, Any]) -> tuple[Any, FloatArray | None, list[str]]:
    """Return private rows, public rows, and notes on the choice of columns."""
    names = settings["columns"]
    public = settings["public_path"]
    notes: list[str] = []
    rows: Any
    if is_stdout(settings["private_path"]):
        unnamed = (
            "--private - needs --columns: which columns of the lines hold numbers is not looked up"
        )
        refuse(names is None, unnamed)
        refuse(settings["join_quoted_lines"], "--join-quoted-lines is for files")
        rows = InputLines(names)
    else:
        inputs = inputs_of(settings)
        names = inputs.columns
        public = inputs.public
        notes = inputs.notes
        rows = private_rows(inputs.private, columns=names)
    if public is not None:
        public = public_rows(public, columns=names, dim=rows.dim, argument="--public")
    return rows, public, notes


def privatize(settings: dict[str, Any]) -> None:
    """Run the command of this name."""
    path: Path = settings["out_path"]
    named = "the standard output" if is_stdout(path) else repr(str(path))
    rows, public, notes = _opened_rows(settings)
    standard, _, randomizer = in_units(settings, rows.dim, public)
    _check_output(settings)
    if randomizer.norm_bound is None:
        notes.append(DIRECTIONS)
    outputs.advise(settings, notes)
    begin = _whole_reports(path, randomizer, rows.n) if settings["resume"] and path.is_file() else 0
    done = 0
    with outputs.nice_warnings([]), _stream(path, sys.stdout, mode="ab", buffering=0) as out:
        size = settings["batch_rows"] or batch_rows_of(randomizer)
        bar = Progress(rows.n or 0, False if settings["quiet"] or rows.n is None else None)
        try:
            chunks = rows.chunks(begin, chunk_rows=size)
            chunks = chunks if standard is None else map(standard.chunk, chunks)
            for batch in report_batches(
                randomizer, chunks, random_state=settings["seed"], threads=settings["threads"]
            ):
                _write(out, batch.to_bytes())
                done += len(batch)
                bar.at(begin + done)
            out.flush()
        except KeyboardInterrupt:
            raise Failure(f"interrupted; {_left(path, done)}", 130) from None
        except OSError as error:
            if is_stdout(path):
                streams.quiet(sys.stdout)
            raise Failure(f"{named} {streams.reason(error)}; {_left(path, done)}", 1) from None
        finally:
            bar.close()
    if rows.n is None and not begin + done:
        raise InputError(
            "the standard input has no rows: pass a header line with the names of the columns, and a line for each row"
        )
    if not settings["quiet"]:
        before = f", after {begin:,} that were there" if begin else ""
        streams.hint(
            f"Wrote {done:,} reports of {randomizer.report_bytes:,} bytes to {named}{before}. Each costs its user "
            f"{short(randomizer.cost)}. To read them: {_reader(settings, randomizer, rows.columns)}\n"
        )


def _reader(settings: dict[str, Any], randomizer: Any, columns: Any) -> str:
    """Return the command that reads these reports, with the norm bound as a number, for a server without the public rows."""
    given = {**settings, "dim": randomizer.dim, "norm_bound": randomizer.norm_bound}
    usual = (None, "privunit", "direct")
    names = ("dim", "epsilon", "norm_bound", "words", "family", "form")
    parts = [f"{options.name_of(name)} {given[name]}" for name in names if given[name] not in usual]
    if columns is not None:
        parts.append(f"--columns {shlex.quote(','.join(columns))}")
    if settings["standardize"]:
        parts.append(f"--standardize --public {shlex.quote(str(settings['public_path']))}")
    return " ".join(["fastpubpriv local aggregate", shlex.quote(str(settings["out_path"])), *parts])


def _left(path: Path, done: int) -> str:
    """Return a phrase that says which reports an interrupted run has written."""
    if is_stdout(path):
        return f"{done:,} reports were written, some of which may not have been read"
    return f"{done:,} new reports are in {str(path)!r}: --resume goes on after them"


def _check_output(settings: dict[str, Any]) -> None:
    """Raise UsageError, before any report is drawn, if the output cannot be written or would overwrite reports."""
    path = settings["out_path"]
    resume = settings["resume"]
    same_coins = "--resume with --seed would draw the same coins for other rows: run it again from the beginning"
    refuse(resume and settings["seed"] is not None, same_coins)
    gone = "--resume needs --out FILE: what was written to the standard output is gone"
    refuse(resume and is_stdout(path), gone)
    outputs.check_place("--out", path, (settings["private_path"], settings["public_path"]))
    unseen = "--out -: reports are bytes, which a terminal cannot show; pass the name of a file, or a pipe"
    refuse(is_stdout(path) and sys.stdout.isatty(), unseen)
    there = not is_stdout(path) and path.is_file() and path.stat().st_size > 0
    again = "Fresh reports of the same rows would cost their users as much again"
    advice = "pass --resume to go on with it, send it as it is, or name another file"
    refuse(there and not resume, f"--out: {str(path)!r} is there already. {again}: {advice}")


def _stream(path: Path, standard: Any, **how: Any) -> Any:
    """Open a file, or the standard stream that - stands for."""
    return contextlib.nullcontext(standard.buffer) if is_stdout(path) else open(path, **how)


def _whole_reports(path: Path, randomizer: Any, n: int | None) -> int:
    """Return the number of reports in a file, after truncating an incomplete message at its end."""
    with open(path, "r+b") as file:
        reader = BatchReader(randomizer)
        for _ in reader.batches(file):
            pass
        if reader.reason not in (None, CUT_SHORT):
            raise InputError(
                f"--resume: {str(path)!r} cannot be continued, it holds something {reader.reason}"
            )
        if n is not None and reader.reports > n:
            raise InputError(
                f"--resume: {str(path)!r} holds {reader.reports:,} reports, and there are {n:,} rows"
            )
        file.truncate(reader.end)
        os.fsync(file.fileno())
    return reader.reports


def _write(out: Any, data: bytes) -> None:
    """Write all of the bytes: an unbuffered file may accept only a part of them at once."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def aggregate(settings: dict[str, Any]) -> None:
    """Run the command of this name."""
    _check_places(settings)
    dim = settings["dim"]
    names = settings["columns"]
    path = settings["public_path"]
    public = None
    if names is not None:
        refuse(len(names) != dim, f"--columns names {len(names)} columns, and --dim is {dim}")
    if path is not None:
        columns = None if path.suffix.lower() == ".npy" else names
        try:
            public, labels = public_table_of(path, columns=columns, dim=dim, argument="--public")
        except InputError as error:
            words = str(error).replace("pass columns=[...] with", "pass --columns with")
            raise InputError(words) from None
        names = names or labels
    standard, shown, randomizer = in_units(settings, dim, public)
    outputs.advise(settings, [] if settings["norm_bound"] is not None else [DIRECTIONS])

    def call(ledger: Any) -> MeanResult:
        total = _summed(settings, randomizer)
        given = {name: settings[name] for name in ("target", "reports_per_user")}
        result = estimate_mean(total, x_pub=shown, **given)
        result = result if standard is None else standard.back(result)
        return dataclasses.replace(result, columns=None if names is None else tuple(names))

    settings.update(ledger=None, ledger_total=None, budget=None)
    drawing = {} if public is None or settings["norm_bound"] is None else {"x_pub": public}
    title = "Mean of the rows of users, from their reports"
    outputs.deliver_call(call, title, settings, lambda result: drawing)


def _check_places(settings: dict[str, Any]) -> None:
    """Raise UsageError, before anything is read, for files that cannot be read or written."""
    state = settings["state_path"]
    given = settings["inputs"]
    files = [path for path in given if not is_stdout(path)]
    for path in files:
        refuse(not path.exists(), f"there is no file {str(path)!r}")
    nothing = (
        "no reports: pass files, folders or - for the standard input, or a --state that has some"
    )
    refuse(not given and (state is None or not state.exists()), nothing)
    refuse(len(files) < len(given) - 1, "- stands for the standard input, which can be read once")
    if state is not None:
        outputs.check_place("--state", state, files, "one of the inputs")
        outputs.check_place(
            "--state", state, (settings["json_path"], settings["plot_path"]), "one of the outputs"
        )
    outputs.check_outputs(settings, (*files, settings["public_path"]))


def _summed(settings: dict[str, Any], randomizer: Any) -> Aggregator:
    """Return the sums of all inputs, which are saved to --state, and warn of refused inputs."""
    state: Path | None = settings["state_path"]
    collector = Collector(randomizer)
    if state is not None and state.exists() and state.stat().st_size:
        try:
            collector = Collector.from_bytes(state.read_bytes(), randomizer=randomizer)
        except InputError as error:
            raise InputError(f"{str(state)!r}: {error}") from None
    saved = time.monotonic()

    def save_at_times() -> None:
        nonlocal saved
        if state is not None and time.monotonic() - saved > SAVE_SECONDS:
            save(collector, state)
            saved = time.monotonic()

    places: list[Path] = []
    for path in settings["inputs"]:
        if is_stdout(path) or not path.is_dir():
            places.append(path)
        else:
            places += sorted(
                entry
                for entry in path.iterdir()
                if entry.is_file() and not entry.name.startswith(".")
            )
    bar = Progress(len(places), False if settings["quiet"] else None)
    try:
        for number, path in enumerate(places):
            try:
                with _stream(path, sys.stdin, mode="rb") as stream:
                    collector.read(stream, threads=settings["threads"], after=save_at_times)
            except OSError:
                if is_stdout(path):
                    raise
                collector.refused[UNREADABLE] += 1
            bar.at(number + 1)
    except KeyboardInterrupt:
        advice = (
            "nothing was kept" if state is None else f"run it again to go on from {str(state)!r}"
        )
        raise Failure(f"interrupted; {advice}", 130) from None
    finally:
        bar.close()
    if state is not None:
        save(collector, state)
    refused = "; ".join(f"{count:,} x {reason}" for reason, count in collector.refused.items())
    if collector.total.count == 0:
        raise InputError(f"no report was taken: {refused or 'the inputs are empty'}")
    if refused:
        warn(f"some of the inputs were left out: {refused}")
    return collector.total


def save(collector: Collector, path: Path) -> None:
    """Save the sums in one step: an interrupted run continues from the last save."""
    data = collector.to_bytes()
    with outputs.signals_wait():
        outputs.attempt(lambda place: place.write_bytes(data), path)
