"""Texts on parameters that many docstrings share, and the program that puts them there.

`python -m tests.shared_texts` writes them into the docstrings of the package: in place of lines that name them, `{ledger}` or
`{ledger, random_state}`, below which a function may add to the last of them; and in place of what the last commit had, where a
text was changed here. So editors and `help()` show all of a docstring. `tests/test_shared_texts.py` fails where one differs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from fastpubpriv.defaults import FAILURE_PROB

ROOT = Path(__file__).resolve().parent.parent

# Each text starts with its name: that of the parameter, or another one in brackets, which is left out.
_ENTRIES = f"""\
x_priv : (n_priv, dim) array-like, path, frame, table or Rows
    Private rows.
[values] x_priv : (n_priv,) or (n_priv, dim) array-like, path, frame, table or Rows
    Private rows, or the values of one column.
x_pub : (n_pub, dim) array-like, path, frame or table
    Public rows, finite, in data units.
[gappy_pub] x_pub : (n_pub, dim) or (dim,) array-like, path, frame or table
    Public rows, at least one number in each column. A cell that is missing (NaN) is left out of what is learnt of its
    column.
budget : ZCDP, ApproxDP or PureDP
    Spent whole, and debited before `x_priv` is read.
[approx_budget] budget : ApproxDP
    Spent whole, for all columns together, and debited before `x_priv` is read.
mode : "practical" or "theory"
    Constants that do well in practice, or those of the proofs. Same privacy.
pub_priv_gap : float in [0, 1)
    Total-variation distance allowed between the Gaussians of public and private rows. Understating it costs accuracy (rows
    are clipped), never privacy.
failure_prob : float in (0, 1), default {FAILURE_PROB}
    Probability with which a bound of this call may fail. A failure costs accuracy, never privacy.
min_weight : float in (0, 1]
    Gaussians of at least this weight are to be found: 1 - gamma in the paper.
columns : str, int or list of these, optional
    Numeric columns by name or, of an array, by number; by default all, in their order.
[matched_columns] columns : str, int or list of these, optional
    Numeric columns by name or, of an array, by number, the same for both data sets; by default all of `x_priv`, in their
    order. Where both data sets have names for their columns, these are matched by name.
by : str, list of str or -1, optional
    The columns whose cells name the group of a row, or -1 for the last column of arrays. Each group has its own answer;
    `columns` are the others. Both data sets need these columns.
groups : list of texts, numbers, bools, dates, pandas Periods or Intervals, or mapping, optional
    The groups, of one kind, known without the private rows; for several columns column -> list, and all combinations are
    groups. By default the distinct cells of `x_pub`. All other rows are one more group, "(other)". At most 10,000.
person : str or (n_priv,) array-like, optional
    Column that says whose row it is, or the identifiers themselves: the call then protects all rows of a person together
    (user-level privacy); say by `keep` or `rows_per_person` what stands for a person. Rows without an identifier are left
    out. A text that is a number in its usual form (7, -3, 7.0) is that number, whatever the form of the table; "07" and "7"
    are two persons. Whole numbers beyond 2^53 are rounded in columns of numbers: keep them as text. By default each row is
    protected by itself.
keep : "row", "mean" or "sum", optional
    With `person`: "mean", for each column the mean of the numbers in the person's rows, so that each person counts once; or
    "sum", their sum (0 for a person without any), whose total is that of all rows. Public rows that have the column of
    persons are treated alike, others are of persons already. "row", which `rows_per_person` implies: rows.
rows_per_person : int or "auto", optional
    With `person`: at most how many rows of each person are used, chosen as if at random. For k rows the budget is spent at
    row level with rho / k^2 or epsilon / k; "auto" chooses k with a sixteenth of it, and a given k spends 1/64 on how many
    persons have more rows: reason "rows_left_out" if surely more than 2 % do. Rows that a person does not have are in no
    count; a method that cannot tell them from rows at a center refuses k > 1 before the debit.
ledger : Ledger, optional
    Debited before the first read, by what `budget` says is spent.
random_state : None or int
    None: fresh operating-system keys. int: repeatable, warned about, `private=False`.
threads : int, optional
    Number of threads; by default one for each core. Passes over few numbers wake none. Never changes the answer.
progress : bool, optional
    Whether a progress bar is shown; by default on a terminal, for long work.
max_memory : float, optional
    Most bytes that counting may take, were every row in a bin of its own; by default no limit. A call that may need more is
    refused before it pays, by public numbers alone. Never changes the answer.
[kept_memory] max_memory : float, optional
    Most bytes of rows, in the units of the fit, that are kept in memory for further passes; by default 2**30 (30 million
    rows of 7 features). Rows that need more are read and changed in each pass, which takes longer. Never changes the
    answer.
[x_labeled] x_priv : (n_priv, dim) array-like, path, frame, table or Rows
    Private rows. One with a missing or infinite label or cell is ignored, but is counted; see Notes for cells.
y_priv : (n_priv,) array-like, optional
    Their labels. Either this or `label`.
[x_pub_labeled] x_pub : (m, dim) array-like, path, frame or table
    Public rows, at least two; scales, clips and the start come from them. A cell may be missing.
y_pub : (m,) array-like, optional
    Their labels, missing (NaN, None) where unknown. Either this or `label`, or neither: without labels, too, Newton steps
    of the squared, Huber and logistic loss take scales of columns from these rows. With fewer than three labels the start
    is zero, classes need `classes`, and the size of labels is `y_scale`, or comes from `y_bounds`, or from a twentieth of
    the budget.
label : str or -1, optional
    Name of the column that holds the label, or -1 for the last column of arrays and sources without names. `x_pub` may lack
    it.
[features] columns : str or list of str, optional
    The features, the same for both tables and matched by name; by default all columns of `x_priv` but the label.
weights_pub : (m,) array-like or str, optional
    How much each public row counts, or the name of the column of `x_pub` that holds it, which is then no feature; at least
    0. Only ratios matter, and few heavy rows count as few rows. By default all alike.
weights_priv : (n_priv,) array-like or str, optional
    How much each private row counts, or the name of the column of `x_priv` that holds it, which is then no feature; beside
    `person` it must be a name. In the unit of `weights_pub`, which is then needed, for "newton". A missing, infinite or
    negative weight counts as 0, one above `weight_cap` as that. It is as private as its row. One to five hundredths of the
    budget release what they add up to, unless noise would hide that: then public weights say it.
weight_cap : float > 0, optional
    The largest weight of a private row that counts, known without the data. Noise is that of rows which all weigh so much.
[bounds_of_means] bounds : (lowest, highest), optional
    What columns can hold, known without the data: numbers, or vectors (dim,); an end may be infinite. Means are clipped to
    them, and no Gaussian stays wider than a column within them can be. One whose mean lay more than one of its deviations
    outside says "clipped". Private rows are not clipped, and nothing is spent on it.
x_bounds : (lowest, highest), or mapping of a column to such a pair, optional
    What columns can hold, known without the data: numbers, or vectors (dim,). Their units come from it, not from public
    rows. A column that does not vary in these is left out all the same. No private cell is clipped; a public one beyond is
    refused.
y_bounds : (lowest, highest), optional
    What labels can be, known without the data: their unit comes from it. No private label is clipped; a public one beyond
    is refused. Without public labels, its middle is where labels are supposed to be, else zero: pass it if they are far
    from zero.
class_weight : mapping of each class to a number above 0, or "public", optional
    Public numbers, up to a factor of 1000 apart, by which the loss of a row is multiplied, so that the model, its intercept
    and its probabilities are those of classes so weighted; "public" is one over the frequency in the public rows, at most
    10. "balanced" would count private labels and is refused, as is resampling. For method "newton" and "throw_away".
categories : name, list of names or mapping, optional
    Columns, of texts or numbers, each of whose levels is a term of its own ("carrier=UA"): those of the public rows or, in
    a mapping of columns, those that it lists ("public" for those of the public rows). Any other cell, of whatever type,
    counts as "other", a term only if public rows have it: if not, newton ignores such rows. Texts are compared without
    blanks around them.
reference : mapping of columns to levels, optional
    Level, one that public rows have, from which the other coefficients of a column with categories are differences: its own
    is 0, without an interval. By default they are differences from the average of the public rows. Predictions are the
    same.
y_scale : float > 0, optional
    A difference between labels that matters, for public labels that are all equal or exactly linear; where they are all
    equal, it stands for the size of residuals too. Without public labels, their root mean square about zero or the middle
    of `y_bounds`.
classes : numbers or texts, optional
    The labels of the classes; by default those that the public rows have. A private row with another label is ignored.
[labeled_budget] budget : ZCDP, ApproxDP or PureDP
    Spent whole, and debited before `x_priv` is read, unless `method` takes public rows alone.
tails : "any" or "light"
    "any": far rows count as in least squares, or the maximum likelihood, of all private rows, and intervals are about that.
    "light", for people who know that residuals are about normal and no column has a long tail: robust Newton steps alone,
    which have less noise; where tails are long they are biased, and their intervals do not know it. With five public rows
    of classes for each coefficient, .88 of their intervals of 95 % hold. For the squared and the logistic loss.
[fit_budget] budget : ZCDP or ApproxDP
    What one fit costs.
[linear_fit_budget] budget : ZCDP, ApproxDP or PureDP
    What one fit costs.
[ledger_file] ledger : str, optional
    Path of a ledger file.
[test_seed] random_state : int, optional
    For tests only.
[public_parameter] X_pub : (m, d) array-like or frame, optional
    Public rows of every fit, here or in `fit`, not in both; copies and pickles of the estimator hold them. In the units in
    which private rows reach this estimator: behind a transformer of a pipeline, pass them to `fit` to have them transformed
    too.
[public_labels_parameter] y_pub : (m,) array-like, optional
    Labels of these public rows, in the same place; missing (NaN) where unknown.
randomizer : PrivUnit, PrivUnitG, Duchi or SubsetSelection
    To be audited.
claim : PureDP or ApproxDP, optional
    By default the cost that it states.
confidence : float
    Of the report.
[of_an_audit] Returns
-------
AuditReport

Raises
------
InputError
    Arguments out of range.

Privacy
-------
The rows are made up.
[method_and_loss] method, loss : str
    The method and loss that were used.
[model_terms] terms : tuple of str
    Terms of the linear predictor: columns, indicators of missing cells, and levels of categories ("month=2"). A column that
    is constant in the public rows has no term, or one with a coefficient of NaN in a TrainingResult.
[model_classes] classes : (k,) float64
    The labels of a model of classes, else empty; 0, 1, ... for texts, which are stored in `design`.
[model_design] design : mapping
    How the terms are computed from columns: "texts" has the categories of each text column, "classes" those of a text
    label, "reference" the levels that others are compared with, and "average" the shares of their columns' levels in public
    rows, which stand for a level that is not listed. Without "source" the terms are the columns.
[raises] InputError, BudgetError, LedgerError
    For public data and arguments, the form of the private data, and the budget. Never for the content of `x_priv`.
"""
_ENTRY = re.compile(r"(?:\[(\w+)\] )?((\w+).*?)(?=\n\[|\n\w+ : |\n\Z)", re.DOTALL)
TEXTS = {entry[1] or entry[3]: entry[2] for entry in _ENTRY.finditer(_ENTRIES)}
_LINE = re.compile(r"^( *)\{(\w+(?:, \w+)*)\}$", re.MULTILINE)


def indented(text: str, margin: str) -> str:
    """Return the text as it stands in a docstring with this margin."""
    return textwrap.indent(text, margin)


def _filled(line: re.Match[str]) -> str:
    names = line[2].split(", ")
    if not set(names) <= TEXTS.keys():
        return line[0]
    return "\n".join(indented(TEXTS[name], line[1]) for name in names)


def filled(source: str) -> str:
    """Return a source with the shared texts in place of the lines that name them."""
    return _LINE.sub(_filled, source)


def renewed(source: str, before: dict[str, str]) -> str:
    """Return a source with the shared texts in place of those of the same names in `before`."""
    for name, text in TEXTS.items():
        old = before.get(name, text)
        if old != text:
            for margin in ("    ", "        "):
                source = source.replace(
                    f"\n{indented(old, margin)}\n", f"\n{indented(text, margin)}\n"
                )
    return source


def of_last_commit() -> dict[str, str]:
    """Return the shared texts of the last commit."""
    shown = subprocess.run(
        ["git", "show", "HEAD:tests/shared_texts.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names: dict[str, object] = {"__name__": "before", "__file__": __file__}
    exec(compile(shown.stdout, "HEAD:tests/shared_texts.py", "exec"), names)  # our own text
    texts: dict[str, str] = names["TEXTS"]  # type: ignore[assignment]
    return texts


def sources() -> list[Path]:
    """Return the files whose docstrings share texts; those of commands have names in braces of their own."""
    package = [path for path in ROOT.glob("fastpubpriv/**/*.py") if path.parent.name != "cli"]
    return sorted([*package, *ROOT.glob("benchmarks/papers/*.py")])


def main() -> None:
    """Write every source whose docstrings change, and say so."""
    try:
        before = of_last_commit()
    except subprocess.CalledProcessError:
        before = {}
    for path in sources():
        source = path.read_text(encoding="utf-8")
        written = renewed(filled(source), before)
        if written != source:
            path.write_text(written, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT).as_posix()}\n")


if __name__ == "__main__":
    main()
