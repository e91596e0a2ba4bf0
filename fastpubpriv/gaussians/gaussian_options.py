"""The options of `estimate_gaussian`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from fastpubpriv import validation
from fastpubpriv._types import Mode, Structure
from fastpubpriv.estimators.preconditioner import DEFAULT_COND_MAX
from fastpubpriv.estimators.radii import failure_probability


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """Options about public rows, rounds, structure and bounds; `bounds` and `rounds` are validated by the methods."""

    failure_prob: float
    pub_priv_gap: float = 0.0
    mode: Mode = "practical"
    rounds: int | None = None
    cond_max: float = DEFAULT_COND_MAX
    require_precondition: bool = False
    structure: Structure = "auto"
    bounds: Any = None

    def checked(self) -> Options:
        """Return validated options, or raise InputError."""
        return replace(
            self,
            mode=validation.choice("mode", self.mode, ("practical", "theory")),
            failure_prob=failure_probability(self.failure_prob),
            pub_priv_gap=validation.fraction("pub_priv_gap", self.pub_priv_gap),
            cond_max=validation.positive("cond_max", self.cond_max),
            require_precondition=validation.boolean(
                "require_precondition", self.require_precondition
            ),
            structure=validation.choice("structure", self.structure, get_args(Structure)),
        )

    @property
    def of_public_bounds(self) -> str | None:
        """Name of the first option about public bounds, which the ladder does not have, None if none is given."""
        given = {
            "mode='theory'": self.mode != "practical",
            "pub_priv_gap": self.pub_priv_gap > 0.0,
            "rounds": self.rounds is not None,
            "cond_max": self.cond_max != DEFAULT_COND_MAX,
            "require_precondition": self.require_precondition,
        }
        return next((argument for argument, was in given.items() if was), None)
