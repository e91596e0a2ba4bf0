"""The only folder that calls compiled code (C by cffi, or Numba): functions of checked arrays, each with a twin in `reference`."""
