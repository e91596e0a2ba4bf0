"""Options made from documented parameters: the forms of their values, options shared by commands, and the budget they describe.

A command has the options of the function that it calls, read from the source of that function, because an import would be too
slow for `--help`. The docstring of the command, in the same form, changes them and adds those that only the command has.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import fastpubpriv as fpp
from fastpubpriv import defaults as shared
from fastpubpriv.cli.streams import refuse
from fastpubpriv.errors import InputError
from fastpubpriv.tables.data_file import NUMBER, WITH, budget_of, exact, read_data_file, total_of

if TYPE_CHECKING:
    from fastpubpriv.privacy import Budget

# Parameters whose options have different names.
NAMES = {
    "family": "randomizer",
    "n_components": "components",
    "pub_priv_gap": "gap",
    "with_columns": WITH,
    "x_priv": "private",
    "x_pub": "public",
    "y_priv": "label",
    "y_pub": "label",
}
# The options that replace a parameter of the library, unless it is one option of the same name.
GROUPS = {
    "x_priv": "data_path private_path person rows_per_person keep where with_columns",
    "person": "",
    "keep": "",
    "rows_per_person": "",
    "x_pub": "public_path",
    "budget": "rho epsilon delta",
    "ledger": "ledger ledger_total",
    "random_state": "seed",
    "columns": "columns join_quoted_lines",
    "threads": "threads",
    "bounds": "bounds",
    "progress": "",
}
OUTPUT = "level json_path plot_path quiet"
SHARED = """\
data_path : data file, optional
    File in TOML that says what is bound to a table, by long names of options: private, public, person, keep, rows_per_person,
    where, ledger, ledger_total, threads, and a table [with]. Its files are relative to it, and an option beside it wins.
private_path : file :: The rows to protect: .npy, .parquet, .arrow, .feather or .csv.
person : NAME, optional
    Column of a private table that says whose row it is: the answer then protects all rows of a person together
    (user-level privacy). Default: each row is protected by itself.
rows_per_person : int or "auto", optional
    With --person, at most how many rows of a person are used, 1 to 4096, chosen as if at random. For k rows the budget is spent at
    row level with rho / k^2 or epsilon / k. auto: chosen by noisy counts of persons, for a sixteenth of the budget.
keep : "row", "mean" or "sum", optional
    With --person, what stands for a person: the mean or the sum of each column, or with --rows-per-person its rows.
where : TEXT, optional
    Only the rows inside a condition, such as "age >= 40 and sex == 'f'". How many these are stays private.
with_columns : NAME=TEXT, repeated
    A new column, made of each row, such as "bmi=weight / height ** 2" or "band=bin(age, 18, 40, 65)"; once for each.
public_path : file :: Rows that need no protection, at least one, with the same columns.
rho : NUMBER, optional :: Budget in zero-concentrated DP.
epsilon : NUMBER, optional :: Budget in pure DP, or together with --delta in approximate DP.
delta : NUMBER, optional :: Far below one over the number of private rows, such as 1e-6.
columns : A,B,..., optional :: Columns of the tables. Default: the numeric columns that both files have.
join_quoted_lines : flag
    In .csv files, a line break between quotes is part of a cell. The answer is then private only if the quotes of each private
    record are balanced. Default: each line is a row.
by : A,B,... :: Columns whose cells name the group of a row, or -1 for the last column of .npy files.
groups : NAME=a,b,...|a,b,..., repeated
    The groups, known without the private rows; for several columns of --by once for each, with its name. Default: those of the
    public rows.
difference : A,B,..., optional
    Also print the first of two groups, columns or keys minus the second, with an interval; it costs nothing. Of several columns of
    groups or keys all parts: north,0,south,0.
ratio : A,B,..., optional :: As --difference: the first divided by the second.
bounds : LOW,HIGH :: Two numbers between which all values of all columns are known to lie; what is learned is kept inside.
ledger : file, optional :: File that keeps what was spent on this data set; debited before the private rows are read.
ledger_total : TOTAL, optional :: Total of a new ledger: rho=2, epsilon=4, epsilon=4,delta=1e-5.
seed : int, optional :: Repeatable noise, for tests and papers: the answer is then NOT private.
threads : int >= 1, optional :: Default: all cores. Never changes the answer.
level : LEVEL, default 0.95 :: Confidence level of the intervals, between 0 and 1.
json_path : file or -, optional :: Write the whole result; - for stdout.
plot_path : file, optional :: Draw it: .png, .pdf or .svg.
quiet : flag :: No table and no notes; warnings and errors still show.
norm_bound : float or "public", optional
    Rows longer than this are shortened to it; intervals allow for that as far as --public rows tell. public: the length of the
    longest of these, at both ends. Without it only directions of rows count.
family : "privunit", "privunit-g", "duchi" or "subset-selection", default privunit
    privunit has the least error; reports of subset-selection have 10 bytes.
form : "direct" or "selection", default direct
    direct: vectors on a grid. selection: seeds of 32 bytes, for an epsilon up to about 6.
words : int in [2, 1024], optional
    For subset-selection: of how many words a report names one. Default: 256. More take longer, fewer are less accurate.
standardize : flag
    Columns are shifted and scaled by mean and standard deviation of the public rows, and back in the answer; give it, and the same
    --public file, at both ends. A missing cell counts as the public mean.
"""
HELP_LENGTH = 320  # characters: three lines of a terminal
# Error messages for a value that is not of the form of its option; for other forms the message shows the form.
_VECTOR = "must be a number, numbers with commas between them, or a .npy file; got {}"
WANTED = {
    **dict.fromkeys(("NUMBER", "FLOAT"), "{} is not a number such as 0.5, 1e-6 or 1/3"),
    "LEVEL": "{} is not in the range 0<x<1",
    "INTEGER|auto": "{} is neither a whole number nor 'auto'",
    "public|FILE.npy": "must be public, or the name of a .npy file; got {}",
    "FILE.npy": "must be the name of a .npy file; got {}",
    "LOW,HIGH": "takes two numbers with a comma between them, such as 0,100",
    "V,...": "takes numbers with commas between them, such as 0.25,0.5,0.75",
    "A,B,...": "must look like temp,humid,visib; got {}",
    "a,b,...": "must look like 0,1 or no,yes; got {}",
    "NAME=a,b,...": "looks like carrier=UA,B6, once for each column",
    "NAME=a,b,...|a,b,...": "must look like 0,1 or carrier=UA,B6; got {}",
    "NAME=V,...|V,...": "must look like 25,35,45 or age=25,35,45; got {}",
    "NAME=LOW:HIGH": "must look like age=0:120; got {}",
    "NAME=TEXT": "must look like carrier=UA, once for each column; got {}",
    "A[=x:y:z],...": "must look like month, month=1:2:3 or carrier=AA:DL; got {}",
    "A=W,...|WORD": "must look like 0=1,1=5; got {}",
    **dict.fromkeys(("V|V,...|FILE.npy", "public|V|V,...|FILE.npy"), _VECTOR),
}


def parse(form: str, text: str) -> Any:
    """Return the value of a text of a form such as NAME=LOW:HIGH or public|V,...|FILE.npy; ValueError for another text."""
    # V, W, LOW and HIGH are numbers; A and NAME are texts; a list of lowercase letters is all numbers if possible, else texts.
    if "|" in form:
        for each in form.split("|"):
            with contextlib.suppress(_Other):
                return parse(each, text)
        raise _Other(text)
    if form.startswith("NAME="):
        # A list, or a text, may have an equals sign.
        first = form[5].islower() or form == "NAME=TEXT"
        name, sign, rest = text.partition("=") if first else text.rpartition("=")
        return name.strip(), parse(form[5:], rest if sign else "")
    if form == "A[=x:y:z]":
        name, sign, rest = text.partition("=")
        return name.strip(), list(parse("x:y:...", rest)) if sign else "public"
    if form == "A=W":
        name, _, rest = text.rpartition("=")
        return _several(["a", "..."], [name.strip()])[0], parse("V", rest)
    for sign in ",:":
        if sign in form:
            return _several(form.split(sign), [part.strip() for part in text.split(sign)])
    return _one(form, text.strip())


class _Other(ValueError):
    """The text is not of the form; an unreadable file raises another error."""


def _several(forms: list[str], parts: list[str]) -> tuple[Any, ...]:
    if forms[-1] != "..." and len(forms) != len(parts):
        raise _Other
    if forms[0].islower():
        numbers = all(NUMBER.fullmatch(part) for part in parts)
        return tuple(parse("V" if numbers else "NAME", part) for part in parts)
    return tuple(parse(forms[0], part) for part in parts)


def _one(form: str, text: str) -> Any:
    """Return a number, a text, a word, or the numbers in a public .npy file, which is loaded without pickle."""
    try:
        if form in ("NUMBER", "FLOAT", "V", "W", "LOW", "HIGH"):
            return exact(text) if form == "NUMBER" else float(exact(text))
        number = {"INTEGER": int, "LEVEL": float}.get(form, str)(text)
    except ValueError:
        raise _Other(text) from None
    if (
        (form == "LEVEL" and not 0.0 < number < 1.0)
        or (form.islower() and text != form)
        or not text
    ):
        raise _Other(text)
    if (form == "FILE.npy" and not text.lower().endswith(".npy")) or (
        form == "WORD" and not text.isidentifier()
    ):
        raise _Other(text)
    if form != "FILE.npy":
        return number
    import numpy as np

    try:
        return np.asarray(np.load(text, allow_pickle=False), dtype=np.float64)
    except FileNotFoundError:
        raise InputError(f"{text!r}: there is no such file") from None
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"{text!r} is not a .npy file of numbers (written by numpy.save)"
        ) from None


class Read(click.ParamType):  # type: ignore[type-arg]
    """Type of a value of a form; --help shows the form."""

    def __init__(self, form: str) -> None:
        self.name = form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert one argument; return a default that is not a text unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return parse(self.name, value)
        except OverflowError:
            words = "must stay below 1.8e308, the largest number of a computer"
        except _Other:
            words = WANTED.get(self.name, f"must look like {self.name}; got {{}}").format(
                repr(value[:80])
            )
        except InputError as error:
            words = str(error)
        raise click.UsageError(f"{param.opts[0] if param else ''} {words}", ctx)


class Methods(click.Choice):  # type: ignore[type-arg]
    """Type of a method: the documented methods of a task, and those added to its registry if that has been loaded."""

    case_sensitive = True

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names, the default first."""
        modules = [
            module for name, module in sys.modules.items() if name.startswith("fastpubpriv.")
        ]
        listed = [getattr(vars(module).get("METHODS"), "choices", ()) for module in modules]
        return next((each for each in listed if set(self.names) <= set(each)), self.names)


class FileName(click.Path):
    """Type of the name of a file or folder, which must not look like an option: in `--json -q` the file is missing."""

    def __init__(self, *, dash: bool = False, **more: Any) -> None:
        super().__init__(path_type=Path, **more)
        self.dash = dash

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert one argument."""
        text = os.fspath(value)
        if text == "-" and self.dash:
            return Path(text)
        if not text or "\0" in text:
            self.fail(
                "the name of a file cannot be empty" if not text else "a name cannot hold a NUL",
                param,
                ctx,
            )
        if text.startswith("-"):
            self.fail(
                f"{text!r} looks like an option; write './{text}' for a file of that name",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


# Types by the documented form of a parameter; any other form without blanks is read by `parse`.
FORMS: dict[str, Any] = {
    "file": FileName(),
    "data file": FileName(),
    "file or -": FileName(dash=True),
    "count": click.IntRange(1, 2**53),
    "count or 0": click.IntRange(0, 2**53),
    'int or "auto"': Read("INTEGER|auto"),
}
# Forms of parameters whose documentation describes them in words.
TYPES = {
    "max_memory": "NUMBER",
    "q": "V,...",
    "n_components": "count",
    **dict.fromkeys(("rounds", "top", "round_to", "max_bytes"), "int >= 1"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as described by a docstring, and perhaps by a signature; the default ... stands for none."""

    name: str
    form: str
    text: str
    default: Any = ...


# As in docstrings of the library; or with a short text after two colons, or as names of COMMON in braces.
_DOCUMENTED = re.compile(
    r"^(\w+) : (.*?)(?: :: (.*)\n?|\n((?:    .*\n?)+))|^\{(.*)\}$", re.MULTILINE
)
_ENDING = re.compile(r", (required|optional|repeated|default (.*))$")


def documented(text: str) -> dict[str, Parameter]:
    """Return the parameters in a docstring or a section of one."""
    parameters: dict[str, Parameter] = {}
    for name, form, short, long, shown in _DOCUMENTED.findall(text):
        parameters |= {each: COMMON[each] for each in shown.split(", ") if each}
        parameters |= (
            {name: Parameter(name, form, " ".join((short or long).split()))} if name else {}
        )
    return parameters


COMMON = documented(SHARED)


def parameters_of(function: str) -> dict[str, Parameter]:
    """Return the parameters of a public function, in their order."""
    try:
        source = pkgutil.get_data(
            "fastpubpriv", fpp._HOMES[function].partition(".")[2].replace(".", "/") + ".py"
        )
    except OSError:
        source = None
    if source is None:
        return imported_parameters(function)
    body = ast.parse(source).body
    # the last one: overloads for type checkers stand above it
    *_, node = (
        each for each in body if isinstance(each, ast.FunctionDef) and each.name == function
    )
    constants = {
        ast.unparse(each.targets[0]): each.value for each in body if isinstance(each, ast.Assign)
    }
    described = documented(ast.get_docstring(node) or "")

    def value(default: ast.expr | None) -> Any:
        """Return the value of a literal, of a constant of the module, or of one of `fastpubpriv.defaults`."""
        node = constants.get(default.id, default) if isinstance(default, ast.Name) else default
        if node is None:
            return ...
        return (
            getattr(shared, node.id, None) if isinstance(node, ast.Name) else ast.literal_eval(node)
        )

    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = [
        *[None] * (len(positional) - len(node.args.defaults)),
        *node.args.defaults,
        *node.args.kw_defaults,
    ]
    pairs = zip([*positional, *node.args.kwonlyargs], defaults, strict=True)
    return {
        each.arg: replace(described[each.arg], default=value(default)) for each, default in pairs
    }


def imported_parameters(function: str) -> dict[str, Parameter]:
    """Return the same from the imported function, for frozen programs and trees of compiled files, which have no source."""
    implementation = getattr(fpp, function)
    described = documented(inspect.getdoc(implementation) or "")
    parameters = {}
    for name, each in inspect.signature(implementation).parameters.items():
        default = ... if each.default is inspect.Parameter.empty else each.default
        parameters[name] = replace(described[name], default=default)
    return parameters


def pair_of(parts: Sequence[str]) -> tuple[str, str]:
    """Return the two names that are compared, each in as many parts as a key has columns."""
    half = len(parts) // 2
    return ", ".join(parts[:half]), ", ".join(parts[half:])


def name_of(parameter: str) -> str:
    """Return the option of a parameter: `--gap` for `pub_priv_gap`."""
    return "--" + NAMES.get(parameter, parameter).removesuffix("_path").replace("_", "-")


def help_of(text: str, options: dict[str, Any]) -> str:
    """Return the first sentences of a documented text, with options instead of parameters."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z\"])", text)
    for each in others:
        if len(first) + len(each) >= HELP_LENGTH:
            break
        first += " " + each
    first = re.sub(r"(^|\. )None\b", r"\1The default", first).replace("None", "the default")
    first = re.sub(
        r"`(\w+)`", lambda match: name_of(match[1]) if match[1] in options else match[1], first
    )
    first = re.sub(
        r"\b(\w+)=(?=\")",
        lambda match: name_of(match[1]) + " " if match[1] in options else match[0],
        first,
    )
    return re.sub(r'"(\w+)"', r"\1", first)


def type_of(parameter: Parameter) -> Any:
    """Return the type of an option, by the documented form of its parameter."""
    form = TYPES.get(parameter.name, _ENDING.split(parameter.form)[0])  # without the default
    if form in FORMS:
        return FORMS[form]
    if re.fullmatch(r'("[\w-]+"(, | or |$))+', form):
        words = re.findall(r'"([\w-]+)"', form)
        return Methods(*words) if parameter.name in ("method", "clipping") else click.Choice(words)
    if word := re.fullmatch(r'float\b.* or "(\w+)"', form):
        return Read(f"FLOAT|{word[1]}")
    if ends := re.fullmatch(r"int (?:>= |in \[)(\d+)(?:, (\d+)\])?", form):
        return click.IntRange(int(ends[1]), int(ends[2]) if ends[2] else None)
    if form.startswith("(lowest, highest)"):
        return Read("LOW,HIGH")
    return {"float": float, "int": int}.get(form.split()[0], Read(form))


def take_data_file(context: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Take values of options from a file; options of the command line come before them."""
    if path is None:
        return
    bound = read_data_file(path)
    columns = bound.pop(WITH, {})
    by_option = {f"--{key.replace('_', '-')}": value for key, value in bound.items()}
    by_option[f"--{WITH}"] = [f"{name}={text}" for name, text in columns.items()]
    context.default_map = {
        str(each.name): by_option[each.opts[0]]
        for each in context.command.params
        if each.opts[0] in by_option
    }


def prefer_given(settings: dict[str, Any]) -> None:
    """Drop what a data file says to stand for a person where an option beside it says something else."""
    context = click.get_current_context()
    given = {
        name
        for name in ("keep", "rows_per_person")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if given == {"rows_per_person"} or (given == {"keep"} and settings["keep"] != "row"):
        settings |= {"keep": None, "rows_per_person": None} | {
            name: settings[name] for name in given
        }


def option_of(parameter: Parameter) -> click.Option:
    """Return the option of a parameter; a default in its form overrides that of the signature."""
    ending = _ENDING.search(parameter.form)
    default = parameter.default
    word = ending[1].split()[0] if ending else ""
    if ending and (parameter.default is ... or word == "required"):
        default = {"required": ..., "default": ending[2]}.get(word)
    with contextlib.suppress(ValueError, SyntaxError):  # a word is not a literal
        default = ast.literal_eval(default) if isinstance(default, str) else default
    more: dict[str, Any] = {"type": type_of(parameter), "multiple": word == "repeated"}
    if isinstance(more["type"], Read):
        more["metavar"] = more["type"].name  # in lowercase letters as well
    if word == "repeated" and parameter.form.startswith("NAME=") and "|" not in parameter.form:
        more["callback"] = lambda context, option, pairs: dict(pairs) or None
    if parameter.form.startswith("data file"):
        more |= {"is_eager": True, "expose_value": False, "callback": take_data_file}
    if parameter.form == "flag":
        more = {"is_flag": True}
    elif default is ...:
        more["required"] = True
    elif default is not None:
        more |= {"default": default, "show_default": True}
    letters = ["-q"] if parameter.name == "quiet" else []
    return click.Option(
        [name_of(parameter.name), *letters, parameter.name], help=parameter.text, **more
    )


def options_of(section: str, function: str, groups: dict[str, str]) -> list[click.Option]:
    """Return the options of a command: those of its docstring, and of the function that it calls; `groups` is like GROUPS."""
    own = documented(section)
    made = []
    if not function:
        return [option_of(each) for each in own.values()]
    parameters = parameters_of(function)
    for name in (*parameters, OUTPUT):
        for option in groups.get(name, GROUPS.get(name, name)).split():
            each = (
                own.get(option)
                or (COMMON if name in GROUPS or option not in parameters else parameters)[option]
            )
            if each.text == "..." or each is parameters.get(option):
                each = replace(each, text=help_of(parameters[option].text, parameters))
            default = parameters[name].default if option in parameters or name == "x_pub" else ...
            made.append(option_of(replace(each, default=default)))
    return made


class Documented(click.Command):
    """A command made from the docstring of a function: its help, a paragraph of options, and one of examples after a $."""

    def __init__(
        self,
        work: Callable[..., Any],
        run: Callable[..., Any],
        function: str,
        groups: dict[str, str],
        *before: Any,
    ) -> None:
        parts = inspect.cleandoc(work.__doc__ or "").split("\n\n")
        options = [part for part in parts if re.match(r"\w+ : |\{", part)]
        examples = [part for part in parts if part.startswith("$ ")]
        text = "\n\n".join(part for part in parts if part not in (*options, *examples))
        epilog = (
            "\b\nExamples:\n" + re.sub(r"(?m)^(\$ )?", "  ", "\n".join(examples))
            if examples
            else None
        )
        name = work.__name__.replace("_", "-")
        line = " ".join(parts[0].split())
        super().__init__(name, callback=run, help=text, epilog=epilog, short_help=line)
        self.run, self._made = run, ("\n".join(options), function, groups)
        self._before: Sequence[click.Parameter] = before
        del self.params

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """The options, built on first access."""
        return [*self._before, *options_of(*self._made)]


def command(*before: click.Parameter) -> Callable[[Callable[..., Any]], Documented]:
    """Return a decorator for a command whose function takes its documented options, after the parameters `before`."""
    return lambda work: Documented(work, work, "", {}, *before)


# The budget, and the ledger that is charged.


PARTS = ("rho", "epsilon", "delta")  # options of a budget
FILES = ("private_path", "public_path", "ledger")  # options of files that a call reads


def make_budget(settings: Mapping[str, Any]) -> Budget:
    """Return the one budget that the options describe; raise UsageError if they describe none or several."""
    parts = {name: settings[name] for name in PARTS if settings[name] is not None}
    nothing = (
        "no privacy budget: pass --rho 0.5 (zero-concentrated DP), --epsilon 1 (pure DP), or --epsilon 1 "
        "--delta 1e-6 (approximate DP). Smaller protects better and answers less exactly; there is no default"
    )
    refuse(not parts, nothing)
    alone = "--delta needs --epsilon beside it, for example --epsilon 1 --delta 1e-6"
    refuse([*parts] == ["delta"], alone)
    budget = budget_of(parts)
    if budget is None:
        raise click.UsageError(
            "one budget only: either --rho, or --epsilon (pure DP), or --epsilon with --delta (approximate DP)"
        )
    return budget


def open_ledger(kind: Any, settings: dict[str, Any], relation: Any) -> Any:
    """Return the ledger of the options, of the class `kind`, or None; UsageError unless its relation is `relation`."""
    path = settings["ledger"]
    total = settings["ledger_total"]
    budget = settings["budget"]
    if path is None:
        refuse(total is not None, "--ledger-total belongs to --ledger FILE")
        return None
    if total is not None:
        # A number without a name is in the notion of the budget.
        words = [part if "=" in part else f"{budget.parts[0]}={part}" for part in total.split(",")]
        whole = total_of(",".join(words), "--ledger-total")
        return kind(whole, path=path, relation=relation)
    example = "pass --ledger-total, what all releases from this data set together may cost, for example --ledger-total rho=2"
    refuse(not path.exists(), f"there is no ledger {str(path)!r} yet: {example}")
    ledger = kind.from_file(path)
    counted = "--person NAME" if "PERSON" in ledger.relation.name else "no --person"
    other = f"--ledger {path} was opened for calls with {counted}: pass that, or another ledger"
    refuse(ledger.relation is not relation, other)
    return ledger
