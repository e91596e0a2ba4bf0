"""`fastpubpriv local`: reports of users, and their sums, as the two ends of a pipe."""

from __future__ import annotations

from typing import Any

import click

from fastpubpriv.cli import options

randomizer_options = options.table(
    {
        "epsilon": (float, "Privacy of one report, in pure DP.", ...),
        "norm_bound": (
            options.number_or("public"),
            "Rows longer than this are shortened to it; intervals allow for that as far as --public rows tell. public: the length "
            "of the longest of these, at both ends. Without it only directions of rows count.",
        ),
        "family": (
            ("privunit", "privunit-g", "duchi", "subset-selection"),
            "privunit has the least error; reports of subset-selection have 10 bytes.",
            "privunit",
        ),
        "form": (
            ("direct", "selection"),
            "direct: vectors on a grid. selection: seeds of 32 bytes, for an epsilon up to about 6.",
            "direct",
        ),
        "words": (
            click.IntRange(2, 1024),
            "For subset-selection: of how many words a report names one. Default: 256. More take longer, fewer are less accurate.",
        ),
        "standardize": (
            bool,
            "Columns are shifted and scaled by mean and standard deviation of the public rows, and back in the answer; give it, "
            "and the same --public file, at both ends. A missing cell counts as the public mean.",
        ),
    }
)


@click.group(name="local")
def local() -> None:
    """Reports of users who trust nobody, and means from them: two ends of a pipe.

    `privatize` draws a report of each row, where the rows are; `aggregate` sums reports up, where they are sent.
    """


@local.command(
    epilog=options.epilog(
        "fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out reports.fpp",
        "fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out - | \\",
        "    fastpubpriv local aggregate - --dim 5 --epsilon 4 --norm-bound 3",
        "fastpubpriv local privatize --private p.csv --columns age,income --public q.csv --standardize \\",
        "    --epsilon 4 --norm-bound public --out reports.fpp",
    ),
    short_help="Draw a report of each row.",
)
@options.table(
    {
        "private_path": (
            options.FileName(dash=True),
            "One row for each user: .npy, .parquet, .arrow, .feather or .csv; - for lines of .csv on the standard input.",
            ...,
        )
    }
)
@click.option("--columns", metavar="A,B,...", help="Columns of the tables. Needed for .csv without --public.")
@options.join_option
@options.public_option(required=False)
@randomizer_options
@options.table(
    {
        "out_path": (options.FileName(dash=True), "Write reports; - for stdout.", ...),
        "resume": (bool, "Go on with the file of a run that was stopped, after its last whole report."),
        "batch_rows": (
            click.IntRange(min=1),
            "Reports of a message. Default: about a megabyte, or a tenth of a second.",
        ),
    }
)
@options.seed_option
@options.threads_option
@options.quiet_option("No notes; warnings and errors still show.")
def privatize(**settings: Any) -> None:
    """Draw a report of each row, and write all of them in messages that `aggregate` reads.

    A report by itself is private, whoever reads it. Each further report of a user costs as much again, while one that was stored
    may be sent again for nothing: a file that is there already is therefore not replaced.
    """
    from fastpubpriv.cli import reports

    reports.privatize(settings)


@local.command(
    epilog=options.epilog(
        "fastpubpriv local aggregate reports.fpp more/ --dim 5 --epsilon 4 --norm-bound 3 --public q.npy --plot mean.png",
        "fastpubpriv local aggregate monday/ --dim 5 --epsilon 4 --norm-bound 3 --state sums --json mean.json",
        "fastpubpriv local aggregate --dim 5 --epsilon 4 --norm-bound 3 --state sums --merge other-server.sums",
    ),
    short_help="Sum up reports, and estimate the mean of the rows.",
)
@click.argument("inputs", nargs=-1, type=options.FileName(dash=True))
@options.table({"dim": (click.IntRange(min=1), "Columns of a row.", ...)})
@randomizer_options
@options.public_option(required=False)
@click.option("--columns", metavar="A,B,...", help="Columns of the public table, and names in the answer.")
@options.table(
    {
        "target": (
            ("population", "empirical"),
            "The mean of the law of all rows, or of these rows, reported and public.",
            "population",
        ),
        "state_path": (options.FileName(), "Keep the sums in this file, and go on from it."),
        "users_path": (
            options.FileName(),
            "A hash of each report's user: lines of 32 or more hex digits, in the order of the reports.",
        ),
        "reports_per_user": (
            click.IntRange(1, 1 << 20),
            "The most reports of one user: enforced with --users, otherwise a promise. A user pays for so many.",
            1,
        ),
        "most_per_input": (click.IntRange(min=1), "Refuse the rest of an input that holds more reports."),
        "strict": (bool, "Stop at the first input with anything wrong."),
    }
)
@click.option(
    "--merge", "merge_paths", multiple=True, type=options.FileName(), help="Add the --state of another server."
)
@options.threads_option
@options.output_options
def aggregate(**settings: Any) -> None:
    """Sum up the reports in INPUTS: files, folders of files, or - for the standard input; then estimate the mean of the rows.

    Nothing in an input is believed: what is cut short, changed, foreign or of another randomizer is left out with a warning, a
    message that was taken before does not count again, and no report counts for more than an honest one could. One input should
    come from one sender: whatever is wrong in it ends the reading of it, not of the others.
    """
    from fastpubpriv.cli import reports

    reports.aggregate(settings)
