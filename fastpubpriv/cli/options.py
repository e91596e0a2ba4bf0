"""Options that several commands share, and the budget they describe."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv.privacy import Budget

    Type = click.ParamType[Any]  # generic in the stubs of newer versions of click only
else:
    Type = click.ParamType

# Parameters whose options have other names.
NAMES = {
    "family": "randomizer",
    "n_components": "components",
    "pub_priv_gap": "gap",
    "x_priv": "private",
    "x_pub": "public",
    "y_priv": "label",
    "y_pub": "label",
}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?|\d{1,40}/\d{1,40}")


def exact_number(text: str) -> Fraction | None:
    """The number as it is written, or None; short enough that an exponent cannot fill the memory."""
    if not NUMBER.fullmatch(text) or re.search(r"/0+$", text):
        return None
    return Fraction(text)


def real(number: Fraction, option: str) -> float:
    """The nearest double of a number that was read exactly; a usage error where there is none."""
    try:
        return float(number)
    except OverflowError:
        raise click.UsageError(f"{option} must stay below 1.8e308, the largest number of a computer") from None


class Read(Type):
    """A value that a function reads in a text; its ValueError says what is wrong."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self.read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert one argument."""
        try:
            return self.read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _exact(text: str) -> Fraction:
    number = exact_number(text.strip())
    if number is None:
        raise ValueError(f"{text[:80]!r} is not a number such as 0.5, 1e-6 or 1/3")
    return number


def _steps(text: str) -> int | str:
    if text != "auto" and not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text[:80]!r} is neither a whole number nor 'auto'")
    return text if text == "auto" else int(text)


EXACT = Read("number", _exact)  # 0.1 is one tenth
STEPS = Read("integer|auto", _steps)


def number_or(word: str) -> Read:
    """A number, or a word."""
    return Read(f"number|{word}", lambda text: word if text == word else click.FLOAT(text))


def count(least: int = 1) -> click.IntRange:
    """A whole number from `least` to 2^53."""
    return click.IntRange(least, 2**53)


class TwoNumbers(Type):
    """Two numbers with a comma between them."""

    name = "low,high"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Check and convert one argument."""
        option = "" if param is None else param.opts[0]
        low, high, *more = [*(exact_number(part.strip()) for part in str(value).split(",")), None]
        if low is None or high is None or more != [None]:
            raise click.UsageError(f"{option} takes two numbers with a comma between them, such as 0,100")
        return real(low, option), real(high, option)


class Numbers(Type):
    """Numbers with commas between them; a default is a tuple."""

    name = "number,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Check and convert one argument."""
        if isinstance(value, tuple):
            return value
        option = "" if param is None else param.opts[0]
        found = [exact_number(part.strip()) for part in str(value).split(",")]
        if None in found:
            raise click.UsageError(f"{option} takes numbers with commas between them, such as 0.25,0.5,0.75")
        return tuple(real(number, option) for number in found if number is not None)


class FileName(click.Path):
    """The name of a file or folder, not one of the options that follow it: `--json -q` has lost its file."""

    def __init__(self, *, dash: bool = False, **more: Any) -> None:
        super().__init__(path_type=Path, **more)
        self.dash = dash

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert one argument."""
        text = os.fspath(value)
        if text == "-" and self.dash:
            return Path(text)
        if not text or "\0" in text:
            self.fail("the name of a file cannot be empty" if not text else "a name cannot hold a NUL", param, ctx)
        if text.startswith("-"):
            self.fail(f"{text!r} looks like an option; write './{text}' for a file of that name", param, ctx)
        return super().convert(value, param, ctx)


class Level(click.FloatRange):
    """A number strictly between 0 and 1; NaN is refused, although it passes click's comparisons."""

    def __init__(self) -> None:
        super().__init__(0.0, 1.0, min_open=True, max_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert one argument."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("nan is not in the range 0<x<1.", param, ctx)
        return number


class Methods(Type):
    """A method of a task, from the registry in the module `home`: read when it is needed, as the library takes long to load."""

    name = "method"

    def __init__(self, home: str) -> None:
        self.home = home

    def choices(self) -> tuple[str, ...]:
        """The names, the default first."""
        names: tuple[str, ...] = import_module(self.home).METHODS.choices
        return names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The names, for --help."""
        return f"[{'|'.join(self.choices())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check one argument."""
        return click.Choice(self.choices()).convert(value, param, ctx)


def given(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    """Those of the named options that the command line holds; the others are left to the library's defaults."""
    return {name: settings[name] for name in names if settings[name] is not None}


def stack(*options: Decorator) -> Decorator:
    """Several option decorators as one; --help shows them in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def name_of(parameter: str) -> str:
    """The option of a parameter: `--gap` of `pub_priv_gap`."""
    return "--" + NAMES.get(parameter, parameter).removesuffix("_path").replace("_", "-")


def default_of(value: Any) -> dict[str, Any]:
    """What click has to know of a default; ... stands for none, where an option must be given."""
    return {"required": True} if value is ... else {} if value is None else {"default": value, "show_default": True}


def table(rows: dict[str, tuple[Any, ...]]) -> Decorator:
    """Options by parameter: a type (words are a choice, `bool` a flag), what it means, and a default (... where one is needed)."""

    def made(name: str, kind: Any, text: str, default: Any = None) -> Decorator:
        more = {"is_flag": True} if kind is bool else {"type": click.Choice(kind) if isinstance(kind, tuple) else kind}
        more |= default_of(default)
        return click.option(name_of(name), name, help=text, **more)

    return stack(*(made(name, *row) for name, row in rows.items()))


def epilog(*examples: str) -> str:
    """What --help ends with."""
    return "\n  ".join([f"\b\nExample{'s' if len(examples) > 1 else ''}:", *examples])


def budget_options(why: str = "") -> Decorator:
    """--rho, --epsilon, --delta."""
    return table(
        {
            "rho": (EXACT, f"Budget in zero-concentrated DP.{why}"),
            "epsilon": (EXACT, "Budget in pure DP, or together with --delta in approximate DP."),
            "delta": (EXACT, "Far below one over the number of private rows, such as 1e-6."),
        }
    )


def make_budget(rho: Fraction | None, epsilon: Fraction | None, delta: Fraction | None) -> Budget:
    """The one budget that the options describe; a usage error where they describe none or several."""
    if rho is not None and (epsilon is not None or delta is not None):
        raise click.UsageError(
            "one budget only: either --rho, or --epsilon (pure DP), or --epsilon with --delta (approximate DP)"
        )
    if rho is not None:
        return fpp.ZCDP(rho)
    if epsilon is not None:
        return fpp.PureDP(epsilon) if delta is None else fpp.ApproxDP(epsilon, delta)
    if delta is not None:
        raise click.UsageError("--delta needs --epsilon beside it, for example --epsilon 1 --delta 1e-6")
    raise click.UsageError(
        "no privacy budget: pass --rho 0.5 (zero-concentrated DP), --epsilon 1 (pure DP), or --epsilon 1 "
        "--delta 1e-6 (approximate DP). Smaller protects better and answers less exactly; there is no default"
    )


def parse_total(text: str, budget: Budget) -> Budget:
    """Total of a new ledger: "rho=2", "epsilon=4" or "epsilon=4,delta=1e-5"; a bare number is in the budget's notion."""
    parts: dict[str, Fraction] = {}
    for item in text.split(","):
        name, equals, number = item.strip().partition("=")
        if not equals:
            name, number = budget.parts[0], name
        value = exact_number(number.strip())
        if value is None or name not in {"rho", "epsilon", "delta"} or name in parts:
            raise click.UsageError(
                f"--ledger-total must look like rho=2, epsilon=4 or epsilon=4,delta=1e-5; got {text[:80]!r}"
            )
        parts[name] = value
    return make_budget(parts.get("rho"), parts.get("epsilon"), parts.get("delta"))


def open_ledger(path: Path | None, total: str | None, budget: Budget, *, kind: Any) -> Any:
    """The ledger of the options, made by the class `kind`, or None."""
    if path is None:
        if total is not None:
            raise click.UsageError("--ledger-total belongs to --ledger FILE")
        return None
    if total is not None:
        return kind(parse_total(total, budget), path=path)
    if not path.exists():
        raise click.UsageError(
            f"there is no ledger {str(path)!r} yet: pass --ledger-total, what all releases from this data set together "
            "may cost, for example --ledger-total rho=2"
        )
    return kind.from_file(path)


def private_option(text: str = "The rows to protect") -> Decorator:
    """--private FILE."""
    return table({"private_path": (FileName(), f"{text}: .npy, .parquet, .arrow, .feather or .csv.", ...)})


def public_option(*, required: bool) -> Decorator:
    """--public FILE."""
    text = "Rows that need no protection, at least one, with the same columns."
    return table({"public_path": (FileName(), text, ... if required else None)})


def columns_options(*, both: bool) -> Decorator:
    """--columns, of one table or of `both`, and --join-quoted-lines."""
    tables = (
        "tables. Default: the numeric columns that both files have" if both else "table. Default: all numeric columns"
    )
    return stack(click.option("--columns", metavar="A,B,...", help=f"Columns of the {tables}."), join_option)


join_option = table(
    {
        "join_quoted_lines": (
            bool,
            "In a private .csv file, a line break between quotes is part of a cell. The answer is then private only if the quotes "
            "of each record are balanced. Default: each line is a row.",
        )
    }
)
ledger_options = stack(
    table(
        {
            "ledger": (
                FileName(dir_okay=False),
                "File that keeps what was spent on this data set; debited before the private rows are read.",
            )
        }
    ),
    click.option(
        "--ledger-total", metavar="TEXT", help="Total of a new ledger: rho=2, epsilon=4, epsilon=4,delta=1e-5."
    ),
)
seed_option = table({"seed": (int, "Repeatable noise, for tests and papers: the answer is then NOT private.")})
threads_option = table({"threads": (click.IntRange(min=1), "Default: all cores. Never changes the answer.")})
json_option = table({"json_path": (FileName(dash=True), "Write the whole result; - for stdout.")})


def quiet_option(text: str = "No table and no notes; warnings and errors still show.") -> Decorator:
    """--quiet."""
    return click.option("--quiet", "-q", is_flag=True, help=text)


output_options = stack(
    table({"level": (Level(), "Confidence level of the intervals.", 0.95)}),
    json_option,
    table({"plot_path": (FileName(), "Draw it: .png, .pdf or .svg.")}),
    quiet_option(),
)
