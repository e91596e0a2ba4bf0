"""The commands that call an estimator, made from its signature: an option for each parameter, with its default and its text.

Parameters are read in the source of a function: to import it would take longer than `--help` may.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv import shared_docs as shared
from fastpubpriv.cli import options
from fastpubpriv.cli.options import Decorator

# Types that neither an annotation nor a documented form tells.
TYPES: dict[str, Any] = {
    "max_memory": options.EXACT,
    "q": options.Numbers(),
    "n_components": options.count(),
    "rounds": click.IntRange(min=1),
}
# Vectors and infinite ends are for Python.
HELP = {
    "bounds": "Two numbers between which all values of all columns are known to lie; what is learnt is kept inside."
}
HELP_LENGTH = 320  # of characters: three lines of a terminal
_DOCUMENTED = re.compile(r"^(\w+) : (.*)\n((?:    .*\n?)+)", re.MULTILINE)
_WORDS_ONLY = re.compile(r'("\w+"(, | or |$))+')


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a function says of one of its parameters."""

    name: str
    annotation: str
    default: ast.expr | None
    form: str
    text: str


def parameters_of(function: str) -> dict[str, Parameter]:
    """The parameters of a public function, in their order."""
    source = pkgutil.get_data("fastpubpriv", fpp._HOMES[function].partition(".")[2].replace(".", "/") + ".py")
    assert source is not None
    body = ast.parse(source).body
    (node,) = (each for each in body if isinstance(each, ast.FunctionDef) and each.name == function)
    constants = {ast.unparse(each.targets[0]): each.value for each in body if isinstance(each, ast.Assign)}
    docs = inspect.cleandoc(shared.with_shared_texts(ast.get_docstring(node, clean=False) or ""))
    documented = {name: (form, " ".join(text.split())) for name, form, text in _DOCUMENTED.findall(docs)}
    positional = [*node.args.posonlyargs, *node.args.args]
    none: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    pairs = zip([*positional, *node.args.kwonlyargs], [*none, *node.args.defaults, *node.args.kw_defaults], strict=True)
    return {
        each.arg: Parameter(
            each.arg,
            ast.unparse(each.annotation or ast.Constant("")),
            constants.get(default.id, default) if isinstance(default, ast.Name) else default,
            *documented[each.arg],
        )
        for each, default in pairs
    }


def help_of(text: str, names: dict[str, Any]) -> str:
    """The first sentences of a documented text, options in place of the parameters `names`."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z\"])", text)
    for each in others:
        if len(first) + len(each) >= HELP_LENGTH:
            break
        first += " " + each
    first = re.sub(r"(^|\. )None\b", r"\1The default", first).replace("None", "the default")
    first = re.sub(r"`(\w+)`", lambda found: options.name_of(found[1]) if found[1] in names else found[1], first)
    first = re.sub(
        r"\b(\w+)=(?=\")", lambda found: options.name_of(found[1]) + " " if found[1] in names else found[0], first
    )
    return re.sub(r'"(\w+)"', r"\1", first)


def type_of(parameter: Parameter) -> Any:
    """What an option accepts: from the documented form of its parameter, or else from the annotation."""
    form = parameter.form
    if _WORDS_ONLY.fullmatch(form):
        return click.Choice(re.findall(r'"(\w+)"', form))
    if number := re.fullmatch(r'(float|int)\b.* or "(\w+)"', form):
        return options.number_or(number[2]) if number[1] == "float" else options.STEPS
    if "(lowest, highest)" in form:
        return options.TwoNumbers()
    return TYPES.get(parameter.name, {"float": float, "int": int}.get(parameter.annotation.removesuffix(" | None")))


def option_of(parameter: Parameter, names: dict[str, Any], **changes: Any) -> Decorator:
    """The option of a parameter, with `changes` to what its documentation says, as for `click.option`."""
    text, value, default = HELP.get(parameter.name) or help_of(parameter.text, names), ..., parameter.default
    if default is not None:
        # A literal, perhaps by the name of a constant, or a constant of `fastpubpriv.shared_docs`.
        value = getattr(shared, default.id) if isinstance(default, ast.Name) else ast.literal_eval(default)
    made = {"type": type_of(parameter), "help": text, **options.default_of(value), **changes}
    return click.option(options.name_of(parameter.name), parameter.name, **made)


def options_of(function: str, changes: dict[str, Any]) -> tuple[Decorator, list[str]]:
    """The options of an estimator, and the parameters that have options of their own.

    `changes` holds for a parameter what differs from its documentation, None for a parameter without an option, or decorators.
    """
    found = parameters_of(function)
    groups: dict[str, Decorator] = {
        "x_priv": options.private_option(),
        "budget": options.budget_options(),
        "ledger": options.ledger_options,
        "random_state": options.seed_option,
        "threads": options.threads_option,
    }
    if "x_pub" in found:
        groups["x_pub"] = options.public_option(required=found["x_pub"].default is None)
    if "columns" in found:
        groups["columns"] = options.columns_options(both="x_pub" in found)
    groups |= {name: each for name, each in changes.items() if callable(each)}
    skipped = {"progress", *(name for name, each in changes.items() if each is None)}
    own = [name for name in found if name not in groups and name not in skipped]
    made = [
        groups[name] if name in groups else option_of(each, found, **changes.get(name, {}))
        for name, each in found.items()
        if name not in skipped
    ]
    return options.stack(*made, options.output_options), own


@dataclass(slots=True)
class Call:
    """A call of an estimator that is being put together: the files, the options, and the arguments that come from them."""

    opened: Any
    settings: dict[str, Any]
    arguments: dict[str, Any]


def command(
    function: str, title: str, examples: tuple[str, ...] = (), opens: Callable[..., Any] | None = None, **changes: Any
) -> Callable[[Callable[[Call], None]], click.Command]:
    """A command that calls a public function; what it decorates has its help, and changes arguments where they differ.

    `opens` opens the files in place of `prepare`.
    """

    def made(change: Callable[[Call], None]) -> click.Command:
        shown, own = options_of(function, changes)

        def run(**settings: Any) -> None:
            opened = (opens or prepare)(settings)
            call = Call(opened, settings, {name: settings[name] for name in own})
            change(call)
            public = {} if opened.public is None else {"x_pub": opened.public}

            def estimate(ledger: Any) -> Any:
                return getattr(fpp, function)(
                    opened.private, ledger=ledger, **public, **call.arguments, **common(settings)
                )

            from fastpubpriv.cli import outputs

            n = getattr(opened.private, "n", None)  # a path has not been counted
            named = title.partition(" of ")[0] if n is None else title.format(n=n)
            outputs.deliver(estimate, named, settings, **public)

        name = change.__name__.replace("_", "-")
        return click.command(name, help=change.__doc__, epilog=options.epilog(*examples))(shown(run))

    return made


def prepare(settings: dict[str, Any], **reading: Any) -> Any:
    """Everything that can be refused before the budget is touched; returns the opened files. `reading`: as for `open_files`."""
    from fastpubpriv.cli import inputs, outputs

    check(settings)
    opened = inputs.open_files(
        settings["private_path"],
        settings.get("public_path"),
        settings["columns"],
        settings["join_quoted_lines"],
        finite="label" not in settings,
        **reading,
    )
    if not settings["quiet"]:
        for text in opened.notes:
            outputs.note(text)
    return opened


def check(settings: dict[str, Any]) -> None:
    """Make the budget, and refuse what could not be written."""
    from fastpubpriv.cli import outputs

    settings["budget"] = options.make_budget(settings["rho"], settings["epsilon"], settings["delta"])
    files = (settings["private_path"], settings.get("public_path"), settings["ledger"])
    outputs.check_outputs(settings, files)


def paths(settings: dict[str, Any]) -> Any:
    """Files that the function opens itself, because its arguments say how their columns are read."""
    from fastpubpriv.cli import inputs

    check(settings)
    return inputs.Opened(settings["private_path"], settings.get("public_path"))


def common(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments that every estimator takes."""
    return {
        "budget": settings["budget"],
        "random_state": settings["seed"],
        "threads": settings["threads"],
        "progress": False if settings["quiet"] else None,
    }


def rows_or_paths(settings: dict[str, Any]) -> Any:
    """As `prepare`; as `paths` where a column of groups is read beside the numbers."""
    return prepare(settings) if settings["by"] is None else paths(settings)


# The commands that call an estimator: what differs from its signature, and its help.


@command(
    "estimate_mean",
    "Private mean of {n:,} rows",
    (
        "fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5",
        "fastpubpriv mean --private p.npy --public q.npy --epsilon 1 --delta 1e-7 --json out.json --plot out.png",
        "fastpubpriv mean --private p.csv --public q.csv --columns age,income --rho 0.1 \\",
        "    --ledger survey.ledger --ledger-total rho=1",
        "fastpubpriv mean --private p.csv --public q.csv --columns age,income --by state --rho 0.1",
    ),
    opens=rows_or_paths,
    by={"type": str, "metavar": "NAME"},
    groups={"type": str, "metavar": "A,B,..."},
    covariance={
        "metavar": "public|FILE.npy",
        "help": "For gaussian: how the rows spread, estimated from the public rows, or a covariance matrix in a file. Default: "
        "public, if there are more public rows than columns, else a variance of 1 in every column.",
    },
    variance={"metavar": "V|V,...|FILE.npy"},
    bounds={
        "help": "For counts: two numbers between which all values of all columns are known to lie: intervals become finite and "
        "sharper."
    },
)
def mean(call: Call) -> None:
    """Mean of private rows in any unit and of any shape, from one public row or more.

    Part of the budget counts where the values of each column lie and end, the rest goes into one clipped sum. Missing values
    are counted, and the mean of a column is that of the values it has.
    """
    from fastpubpriv.cli import inputs, outputs

    if call.arguments["by"] is not None:
        call.arguments["by"] = -1 if call.arguments["by"] == "-1" else call.arguments["by"]
        call.arguments["columns"] = inputs.split_names(call.settings["columns"])
        if call.arguments["groups"] is not None:
            call.arguments["groups"] = keys_in(call.arguments["groups"], "--groups")
        return
    n_pub, dim = call.opened.public.shape
    read_spread(call, dim)
    spread = call.arguments["covariance"], call.arguments["variance"]
    if call.arguments["clipping"] != "gaussian" or spread != (None, None):
        return
    if n_pub > dim:
        call.arguments["covariance"] = "public"
        return
    few = "1 public row is" if n_pub == 1 else f"{n_pub} public rows are"
    text = (
        f"{few} too few to learn how {dim} {'column spreads' if dim == 1 else 'columns spread'} (that takes "
        f"{dim + 1}), so a standard deviation of 1 in every column is assumed. If that is far off, so is the "
        "answer: pass --variance, --covariance or more public rows"
    )
    # Not silenced by --quiet, and part of the JSON: the answer depends on it.
    outputs.note(text)
    call.settings["caveats"] = [text]


def read_spread(call: Call, dim: int) -> None:
    """Put what --covariance ("public" or a .npy file) and --variance (numbers or a .npy file) stand for in their place."""
    from fastpubpriv.cli import inputs

    covariance, variance = call.arguments["covariance"], call.arguments["variance"]
    if covariance not in (None, "public"):
        call.arguments["covariance"] = inputs.read_array(covariance, "--covariance")
    if variance is not None:
        call.arguments["variance"] = inputs.read_vector(variance, dim, "--variance")


@command(
    "quantiles",
    "Private quantiles of {n:,} rows",
    (
        "fastpubpriv quantiles --private flights.parquet --public few.csv --columns dep_delay --rho 0.1",
        "fastpubpriv quantiles --private p.npy --public q.npy --q 0.1,0.5,0.9 --epsilon 1 --json out.json --plot out.png",
    ),
)
def quantiles(call: Call) -> None:
    """Medians, quartiles and other quantiles of private columns in any unit, from one public row or more.

    Counts between edges close in on each quantile. A number that many rows have is found as it is. The interval counts noise and
    sampling.
    """


@command(
    "coinpress_mean",
    "Private mean of {n:,} rows (CoinPress)",
    ("fastpubpriv coinpress-mean --private p.parquet --center 0 --radius 100 --variance 25 --rho 0.5",),
    bounds=None,
    center={"required": True, "metavar": "C|C,...|FILE.npy"},
    radius={"required": True},
    covariance={"metavar": "FILE.npy"},
    variance={"metavar": "V|V,...|FILE.npy"},
)
def coinpress_mean(call: Call) -> None:
    """Mean of private rows without public rows (CoinPress).

    The centre and the radius must not come from the private rows. Too small a radius costs accuracy, never privacy.
    """
    from fastpubpriv.cli import inputs

    dim = call.opened.private.dim
    call.arguments["center"] = inputs.read_vector(call.arguments["center"], dim, "--center")
    read_spread(call, dim)


@command(
    "weighted_mean",
    "Weighted mean of {n:,} private rows and the public ones",
    ("fastpubpriv weighted-mean --private p.npy --public q.npy --norm-bound 3 --center public --epsilon 1",),
    bounds={"help": "Instead of --norm-bound: two numbers between which all values of all columns are known to lie."},
    row_weight={
        "type": str,
        "metavar": "NAME|W",
        "help": "optimal, throw_away (public rows only), gaussian (all rows alike), private, or the weight of a private row.",
    },
    center={"metavar": "public|C|C,...|FILE.npy"},
    project=None,
)
def weighted_mean(call: Call) -> None:
    """Mean of bounded rows, private and public ones weighted so that the error is least."""
    from fastpubpriv.cli import inputs

    center, number = call.arguments["center"], options.exact_number(call.arguments["row_weight"])
    if center is not None and center != "public":
        call.arguments["center"] = inputs.read_vector(center, call.opened.private.dim, "--center")
    if number is not None:
        call.arguments["row_weight"] = options.real(number, "--row-weight")
    if (call.arguments["norm_bound"] is None) == (call.arguments["bounds"] is None):
        raise click.UsageError("pass either --norm-bound, the distance to which rows are clipped, or --bounds LOW,HIGH")


@command(
    "estimate_gaussian",
    "Private mean and covariance of {n:,} rows",
    (
        "fastpubpriv gaussian --private visits.parquet --public volunteers.csv --rho 0.5 --plot ellipses.png",
        "fastpubpriv gaussian --private p.npy --public other_town.npy --gap 0.9 --epsilon 1 --delta 1e-7 --json out.json",
    ),
    method={"type": options.Methods("fastpubpriv.estimators.learners")},
    cond_max=None,
    require_precondition=None,
)
def gaussian(call: Call) -> None:
    """Mean and covariance of private rows, with ranges taken from public rows.

    Two distinct public rows are enough to begin. What is learnt privately is decided before anything is spent, by what public
    numbers predict to be best. A private row with a missing value adds nothing, but counts.
    """


@command(
    "learn_separated_mixture",
    "Private groups of {n:,} rows",
    (
        "fastpubpriv mixture --private visits.parquet --public volunteers.csv --components 3 --rho 0.5 --plot groups.png",
        "fastpubpriv mixture --private p.npy --public q.npy --components 4 --min-weight 0.1 --epsilon 1 --delta 1e-7 "
        "--json out.json",
    ),
    min_weight={
        "required": False,
        "help": "Share of the rows in the smallest group. Default: half an equal share.",
    },
    method={
        "type": options.Methods("fastpubpriv.mixtures.separated.searches"),
        "help": "How groups are found; auto decides by the number of public rows.",
    },
    weight_floor=None,
)
def mixture(call: Call) -> None:
    """Groups of private rows: weight, mean and covariance of each.

    For groups that lie several standard deviations apart, in columns of any units. Public rows must include some of each
    group. Fewer groups than asked for are found if the rest cannot be told apart.
    """
    if call.arguments["min_weight"] is None:
        call.arguments["min_weight"] = 0.5 / call.arguments["n_components"]


@command(
    "learn_axis_aligned_mixture",
    "Private mixture of {n:,} rows",
    (
        "fastpubpriv axis-mixture --private delays.parquet --columns minutes --components 3 --epsilon 1 --delta 1e-7 "
        "--plot out.png",
        "fastpubpriv axis-mixture --private p.npy --public q.npy --components 4 --epsilon 1 --json out.json",
    ),
    budget=options.budget_options(" Without --public it must be --epsilon with --delta."),
    variance={"type": float},
    covariance=None,
    method={"type": options.Methods("fastpubpriv.mixtures.axis_aligned.learn")},
    min_weight=None,
)
def axis_mixture(call: Call) -> None:
    """Mixture of Gaussians with independent columns, and no range given.

    Values may lie anywhere. Without public rows the budget must have a delta; several columns then need groups that are
    apart in some of them.
    """


@command(
    "stable_histogram",
    "Private histogram of {n:,} rows",
    (
        "fastpubpriv histogram --private flights.parquet --columns arr_delay --width 10 --epsilon 1 --delta 1e-7",
        "fastpubpriv histogram --private p.npy --dyadic --epsilon 1 --delta 1e-7 --json out.json --plot out.png",
    ),
    x_priv=options.private_option("The values to protect"),
    bins=options.table(
        {
            "width": (options.EXACT, "Width of the bins, in data units."),
            "offset": (options.EXACT, "Where a bin ends; the others end whole widths from there.", "0"),
            "levels": (
                click.IntRange(min=1),
                "Also bins 2, 4, ... times as wide, each level a histogram of its own.",
                1,
            ),
            "dyadic": (bool, "Bins between powers of two of the absolute value, in place of --width."),
            "joint": (bool, "One histogram over all columns together, in place of one for each column."),
        }
    ),
)
def histogram(call: Call) -> None:
    """Histograms of private columns, with no range given: only bins with enough rows show, with noisy counts.

    The bins must not be chosen by looking at the private rows. --delta is needed: it is what a bin of a single row may show.
    """
    width, offset, levels = (call.settings[name] for name in ("width", "offset", "levels"))
    if call.settings["dyadic"] == (width is not None):
        raise click.UsageError("pass either --width W or --dyadic")
    if call.settings["dyadic"] and (levels > 1 or offset):
        raise click.UsageError("--levels and --offset belong to --width")
    grid: fpp.BinGrid | fpp.DyadicBins = fpp.DyadicBins()
    if width is not None:
        grid = fpp.BinGrid(width=options.real(width, "--width"), offset=options.real(offset, "--offset"), levels=levels)
    joint = call.settings["joint"]
    call.arguments["bins"] = fpp.ProductBins(grids=[grid] * call.opened.private.dim) if joint else grid


def keys_in(text: str, option: str) -> list[Any]:
    """Keys with commas between them: numbers if all of them are, else texts."""
    parts = [part.strip() for part in text.split(",")]
    numbers = [options.exact_number(part) for part in parts]
    if None in numbers:
        return list(parts)
    return [options.real(number, option) for number in numbers if number is not None]


@command(
    "value_counts",
    "Private counts",
    (
        "fastpubpriv counts --private flights.parquet --column carrier --keys UA,B6,EV,DL --rho 0.1",
        "fastpubpriv counts --private flights.parquet --column dest --top 10 --epsilon 1 --delta 1e-8 --json out.json",
    ),
    opens=paths,
    budget=options.budget_options(" Without --keys and --public it must be --epsilon with --delta."),
    x_pub=options.public_option(required=False),
    column={"type": str, "metavar": "NAME"},
    keys={"type": str, "metavar": "A,B,..."},
    top={"type": click.IntRange(min=1)},
    max_bytes={"type": click.IntRange(min=1)},
)
def counts(call: Call) -> None:
    """How many rows have each value of a column, of text or numbers.

    Values are listed by --keys, or are those of the public rows; all others count together. Without both, texts that many rows
    have are found, which needs --delta.
    """
    if call.arguments["keys"] is not None:
        call.arguments["keys"] = keys_in(call.arguments["keys"], "--keys")


@command(
    "crosstab",
    "Private counts",
    (
        "fastpubpriv crosstab --private flights.parquet --columns carrier,month --keys carrier=UA,B6 \\",
        "    --keys month=1,2,3 --rho 0.1",
    ),
    opens=paths,
    x_pub=options.public_option(required=False),
    columns=options.table(
        {"columns": (str, "Columns of the table, of text or numbers, with commas between them.", ...)}
    ),
    keys={"type": str, "multiple": True, "metavar": "NAME=A,B,..."},
    top={"type": click.IntRange(min=1)},
)
def crosstab(call: Call) -> None:
    """How many rows have each combination of the values of several columns.

    Values of a column are listed by --keys, once for each column, or are those of the public rows; all others count together.
    """
    from fastpubpriv.cli import inputs

    call.arguments["columns"] = inputs.split_names(call.settings["columns"])
    call.arguments["keys"] = keys_of_columns(call.arguments["keys"])


def keys_of_columns(texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """The keys of each column, from texts like carrier=UA,B6."""
    pairs = [text.partition("=") for text in texts]
    if not all(sign for _, sign, _ in pairs):
        raise click.UsageError("--keys looks like carrier=UA,B6, once for each column")
    return {name.strip(): keys_in(keys, "--keys") for name, _, keys in pairs}


@command(
    "describe",
    "A private table",
    (
        "fastpubpriv describe --private flights.parquet --public few.csv --rho 0.5 --html report.html",
        "fastpubpriv describe --private visits.csv --public few.csv --keys ward=north,south --epsilon 1 --delta 1e-7",
    ),
    opens=paths,
    columns=options.table(
        {
            "columns": (str, "Columns of the table, of text or numbers, with commas between them.", None),
            "html_path": (Path, "Write one page that opens in a browser, with a picture for each column.", None),
        }
    ),
    keys={"type": str, "multiple": True, "metavar": "NAME=A,B,..."},
    top={"type": click.IntRange(min=1)},
)
def describe(call: Call) -> None:
    """A table at a glance: rows, means, deviations and quartiles of columns of numbers, and the commonest texts of the others.

    All of it is one release that pays once. A column in which the public rows have text is counted.
    """
    from fastpubpriv.cli import inputs

    call.arguments["columns"] = inputs.split_names(call.settings["columns"])
    call.arguments["keys"] = keys_of_columns(call.arguments["keys"])
