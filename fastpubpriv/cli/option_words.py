"""Messages of the library in the words of the command line: --class-weight where a caller in Python reads class_weight=."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from fastpubpriv.cli.app import Failure
from fastpubpriv.errors import FastPubPrivError

OPTIONS = {
    "x_priv": "--private", "x_pub": "--public", "y_priv": "--label", "y_pub": "--label", "label": "--label", "loss": "--loss",
    "method": "--method", "columns": "--columns", "categories": "--categories", "classes": "--classes",
    "class_weight": "--class-weight", "weights_pub": "--weights-pub", "weights_priv": "--weights-priv",
    "weight_cap": "--weight-cap", "x_bounds": "--x-bounds", "y_bounds": "--y-bounds", "y_scale": "--y-scale",
    "huber_threshold": "--huber-threshold", "threshold": "--huber-threshold", "max_memory": "--max-memory",
}  # fmt: skip
# Whole phrases, before single names.
_PHRASES = (
    ("pass x_pub= and y_pub=, or label=", "pass --public and --label"),
    ("logistic_regression or train(loss='logistic')", "--loss logistic"),
    ("level must be", "--level must be"),
    ("ApproxDP(epsilon=..., delta=...)", "--epsilon and --delta"),
    ("PureDP(epsilon=...)", "--epsilon alone"),
    ("ZCDP(rho=...)", "--rho"),
    ("got ApproxDP", "got --epsilon and --delta"),
    ("got PureDP", "got --epsilon alone"),
    ("got ZCDP", "got --rho"),
    ("classes=[a, b] with the two that count", "--classes with the two that count, such as --classes a,b"),
    ("classes=[...] with the numbers", "--classes with the numbers"),
    ("{0: 1.0, 1: 5.0}, or 'public'", "0=1,1=5, or public"),
    ("loss='squared', 'huber' or 'logistic' with", "--loss squared, huber or logistic with"),
    ("loss='huber', 'logistic' or 'smooth_hinge'", "--loss huber, logistic or smooth_hinge"),
)
_PYTHON = re.compile(
    r"\b(clip_norm|step_size|steps|priv_weight|candidates|clip|sampling|start|batch_rows)=('[a-z_]+')?"
)
_GIVEN = re.compile(r"(?:\btrain\()?\b(" + "|".join(OPTIONS) + r")=(?:'([^']*)')?(?(2)\)?)")
_ALONE = re.compile(
    r"(?<![-\w'=])("
    + "|".join(name for name in OPTIONS if "_" in name)
    + r"|(?:classes|categories)(?= must| names a))(?![\w'=])"
)
_ENTRY = re.compile(r"(--[a-z-]+)\[([^\]]*)\]")  # x_bounds['age']
_QUOTED = re.compile(r"('[^']*')")


def spoken(message: str) -> str:
    """The message with options for arguments; what it quotes stays as it is."""
    for phrase, words in _PHRASES:
        message = message.replace(phrase, words)
    message = _GIVEN.sub(lambda found: OPTIONS[found[1]] + (f" {found[2]}" if found[2] else ""), message)
    parts = _QUOTED.split(message)
    parts[::2] = [_ALONE.sub(lambda found: OPTIONS[found[1]], part) for part in parts[::2]]
    message = _ENTRY.sub(r"\1 of \2", "".join(parts))
    if _PYTHON.search(message):
        message = f"{message} (a setting of methods in Python; on the command line take another --method)"
    return message


@contextlib.contextmanager
def in_words_of_options() -> Iterator[None]:
    """Errors that leave the block speak of options."""
    try:
        yield
    except Failure as error:
        if type(error) is not Failure:
            raise
        raise Failure(spoken(error.message)) from None
    except FastPubPrivError as error:
        raise type(error)(spoken(str(error))) from None
