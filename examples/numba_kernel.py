"""A C kernel called from compiled Python: noisy counts of many small groups, without leaving Numba.

    python examples/numba_kernel.py

A loop in Numba counts, and draws exact noise for each block of groups through the address of `fpp_laplace_i64`. The noise has
scale 2^12 on counts in steps of 2^12, which is epsilon = 2 for replacing a row. The key comes from the operating system and is used
for this release only.
"""

import secrets

import numba
import numpy as np

from fastpubpriv.kernels.library import kernel_function

LOG2_STEP = 12
BLOCK = 1024  # draws per block: FPP_DRAW_BLOCK of fpp.h
draw_laplace = kernel_function("fpp_laplace_i64")


@numba.njit
def add_up(groups, counts):
    """Add the number of rows of each group to counts; numbers out of range are ignored."""
    for group in groups:
        if 0 <= group < len(counts):
            counts[group] += 1


@numba.njit
def add_noise(counts, key, noisy):
    """Write 2^LOG2_STEP counts + noise to `noisy`, block by block; return False if the kernel reports an error."""
    noise = np.empty(BLOCK, dtype=np.int64)
    for begin in range(0, len(counts), BLOCK):
        end = min(begin + BLOCK, len(counts))
        if draw_laplace(key.ctypes.data, begin, end, LOG2_STEP, noise.ctypes.data) != 0:
            return False
        for group in range(begin, end):
            noisy[group] = (counts[group] << LOG2_STEP) + noise[group - begin]
    return True


def main() -> None:
    """Count 100,000 rows in 3,000 groups and print the first noisy counts."""
    groups = np.arange(100_000) % 3_000
    counts = np.zeros(3_000, dtype=np.int64)
    add_up(groups, counts)
    key = np.frombuffer(secrets.token_bytes(32), dtype=np.uint8).copy()
    noisy = np.empty_like(counts)
    assert add_noise(counts, key, noisy)
    print(
        "noisy counts:", np.round(noisy[:5] / 2.0**LOG2_STEP, 1).tolist(), "true counts: 34 and 33"
    )


if __name__ == "__main__":
    main()
