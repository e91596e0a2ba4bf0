"""The tuned numbers of the ladder: meaning and unit of each.

`python -m benchmarks.accuracy --estimator covariances --quick` chose them, and shows the effect of another value. "Signal" is a
number of rows over the standard deviation of the noise of a count; "slack" is the largest move of an eigenvalue by noise and
sampling, in units of the public covariance. A "pseudo-row" is the weight of one row of a prior.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# ---- The public prior.
# Candidate numbers of pseudo-rows of the ridge; the largest is what a common variance of columns is worth at most.
PRIOR_GRID = np.exp(np.linspace(np.log(1e-4), np.log(1e5), 91))
BELIEVABLE = 2.0  # nats below the best evidence within which a number of pseudo-rows is plausible
# Nats by which no structure at all may be worse than the best and is still chosen; for columns of one common variance, where chance
# alone exceeds it in one case of a hundred.
NO_WORSE = 0.5
NO_WORSE_ALIKE = 3.0
# Fraction of the way to its expectation that the ridge lifts the least eigenvalue; when reported.
LIFT = 0.15
LIFT_REPORTED = 0.02
# relative spread of a public column up to which it is rounding
CONSTANT = 64.0 * float(np.finfo(np.float64).eps)
# Standard deviations that chance explains, of the spread of log variances of columns with one common variance, and of the scale.
BY_CHANCE = 3.0
LEAST_POOLED = 4  # public degrees of freedom from which the variances of columns are pooled
# ridge, in pseudo-rows per degree of freedom, up to which coordinates lie along the principal axes
# of the public rows
AXES = 3.0
LEAST_DEGREES = 2.0  # degrees of freedom that a refuted public covariance keeps
FACTOR = 4.0  # factor between variances beyond which a private count replaces the public scale
# quantile of the distance between means that chance explains, and a factor on it
CHANCE = 0.999
MARGIN = 2.0

# ---- Shares of the budget and rounds.
# candidate shares of an early round
EARLY_SHARES = (Fraction(3, 100), Fraction(8, 100), Fraction(1, 5))
MOST_ROUNDS = 9
LEAST_LEFT = Fraction(3, 10)  # share that must remain before an early round
# Maximum ratio of squared errors with and without another round; a pass before pieces.
WORTH_A_ROUND = 0.97
WORTH_A_PASS = 0.65
# candidate shares of a count of norms
COUNT_SHARES = (Fraction(1, 100), Fraction(1, 50), Fraction(1, 20))
# signal that a count aims at, and minimum below which it is not released
SIGNAL = 100.0
LEAST_SIGNAL = 30.0
# share of the counts of columns without a public scale, together
MOST_COLUMN_SHARE = Fraction(1, 10)
WITHIN = 0.95  # fraction of the rows inside a clip radius from public rows
LEAST_SHOWN = 0.3  # maximum slack of a round that clips wide
# squared relative error of each variance by clipping at a radius from public rows
CLIP_BIAS_SQ = 0.01

# ---- The choice of the structure.
# maximum predicted divergence, over that of the cheaper structure, from which the dearer one is
# chosen
GAIN = 0.7
# maximum error of the mean of structure "diagonal", over that of the public mean
DIAGONAL_MEAN = 0.5
MOST_DOUBLINGS = 16  # doublings of the private rows that advice searches

# ---- The covariance and its mean.
# candidate weights of a shrinkage target, in rows
TARGET_GRID = np.exp(np.linspace(math.log(0.5), math.log(1e6), 60))
LEAST_DIAGONAL = 20.0  # rows of evidence for its diagonal below which a target is rejected
# Standard deviation, in e-folds below the public degrees of freedom, of the prior on the weight of a target.
DOUBT = 1.5
UNSEEN_SHARE = 0.3  # fraction of the tail expected beyond the counts that is added
LEAST_MASS = 0.25  # minimum fraction of the rows that a last round is taken to show
# length of a released mean, over its clip radius, from which the radius limited it
AT_THE_EDGE = 0.7
# squared norm beyond the clip radius of a first round, per column, from which it is widened
FAR_EXCESS = 0.1
HELPING = 5  # public rows per column from which their norms guide a count

# ---- Intervals and reasons.
# fourth moment over squared variance of public rows from which a column has a heavy tail
KURTOSIS = 12.0
# the same where such a fraction of the rows may be undetected
UNSEEN_ROWS = 0.02
UNSEEN_KURTOSIS = 5.0
SILENT_PUBLIC = 5  # public rows below which they do not show whether the rows that may be undetected lie far out
# Fractions of a variance from which there is a reason: outer piece beyond that of Gaussian rows; undetected part, error, or tail.
OUTER = 0.05
UNCERTAIN = 0.5
# Standard deviations of a count that rows of a heavy tail may hide in, and beyond which a count shows them.
FAR_ROWS = 2.5
LEAST_PUBLIC = 10  # public rows from which their own fourth moments are used
