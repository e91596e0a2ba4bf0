"""C structures and the arrays that they point to."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from fastpubpriv.kernels import _cbuf


def test_a_structure_keeps_its_arrays_alive():
    moments = np.ones(3)
    alive = weakref.ref(moments)
    made = _cbuf.new("fpp_normals *", (1, 3, _cbuf.inp(moments), _cbuf.inp(moments)))
    del moments
    gc.collect()
    assert alive() is not None  # a thread may be at work on it after an interrupt
    del made
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "pointer",
    [
        _cbuf.inp,
        _cbuf.out,
        lambda x: _cbuf.rows(x, 3)[0],
        lambda x: _cbuf.rows(x[::2], 3)[0],
        lambda x: _cbuf.rows(x[:, :2], 2)[0],
        lambda x: _cbuf.strided(x[:, 1])[0],
        lambda x: _cbuf.strided(x[::-1, 2])[0],
        lambda x: _cbuf.new("double *[]", [_cbuf.inp(x)]),
    ],
)
def test_a_pointer_keeps_its_array_alive(pointer):
    rows = np.ones((4, 3))
    alive = weakref.ref(rows)
    made = pointer(rows)
    del rows
    gc.collect()
    assert alive() is not None
    del made
    gc.collect()
    assert alive() is None
