"""Readable reference implementations of the kernels in NumPy, under the same names, for comparison with the compiled ones."""
