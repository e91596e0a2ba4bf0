"""`fastpubpriv local`: reports of users, and their sums, as the two ends of a pipe."""

from __future__ import annotations

from typing import Any

import click

from fastpubpriv.cli import options


@click.group(
    short_help="Reports of users who trust nobody, and means from them: two ends of a pipe."
)
def local() -> None:
    """Reports of users who trust nobody, and means from them: two ends of a pipe.

    `privatize` draws a report of each row, where the rows are; `aggregate` sums reports up, where they are sent.
    """


@local.add_command
@options.command()
def privatize(**settings: Any) -> None:
    """Draw a report of each row, and write all of them in messages that `aggregate` reads.

    A report by itself is private, whoever reads it. Each further report of a user costs as much again, while a stored one may be
    sent again at no cost: an existing file is therefore not replaced.

    private_path : file or -
        One row for each user: .npy, .parquet, .arrow, .feather or .csv; - for lines of .csv on the standard input. With
        --norm-bound a row with a missing cell counts as zeros, unless --standardize sets the cell; without, as the direction of
        the first column.
    columns : A,B,..., optional :: Columns of the tables. Needed for .csv without --public.
    {join_quoted_lines}
    public_path : file, optional :: Rows that need no protection, at least one, with the same columns.
    epsilon : float :: Privacy of one report, in pure DP.
    {norm_bound, family, form, words, standardize}
    out_path : file or - :: Write reports; - for stdout.
    resume : flag :: Go on with the file of a run that was stopped, after its last whole report.
    batch_rows : int >= 1, optional :: Reports of a message. Default: about a megabyte, or a tenth of a second.
    {seed, threads}
    quiet : flag :: No notes; warnings and errors still show.

    $ fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out reports.fpp
    $ fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out - | \\
        fastpubpriv local aggregate - --dim 5 --epsilon 4 --norm-bound 3
    $ fastpubpriv local privatize --private p.csv --columns age,income --public q.csv --standardize \\
        --epsilon 4 --norm-bound public --out reports.fpp
    """
    from fastpubpriv.cli import report_commands

    report_commands.privatize(settings)


@local.add_command
@options.command(click.Argument(["inputs"], nargs=-1, type=options.FileName(dash=True)))
def aggregate(**settings: Any) -> None:
    """Sum up the reports in INPUTS: files, folders of files, or - for the standard input; then estimate the mean of the rows.

    FileInputs are not trusted: what is cut short, changed, foreign or of another randomizer is left out with a warning, a repeated
    message is not counted again, and no report has more influence than an honest one could. One input should come from one sender:
    an error in it ends the reading of this input, not of the others.

    dim : int >= 1 :: Columns of a row.
    epsilon : float :: Privacy of one report, in pure DP.
    {norm_bound, family, form, words, standardize}
    public_path : file, optional :: Rows that need no protection, at least one, with the same columns.
    columns : A,B,..., optional :: Columns of the public table, in the order of `privatize`, and names in the answer.
    target : "population" or "empirical", default population
        The mean of the distribution of all rows, or of these rows, reported and public.
    state_path : file, optional :: Keep the sums in this file, and go on from it.
    reports_per_user : int in [1, 1048576], default 1 :: Maximum number of reports of one user: the cost is for so many.
    {threads, level, json_path, plot_path, quiet}

    $ fastpubpriv local aggregate reports.fpp more/ --dim 5 --epsilon 4 --norm-bound 3 --public q.npy --plot mean.png
    $ fastpubpriv local aggregate monday/ --dim 5 --epsilon 4 --norm-bound 3 --state sums --json mean.json
    """
    from fastpubpriv.cli import report_commands

    report_commands.aggregate(settings)
