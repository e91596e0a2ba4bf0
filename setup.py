"""Builds the C extension; everything else about the package is in pyproject.toml."""

from setuptools import setup

# The extension keeps to Python's stable interface, so one wheel serves every version from 3.11 on.
setup(cffi_modules=["csrc/build_ffi.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp311"}})
