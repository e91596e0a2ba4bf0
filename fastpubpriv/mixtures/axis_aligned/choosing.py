"""The last stage of the learners: a private choice among the candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.mechanisms.selection.candidates import Hypotheses
from fastpubpriv.mechanisms.selection.hypotheses import HypothesisChoice, epsilon_of, law_for, prepare
from fastpubpriv.mixtures.axis_aligned.binned_em import Mixtures
from fastpubpriv.mixtures.axis_aligned.learned import Learned, Task
from fastpubpriv.privacy import ApproxDP
from fastpubpriv.run import Run


def hypotheses_of(weights: FloatArray, means: FloatArray, stds: FloatArray) -> Hypotheses:
    """A list for the selection from (m, k), (m, k, dim) and (m, k, dim); entries that are not usable are left out."""
    with np.errstate(all="ignore"):
        usable = np.isfinite(weights).all(axis=1)
        total = np.where(usable, weights.sum(axis=1), 1.0)
        return Hypotheses.from_arrays(weights / total[:, None], means, stds**2)


def line(mixtures: Mixtures) -> Hypotheses:
    """The same for mixtures on the line."""
    return hypotheses_of(mixtures.weights, mixtures.means[:, :, None], mixtures.stds[:, :, None])


def choose(task: Task, run: Run, listed: Mixtures | Hypotheses, *, status: str, diagnostics: dict[str, Any]) -> Learned:
    """Select one candidate by the rows of a run, with all of its account's budget; a public stand-in when there is none."""
    hypotheses = line(listed) if isinstance(listed, Mixtures) else listed
    facts = {**diagnostics, "candidates": hypotheses.size}
    dim = run.rows.dim
    if hypotheses.size == 0:
        return Learned(
            weights=np.ones(1), means=np.zeros((1, dim)), stds=np.ones((1, dim)), status="fallback", diagnostics=facts
        )
    index = 0
    if hypotheses.size > 1:
        account = run.account
        if isinstance(account.budget, ApproxDP):
            law, epsilon = "permute_and_flip", account.approx_left[0]
        else:
            law = law_for(account)
            epsilon = epsilon_of(account.allowance, law, pure=account.pure)
        method, evaluation = prepare(hypotheses, run.rows.n, threads=run.executor.threads)
        choice = HypothesisChoice(evaluation=evaluation, size=hypotheses.size, law=law)
        index = run.release(choice, name="choice", cost=epsilon, method=method).index
    facts["chosen"] = int(hypotheses.positions[index])
    present = hypotheses.weights[index] > 0.0
    return Learned(
        weights=hypotheses.weights[index][present],
        means=hypotheses.means[index][present],
        stds=np.sqrt(hypotheses.spreads[index][present]),
        status=status,
        diagnostics=facts,
    )
