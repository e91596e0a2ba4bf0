"""The tuned numbers of the mean of columns: meaning and unit of each.

`python -m benchmarks.accuracy --quick` chose them, and `python -m benchmarks.accuracy.constants` shows the effect of other values.
A "count" is the released number of rows in one dyadic cell; its "z-score" is the count over the standard deviation of its noise. An
octave is a factor of two in distance from the center of the column.
"""

from __future__ import annotations

from fractions import Fraction

# ---- Shares of the budget.
FEW_COLUMNS = 3  # columns up to which the noise of the sum is not the largest cost
FEW_PUBLIC = 5  # public values of a column from which on they give its scale where counts cannot
SIGNAL, SIGNAL_PURE = 90.0, 280.0  # rows over count noise that counts aim at; Laplace, few columns
# minimum of the counts; for many columns
LEAST_SHARE = Fraction(1, 4)
LEAST_SHARE_MANY = Fraction(3, 20)
MOST_SHARE, MOST_SHARE_PURE = Fraction(3, 8), Fraction(15, 32)  # maximum share of the counts
SHELL_SHARE = Fraction(1, 20)  # share of the counts of row norms (shells)
# A second release is paid out of the share of the sum. Columns whose rows lie far from the center get a new center and new counts;
# otherwise, where the noise of the sum is far below the sampling error, the counts are refined.
MOST_MOVES = 2  # new centers per call
# public standard deviations from the center from which on a new one is worth its cost
MOVE_STDS = 100.0
MOVE_SUM = Fraction(1, 8)  # share of a new center; the counts about it have twice as much
MOVE_COUNTS = 2 * MOVE_SUM
# candidate shares of refined counts
LEFTOVER_SHARES = tuple(Fraction(eighths, 8) for eighths in range(2, 7))
# maximum noise variance of the sum, over the sampling variance, after the refinement
NOISE_OF_SAMPLING = 0.05
# rows over count noise below which an octave is one cell; two cells below twice this, else four
WHOLE = 400.0
# rows over count noise below which no scale, no minority beside one value, and no distant group can
# be resolved
UNSEEN = 8.0

# ---- Which cells hold rows.
# z-score from which a window localizes a column without any other evidence
ANCHOR = 5.2
ANCHOR_PURE = 9.8
# log2 decrease of the false-alarm rate per octave further out, where the cost of one grows by 4
DECAY = 3.0
# Octaves beyond known rows in which that rate has a floor, so that a far minority is found, and the floors of a column added up:
# one spoiled column in a million is accepted, most of which get a reason; one in 10,000 is not.
REACH = 24
FLOOR = 1e-6
OUTER_HALF = 1.5  # z-score required of the outer half of a window
FALSE_ALARM, FALSE_ALARM_PURE = 0.01, 0.03  # false-alarm rate per column
MOST_FALSE_ALARM_COLUMNS = 10  # maximum number of columns that a false-alarm rate is divided among
GUESSED = 16  # divisor of that rate where only the magnitude of the center suggests where rows lie
NEAR_CENTER = 12, 2  # octaves below and above the magnitude of the center that are searched then
# Fractions of rows at the center of a column that may be constant, and of one that is mostly one value. In between, the weight of
# rows that may hide on an empty side rises linearly.
MANY_ZEROS = 0.4
MOST_ZEROS = 2.0 * MANY_ZEROS
# False-alarm rate per column of doubt: a cell or octave that noise explains as rarely, within `REACH` beyond the support.
DOUBT = 0.005
# Octaves around the outermost significant cell within which a clip point may lie beyond it, and public values are trusted.
NEAR_OCTAVES = 4
# z-score from which noise hardly explains a count: of missing values, of rows outside the main cells, of a guessed cell, and of the
# difference from public rows
LIKELY = 3.0
ALONE = 0.05  # maximum fraction of rows outside the main cells

# ---- The tail beyond the outermost significant cell.
BELOW = 10  # octaves inside that cell in which clip points and edges lie
# Octaves that are kept inside the end of that cell, and modeled beyond it, farther than any clip point.
INNER = BELOW + NEAR_OCTAVES
OUTER = NEAR_OCTAVES + 1
# Octaves of counts that are kept inside that end, of many columns: an empty side ends up to two octaves inside that of the other.
INSIDE = INNER + 2
LARGEST_RATIO = 0.5  # maximum ratio of rows in an octave to those in the previous one: a heavier tail has no mean
# Prior mean and standard deviation of the rows of an octave, over the most that the rule allows.
PRIOR_MEAN, PRIOR_STD = 0.3, 0.5
HEAVY = 2.0**-1.5  # ratio of successive octaves above which the variance of a tail may be infinite

# ---- Clip points and the correction for clipped rows.
POINTS_AN_OCTAVE = 4  # candidate clip points per octave
FAR = 2  # octaves beyond the outer end within which distant rows are searched for
FAR_REACH = 24.0  # standard deviations of the column from its mean, the limit of that search
FAR_STDS = 0.5  # standard deviations added to the estimated sum of such rows
BIAS = 0.05  # weight of the squared clipping correction in predicted squared errors of groups and squares

# ---- Reasons of a result.
# Hidden tail over the half-width of noise, sampling and clipping; the same in a column of mostly one value.
HIDDEN, BESIDE = 6.0, 1.33
MOST_UNSEEN = 0.1  # fraction of rows that may lie far out undetected in a column without a reason
