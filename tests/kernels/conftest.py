"""What tests of kernels share."""

import pytest

from fastpubpriv.kernels._cext import lib


@pytest.fixture(params=range(lib.fpp_isa_detect() + 1), ids=lambda level: f"isa{level}")
def isa(request):
    """Every level of instruction sets that this machine has."""
    assert lib.fpp_isa_limit(request.param) == request.param
    yield request.param
    lib.fpp_isa_limit(lib.FPP_ISA_AVX512)
