"""Four pages on flights: clusters, the distribution of one column, local privacy, and a regression of arrival delays."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

import fastpubpriv as fpp
from examples import new_york
from examples.demo.page import (
    LEVEL,
    NOT_PRIVATE,
    answer,
    columns_of,
    happened,
    heard,
    say,
    seeds,
    show,
    write,
)
from fastpubpriv import local
from fastpubpriv.local.aggregate import Standard
from fastpubpriv.results import plots
from fastpubpriv.results.public_draws import draw_uniforms

TRIP = 2  # air time and distance; with the delays as well there are four columns
MIN_WEIGHT = 0.1
# standard deviations: a ball that contains every flight, for methods without public rows
BLIND_RADIUS = 8.0
COLUMN, COMPONENTS = "arr_delay", 5
SMALL = fpp.ApproxDP(1, Fraction(1, 10**7))  # the budget of the pages on one column and on delays
PUBLIC_SEED, SEED_OF_CLIENTS = 7, 11
CLIENTS, PUBLIC, EPSILON = 100_000, 200, 4  # few public rows, so that reports can improve on them
MESSAGE = 1000  # reports per message to the server
WIDTH = 1.96


def agreement(result, rows, group):
    """Return the number of groups; the recall and the precision of western flights in the group that has most of them."""
    whole = group >= 0
    leaf, west = result.tree.assign(np.ascontiguousarray(rows[whole])), group[whole] == 1
    leaves, counts = np.unique(leaf[west], return_counts=True)
    best = leaf == leaves[np.argmax(counts)]
    return result.n_components, float(counts.max() / west.sum()), float(counts.max() / best.sum())


def look_for_groups(flights, budget, seed):
    """Return the first release; and label, agreement and guarantee of each method, each private one with its own budget."""
    group, seed_of, ways = new_york.groups(flights), seeds(seed, 30), []
    trips, public = (
        np.ascontiguousarray(rows[:, :TRIP]) for rows in (flights.private, flights.public)
    )
    plans = (
        ("private tree, 2 groups asked for", trips, public, 2, "tree"),
        ("private tree, 3 groups asked for", trips, public, 3, "tree"),
        (
            "private tree, 2 groups, delays as columns too",
            flights.private,
            flights.public,
            2,
            "tree",
        ),
        ("private directions, nearest centers, 2 groups", trips, public, 2, "one_shot"),
    )
    for index, (label, rows, shown, count, method) in enumerate(plans):
        asked = {
            "x_pub": shown,
            "n_components": count,
            "min_weight": MIN_WEIGHT,
            "method": method,
            "budget": budget,
        }
        found = fpp.learn_separated_mixture(
            fpp.sources.private_rows(rows), random_state=seed_of(index), **asked
        )
        ways.append((label, found, rows, "yes"))
    asked = {
        "n_components": 2,
        "radius": BLIND_RADIUS,
        "budget": budget,
        "random_state": seed_of(10),
    }
    blind = fpp.no_public_baseline(fpp.sources.private_rows(trips), **asked)
    ways.append(("private, no public rows, 2 groups", blind, trips, "yes"))
    ways.append(
        ("public rows only, 2 groups", fpp.public_only(public, n_components=2), trips, "none read")
    )
    return ways[0][1], [
        (label, *agreement(found, rows, group), said) for label, found, rows, said in ways
    ]


def story_of_groups(found):
    """Return the sentences of the page for any result."""
    (_, two, kept, share, _), three, delays, centers, blind, public = found
    first = "The tree finds no gap that it can be sure of at this budget, and leaves the flights in one group."
    if two == 2:
        first = (
            f"The tree finds the widest gap that the table has: {kept:.1%} of the western flights are in one group, and "
            f"{share:.1%} of that group are western."
        )
    more = (
        f"it keeps {delays[2]:.0%} of the western flights together."
        if delays[1] == 2
        else "it finds nothing to cut."
    )
    return (
        f"{first} Asked for three groups it finds {three[1]}. With the delays as columns, whose long tails bridge the gap, {more} "
        "Methods that always give as many groups as they are asked for cut somewhere: with nearest centers, of public rows alone "
        f"or along private directions, the group with the West is {public[3]:.0%} and {centers[3]:.0%} western, without public "
        f"rows {blind[3]:.0%}. No group of flights is a Gaussian: the means and spreads are right, the bell shape is not."
    )


def mixture(budget, seed, out):
    """Run the third page."""
    flights = new_york.load_flights()
    with heard() as warned:
        result, found = look_for_groups(flights, budget, seed)
    say(
        f"\nDepartures from New York, 2013: {result.n_priv:,} private flights; {result.n_pub:,}, every 100th, are public. The "
        f"flights to the West, beyond {new_york.WEST:,.0f} miles, are a group that a map shows. Does anyone find it?\n"
    )
    unit, names = flights.scale[:TRIP], columns_of(new_york.FLIGHTS)[:TRIP]
    # In minutes and miles; the balls are dropped, as they are ellipsoids in these units.
    moments = {
        "means": result.means * unit,
        "covariances": result.covariances * np.outer(unit, unit),
    }
    shown = replace(
        result, **moments, columns=names, diagnostics={**result.diagnostics, "balls": []}
    )
    data = answer(shown, "Groups of flights", warned)
    heads = (
        "groups\nfound",
        "western flights\nkept together",
        "western share\nof that group",
        "protected",
    )
    rows = [
        (label, str(count), f"{kept:.1%}", f"{share:.1%}", said)
        for label, count, kept, share, said in found
    ]
    show("For demonstration only: the flights to the West", ("groups from", *heads), rows)
    happened(story_of_groups(found))
    names = ("groups_found", "western_flights_kept_together", "western_share_of_that_group")
    beside = {case[0]: dict(zip(names, case[1:], strict=False)) for case in found}
    public = flights.public[:, :TRIP] * unit
    return write(
        "demo-mixture",
        out,
        lambda path: shown.plot(path, x_pub=public, bounds=(0.0, np.inf)),
        data,
        beside,
    )


def minutes():
    """Return one column of the private flights in whole minutes, and dithered uniformly within its minute by public randomness."""
    flights, place = new_york.load_flights(), list(new_york.FLIGHTS).index(COLUMN)
    rounded = np.rint(flights.private[:, place] * flights.scale[place])
    return rounded, rounded + (draw_uniforms(len(rounded), PUBLIC_SEED) - 0.5)


def distance(result, rounded):
    """Return the total variation between a mixture and the distribution of whole minutes."""
    seen = rounded[np.isfinite(rounded)]
    least = int(seen.min())
    share = np.bincount((seen - least).astype(np.int64)) / len(seen)
    ends = least - 0.5 + np.arange(len(share) + 1)
    mass = np.diff(
        ndtr((ends[:, None] - result.means[:, 0]) / np.sqrt(result.variances[:, 0]))
        @ result.weights
    )
    return float(0.5 * (np.abs(share - mass).sum() + 1.0 - mass.sum()))


def draw_shape(result, rounded, path):
    """Draw the released density over the histogram of the private minutes, which is labeled as not private."""
    figure, (low, high) = plots.new_figure(7.6, 4.6), (-80.0, 240.0)
    axes, bins, label = (
        figure.subplots(),
        np.arange(low - 0.5, high + 1.5, 2.0),
        "NOT PRIVATE: histogram of the rows",
    )
    axes.hist(rounded[np.isfinite(rounded)], bins=bins, density=True, color="0.85", label=label)
    steps, stds = np.linspace(low, high, 1601), np.sqrt(result.variances[:, 0])
    heights = result.weights * np.exp(-0.5 * ((steps[:, None] - result.means[:, 0]) / stds) ** 2)
    heights /= stds * np.sqrt(2.0 * np.pi)
    for height, color in zip(heights.T, plots.PALETTE, strict=False):
        axes.plot(steps, height, color=color, lw=0.9, ls="--")
    axes.plot(
        steps,
        heights.sum(axis=1),
        color=plots.PALETTE[0],
        lw=1.8,
        label="private: released mixture",
    )
    axes.plot([], [], color="0.4", lw=0.9, ls="--", label="its components")
    axes.set(xlim=(low, high), xlabel=f"{COLUMN} ({new_york.FLIGHTS[COLUMN]})", ylabel="density")
    axes.set_title(
        "Arrival delays, New York 2013: no range was given, no row is public", fontsize=10
    )
    axes.legend(frameon=False, fontsize=8)
    plots.save(figure, path)


def axis(_, seed, out):
    """Run the fourth page, with its own budget."""
    (rounded, values), seed_of, name = (
        minutes(),
        seeds(seed, 50),
        f"{COLUMN} ({new_york.FLIGHTS[COLUMN]})",
    )
    plans = {
        f"{COMPONENTS} components": (COMPONENTS, SMALL),
        "one Gaussian": (1, SMALL),
        f"{COMPONENTS} components, a tenth of the budget": (
            COMPONENTS,
            fpp.ApproxDP(SMALL.epsilon / 10, SMALL.delta),
        ),
    }
    with heard() as warned:
        results = [
            fpp.learn_axis_aligned_mixture(
                values, n_components=count, budget=paid, random_state=seed_of(index)
            )
            for index, (count, paid) in enumerate(plans.values())
        ]
    result, found = results[0], [distance(each, rounded) for each in results]
    say(
        f"\nHow late do flights arrive? {result.n_priv:,} private values; nobody says in which range they lie.\n"
    )
    data = answer(replace(result, columns=(name,)), "The shape of a column", warned, columns=[name])
    rows = [(label, f"{error:.3f}", "yes") for label, error in zip(plans, found, strict=True)]
    show(
        "For demonstration only: how far from the rows",
        ("density from", "total variation", "protected"),
        rows,
    )
    scales = result.diagnostics["scales"]
    happened(
        f"Differences of pairs of flights showed scales from {min(scales):g} to {max(scales):g} minutes, histograms at these "
        "scales showed where the flights are, and cells in that place were counted on other rows. A mixture of "
        f"{result.n_components} lies within {found[0]:.3f} of the distribution in total variation; one Gaussian, which cannot "
        f"have a long tail on one side, within {found[1]:.3f}. With a tenth of the budget it is {found[2]:.3f}."
    )
    beside = {label: {"total_variation": error} for label, error in zip(plans, found, strict=True)}
    return write("demo-axis", out, lambda path: draw_shape(result, rounded, path), data, beside)


def report_once(rows, public, seed_of):
    """Let every client report once, in messages of bytes; return label, mean, standard error and guarantee of four methods."""
    device = local.PrivUnit(rows.shape[1], EPSILON, norm_bound="public", x_pub=public)
    reports, server = device.privatize(rows, random_state=seed_of(0)), local.Aggregator(device)
    for first in range(0, len(reports), MESSAGE):
        server.add(reports[first : first + MESSAGE].to_bytes())
    both = local.estimate_mean(server, x_pub=public)
    # The reports clip the same rows, whether or not public rows are averaged with them.
    alone = replace(local.estimate_mean(server), clipping_std=both.clipping_std)
    asked = {"budget": fpp.PureDP(EPSILON), "norm_bound": "auto", "random_state": seed_of(1)}
    central = fpp.weighted_mean(rows, x_pub=public, **asked)
    spread = np.std(public, axis=0, ddof=1) / np.sqrt(len(public))
    return (
        ("public rows only", public.mean(axis=0), spread, "none read"),
        ("local: reports alone", alone.mean, alone.standard_error, "from everybody"),
        ("semi-local: reports and public rows", both.mean, both.standard_error, "from everybody"),
        (
            "central: a trusted server",
            central.mean,
            central.standard_error,
            "from readers of the answer",
        ),
    )


def draw_ways(ways, truth, path):
    """Draw all methods, with an axis for each column and the true mean as a line."""
    estimates = [
        plots.Estimate(label.split(":")[0], m, m - WIDTH * e, m + WIDTH * e) for label, m, e in ways
    ]
    label = f"{CLIENTS:,} simulated clients, epsilon {EPSILON:g} each: 95 % intervals; dotted, NOT PRIVATE: their rows"
    figure = plots.plot_forest(estimates, columns_of(new_york.FLIGHTS), label=label, apart=True)
    for axes, center in zip(figure.axes, truth, strict=True):
        axes.axvline(center, color="0.6", lw=0.8, ls=":", zorder=0)
    plots.save(figure, path)


def load_clients():
    """Return the rows of the clients, and the public ones, in data units."""
    flights = new_york.load_flights()
    chosen = np.sort(draw_uniforms(len(flights.private), SEED_OF_CLIENTS).argsort()[:CLIENTS])
    return flights.private[chosen] * flights.scale, flights.public[:PUBLIC] * flights.scale


def clients(_, seed, out):
    """Run the fifth page, with a budget for each client."""
    private, public = load_clients()
    standard = Standard.of(public)
    with heard() as warned:
        found = report_once(standard.chunk(private), standard.chunk(public), seeds(seed, 70))
    truth = np.nanmean(private, axis=0)
    goal = standard.chunk(truth[None])[0]
    off = [float(np.sqrt(np.mean((mean - goal) ** 2))) for _, mean, _, _ in found]
    ways = [
        (label, m * standard.scale + standard.center, error * standard.scale)
        for label, m, error, _ in found
    ]
    show(
        f"No trusted server: {CLIENTS:,} clients report a flight each, {PUBLIC} flights are public",
        ("mean from", *columns_of(new_york.FLIGHTS), "error *", "protected"),
        [
            (w[0], *(f"{x:,.2f}" for x in w[1]), f"{e:.4f}", f[3])
            for w, e, f in zip(ways, off, found, strict=True)
        ],
        "in standard deviations of a row, root mean square over the columns; against the rows themselves",
    )
    happened(
        f"Each client sent one report that is epsilon-private by itself, epsilon {EPSILON:g}, and nobody was trusted. The {PUBLIC} "
        f"public flights by themselves are off by {off[0]:.3f} standard deviations of a row, the reports by {off[1]:.3f}, and both "
        f"together by {off[2]:.3f}. A server that is trusted with the rows comes to {off[3]:.3f} at the same epsilon: that is the "
        "price of trusting nobody. Units and the longest row that a client reports come from the public flights; what is beyond "
        "is shortened, and the intervals allow for it. The trusted server counts how far rows go."
    )
    data = {
        "clients": CLIENTS,
        "n_pub": PUBLIC,
        "epsilon": EPSILON,
        "private": seed is None,
        "warnings": warned,
    }
    data["columns"] = list(columns_of(new_york.FLIGHTS))
    data["ways"] = {
        label: {"mean": m.tolist(), "standard_error": error.tolist()} for label, m, error in ways
    }
    predicted = [float(np.sqrt(np.mean(error**2))) for _, _, error, _ in found]
    beside = {
        way[0]: {"error": e, "predicted": p} for way, e, p in zip(ways, off, predicted, strict=True)
    }
    return write("demo-local", out, lambda path: draw_ways(ways, truth, path), data, beside)


def named(rows):
    """Return the rows as a table with column names."""
    return pa.table(
        {name: rows[:, j] for j, name in enumerate((*new_york.FEATURES, new_york.LABEL))}
    )


def bare(delays):
    """Return non-private least squares coefficients on the private rows; those of codes are relative to the mean of public rows."""
    whole = new_york.complete(delays.private)
    terms = new_york.expand(whole, delays.names)
    found = np.linalg.lstsq(terms.T @ terms, terms.T @ whole[:, -1], rcond=None)[0]
    shares = new_york.expand(new_york.complete(delays.public), delays.names).mean(axis=0)
    begin = 1 + len(new_york.NUMBERS)
    for name in new_york.CODED:
        place = slice(begin, begin + len(delays.names[name]))
        average = shares[place] @ found[place] / shares[place].sum()
        found[place] -= average
        found[0] += average
        begin = place.stop
    return found


def fit(delays, seed):
    """Return the released model; and label, carriers, half widths, excess loss and guarantee of it and of the alternatives."""
    seed_of, rows = seeds(seed, 90), named(delays.private)
    call = {"x_pub": named(delays.public), "label": new_york.LABEL, "budget": SMALL}
    call["categories"] = dict.fromkeys(new_york.CODED, "public")
    ours = fpp.linear_regression(rows, random_state=seed_of(0), method="newton", **call)
    paper = fpp.train(rows, loss="squared", random_state=seed_of(1), method="semi_dp", **call)
    alone = fpp.linear_regression(rows, method="throw_away", **call)
    whole, plain = new_york.complete(delays.private), bare(delays)
    labels, table = whole[:, -1], named(whole).drop_columns([new_york.LABEL])
    least = float(np.mean((labels - new_york.expand(whole, delays.names) @ plain) ** 2))
    carriers = [i for i, term in enumerate(ours.terms) if term.startswith("carrier=")]
    public_std = np.sqrt(np.diag(ours.public_covariance)[1:])[carriers]

    def excess(model):
        return float(np.mean((labels - model.predict(table)) ** 2)) / least - 1.0

    first, width = 1 + len(new_york.NUMBERS), WIDTH * ours.standard_error[carriers]
    return ours, [
        ("private, Newton steps", ours.coefficients[carriers], width, excess(ours), "yes"),
        ("private, Algorithm 1", paper.coefficients[0, carriers], None, excess(paper), "yes"),
        (
            "public rows only",
            alone.coefficients[carriers],
            WIDTH * public_std,
            excess(alone),
            "none read",
        ),
        ("no privacy", plain[first : first + len(carriers)], None, 0.0, NOT_PRIVATE),
    ]


def draw_carriers(delays, found, path):
    """Draw the effect of each carrier on the delay, with intervals, by every method; and the excess loss over least squares."""
    estimates = [
        plots.Estimate(
            f"{way}: +{100.0 * excess:.2g}%",
            *((c,) if width is None else (c, c - width, c + width)),
        )
        for way, c, width, excess, _ in found
    ]
    names = [str(name) for name in delays.names["carrier"]]
    label = f"minutes of arrival delay beyond the average carrier, ε = {SMALL.epsilon}, with {LEVEL:.0%} intervals; "
    label += "above, the error beyond least squares"
    plots.plot_forest(
        estimates, names, groups=[("", list(range(len(names))))], zero=True, label=label, path=path
    )


def training(_, seed, out):
    """Run the sixth page, with its own budget."""
    delays = new_york.load_delays()
    with heard() as warned:
        ours, found = fit(delays, seed)
    say(
        f"\nWhat makes a flight arrive late? {ours.n_priv:,} private flights; every 50th is public.\n"
    )
    names = {name: list(levels) for name, levels in delays.names.items()}
    data = answer(ours, "Arrival delay, by regression", warned, names=names)
    for name, levels in names.items():
        say(f"[dim]{name}: {', '.join(f'{i} {level}' for i, level in enumerate(levels))}[/]")
    show(
        "For demonstration only: how far from the truth",
        ("model from", "error above the\nleast possible *", "protected"),
        [(label, f"{excess:.3%}", protected) for label, _, _, excess, protected in found],
        "mean squared error on the private rows, against least squares on them without privacy",
    )
    (_, newton, width, excess, _), paper, public, (_, plain, *_) = found
    inside = int(np.sum(np.abs(newton - plain) <= width))
    happened(
        f"The mean squared error of the private model is {excess:.2%} above that of least squares on all rows without privacy; "
        f"that of the {ours.n_pub:,} public rows by themselves is {public[3]:.2%} above it, that of the paper's Algorithm 1, with "
        f"the same budget and nothing tuned, {paper[3]:.2%}. The private intervals of the carriers are "
        f"{float(np.median(public[2] / width)):.1f} times narrower than the public ones, and {inside} of {len(plain)} hold what "
        "least squares finds without privacy."
    )
    beside = {case[0]: {"excess": case[3], "carriers": case[1].tolist()} for case in found}
    return write(
        "demo-training", out, lambda path: draw_carriers(delays, found, path), data, beside
    )
