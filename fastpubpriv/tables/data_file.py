"""Files in TOML that say what a table is bound to, for `PrivateTable.from_toml` and for the option `--data` of commands.

No other module of the package is needed but errors: `--help` must not wait for NumPy.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastpubpriv.errors import InputError

if TYPE_CHECKING:
    from fastpubpriv.privacy import Budget

NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?|\d{1,40}/\d{1,40}")
WITH = "with"  # key of the table of columns that texts define
FILES = ("private", "public", "ledger")  # keys whose values are files
# Types of the values by key; the keys are the long names of options.
TEXTS = (*FILES, "person", "keep", "ledger_total", "where")
OTHERS = {"rows_per_person": (int, str), "threads": (int,), WITH: (dict,)}
KEYS: dict[str, tuple[type, ...]] = {**dict.fromkeys(TEXTS, (str,)), **OTHERS}
WORDS = {str: "a text", int: "a whole number", dict: "a table of texts"}


def exact(text: str) -> Fraction:
    """Return the exact value of a written number, 0.1 as one tenth; ValueError for other texts and for long exponents."""
    if not NUMBER.fullmatch(text) or re.search(r"/0+$", text):
        raise ValueError(text)
    return Fraction(text)


def budget_of(parts: Mapping[str, Fraction]) -> Budget | None:
    """Return the budget whose parts these are, such as rho, or epsilon and delta; None if no budget has them."""
    from fastpubpriv.privacy import ZCDP, ApproxDP, PureDP

    kinds: tuple[type[Budget], ...] = (ZCDP, ApproxDP, PureDP)
    for kind in kinds:
        if parts.keys() == {*kind.parts}:
            return kind(**parts)
    return None


def total_of(text: str, argument: str = "ledger_total") -> Budget:
    """Return the budget of a text such as "rho=2" or "epsilon=4,delta=1e-5"; raise InputError for another one."""
    words = text.split(",")
    parts: dict[str, Fraction] = {}
    with contextlib.suppress(ValueError):
        for word in words:
            name, _, number = word.partition("=")
            parts[name.strip()] = exact(number.strip())
    total = budget_of(parts)
    if total is None or len(parts) < len(words):
        raise InputError(
            f"{argument} must look like rho=2, epsilon=4 or epsilon=4,delta=1e-5; got {text[:80]!r}"
        )
    return total


def read_data_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a file in TOML binds, by key, with names of files relative to its folder; raise InputError for another text."""
    name = repr(os.fspath(path))
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:  # of TOML, or of UTF-8
        raise InputError(f"{name} is no file in TOML: {error}") from None
    for key, value in data.items():
        _check_entry(name, key, value)
    if "private" not in data:
        raise InputError(f"{name} has no key 'private', the file of the rows to protect")
    folder = Path(path).parent
    files = {key: str(folder / data[key]) for key in FILES if key in data}
    return {**data, **files}


def _check_entry(name: str, key: str, value: Any) -> None:
    """Raise InputError unless the key is known and its value has the type of its option."""
    if key not in KEYS:
        near = difflib.get_close_matches(key.casefold(), KEYS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"{name} has an unknown key {key!r}{hint}: known are {', '.join(KEYS)}")
    kinds = KEYS[key]
    if type(value) not in kinds:
        wanted = " or ".join(WORDS[kind] for kind in kinds)
        raise InputError(f"{name}: {key} must be {wanted}, got {type(value).__name__}")
    if key == WITH:
        odd = [column for column, text in value.items() if not isinstance(text, str)]
        if odd:
            raise InputError(
                f"{name}: the column {odd[0]!r} of [{WITH}] must be a text such as 'a / b'"
            )
