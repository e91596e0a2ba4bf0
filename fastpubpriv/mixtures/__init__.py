"""Mixtures of Gaussians: separated ones with a few public rows (paper A), axis-aligned ones without a range (paper C).

Their estimators are exported by `fastpubpriv`; this package exports the list decoders only.
"""

from __future__ import annotations

from importlib import import_module as _import_module

__all__ = ["list_decoding"]


# Loaded at first use to avoid an import cycle, since modules of this folder import each other through it.
def __getattr__(name: str) -> object:
    if name == "list_decoding":
        return _import_module("fastpubpriv.mixtures.list_decoding")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
