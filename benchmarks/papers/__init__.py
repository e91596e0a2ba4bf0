"""The papers' figures and examples, ours beside theirs: each writes a table (CSV) and a figure (PNG)."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from fastpubpriv.experiments.registry import EXPERIMENTS

__all__ = ["EXPERIMENTS"]


# Loaded at first use, as the modules of this folder import each other through it.
def __getattr__(name: str) -> object:
    if name == "EXPERIMENTS":
        return _import_module("fastpubpriv.experiments.registry").EXPERIMENTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
