"""What a method of training is to `train`, to the command line, to `plan` and to the docs: one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastpubpriv.privacy import Budget
from fastpubpriv.session import Method

WORTH = 0.9  # a private method must be predicted to leave at most this part of the public rows' error


def whole(budget: Budget) -> Budget:
    """The budget as it is."""
    return budget


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingMethod(Method):
    """A method of `train`.

    Its functions are called with a task, which is a loss with public rows in the units of the fit: a `Problem` of whitened
    coordinates or, for a method with `settings`, a `GradientTask`. `draws(task)` bounds the draws of noise; `prepare(task,
    account)` returns the plan, which has a `predicted` error, None where none can be; `learn(run, task, plan)` releases,
    and returns a `Fitted` or, for a `GradientTask`, a `Descended`.
    """

    # of the values that `method=` takes beside the name; made without arguments it is what the name stands for
    settings: type[Any] | None = None
    spends: Callable[[Budget], Budget] = whole  # the part of a budget that it can use, as a budget
