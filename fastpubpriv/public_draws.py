"""Random numbers that hide nothing: starts of public searches, and synthetic rows drawn from released results.

Noise for privacy never comes from here: it is drawn in `release`, from keys. NumPy's old generator is kept for seeds that are
numbers, because its bits have been promised not to change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.errors import InputError

Size = int | tuple[int, ...]


def draw_normals(size: Size, random_state: Any) -> FloatArray:
    """Standard normals of this shape; `random_state` is None, an int or a NumPy generator."""
    return np.asarray(_generator(random_state).standard_normal(size))


def draw_uniforms(size: Size, random_state: Any) -> FloatArray:
    """Uniforms on [0, 1) of this shape; `random_state` is None, an int or a NumPy generator."""
    return np.asarray(_generator(random_state).uniform(0.0, 1.0, size))


def draw_exponentials(size: Size, random_state: Any) -> FloatArray:
    """Exponentials of mean one of this shape; `random_state` is None, an int or a NumPy generator."""
    return np.asarray(_generator(random_state).standard_exponential(size))


def _generator(random_state: Any) -> Any:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    try:
        return np.random.RandomState(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be None, an int from 0 to 2^32 - 1, or a NumPy generator, got {type(random_state).__name__}"
        ) from None
