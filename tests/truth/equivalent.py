"""Terms that may be changed without a wrong answer, or whose change a test by brute force notices, each with the reason.

`mutate.py` does not count them as survivors.
"""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A term by its file, its function and its text, and why no oracle has to notice a change of it."""

    path: str
    function: str
    text: str
    reason: str


LESS_ACCURATE = "a choice before or after the release: other weights make it less accurate, and no interval wrong"
EQUIVALENT = (
    Equivalent("fastpubpriv/gaussians/pca.py", "_rough_radius", "reach", LESS_ACCURATE),
    Equivalent(
        "fastpubpriv/gaussians/shrinkage.py",
        "repaired",
        "0.35 * self.std * math.sqrt(2.0 * len(values)) + 1e-9 * values",
        LESS_ACCURATE,
    ),
    Equivalent(
        "fastpubpriv/gaussians/pca.py",
        "_along",
        "np.abs(known.value) * complete.relative_std",
        "the noise of a count of rows under a root with that of the mean square: half of it is a hundredth of the width",
    ),
    Equivalent(
        "fastpubpriv/distributions/norms.py",
        "_sum",
        "0.5 * self.std * float(np.linalg.norm(over))",
        "the noise of a bound under a root with the bound: half of it moves no bound by a quarter",
    ),
    Equivalent(
        "fastpubpriv/gaussians/hypothesis_selection.py",
        "cover_sizes",
        "np.ceil(2.0 * reach / steps)",
        "no answer of the quick part shows it; by total variation, all five cases of `test_cover_covers` notice the half of it",
    ),
)


def reason_of(path: str, function: str, text: str) -> str:
    """Why a change of this term is no fault; empty if it is not listed."""
    return next((each.reason for each in EQUIVALENT if each[:3] == (path, function, text)), "")
