"""Defaults that public functions, `plan` and the command line share."""

from __future__ import annotations

# The chance that a bound fails: the usual one of a confidence interval, and the same in every function, in `plan` and on the
# command line, so that their numbers can be compared. A bound that fails costs accuracy, never privacy.
FAILURE_PROB = 0.05
