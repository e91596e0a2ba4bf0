"""The files that a command writes: tried before anything is spent, replaced in one step, never one of those that it reads."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from fastpubpriv.cli import streams

PICTURES = {".png", ".pdf", ".svg"}


def is_stdout(path: Path | None) -> bool:
    """Whether a name stands for the standard output."""
    return str(path) == "-"


def check_outputs(json_path: Path | None, plot_path: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before anything is spent, what could not be written afterwards, and what would overwrite an input."""
    for option, path in (("--json", json_path), ("--plot", plot_path)):
        if path is None or (is_stdout(path) and option == "--json"):
            continue
        refuse_unwritable(option, path)
        if any(other is not None and same_file(path, other) for other in inputs):
            raise click.UsageError(f"{option}: {str(path)!r} is also one of the files that are read, or the ledger")
    if is_stdout(json_path) and streams.output_is_gone():
        raise click.UsageError("--json -: nobody reads the standard output; pass the name of a file")
    if plot_path is None:
        return
    if json_path is not None and same_file(json_path, plot_path):
        raise click.UsageError("--json and --plot name the same file")
    if plot_path.suffix.lower() not in PICTURES:
        raise click.UsageError(f"--plot: the name must end in .png, .pdf or .svg, got {plot_path.name!r}")
    need_matplotlib()


def check_reader(json_path: Path | None, plot_path: Path | None, quiet: bool) -> None:
    """Refuse to pay for an answer if it could not be written anywhere."""
    if json_path is not None or (quiet and plot_path is not None):
        return
    if quiet:
        raise click.UsageError("--quiet prints no answer: add --json FILE")
    if streams.output_is_gone():
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
        raise click.UsageError(f"{option}: {str(path)!r} {streams.reason(error)}") from None


def check_folder(option: str, path: Path) -> None:
    """Make a folder, and a usage error unless files can be made in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise click.UsageError(f"{option}: {str(path)!r} {streams.reason(error)}") from None


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


def write_json(data: dict[str, Any], path: Path) -> None:
    """Write to a file, or to the standard output for "-"."""
    text = json_text(data)
    if is_stdout(path):
        streams.emit(text)
    else:
        attempt(lambda place: place.write_text(text + "\n", encoding="utf-8"), path)


def attempt(write: Callable[[Path], Any], path: Path) -> None:
    """Write a file; a full disk or the like is one line."""
    try:
        replace_file(path, write)
    except OSError as error:
        raise click.ClickException(f"{str(path)!r} {streams.reason(error)}") from None


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
    try:
        write(beside)
        beside.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~current_umask())
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def current_umask() -> int:
    """The permissions that new files do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def keep(text: str) -> str:
    """Store an answer in a place that the user did not choose, readable by its owner alone; returns words that say where."""
    for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
        try:
            number, name = tempfile.mkstemp(dir=folder(), prefix="fastpubpriv-result-", suffix=".json")
        except (OSError, RuntimeError):
            continue
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            continue
        return f"the whole result is in {name!r}"
    streams.hint(text)
    return "the whole result stands above, on the error stream, because no file could be written"


def written(paths: list[Path]) -> None:
    """Say where the files are."""
    if paths:
        streams.hint(f"Wrote {', '.join(str(path) for path in paths)}")
