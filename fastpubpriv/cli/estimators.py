"""The commands that call an estimator: its name, the options that differ from its parameters, and changes of arguments.

The docstring of a command has the options that the function lacks, or that the command line describes in other words.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import fastpubpriv as fpp
from fastpubpriv.cli import options
from fastpubpriv.cli.spoken import in_words_of_options, spoken_of_files
from fastpubpriv.cli.streams import refuse

Named = dict[str, Any]
# (inputs, settings, arguments) -> None: changes the arguments that were made from the settings.
Change = Callable[[Any, Named, Named], None]
COMMANDS: list[options.Documented] = []  # the most frequently used first


def estimator(
    function: str,
    title: str,
    all_columns: bool = False,
    reading: Callable[[Named], Named] = lambda settings: {},
    **groups: str,
) -> Callable[[Change], options.Documented]:
    """Return a decorator that makes a command of a public function; the decorated function has its help and changes arguments."""
    # `all_columns`: as for `inputs_of`, whose other arguments `reading` returns; `groups`: the options that replace a parameter, ""
    # for none.

    def made(change: Change) -> options.Documented:
        @in_words_of_options(spoken_of_files)
        def run(**settings: Any) -> None:
            from fastpubpriv.cli import outputs
            from fastpubpriv.cli.opened_files import inputs_of
            from fastpubpriv.sources.bound import BOUND

            options.prefer_given(settings)
            settings["budget"] = options.make_budget(settings)
            files = (settings[name] for name in options.FILES if name in settings)
            outputs.check_outputs(settings, files)
            chooses = all_columns or settings.get("by") is not None
            inputs = inputs_of(settings, all_columns=chooses, **reading(settings))
            outputs.advise(settings, inputs.notes)
            given = {"budget": settings["budget"], "random_state": settings["seed"]}
            stand_for = options.GROUPS | groups
            for name in options.parameters_of(function):
                if name in settings and name not in BOUND and stand_for.get(name, name) == name:
                    given[name] = settings[name]
            if "columns" in settings:
                given["columns"] = inputs.columns
            change(inputs, settings, given)
            outputs.deliver(function, title, inputs, given)

        COMMANDS.append(options.Documented(change, run, function, groups))
        return COMMANDS[-1]

    return made


def of_dates(values: tuple[Any, ...]) -> list[Any]:
    """Return listed values, as dates if all are texts such as 2024-01-31, as months if all are texts such as 2024-01."""
    import numpy as np

    from fastpubpriv.sources.dates import is_month

    if all(isinstance(value, str) and is_month(value) for value in values):
        with contextlib.suppress(ValueError):
            return [np.datetime64(value, "M") for value in values]
    with contextlib.suppress(TypeError, ValueError):
        return [datetime.date.fromisoformat(value) for value in values]
    return list(values)


ONCE_FOR_EACH = "--{} for several columns of --{}: once for each column, such as carrier=UA,B6"


def by_name(option: str, of: str, lists: Any) -> Any:
    """Return the lists of an option that is given once, or once for each of several columns as NAME=list; None without any."""
    if not lists:
        return None
    named = {each[0]: of_dates(each[1]) for each in lists if type(each[-1]) is tuple}
    refuse(len(lists) > max(len(named), 1), ONCE_FOR_EACH.format(option, of))
    return named or of_dates(lists[-1])


def number_of_bins(bins: Any) -> Any:
    """Return edges of bins, or the number of bins that a single number stands for."""
    if isinstance(bins, dict):
        return {name: number_of_bins(each) for name, each in bins.items()}
    if bins is None or len(bins) > 1:
        return bins
    refuse(not bins[0].is_integer(), "--bins takes a whole number of bins, or two edges or more")
    return int(bins[0])


def name_groups(arguments: Named) -> bool:
    """Return whether there are groups; if so, set the arguments for groups and columns."""
    by = arguments["by"]
    groups = by_name("groups", "by", arguments["groups"])
    arguments["groups"] = groups
    if by is None:
        return False
    if len(by) == 1 and not isinstance(groups, dict):
        arguments["by"] = -1 if by[0] == "-1" else by[0]
    else:
        refuse({*(groups or ())} - {*by}, ONCE_FOR_EACH.format("groups", "by"))
    return True


COMPARISONS = "difference ratio"  # options that stand where others have none for `progress`


def require_pairs(settings: Named) -> None:
    """Raise UsageError, before anything is spent, unless what is compared are two names, of equal numbers of parts."""
    for option in COMPARISONS.split():
        parts = settings[option]
        odd = parts is not None and len(parts) % 2 == 1
        refuse(odd, f"--{option} takes two names with a comma between them, such as north,south")


def lists_of(names: Sequence[str] | None, given: Any) -> list[Any]:
    """Return the list of groups or keys that options give, or None, for each column."""
    if isinstance(given, Mapping):
        return [given.get(name) for name in names or ()]
    return [None if len(names or ()) > 1 else given] if names else []


def require_listed(settings: Named, lists: Sequence[Any], what: str) -> None:
    """Raise InputError, before anything is spent, if what is compared is no group, or key, of the lists of all columns."""
    from fastpubpriv.results.by_key import MISSING, OTHER
    from fastpubpriv.results.result_tables import label_of

    if any(names is None for names in lists):
        return  # those of the public rows
    levels = [[*map(label_of, names)] for names in lists]
    if what == "key":
        levels = [[*labels, OTHER, MISSING] for labels in levels]
    names = [", ".join(parts) for parts in product(*levels)]
    require_names(settings, [*names, OTHER] if what == "group" else names, what)


def require_names(settings: Named, names: Sequence[str], what: str) -> None:
    """Raise InputError, before anything is spent, if what is compared is none of these names."""
    from fastpubpriv.results.comparisons import named_pair

    for option in COMPARISONS.split():
        if settings[option] is not None:
            named_pair(names, *options.pair_of(settings[option]), what)


@estimator("estimate_mean", "Private mean of {n:,} rows", progress=COMPARISONS)
def mean(inputs: Any, settings: Named, arguments: Named) -> None:
    """Mean of private rows in any unit and of any shape, from one public row or more.

    A part of the budget pays for counts that locate the values of each column, the rest for one clipped sum. Missing values are
    counted, and the mean of a column is over its other values.

    covariance : public|FILE.npy
        For gaussian: covariance of the rows, estimated from the public rows, or a matrix in a file. Default: public, if there are
        more public rows than columns, else a variance of 1 in every column.
    variance : V|V,...|FILE.npy :: ...
    bounds : LOW,HIGH
        For counts: two numbers between which all values of all columns are known to lie: intervals become finite and sharper.
    {by, groups}

    $ fastpubpriv mean --private p.csv --public q.csv --columns age,income --by state --difference NY,NJ --rho 0.1
    $ fastpubpriv mean --private visits.parquet --public volunteers.csv --rho 0.5
    $ fastpubpriv mean --private p.npy --public q.npy --epsilon 1 --delta 1e-7 --json out.json --plot out.png
    $ fastpubpriv mean --private p.csv --public q.csv --columns age,income --rho 0.1 \\
        --ledger survey.ledger --ledger-total rho=1
    """
    from fastpubpriv.sources.open import public_rows

    require_pairs(settings)
    if name_groups(arguments):
        require_listed(settings, lists_of(settings["by"], arguments["groups"]), "group")
        return
    if settings["difference"] is not None or settings["ratio"] is not None:
        require_names(settings, inputs.names or [f"x{j}" for j in range(inputs.dim)], "column")
    if arguments["clipping"] != "gaussian" or any(
        settings[name] is not None for name in ("covariance", "variance")
    ):
        return
    n_pub, dim = public_rows(inputs.shown_public(), columns=inputs.columns).shape
    if n_pub > dim:
        arguments["covariance"] = "public"
        return
    few = "1 public row is" if n_pub == 1 else f"{n_pub} public rows are"
    text = (
        f"{few} too few to learn how {dim} {'column spreads' if dim == 1 else 'columns spread'} (that takes "
        f"{dim + 1}), so a standard deviation of 1 in every column is assumed. If that is far off, so is the "
        "answer: pass --variance, --covariance or more public rows"
    )
    settings["caveats"] = [text]  # a warning: the answer depends on it


@estimator("describe", "A private table", all_columns=True, columns="columns html_path")
def describe(inputs: Any, settings: Named, arguments: Named) -> None:
    """A table at a glance: rows, means, deviations and quartiles of columns of numbers, and the commonest texts of the others.

    The whole table is charged once, as one release. A column in which the public rows have text is counted.

    columns : A,B,..., optional :: Columns of the table, of text or numbers, with commas between them. Default: all.
    keys : NAME=a,b,..., repeated :: ...
    html_path : file, optional :: Write one page that opens in a browser, with a picture for each column.

    $ fastpubpriv describe --private flights.parquet --public few.csv --rho 0.5 --html report.html
    """


@estimator("quantiles", "Private quantiles of {n:,} rows", progress=COMPARISONS)
def quantiles(inputs: Any, settings: Named, arguments: Named) -> None:
    """Medians, quartiles and other quantiles of private columns in any unit, from one public row or more.

    Counts between edges narrow down each quantile. A value that many rows have is found exactly. The interval covers noise and
    sampling.

    {by, groups}

    $ fastpubpriv quantiles --private flights.parquet --public few.csv --columns dep_delay --rho 0.1
    $ fastpubpriv quantiles --private flights.parquet --public few.csv --columns dep_delay --by carrier --rho 0.1
    $ fastpubpriv quantiles --private p.npy --public q.npy --q 0.1,0.5,0.9 --epsilon 1 --json out.json --plot out.png
    """
    require_pairs(settings)
    compared = any(settings[option] is not None for option in COMPARISONS.split())
    grouped = name_groups(arguments)
    refuse(compared and not grouped, "--difference and --ratio of quantiles belong to --by")
    require_listed(settings, lists_of(settings["by"], arguments["groups"]), "group")


@estimator(
    "estimate_gaussian",
    "Private mean and covariance of {n:,} rows",
    cond_max="",
    require_precondition="",
)
def gaussian(inputs: Any, settings: Named, arguments: Named) -> None:
    """Mean and covariance of private rows, with ranges taken from public rows.

    Two distinct public rows are enough. What is learned privately is decided before anything is spent, by the predicted error. A
    private row with a missing value adds nothing, but is included in the number of rows.

    $ fastpubpriv gaussian --private visits.parquet --public volunteers.csv --rho 0.5 --plot ellipses.png
    $ fastpubpriv gaussian --private p.npy --public other_town.npy --gap 0.9 --epsilon 1 --delta 1e-7 --json out.json
    """


@estimator("learn_separated_mixture", "Private groups of {n:,} rows", weight_floor="")
def mixture(inputs: Any, settings: Named, arguments: Named) -> None:
    """Groups of private rows: weight, mean and covariance of each.

    For groups that lie several standard deviations apart, in columns of any units. Public rows must include some of each
    group. Fewer groups than requested are returned if the rest cannot be distinguished. Without public rows the budget must
    have a delta, or --bounds must say what the columns can hold.

    rho : NUMBER, optional :: Budget in zero-concentrated DP. Without --public and --bounds it must be --epsilon with --delta.

    $ fastpubpriv mixture --private visits.parquet --public volunteers.csv --components 3 --rho 0.5 --plot groups.png
    $ fastpubpriv mixture --private p.npy --public q.npy --components 4 --min-weight 0.1 --epsilon 1 --delta 1e-7 --json out.json
    """


@estimator(
    "learn_axis_aligned_mixture", "Private mixture of {n:,} rows", covariance="", min_weight=""
)
def axis_mixture(inputs: Any, settings: Named, arguments: Named) -> None:
    """Mixture of Gaussians with independent columns, and no range given.

    Values may lie anywhere, and components may overlap in every column. Without public rows the budget must have a delta, or
    --bounds must say what the columns can hold.

    rho : NUMBER, optional :: Budget in zero-concentrated DP. Without --public and --bounds it must be --epsilon with --delta.

    $ fastpubpriv axis-mixture --private delays.parquet --columns minutes --components 3 --epsilon 1 --delta 1e-7 --plot out.png
    $ fastpubpriv axis-mixture --private p.npy --public q.npy --components 4 --epsilon 1 --json out.json
    """


@estimator("weighted_mean", "Weighted mean of {n:,} private rows and the public ones", project="")
def weighted_mean(inputs: Any, settings: Named, arguments: Named) -> None:
    """Mean of bounded rows, private and public ones weighted so that the error is least.

    bounds : LOW,HIGH :: Instead of --norm-bound: two numbers between which all values of all columns are known to lie.
    row_weight : W|WORD
        optimal, throw_away (public rows only), gaussian (all rows alike), private, or the weight of a private row.
    center : public|V|V,...|FILE.npy :: ...

    $ fastpubpriv weighted-mean --private p.npy --public q.npy --norm-bound 3 --center public --epsilon 1
    """
    both_or_none = (arguments["norm_bound"] is None) == (arguments["bounds"] is None)
    refuse(
        both_or_none,
        "pass either --norm-bound, the distance to which rows are clipped, or --bounds LOW,HIGH",
    )


@estimator("coinpress_mean", "Private mean of {n:,} rows (CoinPress)", bounds="")
def coinpress_mean(inputs: Any, settings: Named, arguments: Named) -> None:
    """Mean of private rows without public rows (CoinPress), from a public center and radius.

    The center and the radius must not come from the private rows. Too small a radius costs accuracy, never privacy.

    columns : A,B,..., optional :: Columns of the table. Default: all numeric columns.
    center : V|V,...|FILE.npy, required :: ...
    radius : float or "auto", required :: ...
    covariance : FILE.npy :: ...
    variance : V|V,...|FILE.npy :: ...

    $ fastpubpriv coinpress-mean --private p.parquet --center 0 --radius 100 --variance 25 --rho 0.5
    """


@estimator(
    "stable_histogram", "Private histogram of {n:,} rows", bins="width offset levels dyadic joint"
)
def histogram(inputs: Any, settings: Named, arguments: Named) -> None:
    """Histograms of private columns, with no range given: only bins with enough rows show, with noisy counts.

    The bins must not be chosen by looking at the private rows. --delta is needed: it bounds the chance that a bin of one row shows.

    columns : A,B,..., optional :: Columns of the table. Default: all numeric columns.
    width : FLOAT, optional :: Width of the bins, in data units.
    offset : FLOAT, default 0 :: Where a bin ends; the others end whole widths from there.
    levels : int >= 1, default 1 :: Also bins 2, 4, ... times as wide, each level a separate histogram.
    dyadic : flag :: Bins between powers of two of the absolute value, in place of --width.
    joint : flag :: One histogram over all columns together, in place of one for each column.

    $ fastpubpriv histogram --private flights.parquet --columns arr_delay --width 10 --epsilon 1 --delta 1e-7
    $ fastpubpriv histogram --private p.npy --dyadic --epsilon 1 --delta 1e-7 --json out.json --plot out.png
    """
    width, offset, levels = (settings[name] for name in ("width", "offset", "levels"))
    refuse(settings["dyadic"] == (width is not None), "pass either --width W or --dyadic")
    refuse(settings["dyadic"] and (levels > 1 or offset), "--levels and --offset belong to --width")
    grid = (
        fpp.DyadicBins()
        if width is None
        else fpp.BinGrid(width=width, offset=offset, levels=levels)
    )
    joint = settings["joint"]
    arguments["bins"] = fpp.ProductBins(grids=[grid] * inputs.dim) if joint else grid


@estimator(
    "value_counts", "Private counts", all_columns=True, columns="columns", progress=COMPARISONS
)
def counts(inputs: Any, settings: Named, arguments: Named) -> None:
    """How many rows have each value of a column, or each combination of the values of several.

    Values are listed by --keys, or are those of the public rows; all others count together. --bins counts numbers between edges.
    Without these, texts that many rows have are found, which needs --delta.

    rho : NUMBER, optional :: Budget in zero-concentrated DP. Without --keys, --bins and --public it must be --epsilon with --delta.
    columns : A,B,..., optional :: Columns to count, with commas between them.
    keys : NAME=a,b,...|a,b,..., repeated
        The values to count: texts, numbers, dates such as 2024-01-31, or months such as 2024-01. For several columns once for each,
        with its name.
    bins : NAME=V,...|V,..., repeated
        Edges with commas between them, such as 25,35,45; or one number: how many bins at most hold the public values, in round
        steps. For several columns once for each, with its name.
    by : A,B,... :: Columns whose cells name the group of a row.
    {groups}

    $ fastpubpriv counts --private flights.parquet --columns carrier --keys UA,B6,EV,DL --ratio UA,B6 --rho 0.1
    $ fastpubpriv counts --private flights.parquet --columns carrier,month --keys carrier=UA,B6 --keys month=1,2,3 --rho 0.1
    $ fastpubpriv counts --private flights.parquet --columns dep_delay --bins=-15,0,15,60 --by month --groups 1,2,3 --rho 0.1
    $ fastpubpriv counts --private flights.parquet --columns dest --top 10 --epsilon 1 --delta 1e-8 --json out.json
    """
    require_pairs(settings)
    name_groups(arguments)
    columns = settings["columns"]
    arguments["keys"] = by_name("keys", "columns", arguments["keys"])
    arguments["bins"] = number_of_bins(by_name("bins", "columns", arguments["bins"]))
    refuse(
        len(columns or ()) > 1 and not isinstance(arguments["bins"], dict | None),
        "--bins for several columns of --columns: once for each column, such as age=25,35,45",
    )
    groups = lists_of(settings["by"], arguments["groups"])
    keys = lists_of(columns or ("the only column",), arguments["keys"])
    if arguments["bins"] is None:
        require_listed(settings, [*groups, *keys], "key")


@estimator(
    "count_persons",
    "Persons by key",
    all_columns=True,
    x_priv="data_path private_path where with_columns",
    person="person",
    progress=COMPARISONS,
)
def persons(inputs: Any, settings: Named, arguments: Named) -> None:
    """How many different persons have a row of each value of a column, or of each combination of values of several.

    Values are listed by --groups, or are those of the public rows; all others count together. A person counts once for each value.

    person : NAME, required :: Column that says whose row it is; all rows of a person are protected together.
    by : A,B,..., required :: Columns whose cells are the key of a row.
    {groups}

    $ fastpubpriv persons --private visits.parquet --person patient --by ward --groups north,south \\
        --difference north,south --rho 0.1
    $ fastpubpriv persons --private visits.parquet --person patient --by ward,month --groups ward=north,south \\
        --groups month=1,2,3 --rho 0.1 --json out.json
    """
    require_pairs(settings)
    name_groups(arguments)
    require_listed(settings, lists_of(settings["by"], arguments["groups"]), "key")
