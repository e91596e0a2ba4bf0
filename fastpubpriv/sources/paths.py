"""Names of files, checked before anything opens them."""

from __future__ import annotations

import os

from fastpubpriv.errors import InputError


def path_name(path: object) -> str:
    """The text of a path; InputError for what is none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a path must be text or an os.PathLike object, got {type(path).__name__}")
    name = os.fspath(path)
    if not isinstance(name, str):
        raise InputError("a path made of bytes is not accepted: pass text, os.fsdecode(path)")
    if "\0" in name:
        raise InputError("a path cannot hold a NUL character: pass the name of a file")
    return name


def existing_file(path: object) -> str:
    """The text of a path to a file that is there; InputError else."""
    name = path_name(path)
    if os.path.isdir(name):
        raise InputError(f"{name!r} is a directory: pass the name of a file in it")
    if not os.path.isfile(name):
        raise InputError(f"there is no file {name!r}")
    return name
