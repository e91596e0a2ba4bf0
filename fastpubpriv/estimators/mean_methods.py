"""The methods of `estimate_mean`, which `clipping=` names: by counts of the columns, or by the ball of paper A, section 2.1.

A method is a record with the type of its settings. Settings that are arguments of `estimate_mean` have their names and defaults;
others are the method's own, and `clipping=` takes a value of the type instead of the name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, Missing, Mode, Objective, PublicOnly, Steps
from fastpubpriv.defaults import FAILURE_PROB
from fastpubpriv.distributions.budget_split import divide, draws
from fastpubpriv.errors import InputError
from fastpubpriv.estimators import radii
from fastpubpriv.estimators.coinpress import mean_within_ball, most_steps, predict_from_public
from fastpubpriv.estimators.column_means import mean_of_columns
from fastpubpriv.privacy import Budget
from fastpubpriv.privacy.spending import spending_of
from fastpubpriv.sources import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanSettings:
    """The settings that a method of `estimate_mean` reads; this class is of a method without any."""

    def checked(self) -> Any:
        """Return validated settings, or raise InputError; those of `dim` columns are validated by the method."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanMethod(session.Method[[int, Any]]):
    """A method: `learn(run, public, settings)` debits and releases, `predict(dim, n_pub, settings)` returns a `Predictor`."""

    # type of the settings; the name of the method stands for their defaults
    settings: type[MeanSettings] = MeanSettings
    case: str = ""  # description of the calls that use the method, for messages; "" for its name
    gaps: bool = False  # public cells may be missing, and private rows that a person does not have
    unit: str = "standard deviations, expected l2 distance"  # unit of the predicted error

    @property
    def reads(self) -> dict[str, Any]:
        """Names of the settings, with their defaults."""
        return {each.name: each.default for each in fields(self.settings)}

    def opened(self, x_priv: Any, x_pub: Any, columns: Any) -> tuple[Rows, FloatArray]:
        """Return private and public rows; raise InputError for rows that the method does not take."""
        rows, public = session.open_rows(x_priv, x_pub, columns=columns, gaps=self.gaps)
        if public is None:
            raise InputError(
                "estimate_mean needs at least one public row: pass x_pub=, or use coinpress_mean with a center and radius"
            )
        if not self.gaps:
            session.refuse_padding(
                rows,
                f"clipping={self.name!r}",
                "estimate_mean with clipping='auto' and no covariance",
            )
        return rows, public


def changed_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that differ from their defaults, each checked by the methods that read it."""
    changed = {}
    for method in METHODS.values():
        own = {name: given[name] for name in method.reads if name in given}
        settings = method.settings(**own).checked()
        for name in own:
            value = getattr(settings, name)
            usual = method.reads[name]
            if value is not usual and (usual is None or value != usual):
                changed[name] = value
    return changed


def method_of(clipping: Any, changed: Mapping[str, Any]) -> tuple[MeanMethod, Any]:
    """Return the method that `clipping` names, or whose settings it is, and its settings, among them those of `changed_settings`.

    "auto" is the ball if a covariance or variance is given, otherwise the counts. Raise InputError for settings of other methods.
    """
    for method in METHODS.values():
        if type(clipping) is method.settings:
            settings = clipping.checked()
            break
    else:
        name = METHODS.choose(clipping, "clipping")
        if name == "auto":
            name = (BALL if changed.keys() & {"covariance", "variance"} else COUNTS).name
        method = METHODS[name]
        settings = method.settings()
    for name in changed:
        if name not in method.reads:
            cases = [
                each.case or f"clipping={each.name!r}"
                for each in METHODS.values()
                if name in each.reads
            ]
            raise InputError(
                f"{name}= belongs to {' or '.join(cases)}: leave it out, or pass another clipping="
            )
    return method, replace(settings, **changed)


# ---- By counts of the columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountSettings(MeanSettings):
    """Settings of the estimate by counts; `bounds` are validated by the method."""

    bounds: Any = None
    missing: Missing = "observed"
    public_only: PublicOnly = "never"
    objective: Objective = "columns"

    def checked(self) -> CountSettings:
        """See `MeanSettings.checked`."""
        return replace(
            self,
            missing=validation.choice("missing", self.missing, ("observed", "neutral")),
            public_only=validation.choice("public_only", self.public_only, ("never", "auto")),
            objective=validation.choice("objective", self.objective, ("columns", "l2")),
        )


def _predict_counts(dim: int, n_pub: int, _: CountSettings) -> session.Predictor:
    def predict(n_priv: int, budget: Budget) -> session.PredictedError:
        spending = spending_of(budget, draws(dim))
        shares = divide(dim, n_priv, spending, n_pub=n_pub)
        root = math.sqrt(dim)
        error = shares.predicted_error()
        return root * error, {
            "count_share": float(shares.cells / spending.allowance),
            "count_std": shares.count_std,
            "noise_std": math.sqrt(max(0.0, error**2 - 1.0 / n_priv)),
            "without_privacy": root / math.sqrt(n_priv),
            "public_rows_alone": root / math.sqrt(n_pub),
        }

    return predict


COUNTS = MeanMethod(
    name="counts",
    learn=mean_of_columns,
    draws=lambda dim, settings: draws(dim),
    predict=_predict_counts,
    needs_public=True,
    settings=CountSettings,
    case="clipping='counts' (the default without covariance= or variance=)",
    gaps=True,
    unit="standard deviations, root mean squared l2 distance",
)


# ---- Within a ball about the public rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BallSettings(MeanSettings):
    """Settings of the ball; `covariance` and `variance` are validated by the method."""

    covariance: Any = None
    variance: Any = None
    pub_priv_gap: float = 0.0
    failure_prob: float = FAILURE_PROB
    steps: Steps = 2
    mode: Mode = "practical"

    def checked(self) -> BallSettings:
        """See `MeanSettings.checked`."""
        return replace(
            self,
            mode=validation.choice("mode", self.mode, ("practical", "theory")),
            failure_prob=radii.failure_probability(self.failure_prob),
            pub_priv_gap=validation.fraction("pub_priv_gap", self.pub_priv_gap),
            steps=radii.step_count(self.steps),
        )


BALL = MeanMethod(
    name="gaussian",
    learn=mean_within_ball,
    draws=lambda dim, settings: most_steps(settings.steps) * (dim + 1),
    predict=predict_from_public,
    needs_public=True,
    settings=BallSettings,
)
METHODS: session.Registry[MeanMethod] = session.Registry(COUNTS, BALL, auto=True)
