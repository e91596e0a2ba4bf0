"""What tests of kernels share."""

import pytest

from fastpubpriv.kernels._cext import lib

BEST = lib.fpp_isa_detect()
LEVELS = [
    pytest.param(level, id=f"isa{level}", marks=pytest.mark.extended if level < BEST else ())
    for level in range(BEST + 1)
]


@pytest.fixture(params=LEVELS)
def isa(request):
    """Every level of instruction sets that this machine has."""
    assert lib.fpp_isa_limit(request.param) == request.param
    yield request.param
    lib.fpp_isa_limit(lib.FPP_ISA_AVX512)
