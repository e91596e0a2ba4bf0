"""How long the steps of semi-local training are, how its iterates are averaged, and what that guarantees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """Of each batch: the factor of its weighted sum of gradients, the weight of its iterate in the average; and the bound.

    `strongly` says whether the steps are those of a strongly convex loss.
    """

    lengths: Sequence[float]
    weights: Sequence[float]
    excess_bound: float
    strongly: bool = False


def best_steps(
    totals: Sequence[float], several: Sequence[bool], *, clip: float, radius: float, convexity: float | None
) -> Steps:
    """Of the steps for any convex loss and those for a strongly convex one, those with the smaller bound.

    A row i sends g_i with E |g_i|^2 at most G_i^2; a batch makes the step -length * sum(g_i / G_i^2), and its total is
    sum(1 / G_i^2). E |sum(g_i / G_i^2)|^2 is at most total + (total clip)^2, the second term only for several rows.
    """
    squares = [total + (total * clip) ** 2 * more for total, more in zip(totals, several, strict=True)]
    plain = _convex(totals, squares, radius)
    if convexity is None:
        return plain
    strong = _strongly_convex(totals, squares, convexity)
    return strong if strong.excess_bound < plain.excess_bound else plain


def _convex(totals: Sequence[float], squares: Sequence[float], radius: float) -> Steps:
    """One length for all: the sum of lengths^2 E |.|^2 is then as large as the squared radius."""
    spread, weight = math.fsum(squares), math.fsum(totals)
    length = radius / math.sqrt(spread)
    return Steps([length] * len(totals), totals, radius * math.sqrt(spread) / weight)


def _strongly_convex(totals: Sequence[float], squares: Sequence[float], convexity: float) -> Steps:
    """Lengths that fall like one over the totals so far, and weights that grow like them.

    With A_t the totals up to batch t, weights w_t = total_t A_t, W_t their sum up to t, and the step w_t / (mu W_t) along the
    mean gradient of the batch, the inequalities of strong convexity times w_t telescope to
    sum w_t (loss_t - best) <= sum w_t^2 E |mean gradient|^2 / (2 mu W_t). For one row at a time that is at most A_T / mu, and
    W_T >= A_T^2 / 2: the excess is at most 2 / (mu A_T).
    """
    lengths, weights, bound = [], [], 0.0
    so_far = itertools.accumulate(totals)
    done = 0.0
    for total, square, reached in zip(totals, squares, so_far, strict=True):
        weight = total * reached
        done += weight
        weights.append(weight)
        lengths.append(reached / (convexity * done))
        bound += reached * reached * square / done
    return Steps(lengths, weights, bound / (2.0 * convexity * done), strongly=True)
