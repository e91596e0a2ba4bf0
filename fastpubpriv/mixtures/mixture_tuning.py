"""The tuned numbers of mixtures: meaning and unit of each.

`python -m benchmarks.accuracy --estimator mixture` chose them, and shows the effect of another value; sections name other commands.
Shares are of the budget of a call unless the line says of what; "rows" are rows of one component; deviations are standard ones.
Numbers of proofs, seeds, and limits of memory stand where they are used; those of the count of a fit stand in `fit`.
"""

from __future__ import annotations

from fractions import Fraction

# ---- Searches for separated components (`pytest tests/mixtures/test_cluster_tree.py`).
SEARCH_SHARE = Fraction(3, 10)  # of a search that finds the components by itself
SEARCHES: dict[str, Fraction] = {
    "one_shot": Fraction(2, 25),
    "tree": Fraction(1, 10),
}  # of one that gives one start of several
DIRECTIONS_SHARE = Fraction(7, 10)  # of the cost of a node, for its principal directions; histograms get the rest
CLIP_MARGIN = 1.15  # clip radius over the distance of the farthest public row of a node
LEAST_GAP = 1.3  # ratio of radii below which a public gap is no reason to ask about private rows
ATTEMPTS = 2  # gaps that a node may ask about, each with its part of the histogram's share
OVERHANG, BIN_WIDTH, LEAST_BINS = (
    0.25,
    0.1,
    3,
)  # of a histogram beyond the gap, and of its bins, in logarithms of the radius
WIDEST_GAP = 1e3  # ratio of radii that a histogram covers at most, however exact the copies inside
VALLEY_SHARE, VALLEY_NOISE = 0.03, 2.0  # rows of a valley: this share of the smaller side, and deviations of the noise

# ---- Public rows alone: k-means, and coordinates for searches (the same command).
RESTARTS, MOST_LLOYD = 10, 100  # of k-means, and iterations of each
RESTART_ROWS = 10_000  # of more rows than this restarts see every so-many-th; the best goes on with all
GAP_ROWS = 50  # of more rows than this for each piece every so-many-th looks for a gap: thousands leave none empty
MOST_SCALING_ROWS, SCALING_ROUNDS, SCALING_RESTARTS = (
    2_000,
    2,
    3,
)  # rows, rounds and restarts of fits that choose coordinates
LEAST_WITHIN = 1e-3  # of a column's variance; less within groups is not told from zero, as values are rounded
# Nats, and nats for each row, within which a fit is as likely as the best. Without the first, 6 to 12 public rows of groups in
# unlike units preferred one column in 13 cases of 90; without the second, thousands whiten nearly collinear columns.
MARGIN, MARGIN_PER_ROW = 5.0, 0.05
WIDER = (
    1.2  # factor by which whitening must widen a gap where its fit is only as likely: of flights 1.1 hides their groups
)

# ---- Fits of public rows that may differ in scale by any factor.
STARTS, KEPT = 60, 5  # scale-free starts, and those that go on
SHORT_STEPS, LONG_STEPS = 6, 40  # iterations of all starts, and of those that go on
MOST_ROWS = 2_000  # rows that starts are tried on
FARTHEST_SEED = 25.0  # squared distance from the seeds, in their scales, beyond which a row is as good a seed as any
LACKING = 20.0  # nats that a row costs which a component lacks of its share
LEAST_PART = 0.4  # of the rows that the lightest component has on average: those that a component should show
FEW_ROWS = 8  # rows below which a component borrows its shape, and the weight in rows of what it borrows
FEWEST_ROWS = 2  # public rows for each component below which none shows a shape
WITHIN = 16.0  # squared distance to the next component over the variance that it has then
TYPICAL, FAR = (
    4,
    20.0,
)  # rows for each component from which far ones are left out, and how many times farther they are than others
SETTLED_FIT = 1e-8  # change of the log likelihood of a row from which on an iteration changes nothing
LEAST_VARIANCE = 1e-14  # of a column's

# ---- Rounds of soft EM: the plan.
CHOICE = Fraction(1, 50)  # of a choice among starts
TREE_START_ROWS = 20  # public rows for each component below which the tree's labels are a start
POOLED_ROWS = 3  # public rows for each component and column from which on they join the moments of a round
EARLY_NOISE, LEAST_EARLY, MOST_EARLY = (
    0.7,
    1.0 / 60.0,
    1.0 / 16.0,
)  # relative noise of an early round; bounds of its share
# Laplace noise falls with a share, not with its root: early rounds of full covariances that would pass this noise are left out.
PURE_EARLY_NOISE, PURE_MOST_EARLY = 0.3, 1.0 / 4.0
# Noise of the whole budget above which it is kept for the last round: starts are compared as they are, and as many early rounds as
# need a wide clip radius come before it. Where public rows join the moments, they start it better than a search does.
NOISY = 0.4
BEFORE_LAST, MOST_MORE = 0.3, 8  # share of early rounds, and rounds of the chosen start
EARLY_ROUNDS = 2  # of each start before the choice; rounds with a wider clip radius
SETTLED = 0.1  # change of a mean, in deviations, and of a variance, relative, below which early rounds end
LEAST_EARLY_ROWS, EARLY_ROWS_PER_ENTRY = (
    50_000,
    25,
)  # that an early round reads: at least, and for each entry of the covariances
CHOICE_ROWS, CHOICE_STDS = (
    6_000,
    100.0,
)  # rows by which a start is chosen: a hundredth of a nat for each, by sampling and noise

# ---- A round.
INSIDE = 0.95  # share of a component's rows within the clip radius
EARLY_CLIP, LABELED_CLIP = (
    1.6,
    4.0,
)  # squared clip radius of early rounds, and of a first one by labels, over that of the last
AXIS_EARLY_CLIP, AXIS_LABELED_CLIP = 1.25, 1.5  # clip radius, of axis-aligned rounds
LIFT = 0.35  # square of the constant beside a row, over the squared clip radius
CLIP_NATS = 4.0  # of log densities in a choice among starts
MOST_CHANGE = 0.1, 12.0  # factors that a round may change variances by
MOST_HIDDEN = 0.5  # noise of a mean, in deviations, beyond which a component of an axis-aligned mixture stays as it was
LEAST_ROWS, LEAST_STDS = 10, 5.0  # of a component, and deviations of the noise of its count, below which it is lost
GROWTH = 3  # budget of an iteration without public rows over that of the one before: only the last one's noise stays

# ---- Leaves by the lifted CoinPress (`python -m benchmarks.papers a-figure-1`).
LEAF_COND_MAX = 100.0  # condition of a component within public bounds
PARENT_SLACK = 100.0  # squared radius of a node over the largest variance inside
MOST_PRECONDITIONED = 1e6  # condition that rounds resolve; the trace bound takes over beyond
PURE_COUNT_SHARE = Fraction(1, 20)  # of the counts, which a row that moves pays for; they are free with Gaussian noise
TYPICAL_ROUNDS = 6  # rounds of a prediction, which hardly depends on them
LLOYD_ROUNDS = 5  # iterations without public rows

# ---- Lists from public rows (`python -m benchmarks.papers c-public`).
ITERATE_FROM, ITERATE_FROM_PURE = 2_000, 1_000  # rows of one column from which iterations end closer than a list
PLAIN_STARTS, BOOTSTRAPS, BOOTSTRAP_STEPS = (
    20,
    100,
    60,
)  # starts and Bayesian bootstraps of the fits, and their iterations
PRIOR = 0.3  # rows' worth of belief in the harmonic mean of the components' deviations
DEPTH = 6.0  # a fit this many nats below the best gets 1 / e of its points
SPREAD = (0.3, 1.5)  # standard errors between the fits and the points around them
PAIR_STARTS = 200  # components by two rows each that are tried
EMPTIEST = 0.01  # weight of a component of a point
TYPICAL_STEPS = 3  # iterations of a prediction of the time

# ---- Mixtures on the line from private rows alone (`python -m benchmarks.papers c-mixtures`).
LINE_SHARES, LINE_KNOWN_SHARES = (
    (15, 15, 40, 30),
    (20, 45, 35),
)  # of the rows: scales (unless known), places, cells, choice
LINE_SCALES, LINE_LEAST_ROWS = 20, 16  # scales that are looked at; rows of a call
ANY_SCALES = [2.0**exponent for exponent in (-40, -20, -4, 4, 20, 40)]  # where no scale was found
CELLS_PER_SCALE = 4.0  # width of a place in scales: nearly all of a component of that scale fits into one or two
EXCESS = 2.5  # deviations, of noise and sampling, of a scale's own pairs
LINE_CELLS, ROWS_PER_CELL = (
    320,
    12.0,
)  # cells of a column, about; rows of a cell, four deviations of its noise at epsilon = 1
MANY_CELLS, MOST_PIECES, MOST_CUTS = (
    100,
    400,
    1024,
)  # cells of a scale that has a say of its own; pieces, and cuts within them
DOUBLINGS, ISLANDS = 24, 40  # cells of doubling width on each side of an island; from so many islands on, fewer each
UNEVEN, LEAST_TEETH = (
    0.5,
    4.0,
)  # share of a perfect comb's unevenness from which on fine cells say nothing, and its fewest teeth
FEIGNED = 0.01  # chance that noise makes a component somewhere among the cells
HEAVIEST, MOST_ATOMS = 512, 700  # cells that atoms are placed on, and atoms
BEAM, REFINED = 48, 40  # subsets of atoms that are kept for each size, and starts that are refined
LEAST_PIVOT, TRUSTED = 1e-4, 1e-6  # of a diagonal, and of a gain: what a Schur complement must leave to be trusted
JITTER = 0.7  # standard errors of a fit, of the points around it
LEAST_WEIGHT = 1e-3  # of a component: less cannot be told from noise, and would make the normal equations singular
MOST_DAMPING = 1e6  # of a Gauss-Newton step; one that does not fit better then is given up

# ---- Several columns from private rows alone (the same command).
ANCHOR_SHARES = (
    14,
    14,
    18,
    8,
    8,
    24,
    14,
)  # of the rows: scales, places, cells, combinations, matching modes, EM, choice
ANCHOR_LEAST_ROWS, ANCHOR_STEPS = 32, 4  # rows of a call; iterations
CONFUSED = 0.1  # of the lighter side: rows that may be on the wrong side of a cut
MOST_ANCHORS, MOST_COMBINATIONS = 4, 256  # columns on which components are told apart, and combinations of their modes
FEW_COLUMNS, FEW_COLUMN_SCALES, MANY_COLUMN_SCALES = 8, 6, 4  # scales of each column, up to so many columns and of more
COLUMN_CELLS = 96  # of a column, about
LAPLACE_COLUMNS = 6  # up to which Laplace noise on joint counts is smaller than Gaussian noise
MATCHING = 0.15  # of the rows of a combination's main mode
STANDS_OUT = (
    4.0  # deviations of a count that some cell must show where rows showed no place; else cells hold noise alone
)
EVIDENCE = 6.0  # deviations of the noise above which a combination is believed

# ---- What counts of cells and of pairs say (`python -m benchmarks.accuracy.fits`).
GROUPS = 32  # of equal share under the answer, that cells are put together to
FINE_STEP = 0.5  # deviations: a bound of the step between values up to which a comb of them would have been seen
# Total variation beyond chance, and share of the root sum of squares of the groups' standard deviations (2.5 times what chance
# varies by), up to which such counts call no fit poor.
POOR_CELLS, POOR_SPREAD = 0.02, 0.44
HIDDEN_BINS, HIDDEN_STDS = 4.0, 3.0  # bins of a Gaussian's tails that a threshold hides, and deviations of noise
STEPS_WIDE = 2.0  # deviations in steps from which a lattice is as good as a density
MOST_UNEXPLAINED = 3.0  # times more ties than a lattice makes are no lattice's
NARROW = 100.0  # a component narrower than another one by this factor may stand for one value
