"""The tuned numbers of training: meaning and unit of each.

`python -m benchmarks.accuracy --estimator coefficients` shows the effect of another value; sections name other commands. Whitened
units are those in which public rows have unit variance; D is the number of coordinates, m that of public rows. Limits of the
machine, of arguments and of texts are defined where they are used.
"""

from __future__ import annotations

from fractions import Fraction

# ---- Public rows: their units, whitening and fits (`python -m benchmarks.accuracy --estimator regression`).
REACH = 6.0  # standardized distance beyond which public rows have smaller weights
INDICATOR_SHARE = 0.01  # public share of missing cells from which a column gets an indicator
LEAST_WORTH = 2.0  # minimum effective number of public rows with weights
FOLDS = 5  # of a cross-validation
FOLDED_COLUMNS = 200  # columns up to which so many folds are affordable for eigenvalues; two beyond
# least eigenvalue of the covariance, and that of a flat direction, over the largest
LEAST_VARIANCE = 1e-6
FLAT = 1e-10
NEXT_TO_NONE = 60  # public rows below which they may be too few to estimate errors and residuals
SOME_ROWS = 1000  # maximum number of public rows for quantiles and shares
CLIP_QUANTILE = 0.9  # quantile of the norms of public rows that is the clip of private ones
FAR_ROWS = 16.0  # clip of the norm of a row on its grid, over that of the longest public row
MOST_LEVERAGE = 1.0 - 1e-3  # maximum share of a row's label in its own prediction
CURVATURE = 1.5  # variance of an entry of the public second moment, times m
# candidates, in units of the residual scale
CLIPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0)
LEAST_INSIDE = 0.05  # least share of residuals that are not clipped
SMALLER_RESIDUALS = 2.0  # factor by which residuals of few public rows may be smaller than assumed
# least strength for few rows of classes, whose separation leaving out one does not reveal
MODEST_RIDGE = 1.0
INTERCEPT_RIDGE = 0.1  # ridge on the intercept of classes, relative to that on the others
# added to that of the intercept, which categories that sum to one leave undetermined
INTERCEPT_PRECISION = 1e-8
# least singular value of public rows over the largest: columns of categories are collinear
COLLINEAR = 1e-5
# reweightings of the fit with Jeffreys' prior, behind the intervals of public rows alone
FIRTH_STEPS = 12
HUBER_ROUNDS = 3  # alternations between the ridge and the pseudo-labels of the Huber loss
# Of labels none of which is public: share of the budget for a count of their distances from the center; quantile of these that
# shows their scale; noise of the count, in parts of all rows, above which it is refused; share of their mean square that the
# columns do not explain; and prior variance of log-odds.
LABEL_COUNT = Fraction(1, 20)
LABEL_QUANTILE = 0.9
# Root mean square of the labels over that scale from which few of them dominate: 1.0 to 1.3 for normal and t3 labels.
FAR_LABELS = 3.0
HIDDEN_LABELS = 0.1
# .25, .5 and 1 have errors of 1 : 1.2 : 1.9 where columns explain nearly all and 1.1 : 1 : .99 where half; coverage is the same.
UNEXPLAINED = 0.5
ODDS_SQ = 6.25

# ---- Newton steps (`python -m benchmarks.training_cells`).
STEPS = tuple(2**k for k in range(6))  # candidate numbers of steps
MORE_STEPS = (
    2 * STEPS[-1],
    4 * STEPS[-1],
)  # for fewer public rows than coordinates, whose fit is far from the minimum
# maximum ratio of predicted errors for more steps, which also correct unpredicted errors
NO_LOSS = 1.01
# share of the unexplained variance above which predicted errors are mostly privacy noise
NOISY = 0.05
# share of the precision of a step that is spread evenly, so that a drift is detected in each
# direction
EVEN = 0.05
EVEN_OF_CLASSES = 0.5  # more for the logistic loss, since a Laplace approximation is rough
LEAST_CURVATURE_OF_CLASSES = 0.03  # minimum mean curvature of a row of two classes
FAR_START = 4.0  # squared distance over its prediction, above which a measurement loses weight
SECANTS = 3  # last secants that change the curvature of a step
STEEPEST = 16.0  # maximum factor of a secant on the curvature of public rows
# Root mean square of the change of a linear predictor by a step: of log-odds, or of thresholds of the Huber loss.
LONGEST_MOVE = 2.0
FEW, FEW_OF_CLASSES = 2, 5  # public rows per coordinate below which no interval is reliable
# public rows per coordinate from which their error of the curvature is small, and unseen directions of private rows are no concern
MANY = 10
# public rows for "auto", and labels: of two, a column or a label in which they hardly differ seems constant
FEWEST_PUBLIC = 3

# ---- Releases before the steps: the mean of the rows, and the sum of private weights.
CENTER_FEW = 8.0  # coordinates per public row from which the mean is released
CENTER_SHARES = tuple(Fraction(k, 100) for k in range(1, 21))  # candidate shares of the budget
LEFT_SQ = 1.0  # maximum squared distance from the mean that may remain, whitened
# candidate shares of the budget for the sum of weights
WEIGHT_SHARES = tuple(Fraction(k, 100) for k in (1, 2, 5))
WANTED_WEIGHT_ERROR = 0.02  # relative error from which on no larger share is taken
MOST_WEIGHT_ERROR = 0.2  # relative error above which the sum is predicted from public weights
LEAST_WEIGHT = 1e-3  # least sum of weights over the number of rows: a released sum may be negative

# ---- Intervals of Newton steps alone.
ROWS_BEHIND = 20.0  # minimum number of public rows behind a coefficient, or `FEW_BEHIND` of them
LEAST_BEHIND = 3.0  # minimum of that number in Student's quantile
SIGNIFICANT_BIAS = 2.0  # standard errors from which a bias is significant
MOST_QUANTILES = 200  # maximum number of stored quantiles of label errors

# ---- Exact coefficients.
# Shares of the budget for the start and the Gram matrix; share of the latter for the count of norms.
START = Fraction(1, 3)
GRAM = Fraction(3, 50)
GRAM_COUNT = Fraction(2, 5)
SQUARES = Fraction(1, 25)  # share for the squares of scores
UNCLEAR_SQUARES = 0.5  # relative noise of these squares above which they are not released
LEAST_SQUARES = 0.25  # least variance of scores along a direction, over the average
PASSES = 4  # after the start
# Maximum number of steps of the start; half of it if noise is small relative to sampling and the scores of enough public rows
# have a kurtosis that is far from heavy, so that clipped steps lead near enough.
MOST_STEPS = 8
QUIET = 0.03
# Relative noise below which a wide radius, light tails given, costs next to nothing: so many times the longest public row, and for
# scores at least so many root mean squares, which leave few rows beyond half of it and next to none beyond all of it.
NOISELESS = 0.01
WIDE = 1.25
WIDE_SCORES = 6.0
# factor of counts, a whole number, from which rounding it down costs next to nothing
FINE_COUNTS = 100
# factor on the variance of public rows above which they are from another population
MOST_DRIFT = 2.0
# Noise variance over sampling variance, and predicted error over that of public rows alone, above which the latter are used
# alone: pooled with them, private rows could gain a tenth.
HOPELESS = 30.0
DROWNED = 10.0
# public rows per coefficient from which they are pooled
POOLED = 5
# least curvature of a step along a direction, and lower bound of an unseen one
LEAST_CURVATURE = 0.02
# least one that is used as it is, over the edge of the spectrum of its noise: one in ten
RESOLVED = 10.0
FLATTEST = 3e-5
MUCH = 0.25  # share of a variance, or of all directions
THIN = 0.3  # share of unit variance below which public rows are not whitened along a direction
CLIPPED_GRAM = 0.6  # share of the moments beyond the clip that may lie along one direction
NORMAL = 1.96  # normal quantile of a 95 % interval
NORMAL_ROWS = 9.0  # number of normal rows with normal residuals per effective row
# squared distance of the public fit, over its expectation, below which public rows are pooled
ALIKE = 2.5
# probability with which public rows of the private population seem to be of another
BY_CHANCE = 1e-3
# Rows that the grid clips: least error of one whose class is predicted wrongly, and the probability of a warning where there are
# none. Of 20 fits to columns with codes (`losses_of_codes` of the tests) 17 are seen so, and 12 by counts of octaves.
WRONG = 0.75
ALARM = 0.05
# share of the rows that determine a coefficient; share of these that noise may hide
FEW_BEHIND = 0.1
HIDDEN = 0.05
# Reasons: entry of a unit direction from which a term takes part in it; dispersion of classes that are separated, where slopes of
# 6 standard deviations have .51 and more, and infinite ones .3 to .45; residual over the labels' deviation below which labels are
# exact; and ratio of the scales of a column in public and private rows from which it is shifted.
LOADING = 0.1
SEPARATED = 0.5
EXACT = 1e-6
NARROWER = 3.0
# relative error of a second-order change; share of a step that is taken as linear
BENT_OFF = 0.6
SLIGHT = 1e-4
# End of the significant norms, in root mean squares, for light tails and for heavy ones; and the factor by which undetected rows
# may then pull one way: `python -m benchmarks.accuracy --estimator coefficients --raw weekinc --raw carat`.
LIGHT_END = 7.0
HEAVY_END = 10.5
PULLED_ALIKE = 1.2
# Factors on the covariances of the priors of the point: of the start's own; of the variance of noise, for a start that clips have
# biased; of the public rows' own fit, which may be of another population; and of slopes that explain the labels, about a constant.
# They are factors of 3 to 10 apart, over which a posterior mean is flat.
START_PRIORS = (0.1, 0.3, 1.0, 3.0)
BIAS_PRIORS = tuple(10 ** (k - 0.5) for k in range(5))
PUBLIC_PRIORS = tuple(4.0**k for k in range(3))
SLOPE_PRIORS = (0.0, 0.001, 0.01, 0.1)
POINT_PASSES = 3  # of the average, whose errors depend on the step
# Shrinkage of the point: share of the curvature beyond its clip from which all of the risk is in doubt; factors on that doubt and
# on the variance of the public rows' own fit (`python -m benchmarks.accuracy --estimator regression_points`).
CLIPPED_SHARE = 0.1
POINT_DOUBT = 0.5
PUBLIC_DOUBT = 3.0
SIGNIFICANT = 4.0  # z-score of a significant value
UNNAMED = 0.01  # share of the rows in categories that no public row has
SOFTMAX_STEPS = 3  # steps of the start
# along contrasts; a second derivative has about the square of that many numbers
MOST_COEFFICIENTS = 64
# noise variance over sampling variance below which there are two rounds, and what both may add to it
QUIET_ROUNDS = 3.0
SPLIT = 0.1

# ---- "auto" (`python -m benchmarks.training_choice`).
# Maximum predicted error of "newton" over the least one for which it is chosen, since it has intervals.
TIE = 1.1
