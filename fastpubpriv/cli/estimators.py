"""The commands that call an estimator: what differs from its signature, and its help."""

from __future__ import annotations

import click

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.signatures import Call, command


@command(
    "estimate_mean",
    "Private mean of {n:,} rows",
    (
        "fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5",
        "fastpubpriv mean --private p.npy --public q.npy --epsilon 1 --delta 1e-7 --json out.json --plot out.png",
        "fastpubpriv mean --private p.csv --public q.csv --columns age,income --rho 0.1 \\",
        "    --ledger survey.ledger --ledger-total rho=1",
    ),
    covariance={
        "metavar": "public|FILE.npy",
        "help": "For gaussian: how the rows spread, estimated from the public rows, or a covariance matrix in a file. Default: "
        "public, if there are more public rows than columns, else a variance of 1 in every column.",
    },
    variance={"metavar": "V|V,...|FILE.npy"},
    bounds={
        "help": "For counts: two numbers between which all values of all columns are known to lie: intervals become finite and "
        "sharper."
    },
)
def mean(call: Call) -> None:
    """Mean of private rows in any unit and of any shape, from one public row or more.

    Part of the budget counts where the values of each column lie and end, the rest goes into one clipped sum. Missing values
    are counted, and the mean of a column is that of the values it has.
    """
    from fastpubpriv.cli import outputs

    n_pub, dim = call.opened.public.shape
    read_spread(call, dim)
    spread = call.arguments["covariance"], call.arguments["variance"]
    if call.arguments["clipping"] != "gaussian" or spread != (None, None):
        return
    if n_pub > dim:
        call.arguments["covariance"] = "public"
        return
    few = "1 public row is" if n_pub == 1 else f"{n_pub} public rows are"
    text = (
        f"{few} too few to learn how {dim} {'column spreads' if dim == 1 else 'columns spread'} (that takes "
        f"{dim + 1}), so a standard deviation of 1 in every column is assumed. If that is far off, so is the "
        "answer: pass --variance, --covariance or more public rows"
    )
    # Not silenced by --quiet, and part of the JSON: the answer depends on it.
    outputs.note(text)
    call.settings["caveats"] = [text]


def read_spread(call: Call, dim: int) -> None:
    """Put what --covariance ("public" or a .npy file) and --variance (numbers or a .npy file) stand for in their place."""
    from fastpubpriv.cli import inputs

    covariance, variance = call.arguments["covariance"], call.arguments["variance"]
    if covariance not in (None, "public"):
        call.arguments["covariance"] = inputs.read_array(covariance, "--covariance")
    if variance is not None:
        call.arguments["variance"] = inputs.read_vector(variance, dim, "--variance")


@command(
    "coinpress_mean",
    "Private mean of {n:,} rows (CoinPress)",
    ("fastpubpriv coinpress-mean --private p.parquet --center 0 --radius 100 --variance 25 --rho 0.5",),
    bounds=None,
    center={"required": True, "metavar": "C|C,...|FILE.npy"},
    radius={"required": True},
    covariance={"metavar": "FILE.npy"},
    variance={"metavar": "V|V,...|FILE.npy"},
)
def coinpress_mean(call: Call) -> None:
    """Mean of private rows without public rows (CoinPress).

    The centre and the radius must not come from the private rows. Too small a radius costs accuracy, never privacy.
    """
    from fastpubpriv.cli import inputs

    dim = call.opened.private.dim
    call.arguments["center"] = inputs.read_vector(call.arguments["center"], dim, "--center")
    read_spread(call, dim)


@command(
    "weighted_mean",
    "Weighted mean of {n:,} private rows and the public ones",
    ("fastpubpriv weighted-mean --private p.npy --public q.npy --norm-bound 3 --center public --epsilon 1",),
    bounds={"help": "Instead of --norm-bound: two numbers between which all values of all columns are known to lie."},
    row_weight={
        "type": str,
        "metavar": "NAME|W",
        "help": "optimal, throw_away (public rows only), gaussian (all rows alike), private, or the weight of a private row.",
    },
    center={"metavar": "public|C|C,...|FILE.npy"},
    project=None,
)
def weighted_mean(call: Call) -> None:
    """Mean of bounded rows, private and public ones weighted so that the error is least."""
    from fastpubpriv.cli import inputs

    center, number = call.arguments["center"], options.exact_number(call.arguments["row_weight"])
    if center is not None and center != "public":
        call.arguments["center"] = inputs.read_vector(center, call.opened.private.dim, "--center")
    if number is not None:
        call.arguments["row_weight"] = options.real(number, "--row-weight")
    if (call.arguments["norm_bound"] is None) == (call.arguments["bounds"] is None):
        raise click.UsageError("pass either --norm-bound, the distance to which rows are clipped, or --bounds LOW,HIGH")


@command(
    "estimate_gaussian",
    "Private mean and covariance of {n:,} rows",
    (
        "fastpubpriv gaussian --private visits.parquet --public volunteers.csv --rho 0.5 --plot ellipses.png",
        "fastpubpriv gaussian --private p.npy --public other_town.npy --gap 0.9 --epsilon 1 --delta 1e-7 --json out.json",
    ),
    method={"type": options.Methods("fastpubpriv.estimators.learners")},
    cond_max=None,
    require_precondition=None,
)
def gaussian(call: Call) -> None:
    """Mean and covariance of private rows, with ranges taken from public rows.

    Two distinct public rows are enough to begin. What is learnt privately is decided before anything is spent, by what public
    numbers predict to be best. A private row with a missing value adds nothing, but counts.
    """


@command(
    "learn_separated_mixture",
    "Private groups of {n:,} rows",
    (
        "fastpubpriv mixture --private visits.parquet --public volunteers.csv --components 3 --rho 0.5 --plot groups.png",
        "fastpubpriv mixture --private p.npy --public q.npy --components 4 --min-weight 0.1 --epsilon 1 --delta 1e-7 "
        "--json out.json",
    ),
    min_weight={
        "required": False,
        "help": "Share of the rows in the smallest group. Default: half an equal share.",
    },
    method={
        "type": options.Methods("fastpubpriv.mixtures.separated.searches"),
        "help": "How groups are found; auto decides by the number of public rows.",
    },
    weight_floor=None,
)
def mixture(call: Call) -> None:
    """Groups of private rows: weight, mean and covariance of each.

    For groups that lie several standard deviations apart, in columns of any units. Public rows must include some of each
    group. Fewer groups than asked for are found if the rest cannot be told apart.
    """
    if call.arguments["min_weight"] is None:
        call.arguments["min_weight"] = 0.5 / call.arguments["n_components"]


@command(
    "learn_axis_aligned_mixture",
    "Private mixture of {n:,} rows",
    (
        "fastpubpriv axis-mixture --private delays.parquet --columns minutes --components 3 --epsilon 1 --delta 1e-7 "
        "--plot out.png",
        "fastpubpriv axis-mixture --private p.npy --public q.npy --components 4 --epsilon 1 --json out.json",
    ),
    budget=options.budget_options(" Without --public it must be --epsilon with --delta."),
    variance={"type": float},
    covariance=None,
    method={"type": options.Methods("fastpubpriv.mixtures.axis_aligned.learn")},
    min_weight=None,
)
def axis_mixture(call: Call) -> None:
    """Mixture of Gaussians with independent columns, and no range given.

    Values may lie anywhere. Without public rows the budget must have a delta; several columns then need groups that are
    apart in some of them.
    """


@command(
    "stable_histogram",
    "Private histogram of {n:,} rows",
    (
        "fastpubpriv histogram --private flights.parquet --columns arr_delay --width 10 --epsilon 1 --delta 1e-7",
        "fastpubpriv histogram --private p.npy --dyadic --epsilon 1 --delta 1e-7 --json out.json --plot out.png",
    ),
    x_priv=options.private_option("The values to protect"),
    bins=options.table(
        {
            "width": (options.EXACT, "Width of the bins, in data units."),
            "offset": (options.EXACT, "Where a bin ends; the others end whole widths from there.", "0"),
            "levels": (
                click.IntRange(min=1),
                "Also bins 2, 4, ... times as wide, each level a histogram of its own.",
                1,
            ),
            "dyadic": (bool, "Bins between powers of two of the absolute value, in place of --width."),
            "joint": (bool, "One histogram over all columns together, in place of one for each column."),
        }
    ),
)
def histogram(call: Call) -> None:
    """Histograms of private columns, with no range given: only bins with enough rows show, with noisy counts.

    The bins must not be chosen by looking at the private rows. --delta is needed: it is what a bin of a single row may show.
    """
    width, offset, levels = (call.settings[name] for name in ("width", "offset", "levels"))
    if call.settings["dyadic"] == (width is not None):
        raise click.UsageError("pass either --width W or --dyadic")
    if call.settings["dyadic"] and (levels > 1 or offset):
        raise click.UsageError("--levels and --offset belong to --width")
    grid: fpp.BinGrid | fpp.DyadicBins = fpp.DyadicBins()
    if width is not None:
        grid = fpp.BinGrid(width=options.real(width, "--width"), offset=options.real(offset, "--offset"), levels=levels)
    joint = call.settings["joint"]
    call.arguments["bins"] = fpp.ProductBins(grids=[grid] * call.opened.private.dim) if joint else grid
