"""Types of the methods of `PrivateTable`, made from the functions: `python tests/tables/types_of_methods.py` writes them."""

import inspect
import re
import typing
from collections import defaultdict
from pathlib import Path

import fastpubpriv
from fastpubpriv import _types
from fastpubpriv.sources.bound import BOUND
from fastpubpriv.tables.bound_functions import BoundFunction, BoundFunctions

STUB = Path(inspect.getfile(BoundFunctions)).with_suffix(".pyi")
HEAD = '''"""Types of the methods, made by `python tests/tables/types_of_methods.py`; a test compares them with the functions."""

'''
BUILTINS = {"None", "bool", "dict", "float", "int", "list", "object", "str", "tuple"}
WORD = re.compile(r"\b[A-Za-z_]\w*\b(?=[^'\"]*(?:(?:'[^']*'|\"[^\"]*\")[^'\"]*)*$)")


def functions():
    names = [
        name for name, value in vars(BoundFunctions).items() if isinstance(value, BoundFunction)
    ]
    return [getattr(fastpubpriv, name) for name in names]


def home_of(name, scope):
    """Return the module to import a name of an annotation from; unions and literals do not know theirs."""
    value = scope[name]
    if hasattr(typing, name) and getattr(typing, name) is value:
        return "typing"
    if isinstance(value, type):
        return value.__module__
    return "fastpubpriv._types" if hasattr(_types, name) else scope["__name__"]


def parameters_of(signature):
    """Return the lines of the parameters of a method: those of the function that are not bound."""
    lines = []
    for name, each in signature.parameters.items():
        if name in BOUND:
            continue
        if each.kind is each.KEYWORD_ONLY and "        *," not in lines:
            lines.append("        *,")
        default = "" if each.default is each.empty else " = ..."
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        lines.append(f"        {stars}{name}: {each.annotation}{default},")
    return lines


def stub():
    """Return the text of the file of types."""
    homes = defaultdict(set)
    lines = []
    for function in functions():
        plain = inspect.unwrap(function)
        variants = typing.get_overloads(plain)
        if variants:
            homes["typing"].add("overload")
        for variant in variants or [function]:
            signature = inspect.signature(variant)
            if variants:
                lines.append("    @overload")
            lines += [f"    def {function.__name__}(", "        self,"]
            lines += parameters_of(signature)
            lines.append(f"    ) -> {signature.return_annotation}: ...")
            annotations = [signature.return_annotation]
            annotations += [
                each.annotation for name, each in signature.parameters.items() if name not in BOUND
            ]
            for annotation in annotations:
                for name in set(WORD.findall(annotation)) - BUILTINS:
                    homes[home_of(name, plain.__globals__)].add(name)
    order = sorted(homes, key=lambda module: (module.startswith("fastpubpriv"), module))
    imports = []
    for module in order:
        if imports and module.startswith("fastpubpriv") and "fastpubpriv" not in imports[-1]:
            imports.append("")
        imports.append(f"from {module} import {', '.join(sorted(homes[module]))}")
    return HEAD + "\n".join([*imports, "", "class BoundFunctions:", *lines]) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
