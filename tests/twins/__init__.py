"""The kernels again in plain NumPy, under the same names: written to be read, and what the compiled ones are compared with."""
