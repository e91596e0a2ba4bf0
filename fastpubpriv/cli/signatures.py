"""Commands made from public functions: an option for each parameter, with its default and the text that documents it.

Parameters are read in the source of a function: to import it would take longer than `--help` may.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

import fastpubpriv as fpp
from fastpubpriv import parameters as shared
from fastpubpriv.cli import options
from fastpubpriv.cli.options import Decorator

# Types that neither an annotation nor a documented form tells.
TYPES: dict[str, Any] = {
    "max_memory": options.EXACT,
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
        # A literal, perhaps by the name of a constant, or a constant of `fastpubpriv.parameters`.
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
    function: str, title: str, examples: tuple[str, ...] = (), **changes: Any
) -> Callable[[Callable[[Call], None]], click.Command]:
    """A command that calls a public function; what it decorates has its help, and changes arguments where they differ."""

    def made(change: Callable[[Call], None]) -> click.Command:
        shown, own = options_of(function, changes)

        def run(**settings: Any) -> None:
            opened = prepare(settings)
            call = Call(opened, settings, {name: settings[name] for name in own})
            change(call)
            public = {} if opened.public is None else {"x_pub": opened.public}

            def estimate(ledger: Any) -> Any:
                return getattr(fpp, function)(
                    opened.private, ledger=ledger, **public, **call.arguments, **common(settings)
                )

            from fastpubpriv.cli import outputs

            outputs.deliver(estimate, title.format(n=opened.private.n), settings, **public)

        name = change.__name__.replace("_", "-")
        return click.command(name, help=change.__doc__, epilog=options.epilog(*examples))(shown(run))

    return made


def prepare(settings: dict[str, Any], **reading: Any) -> Any:
    """Everything that can be refused before the budget is touched; returns the opened files. `reading`: as for `open_files`."""
    from fastpubpriv.cli import inputs, outputs

    settings["budget"] = options.make_budget(settings["rho"], settings["epsilon"], settings["delta"])
    files = (settings["private_path"], settings.get("public_path"), settings["ledger"])
    outputs.check_outputs(settings, files)
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


def common(settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments that every estimator takes."""
    return {
        "budget": settings["budget"],
        "random_state": settings["seed"],
        "threads": settings["threads"],
        "progress": False if settings["quiet"] else None,
    }
