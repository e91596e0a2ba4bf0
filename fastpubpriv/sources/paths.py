"""Names of files to read, checked before anything opens them."""

from __future__ import annotations

import os

from fastpubpriv.errors import InputError
from fastpubpriv.validation import path_name


def existing_file(path: object) -> str:
    """The path as text; InputError if there is no such file."""
    name = path_name(path)
    if os.path.isdir(name):
        raise InputError(f"{name!r} is a directory: pass the name of a file in it")
    if not os.path.isfile(name):
        raise InputError(f"there is no file {name!r}")
    return name
