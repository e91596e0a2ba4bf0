"""Cases of the loops over all pairs of hypotheses with their peers, for guards, suites and the ratio table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import limits
from benchmarks.cases.loops import Case
from fastpubpriv.kernels import densities as kernels
from fastpubpriv.kernels.densities import PANEL

# Sixteen independent chains of one comparison and one addition on the widest registers, the operations of a loop over pairs.
_SOURCE = r"""
#include <stdint.h>
#if defined(__AVX512BW__)
#include <immintrin.h>
#define BYTES 64
#define STEP16(a, b) a = (v16)_mm512_mask_add_epi16((__m512i)a, _mm512_cmpgt_epi16_mask((__m512i)b, (__m512i)a), (__m512i)a, one)
#elif defined(__AVX2__)
#define BYTES 32
#define STEP16(a, b) a -= b > a
#else
#define BYTES 16
#define STEP16(a, b) a -= b > a
#endif
typedef int16_t v16 __attribute__((vector_size(BYTES)));
enum { CHAINS = 16 };

int64_t compare_add(int64_t rounds)
{
    static volatile int16_t sink;
    v16 a[CHAINS], b = (v16){0} + 30000;
#if BYTES == 64
    const __m512i one = _mm512_set1_epi16(1);
#endif
    for (int j = 0; j < CHAINS; j++) a[j] = (v16){0} - (int16_t)(3 * j);
    for (int64_t i = 0; i < rounds; i++)
        for (int j = 0; j < CHAINS; j++) STEP16(a[j], b);
    for (int j = 0; j < CHAINS; j++) sink = a[j][j % 8];
    return rounds * CHAINS * (BYTES / 2);
}
"""


def comparisons_per_second() -> float:
    """Return the peak rate of comparing 16-bit numbers and counting the larger ones, on one thread."""
    return limits.steps_per_second(_SOURCE, "compare_add", 1_000_000)


def pairs_case(size: int, rows: int) -> Case:
    """Case of the counts of rows that prefer one hypothesis to another, for all pairs; NumPy uses a matrix of log densities."""
    rng = np.random.default_rng(4)
    panels = -(-size // PANEL)
    chunk = min(rows, 2048)
    codes = rng.integers(-(2**15), 2**15, size=(panels, chunk, PANEL)).astype(np.int16)
    counts = [
        np.zeros((PANEL, (panels - panel) * PANEL), dtype=np.int32) for panel in range(panels)
    ]
    passes = -(-rows // chunk)
    logs = np.ascontiguousarray(np.moveaxis(codes, 1, 2).reshape(-1, chunk)[:size]).astype(
        np.float64
    )
    some = max(1, size // 10)  # NumPy does every tenth hypothesis, evenly spaced

    def ours() -> Any:
        for _ in range(passes):
            for panel in range(panels):
                kernels.pair_counts(codes, chunk, panel, counts[panel])

    def numpy_rows(matrix: Any) -> Any:
        for i in range(0, size - 1, size // some):
            found = np.count_nonzero(matrix[i + 1 :] < matrix[i], axis=1)
        return found

    scale = float(passes * (size // some))
    whole = logs.astype(np.int16)
    return Case(
        f"pairs of {size} hypotheses, {rows:.0e} rows",
        ours,
        {
            "NumPy, a hypothesis against the rest": lambda: numpy_rows(logs),
            "the same on 16-bit codes": lambda: numpy_rows(whole),
        },
        lambda: passes * chunk * size * (size - 1) / 2 / comparisons_per_second(),
        "16-bit comparisons and additions",
        peer_scale={
            "NumPy, a hypothesis against the rest": scale,
            "the same on 16-bit codes": scale,
        },
    )


def cells_case(size: int, cells: int = 512) -> Case:
    """Case of scores over cells for all pairs."""
    rng = np.random.default_rng(5)
    table = rng.integers(-(2**20), 2**20, size=(size, cells)).astype(np.int32)
    panels = kernels.panelled(table, 2**31 - 1)
    worst = np.zeros(len(panels) * PANEL, dtype=np.int32)
    real = table.astype(np.float64)
    some = max(1, size // 10)

    def ours() -> Any:
        for panel in range(len(panels)):
            kernels.cell_scores(panels, 10, panel, worst)

    def numpy_cells() -> Any:
        for i in range(0, size - 1, size // some):
            inside = real[i + 1 :] < real[i]
            own = np.abs(inside @ real[i]).max()
            other = np.abs(np.einsum("jg,jg->j", inside, real[i + 1 :]))
        return own, other

    peer = "NumPy, a hypothesis against the rest"
    return Case(
        f"scores of {size} hypotheses over {cells} cells",
        ours,
        {peer: numpy_cells},
        # 32-bit lanes: half as many, and two additions per comparison.
        lambda: 2 * cells * size * (size - 1) / 2 / comparisons_per_second(),
        "32-bit comparisons and additions",
        peer_scale={peer: float(size // some)},
    )
