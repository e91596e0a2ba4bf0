"""The ladder as a method of `estimate_gaussian`: choose a rung before anything is paid, say why, climb."""

from __future__ import annotations

from dataclasses import dataclass

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.ladder import learn
from fastpubpriv.estimators.ladder.norms import CountShares
from fastpubpriv.estimators.ladder.public_base import PublicBase, Strength, constant_text, public_base
from fastpubpriv.estimators.ladder.rungs import Outlook, outlook
from fastpubpriv.estimators.ladder.schedule import Noise
from fastpubpriv.results.base import frozen
from fastpubpriv.results.estimates import GaussianResult
from fastpubpriv.session import Method, Run

# How far more private rows are looked for, in doublings.
MOST_DOUBLINGS = 16

METHOD = Method(name="ladder", learn=learn.climb, draws=learn.draws, needs_public=True)


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """A call that is ready: what the public rows say, and the rung to take."""

    base: PublicBase
    public: FloatArray
    view: Outlook
    structure: str
    warnings: tuple[str, ...]

    def estimate(self, run: Run) -> GaussianResult:
        """Release what the rung needs, after the debit, and put the result together."""
        found = learn.climb(run, self.base, self.view, self.structure, self.public)
        strength = self.base.strength
        source = f"public rows, ridge {self.base.ridge:.3g}"
        details = {
            "rungs": {name: [each.covariance, each.mean] for name, each in self.view.rungs.items()},
            "auto": self.view.best,
            "public_degrees": [strength.low, strength.likely],
            "fallback_columns": [run.rows.columns[j] if run.rows.columns else str(j) for j in self.base.fallback],
            **found.details,
        }
        return GaussianResult(
            mean=frozen(found.mean),
            covariance=frozen(found.covariance),
            mean_noise_std=frozen(found.mean_noise_std),
            rounds=found.rounds,
            status=learn.status_of(found),
            predicted_covariance_error=found.covariance_error,
            predicted_mean_error=found.mean_error,
            method=METHOD.name,
            structure=found.structure,
            diagnostics=details,
            report=found.report,
            columns=run.rows.columns,
            provenance={"center": source, "scale": source, "radius": source},
            **run.fields(strength.n_pub),
        )


def ladder(run: Run, x_pub: FloatArray, structure: str) -> Ladder:
    """Read the public rows, predict every rung, choose, and check the grids: all before the debit."""
    base = public_base(x_pub)
    noise = Noise(run.account.pure, run.account.allowance)
    view = outlook(base.strength, run.rows.n, noise, CountShares.of(run.rows.n, noise, len(base.fallback)))
    taken = view.best if structure == "auto" else structure
    learn.check_grids(run, view, taken)
    names = run.rows.columns or tuple(map(str, range(run.rows.dim)))
    messages = []
    if base.fallback:
        messages.append(constant_text([names[j] for j in base.fallback]))
    if structure == "auto" and taken in ("public", "mean"):
        messages.append(_advice(base.strength, run.rows.n, noise, view, taken))
    if structure == "full" and not view.resolved(run.rows.dim):
        messages.append(
            f"structure='full' has a predicted relative covariance error of {view.own_error_sq**0.5:.3g} by itself; "
            f"structure='auto' would take {view.best!r}"
        )
    return Ladder(base, x_pub, view, taken, tuple(f"estimate_gaussian: {text}" for text in messages))


def _advice(strength: Strength, n: int, noise: Noise, view: Outlook, taken: str) -> str:
    """What was chosen in place of a private covariance, and how many rows would buy one."""
    own = "nothing private was read" if taken == "public" else "the mean alone is private"
    guess = f", a guess: {strength.n_pub} public rows do not show how columns vary together" if strength.guess else ""
    found = f"the covariance is that of the public rows (predicted relative error {view.rungs[taken].covariance:.3g}{guess}); {own}"
    for doubling in range(1, MOST_DOUBLINGS + 1):
        enough = n << doubling
        if outlook(strength, enough, noise).best in ("diagonal", "full"):
            return f"{found}. About {enough} private rows, or a larger budget, would buy a private covariance"
    return f"{found}; no reasonable number of rows at this budget would improve on it"
