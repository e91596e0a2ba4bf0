"""`fastpubpriv local`: reports of users, and their sums, as the two ends of a pipe."""

from __future__ import annotations

from typing import Any

import click

from fastpubpriv.cli import options

PRIVATIZE_EPILOG = """\b
Examples:
  fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out reports.fpp
  fastpubpriv local privatize --private p.npy --epsilon 4 --norm-bound 3 --out - | \\
      fastpubpriv local aggregate - --dim 5 --epsilon 4 --norm-bound 3
  fastpubpriv local privatize --private p.csv --columns age,income --public q.csv --standardize \\
      --epsilon 4 --norm-bound public --out reports.fpp
"""
AGGREGATE_EPILOG = """\b
Examples:
  fastpubpriv local aggregate reports.fpp more/ --dim 5 --epsilon 4 --norm-bound 3 --public q.npy --plot mean.png
  fastpubpriv local aggregate monday/ --dim 5 --epsilon 4 --norm-bound 3 --state sums --json mean.json
  fastpubpriv local aggregate --dim 5 --epsilon 4 --norm-bound 3 --state sums --merge other-server.sums
"""
FAMILIES = ("privunit", "privunit-g", "duchi", "subset-selection")

randomizer_options = options.stack(
    click.option("--epsilon", type=float, required=True, help="Privacy of one report, in pure DP."),
    click.option(
        "--norm-bound",
        type=options.NumberOr("public"),
        help="Rows longer than this are shortened to it; intervals allow for that as far as --public rows tell. public: the length "
        "of the longest of these, at both ends. Without it only directions of rows count.",
    ),
    click.option(
        "--randomizer",
        "family",
        type=click.Choice(FAMILIES),
        default="privunit",
        show_default=True,
        help="privunit has the least error; reports of subset-selection have 10 bytes.",
    ),
    click.option(
        "--form",
        type=click.Choice(("direct", "selection")),
        default="direct",
        show_default=True,
        help="direct: vectors on a grid. selection: seeds of 32 bytes, for an epsilon up to about 6.",
    ),
    click.option(
        "--words",
        type=click.IntRange(2, 1024),
        help="For subset-selection: of how many words a report names one. Default: 256. More take longer, fewer are less accurate.",
    ),
)
standardize_option = click.option(
    "--standardize",
    is_flag=True,
    help="Columns are shifted and scaled by mean and standard deviation of the public rows, and back in the answer; give it, and "
    "the same --public file, at both ends. A missing cell counts as the public mean.",
)


@click.group(name="local", short_help="Reports of users who trust nobody, and means from them: two ends of a pipe.")
def local() -> None:
    """Reports of users who trust nobody, and means from them: two ends of a pipe.

    `privatize` draws a report of each row, where the rows are; `aggregate` sums reports up, where they are sent.
    """


@local.command(epilog=PRIVATIZE_EPILOG, short_help="Draw a report of each row.")
@click.option(
    "--private",
    "private_path",
    required=True,
    type=options.FileName(dash=True),
    help="One row for each user: .npy, .parquet, .arrow, .feather or .csv; - for lines of .csv on the standard input.",
)
@click.option("--columns", metavar="A,B,...", help="Columns of the tables. Needed for .csv without --public.")
@options.join_option
@options.public_option(required=False)
@standardize_option
@randomizer_options
@click.option("--out", "out_path", required=True, type=options.FileName(dash=True), help="Write reports; - for stdout.")
@click.option(
    "--resume", is_flag=True, help="Go on with the file of a run that was stopped, after its last whole report."
)
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    help="Reports of a message. Default: about a megabyte, or a tenth of a second.",
)
@options.run_options
@click.option("--quiet", "-q", is_flag=True, help="No notes; warnings and errors still show.")
def privatize(**settings: Any) -> None:
    """Draw a report of each row, and write all of them in messages that `aggregate` reads.

    A report by itself is private, whoever reads it. Each further report of a user costs as much again, while one that was stored
    may be sent again for nothing: a file that is there already is therefore not replaced.
    """
    from fastpubpriv.cli import reporting

    reporting.privatize(settings)


@local.command(epilog=AGGREGATE_EPILOG, short_help="Sum up reports, and estimate the mean of the rows.")
@click.argument("inputs", nargs=-1, type=options.FileName(dash=True))
@click.option("--dim", type=click.IntRange(min=1), required=True, help="Columns of a row.")
@randomizer_options
@options.public_option(required=False)
@click.option("--columns", metavar="A,B,...", help="Columns of the public table, and names in the answer.")
@standardize_option
@click.option(
    "--target",
    type=click.Choice(("population", "empirical")),
    default="population",
    show_default=True,
    help="The mean of the law of all rows, or of these rows, reported and public.",
)
@click.option("--state", "state_path", type=options.FileName(), help="Keep the sums in this file, and go on from it.")
@click.option(
    "--merge", "merge_paths", multiple=True, type=options.FileName(), help="Add the --state of another server."
)
@click.option(
    "--users",
    "users_path",
    type=options.FileName(),
    help="A hash of each report's user: lines of 32 or more hex digits, in the order of the reports.",
)
@click.option(
    "--reports-per-user",
    type=click.IntRange(1, 1 << 20),
    default=1,
    show_default=True,
    help="The most reports of one user: enforced with --users, otherwise a promise. A user pays for so many.",
)
@click.option(
    "--most-per-input", type=click.IntRange(min=1), help="Refuse the rest of an input that holds more reports."
)
@click.option("--strict", is_flag=True, help="Stop at the first input with anything wrong.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: all cores. Never changes the answer.")
@options.output_options
def aggregate(**settings: Any) -> None:
    """Sum up the reports in INPUTS: files, folders of files, or - for the standard input; then estimate the mean of the rows.

    Nothing in an input is believed: what is cut short, changed, foreign or of another randomizer is left out with a warning, a
    message that was taken before does not count again, and no report counts for more than an honest one could. One input should
    come from one sender: whatever is wrong in it ends the reading of it, not of the others.
    """
    from fastpubpriv.cli import collecting

    collecting.aggregate(settings)
