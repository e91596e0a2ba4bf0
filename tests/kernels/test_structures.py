"""C structures and the arrays that they point to."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from fastpubpriv.kernels import _cbuf


def test_a_structure_keeps_its_arrays_alive():
    radii = np.ones(3)
    alive = weakref.ref(radii)
    made = _cbuf.new("fpp_radii *", (_cbuf.inp(radii), _cbuf.inp(radii), 3, 1))
    del radii
    gc.collect()
    assert alive() is not None  # a thread may be at work on it after an interrupt
    del made
    gc.collect()
    assert alive() is None
