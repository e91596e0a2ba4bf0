"""The answer of `plan`, and what its numbers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fastpubpriv.privacy import Budget
from fastpubpriv.results.base import Value, explain
from fastpubpriv.results.fields import value_class
from fastpubpriv.results.result_tables import Facts, Table

GUESS = "is_a_guess"
EPSILON = "implied_epsilon"
GUESSED = (
    "there are no more public rows than coefficients: a line goes through them all, and what of a label is noise does not show; "
    "every predicted error may be far too small"
)
WORKED_OUT = " <- worked out"
# Meaning of each number, by subject; first those of several tasks.
MEANINGS = {
    "n_priv": "private rows",
    EPSILON: "epsilon of the budget, for zCDP at delta = 1e-6",
    "without_privacy": "error without privacy",
    "public_rows_alone": "error of the public rows alone",
    GUESS: "no more public rows than coefficients: all errors here are guesses, and may be far too small (1: yes)",
}
# Means.
MEANINGS |= {
    "steps": "steps",
    "radius": "radius of the prior ball",
    "clip_radius": "clip radius of the last step",
    "noise_std": "noise per column",
    "private_weight": "weight of the private rows",
    "gaussian": "error of one Gaussian on all rows",
    "mean_error": "error of the mean, in standard deviations",
}
# Counts and ranks.
MEANINGS |= {
    "count_share": "share of the budget that counts",
    "count_std": "noise of a count, in rows",
    "noise_rows": "noise of the rank, in rows",
    "smallest_group": "rows from which a group has a mean",
    "smallest_share": "least share of the rows that a count shows",
}
# Covariances.
MEANINGS |= {
    "rounds": "rounds of the covariance",
    "unresolved": "rounds are too few (1: yes)",
    "condition": "condition number allowed for",
    "mean_radius": "distance of the mean allowed for",
    "total_variation": "total variation",
}
# Separated mixtures.
MEANINGS |= {
    "starts": "fits that the rounds start from",
    "last_share": "share of the budget for the last round",
    "search_depth": "cuts on the way to a group",
    "search_share": "share of the budget that finds the groups",
    "public_rows_worst_case": "public rows, in the worst case",
    "direction_noise": "noise on a group's directions",
}
# Axis-aligned mixtures, and choices among candidates.
MEANINGS |= {
    "rows_of_cells": "rows that count cells",
    "rows_of_rounds": "rows of the rounds",
    "distant_components_rows": "rows that components far apart need",
    "candidates": "candidates that are chosen from",
    "choice_rows": "rows that choose",
    "seconds": "seconds on one core, roughly",
}
MEANINGS |= {
    "epsilon": "epsilon of the choice",
    "choice": "error of the choice",
    "comparisons": "comparisons",
    "closed_form_rows": "rows, by the looser closed form",
}
# The lists of paper C.
MEANINGS |= {
    "list_decoding_accuracy": "the paper's proof, at accuracy",
    "list_decoding_log10_candidates": "its candidates, as a power of ten",
    "list_decoding_rows": "its rows",
    "list_decoding_scales": "its scales for a column",
    "list_decoding_means_per_scale": "its means for a scale",
    "list_decoding_weights": "its vectors of weights",
}
# Training.
MEANINGS |= {
    "noise_multiplier": "noise of a step, over the bound on a row",
    "worth_rows": "private rows from which they are worth it",
    "worth_budget": "rho or epsilon from which private rows are worth it",
    "minimax_public": "order of the best rate, public rows alone",
    "minimax_private": "order of the best rate, all rows",
    "minimax_public_decides": "public rows alone have the best rate (1: yes; 0: they help by a constant)",
    "minimax_public_rows": "public rows from which they alone have the best rate",
}
# Structures of a Gaussian: the choice of each, and its errors.
STRUCTURES = {
    "public": ("the public rows alone", "public rows alone"),
    "mean": ("the public covariance and a private mean", "private mean"),
    "diagonal": ("private variances along public axes", "private variances"),
    "full": ("a full private covariance", "full"),
}
# Methods of `train`.
TRAINING_METHODS = {
    "newton": "Newton steps",
    "throw_away": "the public rows alone",
    "semi_dp": "semi-private gradient descent",
    "dp_sgd": "noisy gradient descent on private rows alone",
    "pda_mirror_descent": "mirror descent",
    "output_perturbation": "noise on the minimum of the loss",
    "exponential": "a choice among models that public rows suggest",
}
for _name, (_choice, _errors) in STRUCTURES.items():
    MEANINGS[f"takes_{_name}"] = f"takes {_choice} (1: yes)"
    MEANINGS[f"{_name}_covariance_error"] = f"error of the covariance, {_errors}"
    MEANINGS[f"{_name}_mean_error"] = f"error of the mean, {_errors}"
for _name, _words in TRAINING_METHODS.items():
    MEANINGS[f"takes_{_name}"] = f"takes {_words} (1: yes)"
    MEANINGS[_name] = f"error of {_words}"


@value_class
class Plan(Value):
    """A consistent triple of rows, budget and predicted error.

    Attributes
    ----------
    task : str
        Name of the estimator.
    n_priv : int
        Private rows.
    budget : ZCDP, ApproxDP or PureDP
        Privacy budget.
    error : float
        Predicted error, see `unit`; infinite if a Gaussian's covariance cannot be resolved.
    unit : str
        Kind of error, and its unit.
    solved_for : str
        "error", "n_priv" or "budget": the one that was not given.
    details : mapping of str to float
        Steps, radii, noise level and errors of the alternatives, all from public numbers.

    Examples
    --------
    >>> import fastpubpriv as fpp
    >>> found = fpp.plan("mean", dim=5, n_pub=1, n_priv=10_000, error=0.05)
    >>> found.solved_for, found.budget.rho < 0.5, found.error <= 0.05
    ('budget', True, True)
    """

    task: str
    n_priv: int
    budget: Budget
    error: float
    unit: str
    solved_for: str
    details: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        facts = f"n_priv={self.n_priv}, budget={self.budget!r}, error={self.error:.4g}"
        guess = "; a guess, from too few public rows" if self.details.get(GUESS) else ""
        return f"Plan({self.task}: {facts}; solved for {self.solved_for}{guess})"

    def _table(self, level: float) -> Table:
        numbers = {"n_priv": self.n_priv, "error": self.error, **dict(sorted(self.details.items()))}
        meanings = {**MEANINGS, "error": self.unit}
        explained = []
        for name in numbers:
            mark = WORKED_OUT if name == self.solved_for else ""
            explained.append(meanings.get(name, name.replace("_", " ")) + mark)
        columns = [("value", list(numbers.values())), ("meaning", explained)]
        return Table("number", list(numbers), columns)

    def _facts(self, level: float) -> Facts:
        price = explain(self.budget, epsilon=self.details.get(EPSILON))
        if self.solved_for == "budget":
            price += WORKED_OUT
        facts = [("Task", self.task), ("Budget", price)]
        if self.details.get(GUESS):
            facts.append(("A guess", GUESSED))
        return facts
