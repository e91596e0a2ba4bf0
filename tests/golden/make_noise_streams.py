"""Makes noise_streams.csv from the Python twins: `PYTHONPATH=tests python tests/golden/make_noise_streams.py > ...csv`."""

import hashlib
import sys

from twins import sampler

KEY = bytes(range(100, 132))
COUNT = 5000
CASES = [
    *[
        (name, m)
        for name in ("gaussian_floor", "discrete_laplace")
        for m in (8, 9, 12, 20, 26, 27, 33, 39, 40)
    ],
    ("uniform",),
    *[("below", bound) for bound in (1, 6, 2**32, 2**62 + 1, 2**63 - 1)],
]


def digest(module, case):
    """SHA-256 of the little-endian bytes of the draws."""
    draws = getattr(module, case[0])(KEY, COUNT, *case[1:])
    return hashlib.sha256(draws.astype(draws.dtype.newbyteorder("<")).tobytes()).hexdigest()


if __name__ == "__main__":
    for case in CASES:
        sys.stdout.write(
            ",".join(map(repr, case)).replace("'", "") + "," + digest(sampler, case) + "\n"
        )
    order = sampler.permutation(KEY, COUNT).astype("<i8").tobytes()
    sys.stdout.write(f"permutation,{hashlib.sha256(order).hexdigest()}\n")
