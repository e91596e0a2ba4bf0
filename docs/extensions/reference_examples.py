"""Documentation of public names, and the examples on their pages."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import tempfile
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from reference_groups import DATA


def find(name: str) -> Any:
    """Return the object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def documentation(name: str) -> str:
    """Return the docstring of a name, or the text for data."""
    return DATA[name] if name in DATA else inspect.cleandoc(find(name).__doc__ or "")


def has_example(name: str) -> bool:
    """Return whether the page of a name has an example, of its own or of one of its methods."""
    return any(test.examples for test in tests_of(name))


def tests_of(name: str) -> list[doctest.DocTest]:
    """Return the examples on the page of a name."""
    if name in DATA:
        return [doctest.DocTestParser().get_doctest(DATA[name], {"np": np}, name, None, None)]
    return doctest.DocTestFinder(exclude_empty=True).find(find(name), name, extraglobs={"np": np})


def runs_here(name: str) -> bool:
    """Return whether the requirements of the examples are installed: PyTorch and Opacus for the bridge, which `make docs` lacks."""
    return not name.startswith("fastpubpriv.torch.") or all(map(find_spec, ("torch", "opacus")))


def failures(name: str) -> list[str]:
    """Run the examples; return the report of each whose output differs."""
    found: list[str] = []
    if not runs_here(name):
        return found
    for test in tests_of(name):
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        with (
            warnings.catch_warnings(),
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
        ):
            warnings.simplefilter("ignore")  # seeded examples warn on purpose
            if runner.run(test, out=said.append).failed:
                found.append(f"{test.name}: {''.join(said)}")
    return found
