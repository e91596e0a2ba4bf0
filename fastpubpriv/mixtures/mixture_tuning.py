"""The tuned numbers of mixtures: meaning and unit of each.

`python -m benchmarks.accuracy --estimator mixture` chose them, and shows the effect of another value; sections name other commands.
Shares are of the budget of a call unless stated otherwise; "rows" are rows of one component; deviations are standard deviations.
Constants of proofs, seeds, and limits of memory are defined where they are used; those of the count of a fit in `fit`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

# ---- Searches for separated components (`pytest tests/mixtures/test_column_scaling.py`).
SEARCH_SHARE = Fraction(3, 10)  # share of a search
# share of the principal directions in the cost of a node; histograms get the rest
DIRECTIONS_SHARE = Fraction(7, 10)
CLIP_MARGIN = 1.15  # clip radius over the distance of the farthest public row of a node
LEAST_GAP = 1.3  # minimum ratio of radii of a public gap that is tested on private rows
# maximum number of gaps that a node tests, each with an equal part of the histogram's share
ATTEMPTS = 2
# Length of a histogram beyond the gap on either side and width of its bins, in logarithms of the radius; minimum number of bins.
OVERHANG = 0.25
BIN_WIDTH = 0.1
LEAST_BINS = 3
WIDEST_GAP = 1e3  # maximum ratio of radii that a histogram covers
# maximum rows in a valley: share of the smaller side, plus noise deviations
VALLEY_SHARE = 0.03
VALLEY_NOISE = 2.0

# ---- Public rows alone: k-means, and coordinates for searches (the same command).
RESTARTS, MOST_LLOYD = 10, 100  # restarts of k-means, and maximum iterations of each
# maximum number of rows, evenly spaced, of restarts; the best one continues with all rows
RESTART_ROWS = 10_000
# maximum rows per piece, evenly spaced, in the search for a gap: thousands would fill every gap
GAP_ROWS = 50
# Maximum rows, rounds and restarts of the fits that choose coordinates.
MOST_SCALING_ROWS = 2_000
SCALING_ROUNDS = 2
SCALING_RESTARTS = 3
# added to variances within groups, over a column's variance, since values are rounded
LEAST_WITHIN = 1e-3
# A fit is as good as the best if its log likelihood is within MARGIN nats plus MARGIN_PER_ROW nats per row. The first protects few
# public rows of groups in different units against one column; the second, thousands against whitening nearly collinear columns.
MARGIN = 5.0
MARGIN_PER_ROW = 0.05
WIDER = 1.2  # minimum factor by which whitening must widen a gap if its fit is only equally good

# ---- Fits of public rows that may differ in scale by any factor.
STARTS, KEPT = 60, 5  # number of scale-free starts, and of those that are continued
SHORT_STEPS, LONG_STEPS = 6, 40  # iterations of all starts, and of the continued ones
MOST_ROWS = 2_000  # maximum number of rows for starts
# cap of the squared distance of a row to the seeds, in their scales, when the next seed is drawn
FARTHEST_SEED = 25.0
LACKING = 20.0  # penalty in nats per row that a component has less than its least number
# least number of rows of a component, over the expected rows of the lightest component
LEAST_PART = 0.4
# rows below which a shape is pooled with that of other components, and the weight of the latter in
# rows
FEW_ROWS = 8
FEWEST_ROWS = 2  # minimum public rows per component to estimate any shape
# squared distance to the nearest component over the variance that is assumed with fewer
WITHIN = 16.0
# Minimum rows per component for excluding distant rows, and their distance over that of typical rows.
TYPICAL = 4
FAR = 20.0
SETTLED_FIT = 1e-8  # change of the log likelihood per row below which iterations end
LEAST_VARIANCE = 1e-14  # minimum variance over a column's variance

# ---- Rounds of soft EM: the plan.
CHOICE = Fraction(1, 50)  # share of a choice among starts
KMEANS_START_ROWS = 20  # public rows per component below which their k-means groups are a start
# minimum public rows per component and column for pooling them with the moments of a round
POOLED_ROWS = 3
# Relative noise of an early round, and bounds of its share; where there are two, for Gaussian and for exponential tails. The latter
# noise decreases with the share, not with its root: early rounds of full covariances above this noise are omitted.
EARLY_NOISES = 0.7, 0.3
LEAST_EARLY = 1.0 / 60.0
MOST_EARLY = 1.0 / 16.0, 1.0 / 4.0
DIAGONAL_EARLY = 1.0, 0.5  # factor of MOST_EARLY in rounds of variances alone
# Relative noise of the whole budget above which it is reserved for the last round: starts are compared without early rounds, and
# only the rounds that need a wide clip radius precede it.
NOISY = 0.4
# maximum share of early rounds, and maximum rounds of the chosen start
BEFORE_LAST = 0.3
MOST_MORE = 8
# maximum rounds of each start before the choice; number of rounds with a wider clip radius
EARLY_ROUNDS = 2
# change of means, in deviations, and relative change of variances, below which early rounds end
SETTLED = 0.1
# minimum rows of an early round, in total and per covariance entry
LEAST_EARLY_ROWS = 50_000
EARLY_ROWS_PER_ENTRY = 25
# Rows for the choice of a start: these suffice for an error of a hundredth of a nat per row from sampling, and from noise.
CHOICE_ROWS = 6_000
CHOICE_STDS = 100.0

# ---- A round.
INSIDE = 0.95  # share of a component's rows within the clip radius
EARLY_CLIP = 1.6  # squared clip radius of early rounds, over that of the last round
# of the clip radius itself, in early axis-aligned rounds
AXIS_EARLY_CLIP = 1.25
LIFT = 0.35  # squared constant coordinate of a lifted row, over the squared clip radius
CLIP_NATS = 4.0  # clip of log densities in a choice among starts
MOST_CHANGE = 0.1, 12.0  # minimum and maximum factor by which a round changes variances
# noise of a mean, in deviations, above which a round leaves an axis-aligned component unchanged
MOST_HIDDEN = 0.5
# rows, and noise deviations of its count, below which a component is lost
LEAST_ROWS = 10
LEAST_STDS = 5.0

# ---- Leaves by the lifted CoinPress (`python -m benchmarks.papers a-figure-1`).
LEAF_COND_MAX = 100.0  # assumed condition number of a component within public bounds
PARENT_SLACK = 100.0  # squared radius of a node over the largest variance inside
# maximum condition number for preconditioning rounds; above it the trace bound is used
MOST_PRECONDITIONED = 1e6
# share of the counts where a row that moves pays for all releases; else they cost nothing
COUNT_SHARE = Fraction(1, 20)
TYPICAL_ROUNDS = 6  # number of rounds in predictions, which hardly depend on it
LLOYD_ROUNDS = 5  # iterations without public rows

# ---- Fits of public rows by EM (`python -m benchmarks.papers c-public`).
TYPICAL_STEPS = 3  # number of iterations in predictions of the run time

# ---- One column: cells around public rows (`python -m benchmarks.papers c-public`).
# The scale of a public row is that of the LOCAL_SHARE k-th part of these rows nearest to it; of more than LOCAL_ROWS k rows, so
# many evenly spaced ranks are used.
LOCAL_SHARE = 8.0
LOCAL_ROWS = 64
# Width of cells over that scale: finest, factor of each attempt at fewer cells, and largest.
FINEST = 0.5
COARSER = 1.4
COARSEST = 8.0
# Rounding error of remainders over the largest value, and the smallest step over that error: steps of other values end near it.
LATTICE_ERROR = 2.0**-38
LEAST_LATTICE = 2.0**8
# Scale of a public row over their median, and the part of their range, above which it is far from all others.
ALONE = 32.0
NEAR_SCALES = 4.0  # distance from a public row, in its scale, beyond which widths of cells double
PUBLIC_DOUBLINGS = 20  # doublings beyond the outermost public rows
# Rows of an average cell, in standard deviations of the noise; maximum number of cells near public rows, and minimum per component.
CELL_STDS = 4.0
PUBLIC_ROWS_PER_CELL = 4.0  # if public rows show more than private ones
PUBLIC_CELLS = 160.0
LEAST_CELLS = 8.0
CONTAMINATED = 0.01  # share of the public rows that may lie anywhere
SEEN_ROWS = 5.0  # public rows above which a component is significant whatever the noise

# ---- One column from private rows alone (`python -m benchmarks.papers c-univariate`).
# Relative rows of the blocks: scales (unless known), places, cells.
LINE_SHARES = (15, 15, 70)
LINE_KNOWN_SHARES = (20, 80)
LINE_SCALES, LINE_LEAST_ROWS = 20, 16  # maximum number of scales; minimum rows of a call
# scales that are used if none was found
ANY_SCALES = [2.0**exponent for exponent in (-40, -20, -4, 4, 20, 40)]
# width of the cells of places in scales: a component of that scale is nearly in one or two cells
CELLS_PER_SCALE = 4.0
EXCESS = 2.5  # z-score, with noise and sampling, required of the excess pairs of a scale
# Approximate number of cells of a column; rows per cell, four noise standard deviations at epsilon = 1.
LINE_CELLS = 320
ROWS_PER_CELL = 12.0
# Maximum number of released cells that are cut (of a scale, and of all), and of cuts.
MOST_PIECES = 100
MOST_CUTS = 1024
DOUBLINGS = 24  # cells of doubling width on each side of an island
# unevenness, 1 for a perfect comb, and number of teeth from which cells are merged
UNEVEN = 0.5
LEAST_TEETH = 4.0
HALVED_STEPS = 4  # halvings of the bound on the step between values at which a comb is looked for
FEIGNED = 0.01  # probability that noise makes a component somewhere among the cells
BEAM = 32  # number of subsets of atoms kept and refined for each size
# minimum weight of a component: less is within the noise and makes the normal equations singular
LEAST_WEIGHT = 1e-3
MOST_DAMPING = 1e6  # maximum damping of Gauss-Newton steps; a fit that it does not improve is final

# ---- Range from bounds of the caller (`pytest tests/mixtures/test_bounded_range.py`).
# Cells of the first look, parts of a cell that holds many rows, maximum numbers of looks and of cells that one of them divides:
# a component may be a billion times narrower than its bounds.
FIRST_CELLS = 256
SPLIT = 16
LOOKS = 6
MOST_SPLIT = 64
# share of a look with Gaussian, and with Laplace noise
LOOK_SHARES = Fraction(1, 50), Fraction(1, 40)
# rows of both halves of a cell, in noise deviations of a look, below which they are joined
JOINED_STDS = 2.0
LEAST_LAST = Fraction(1, 4)  # share of the last round in several columns
# Mass of a component in one cell from which it is moved to the middle, and the part of the cell that is then its deviation.
IN_A_CELL = 0.9
CELL_OVER_STD = 8.0
WIDEST_BOUNDS = 1e150  # distance of the bounds of a column above which squares may overflow
RANGE_DEPTH = 40  # halvings of a range that positions of edges can tell apart
RANGE_MARGIN = 1.0 / 64.0  # range beyond a bound, over the distance of the bounds
MOST_PER_CELL = 4.0  # cells that an average component fills, above which they are not divided
MOST_HALVINGS = 6  # of a cell after the last look

# ---- Several columns from private rows alone (the same command, and `pytest tests/mixtures/test_sketch.py`).
START_LEAST_ROWS = 32  # minimum rows of a call
# Shares of the rows for pairs, and for places; the second for places may be larger where few rows would not show any.
PAIR_ROWS = 0.06, 0.25
PLACE_ROWS = 0.06, 0.10, 0.20
# Rows in units of the threshold of a count: for pairs at least, and per squared number of components up to a share of the rows; for
# places, per component, and below which their share may be larger; and the maximum threshold of places, as a share of all rows.
PAIR_THRESHOLDS = 10.0, 9.0, 0.1
PLACE_THRESHOLDS = 3.0, 4.0
MOST_THRESHOLD = 0.01


class StartShares(NamedTuple):
    """Shares of the Gaussian allowance of the other rows, by the release that costs them."""

    cells: Fraction = Fraction(2, 25)
    combinations: Fraction = Fraction(3, 100)
    matching: Fraction = Fraction(1, 50)
    grams: Fraction = Fraction(3, 25)
    sketch: Fraction = Fraction(3, 25)
    first: Fraction = Fraction(2, 25)  # round of expectation-maximization


START_SHARES = StartShares()
CONFUSED = 0.1  # maximum misclassified rows of a cut, over the rows of the lighter side
# maximum number of anchor columns, and of combinations of their modes
MOST_ANCHORS = 4
MOST_COMBINATIONS = 256
COLUMN_SCALES = 6  # maximum number of scales of a column
COLUMN_CELLS = 96  # approximate number of cells of a column
# Number of columns above which the components of a column are at most so many, since a search takes time. One that a fit leaves
# out puts the frame of its group elsewhere: with 3 in place of 6, total variation .51 to 1.0 for .02 to .03 (10 and 12 columns, 4
# to 6 components 100 apart), in two thirds of the time.
MANY_COLUMNS = 8
COLUMN_MODES = 6
MATCHING = 0.15  # minimum rows of a matching mode, over those of the main mode of the combination
# z-score required of the count of a combination, and of some cell of a column without released places; otherwise its cells are
# treated as pure noise.
EVIDENCE = 5.0
# Number of columns up to which all are directions, and maximum number of directions.
FEW_COLUMNS, MOST_DIRECTIONS = 3, 6
# Least eigenvalue of a factor, in ends of the spectrum of noise alone (an idle direction costs little, a missed one everything).
EDGE = 0.55
FACTOR_STEPS = 60  # iterations of the factor analysis
MOST_SHARED = 0.95  # maximum share of a column's variance in factors, and maximum correlation
# total variation from a Gaussian from which a column of its own may be a direction
UNLIKE_GAUSSIAN = 0.04
LEAST_NEW = 0.3  # minimum length of a direction beyond the span of earlier ones
FREQUENCIES = 60, 240  # of each direction, and of a group at most
# lowest frequency times the extent of a group, and highest frequency, in deviations of a component
FREQUENCY_RANGE = 0.35, 2.5
# Fits of a sketch: starts and those that go on, and the iterations of each.
WAVE_STARTS = 40, 12
WAVE_STEPS = 15, 35
WAVE_PRIORS = 0.02, 0.05  # precisions of log weights, and of log deviations
LOG_DEVIATIONS = -3.0, 1.5  # least and largest log deviation along a direction
WORTH_OF_COMPONENT = 3.0  # decrease of squares per parameter from which another component is kept
MOST_WAVE_COMPONENTS = 12  # maximum number of components of a group that a sketch tells apart

# Public rows per component below which private directions give a second start of "dp_em": with 2 (100 columns) total variation .12
# for .52 to 1.0, with 4 (8 columns) .02 for .32, with 5 (20 columns) .04 for .04 to .37; with 8 it costs a fifth.
NEAR_ROWS = 6

# ---- The same for full covariances (`pytest tests/mixtures/test_without_public_rows.py`).
# Misclassified rows of a cut, over the rows of the lighter side, up to which it makes groups: of modes 14 deviations apart.
# Nearer ones are left to the sketch, by one Gram matrix of all rows. With .01 small groups have noisy matrices of their own: total
# variation .19 for .12 (20 columns, 3 components 20 apart). With CONFUSED rows on the wrong side of a cut are a group: .71 for .08.
CLEAN = 1e-12
# Maximum number of directions: those of largest variance, in which means that are far apart differ.
FULL_DIRECTIONS = 5
# standard deviation of the rows of a group along a direction, in units in which frequencies suit deviations of about one
EXTENT = 4.0
LEAST_GROUP = (
    0.1  # minimum share of the rows in a component, unless it is given or 1 / (2 k) is less
)
FLAT = 0.03  # minimum eigenvalue of a group's correlations, whose noise may make them indefinite

# ---- Tests by counts of cells and of pairs (`python -m benchmarks.accuracy.fits`).
GROUPS = 32  # number of groups of equal probability under the mixture into which cells are merged
# bound on the step between values, in deviations of a component, below which a comb would be
# detected
FINE_STEP = 0.5
# Bins in the tails of a Gaussian that a threshold hides, and noise standard deviations, that may look like ties.
HIDDEN_BINS = 4.0
HIDDEN_STDS = 3.0
# std of a component, in steps between values, from which a density is an adequate model
STEPS_WIDE = 2.0
# ratio of ties to those expected from rounding above which rounding does not explain them
MOST_UNEXPLAINED = 3.0
# ratio of another component's std to its own from which a component may represent one value
NARROW = 100.0
