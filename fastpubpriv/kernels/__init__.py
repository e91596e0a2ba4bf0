"""The only door to compiled code, C through cffi or Numba: flat functions over checked arrays, each with a twin in `reference`."""
