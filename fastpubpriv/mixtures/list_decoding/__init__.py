"""Short lists that hold a scale, a mean or a Gaussian near each component of a mixture, no range given (axis-aligned mixtures
paper, Algorithms 2 to 5).
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from fastpubpriv.mixtures.list_decoding.decoders import (
        decode_axis_aligned,
        decode_gaussians,
        decode_means,
        decode_variances,
    )
    from fastpubpriv.mixtures.list_decoding.results import AxisAlignedLists, MeanLists, ScaleLists

__all__ = [
    "AxisAlignedLists",
    "MeanLists",
    "ScaleLists",
    "decode_axis_aligned",
    "decode_gaussians",
    "decode_means",
    "decode_variances",
]

# Loaded at first use, as the modules of this folder import each other through it.
_HOMES = {
    "decoders": ("decode_axis_aligned", "decode_gaussians", "decode_means", "decode_variances"),
    "results": ("AxisAlignedLists", "MeanLists", "ScaleLists"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(_import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
