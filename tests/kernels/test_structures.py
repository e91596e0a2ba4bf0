"""C structures and the arrays that they point to."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest
from clocks import PATIENCE

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


@pytest.mark.parametrize(
    "pointer",
    [
        _cbuf.inp,
        _cbuf.out,
        lambda x: _cbuf.plain_rows(x)[0],
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


GONE = """
import sys
import threading

import numpy as np

from fastpubpriv.kernels import balls
from fastpubpriv.threads import pool

balls._STEP_WORK = 1 << 40  # a step is a thread's whole share, so that it is at work when the caller has gone
balls._SORTED_COST = int(sys.argv[1])
at_work = threading.Event()


def workspace(*sizes, ask=balls.workspace):
    at_work.set()  # the next thing is the call of C
    return ask(*sizes)


def wait(crew, seconds=0.05, wait=pool.Crew.wait):
    if at_work.is_set():
        raise KeyboardInterrupt
    return wait(crew, seconds)


balls.workspace, pool.Crew.wait = workspace, wait
rng = np.random.default_rng(1)
points = np.asfortranarray(rng.normal(size=(100_000, 2)))
try:
    balls.ball_counts(points, rng.normal(size=(20_000, 2)), np.array([1.0]), threads=2)
except KeyboardInterrupt:
    print("interrupted")
del points
while pool._pool.wanted:
    threading.Event().wait(0.01)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of its C library")
@pytest.mark.parametrize("sorted_cost", [0, 1 << 40])
def test_threads_that_are_left_at_work_read_memory_that_is_there(sorted_cost):
    """Arrays above 64 KB go back to the system once nothing holds them: to read them then would end the process."""
    child = subprocess.run(
        [sys.executable, "-c", GONE, str(sorted_cost)],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, "interrupted\n", "")
