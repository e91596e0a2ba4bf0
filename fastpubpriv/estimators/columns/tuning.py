"""The tuned numbers of columns: meaning and unit of each.

`python -m benchmarks.accuracy --quick` chose them, and shows what another value does. "Deviations" are those of the noise of a
count, unless the line says of what; "rows over noise" is a number of rows divided by one.
"""

from __future__ import annotations

from fractions import Fraction

# ---- Shares of the allowance. Where columns are many (more than FEW_COLUMNS), the noise of their sum is what costs most.
FEW_COLUMNS = 3
FEW_PUBLIC = 5  # public numbers of a column, from which on their own scale is used
SIGNAL, SIGNAL_PURE = 90.0, 280.0  # rows over noise of a cell that counts are paid for; Laplace noise of few columns
LEAST_SHARE, LEAST_SHARE_MANY = Fraction(1, 4), Fraction(3, 20)  # of the counts; also MOST_SHARE
MOST_SHARE, MOST_SHARE_PURE = Fraction(3, 8), Fraction(15, 32)
SHELL_SHARE = Fraction(1, 20)  # of the counts of shells of rows
SHELLS = 48  # edges of shells, eight to an octave
# What is asked again is paid out of the share of the sum: for columns far from their center a sum and new counts, and again at most
# once more; else, where the noise of the sum is far below the sampling error, more counts.
MOST_MOVES = 2
MOVE_SUM, MOVE_COUNTS = Fraction(1, 8), Fraction(1, 4)
LEFTOVER_SHARES = tuple(Fraction(eighths, 8) for eighths in range(2, 7))
NOISE_OF_SAMPLING = 0.05  # squared noise of the sum over squared sampling error, that more counts may lead to
WHOLE = 400.0  # rows over noise below which an octave is one cell; two cells below twice as many, else four
UNSEEN = 8.0  # rows over noise below which counts show no scale, no rest of a column of one value, and no group apart

# ---- Which cells of a column hold rows.
WIDTHS = (1, 2, 4, 8)  # cells of a window
ANCHOR, ANCHOR_PURE = 5.2, 9.8  # deviations of the window that a column is found by
DECAY = 3.0  # log2 by which mistakes become rarer for each octave further out, where a mistake costs 4
OUTER_HALF = 1.5  # deviations by which the outer half of a window stands out
PASSES = 6  # over the windows, until those that stand do not change
MOST_CELLS = 32  # cells of an octave of all columns that are worked on together, to bound memory
FALSE_ALARM, FALSE_ALARM_PURE = 0.01, 0.03  # chance of a cell by mistake: rarer costs more rows under Laplace noise
MOST_FALSE_ALARM_COLUMNS = 10  # columns that share such a chance
GUESSED = 16  # times rarer beside a place that only the size of the center suggests
NEAR_CENTER = 12, 2  # octaves below and above the size of the center, of such a place
# Shares of the rows at the center: of a column that may be constant, and of one that is mostly one value. Between them a side where
# nothing can be seen is doubted more and more.
MANY_ZEROS, MOST_ZEROS = 0.4, 0.8
# Octaves around the last cell that stands out: where a clip point may lie beyond it, where public numbers are believed, and where
# cells that nearly stand out make a column doubtful.
NEAR_OCTAVES = 4
DOUBTFUL_CELL, DOUBTFUL_OCTAVE = 3.4, 2.8  # deviations of a cell and of an octave that nearly stand out
UNSEEN_OCTAVES, UNSEEN_STDS = 10.0, 1.645  # how far out unseen rows are counted, with the 95 % quantile of a normal law
ALONE, ALONE_STDS = 0.05, 2.0  # share of the rows, and deviations, elsewhere in a column far from its center

# ---- The tail beyond the last cell.
INNER, OUTER = 64, 5  # octaves that are looked at below and beyond the last cell
LARGEST_RATIO, LEAST_RATIO = 0.4, 0.02  # of an octave to the one before it, in a tail that ends some day
LEAST_FACTOR, BEND = 1e-3, 6  # least factor, and the power of the bend, by which such ratios fall from octave to octave
HIDDEN_GROWTH = 1.2  # most that the rows of an octave may grow by where noise hides them
FAR_BELOW_NOISE = 1e-6  # deviations of a prior below which a count tells nothing
HEAVY = 2.0**-1.5  # ratio of octaves above which a tail may have no variance
LEEWAY = 1.0  # deviations of a count by which an octave may fall short of that ratio

# ---- Where a column is clipped, and what is put back.
BELOW = 10  # octaves below the last cell in which a clip point may lie
POINTS_AN_OCTAVE = 4  # clip points that are compared
MISSING_STDS = 3.0  # deviations above which missing numbers are believed in
FAR = 2  # octaves beyond either end, where rows far from all others are looked for
FAR_REACH = 24.0  # deviations of the column from its mean, within which they are
FAR_STDS = 0.5  # deviations that are allowed for beside their counts
FARTHEST_ROOT = 30.0  # logarithm of the largest factor between units of columns, for the error of the whole vector

# ---- When a result has a reason.
NORMAL = 1.959964  # quantile of the interval that a hidden tail is compared with
TAIL = 1.5  # times the rows that a tail is predicted to hide, in intervals
HIDDEN, BESIDE = 4.0, 2.0  # times the rest of the interval that a hidden tail takes; beside rows mostly at the center
MOST_UNSEEN = 0.1  # share of the rows that may lie far away unseen in a column without a reason
ENOUGH_PUBLIC = 30  # rows whose own deviation can be trusted
