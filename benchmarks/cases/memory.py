"""Peak memory of a complete call beyond its rows: the growth of the peak of a fresh process that already holds the rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cases.calls import size

_PREPARED = """
import resource, sys, warnings
import numpy as np
import fastpubpriv as f
warnings.simplefilter("ignore")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
rng = np.random.default_rng(0)
"""


@dataclass(frozen=True)
class Peak:
    """Our program and a peer's, each of two parts: the code that makes the rows, and the call."""

    name: str
    ours: tuple[str, str]
    peer: str
    theirs: tuple[str, str]


def cases(scale: float) -> Iterator[Peak]:
    """Return the cases of means, moments and histograms of many rows; `scale` is a factor on their number."""
    n = int(1_000_000 * scale)
    long = int(10_000_000 * scale)
    rows = f"x = rng.standard_normal(({n}, 50)); p = rng.standard_normal((600, 50))"
    line = f"x = rng.standard_normal({long})"
    clip = "y = x * np.minimum(1.0, 7.0 / np.sqrt(np.einsum('ij,ij->i', x, x)))[:, None]"
    given = "budget=f.ZCDP(0.5), threads=1, progress=False"
    for name, peer, call in (
        ("estimate_mean", "NumPy clip and mean", f"{clip}; y.mean(axis=0)"),
        ("estimate_gaussian", "NumPy clip and product", f"{clip}; y.T @ y"),
    ):
        yield Peak(
            f"{name}, {size(n)} x 50", (rows, f"f.{name}(x, x_pub=p, {given})"), peer, (rows, call)
        )
    bins = "f.stable_histogram(x, bins=f.BinGrid(width=0.01), budget=f.ApproxDP(1, 1e-8), threads=1, progress=False)"
    unique = "np.unique(np.ceil(x / 0.01 - 0.5).astype(np.int64), return_counts=True)"
    yield Peak(f"stable_histogram, {size(long)}", (line, bins), "NumPy unique", (line, unique))


def peak(program: tuple[str, str]) -> float:
    """Return the growth in MB of a process's peak memory in the second part, after a call on few of the rows."""
    make, call = program
    few = call.replace("(x,", "(x[:5000],").replace("x / 0.01", "x[:5000] / 0.01")
    code = f"{_PREPARED}\n{make}\n{few}\nbefore = peak()\n{call}\nprint(peak() - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
