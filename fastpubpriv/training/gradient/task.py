"""What a gradient method starts from, what it has chosen before the debit, and what it has learnt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fastpubpriv._types import FloatArray
from fastpubpriv.losses import LOSSES
from fastpubpriv.privacy import Budget
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.training.gradient.problem import GradientProblem
from fastpubpriv.training.gradient.public_fit import PublicFit, public_fit


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientTask:
    """A loss, public rows, and the settings of a method."""

    problem: GradientProblem  # the loss and public rows, in the units of the fit
    settings: Any  # a value such as `SemiDP(...)`; None where public rows are all that is used
    # the private rows, of which a plan looks at facts such as their number; None where there are none yet
    rows: Rows | None = None
    table: FloatArray | None = None  # (m, dim + 1), public rows as they were given, for the digest of a checkpoint
    budget: Budget | None = None  # as it was given, for the same
    executor: Executor | None = None  # of the run
    files: ExitStack = field(default_factory=ExitStack)  # closes what a plan has opened
    known: PublicFit | None = None  # the public fit, where it has been made before

    @cached_property
    def public(self) -> PublicFit:
        """The minimum of the public loss."""
        if self.known is not None:
            return self.known
        return public_fit(self.problem, float(getattr(self.settings, "public_l2", 0.0)))

    @property
    def excess_unit(self) -> float:
        """Of a predicted excess, in the units of the table: squared labels for a loss that grows as a square of them."""
        loss = self.problem.loss
        squares = loss is not None and loss.name in ("squared", "huber")
        return self.problem.units.scale**2 if squares else 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """What a method has chosen from public numbers: the fields of a `DescentResult` that are known before the debit."""

    public: PublicFit  # the public fit
    # with public_excess: excess of the loss, of the method and of the public fit, in the units of the fit; None for a
    # loss without values
    predicted: float | None
    public_excess: float | None
    steps: int  # with clip_norm, batch_rows, step_size and priv_weight: as in `DescentResult`
    clip_norm: float
    batch_rows: int
    step_size: float = 0.0
    priv_weight: float = 1.0
    ranges: Mapping[str, str]  # where the clip and the start come from
    reads: bool = True  # whether private rows are read
    resumed: bool = False  # whether an earlier call, which this one goes on with, has paid
    more: Any = None  # what the method itself needs

    def beats(self, part: float) -> bool:
        """Whether less than this part of the public rows' error is left, as far as can be predicted."""
        if self.predicted is None or self.public_excess is None:
            return True
        return self.predicted < part * self.public_excess


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descended:
    """What a method has learnt: weights, the noise on its sums (or on the weights), and steps that a crash has lost."""

    weights: FloatArray
    noise_std: float = 0.0
    lost_steps: int = 0


def excess_part(problem: GradientProblem) -> float:
    """Excess of the loss over the squared error of weights in its curvature; for the squared loss, that of the squared error."""
    return (1.0 if problem.loss is LOSSES["squared"] else 0.5) * problem.outputs
