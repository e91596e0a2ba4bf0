"""Short lists with a scale, a mean or a Gaussian close to each component of a mixture, without a known range (axis-aligned
mixtures paper, Algorithms 2 to 5).
"""

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


def __dir__() -> list[str]:
    return __all__
