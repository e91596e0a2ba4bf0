"""The only folder that calls compiled code (C by cffi, or Numba): functions of checked arrays, each with a twin in tests/twins."""

from fastpubpriv.kernels._compiled import check_compiled

check_compiled()
