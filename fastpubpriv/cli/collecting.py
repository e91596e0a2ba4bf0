"""`fastpubpriv local aggregate`: reads reports of anybody, keeps their sums, and estimates the mean of the rows."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli import deliver, inputs, outputs
from fastpubpriv.cli.app import Interrupted, words_of
from fastpubpriv.cli.randomizers import check_standardize, make_randomizer
from fastpubpriv.errors import AccuracyWarning, InputError
from fastpubpriv.local.aggregate import Standard
from fastpubpriv.local.collector import Collector
from fastpubpriv.local.means import estimate_mean
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.sources.public import public_table_of
from fastpubpriv.threads.progress import Progress

SAVE_SECONDS = 5.0
HASH = re.compile(rb"(?:[0-9a-fA-F]{2}){16,}")
UNREADABLE = "an input that cannot be read"


def aggregate(settings: dict[str, Any]) -> None:
    """Run the command."""
    dim = settings["dim"]
    check_standardize(settings, dim)
    _check_places(settings)
    names: Any = inputs.split_names(settings["columns"])
    if names is not None and len(names) != dim:
        raise click.UsageError(f"--columns names {len(names)} columns, and --dim is {dim}")
    public = None
    if settings["public_path"] is not None:
        public, found = public_table_of(
            settings["public_path"], columns=_columns_of(settings, names), dim=dim, argument="--public"
        )
        names = names or found
    standard = Standard.of(public) if settings["standardize"] and public is not None else None
    shown = public if standard is None or public is None else standard.chunk(public)
    randomizer = make_randomizer(dim, settings, shown)

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
    deliver.run(call, "Mean of the rows of users, from their reports", settings, **drawing)


def _columns_of(settings: dict[str, Any], names: list[str] | None) -> list[str] | None:
    return None if settings["public_path"].suffix.lower() == ".npy" else names


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
    outputs.check_outputs(settings["json_path"], settings["plot_path"], read)
    outputs.check_reader(settings["json_path"], settings["plot_path"], settings["quiet"])


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
            warnings.warn(f"some of the inputs were left out: {refused}", AccuracyWarning, stacklevel=2)
        if self.collector.total.refused:
            text = f"{self.collector.total.refused:,} reports were left out: their users had sent enough"
            warnings.warn(text, AccuracyWarning, stacklevel=2)

    def _read_checked(self, path: Path, users: Iterator[bytes] | None) -> None:
        reason = self._read(path, users)
        if reason is None:
            return
        if users is not None:
            raise InputError(
                f"{_name(path)}: {reason}; with --users the lines after it belong to nobody: nothing was kept"
            )
        if self.settings["strict"]:
            self.save()
            raise InputError(f"{_name(path)}: {reason}; --strict stops here, and --state keeps what was read before")

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
        with deliver.signals_wait():
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


def _name(path: Path) -> str:
    return "the standard input" if outputs.is_stdout(path) else repr(os.fspath(path))
