"""Messages of the library in the words of the command line: --class-weight instead of class_weight=."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping

from fastpubpriv.cli import options
from fastpubpriv.cli.streams import Failure
from fastpubpriv.errors import FastPubPrivError

TEXTS_ARE_READ = "columns of text are read with --categories, such as --categories carrier,origin"
# Whole phrases are replaced before single names.
_PHRASES = {
    "pass x_pub= and y_pub=, or label=": "pass --public and --label",
    "logistic_regression or train(loss='logistic')": "--loss logistic",
    "level must be": "--level must be",
    "classes=[a, b] with the two that count": "--classes with the two that count, such as --classes a,b",
    "classes=[...] with the numbers": "--classes with the numbers",
    "{0: 1.0, 1: 5.0}, or 'public'": "0=1,1=5, or public",
    "name a column of text in categories={column: 'public'}, or its list of texts": (
        "name columns of text in --categories, such as --categories carrier,origin"
    ),
}
_BUDGETS = {"ApproxDP": "--epsilon and --delta", "PureDP": "--epsilon alone", "ZCDP": "--rho"}
_BUDGET = re.compile(r"(?:\b(ApproxDP|PureDP|ZCDP)\([^)]*\))|(?<=got )(ApproxDP|PureDP|ZCDP)")
# Quoted values after the name of an argument, or a number.
_VALUE = r"((?:(?:, | or )?'[^']*')+|\"\w+\"|\d+)?"
_PYTHON = re.compile(
    r"\b(clip_norm|step_size|steps|priv_weight|candidates|clip|sampling|start|batch_rows)=('[a-z_]+')?"
)
_PLAIN = re.compile(r"(?<![-\w'=])(classes|categories|reference)(?= must| names a)")
_ENTRY = re.compile(r"(--[a-z-]+)\[([^\]]*)\]")  # x_bounds['age']
_QUOTED = re.compile(r"('[^']*')")
# what the command line calls otherwise in every command
_OF_FILES = ("x_priv", "x_pub", "person", "keep", "rows_per_person")


def _in_options(message: str, names: Mapping[str, str]) -> str:
    """Return the message with options in place of arguments; quoted texts are unchanged."""
    given = rf"(\btrain\()?\b({'|'.join(names)})={_VALUE}(?(1)\)?)"
    several = "|".join(name for name in names if "_" in name)
    alone = rf"(?<![-\w'=])({several})(?![\w'=])"

    def with_value(match: re.Match[str]) -> str:
        value = re.sub("['\"]", "", match[3] or "")
        return f"{names[match[2]]} {value}".rstrip()

    parts = _QUOTED.split(re.sub(given, with_value, message))
    parts[::2] = [re.sub(alone, lambda match: names[match[1]], part) for part in parts[::2]]
    return "".join(parts)


def spoken_of_files(message: str) -> str:
    """Return the message with options in place of the arguments for files and persons."""
    return _in_options(message, {name: options.name_of(name) for name in _OF_FILES})


@functools.cache
def _names_of_training() -> dict[str, str]:
    """Return options by names of arguments."""
    names = {*options.parameters_of("train"), *options.NAMES, "huber_threshold"}
    flags = {name: options.name_of(name) for name in names - {"budget", "random_state", "progress"}}
    return {**flags, "threshold": flags["huber_threshold"]}


def spoken(message: str) -> str:
    """Return a message about training with options in place of arguments, and how text is read."""
    for phrase, words in _PHRASES.items():
        message = message.replace(phrase, words)
    message = _BUDGET.sub(lambda match: _BUDGETS[match[1] or match[2]], message)
    message = _PLAIN.sub(r"--\1", _in_options(message, _names_of_training()))
    message = _ENTRY.sub(r"\1 of \2", message)
    if _PYTHON.search(message):
        message = (
            f"{message} (a setting of methods in Python; on the command line take another --method)"
        )
    is_of_text = "not numeric in" in message and "--categories" not in message
    return f"{message}; {TEXTS_ARE_READ}" if is_of_text else message


@contextlib.contextmanager
def in_words_of_options(translate: Callable[[str], str]) -> Iterator[None]:
    """Translate the messages of errors that leave the block to options."""
    try:
        yield
    except Failure as error:
        if error.exit_code != 2:
            raise
        raise Failure(translate(error.message)) from None
    except FastPubPrivError as error:
        raise type(error)(translate(str(error))) from None
