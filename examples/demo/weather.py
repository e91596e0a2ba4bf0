"""Two pages on weather: a mean of rows with an impossible gust, and a covariance, also with public rows of another season."""

import math
from dataclasses import replace

import numpy as np

import fastpubpriv as fpp
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
from examples.new_york import POSSIBLE, WEATHER, WIND, complete, impossible, load_weather
from fastpubpriv.results import plots
from fastpubpriv.results.public_draws import normal_quantile

# Weak bounds without knowledge of weather: every mean within 1000 of zero, every standard deviation below 100.
WEAK_BOUND, WEAK_STD = 1000.0, 100.0
# Bound on the shift of another season: two Gaussians this far apart overlap in a tenth of their mass.
SHIFT_GAP = 0.9


def compare(weather, budget, seed):
    """Release the mean, also by CoinPress; return both, with non-private means and standard deviations without the gust."""
    seed_of, rows = seeds(seed, 0), fpp.sources.private_rows(weather.private)
    weak = {
        "center": 0.0,
        "radius": WEAK_BOUND * math.sqrt(len(WEATHER)) / WEAK_STD,
        "variance": WEAK_STD**2,
    }
    ours = fpp.estimate_mean(
        rows, x_pub=weather.public, covariance="public", budget=budget, random_state=seed_of(0)
    )
    coinpress = fpp.coinpress_mean(rows, budget=budget, random_state=seed_of(1), **weak)
    possible = weather.private[~impossible(weather.private)]
    bare = np.nanmean(weather.private, axis=0), np.nanmean(possible, axis=0)
    return (
        ours,
        (ours.mean, weather.public.mean(axis=0), coinpress.mean, *bare),
        np.nanstd(possible, axis=0),
    )


def shifts(ours, means):
    """Return the shift in mph of the non-private mean wind by the impossible gust, and the maximum shift of ours by any one row."""
    last = ours.releases[-1]
    most = 2.0 * float(last["clip_radius"]) * float(ours.noise_std[WIND]) / float(last["noise_std"])
    return float(means[3][WIND] - means[4][WIND]), most


def draw_means(ours, means, weather, path):
    """Draw all estimates, with an axis for each column, and the wind speed again without distant estimates."""
    public, true = means[1], means[4]
    wide = (
        normal_quantile(0.5 + LEVEL / 2.0)
        * weather.public.std(axis=0, ddof=1)
        / math.sqrt(len(weather.public))
    )
    names = [*columns_of(WEATHER), f"wind_speed, one gust: +{means[3][WIND] - true[WIND]:.3f} mph"]
    order = [*range(len(WEATHER)), WIND]
    ways = (
        ("private answer", ours.mean, *ours.confidence_interval(LEVEL)),
        ("public rows only", public, public - wide, public + wide),
        ("CoinPress, weak bounds", means[2]),
        ("no privacy", means[3]),
        ("no privacy, no gust", true),
    )
    estimates = [
        plots.Estimate(name, *(each[order] for each in numbers)) for name, *numbers in ways
    ]
    for numbers in (estimates[1].mean, estimates[1].lower, estimates[1].upper):
        numbers[-1] = np.nan
    label = f"mean weather, New York 2013, with {LEVEL:.0%} intervals; all but the first for demonstration only"
    figure = plots.plot_forest(estimates, names, label=label, apart=True)
    for axes, j in zip(figure.axes, order, strict=True):
        axes.axvline(true[j], color="0.6", lw=0.8, ls=":", zorder=0)
    plots.save(figure, path)


def mean(budget, seed, out):
    """Run the first page."""
    weather = load_weather()
    with heard() as warned:
        ours, means, row_std = compare(weather, budget, seed)
    gust_shift, most_shift = shifts(ours, means)
    say(
        f"Hourly weather at New York's airports, 2013: {ours.n_priv:,} private rows; {ours.n_pub} rows, every 100th, were "
        "volunteered in public.\n"
    )
    named = replace(ours, columns=columns_of(WEATHER))
    data = answer(named, "The private answer", warned, columns=list(WEATHER))
    rows = [[name, *(f"{mean[j]:.3f}" for mean in means)] for j, name in enumerate(WEATHER)]
    rows[WIND][4] = f"[bold red]{rows[WIND][4]}[/]"
    worst = [float(abs((mean - means[4]) / row_std).max()) for mean in means[:-1]]
    rows += [None, ["max. error *", *(f"{error:.4f}" for error in worst), ""]]
    rows += [None, ["protected", "yes", "none read", "yes", NOT_PRIVATE, NOT_PRIVATE]]
    heads = (
        "private\nanswer",
        "public\nrows only",
        "CoinPress,\nweak bounds",
        "no privacy",
        "no privacy,\nwithout gust",
    )
    note = "of a column, in standard deviations of a row, against the last column"
    show("For demonstration only: what else one could have done", ("", *heads), rows, note)
    gust = weather.private[impossible(weather.private), WIND].max()
    happened(
        f"The private answer is off by at most {worst[0]:.2g} standard deviations of a row, the {ours.n_pub} public rows by "
        f"themselves by {worst[1]:.2g}; and nobody had to guess a range: it came from the public rows. One broken reading, a "
        f"wind of {gust:,.0f} mph, moves the ordinary mean by {gust_shift:.3f} mph; in the private answer no single row counts "
        f"for more than {most_shift:.3f} mph, because it is clipped to where the public rows say weather is. "
        f"{int((~np.isfinite(weather.private)).any(axis=1).sum())} rows with a missing value count as rows at the public mean."
    )
    note = "no_privacy and no_privacy_without_gust read the private rows without protection; coinpress has its own budget"
    names = ("public_rows_only", "coinpress_weak_bounds", "no_privacy", "no_privacy_without_gust")
    beside = {
        "note": note,
        **{name: mean.tolist() for name, mean in zip(names, means[1:], strict=True)},
    }
    beside |= {"gust_shift_mph": gust_shift, "most_shift_of_private_answer_mph": most_shift}
    return write("demo", out, lambda path: draw_means(ours, means, weather, path), data, beside)


def bare(rows):
    """Return the non-private mean and covariance of the complete rows."""
    return complete(rows).mean(axis=0), np.cov(complete(rows).T)


def errors(mean, covariance, true_mean, true_covariance):
    """Return the relative Frobenius error of a covariance, and the Mahalanobis error of a mean."""
    inverse = np.linalg.inv(np.linalg.cholesky(true_covariance))
    relative = inverse @ covariance @ inverse.T - np.eye(len(mean))
    return float(np.linalg.norm(relative)), float(np.linalg.norm(inverse @ (mean - true_mean)))


def gaussian(budget, seed, out):
    """Run the second page."""
    weather, july, seed_of = load_weather(), load_weather(shifted=True), seeds(seed, 10)
    plans = {
        "private, 1 % of rows public": (weather, 0.0),
        f"private, July week public, gap {SHIFT_GAP:g}": (july, SHIFT_GAP),
        "private, July week public, gap understated as 0": (july, 0.0),
    }
    with heard() as warned:
        results = []
        for index, (table, gap) in enumerate(plans.values()):
            asked = {
                "x_pub": table.public,
                "pub_priv_gap": gap,
                "budget": budget,
                "random_state": seed_of(index),
            }
            results.append(fpp.estimate_gaussian(fpp.sources.private_rows(table.private), **asked))
    truth = bare(weather.private[~impossible(weather.private)])
    ways = [(label, (x.mean, x.covariance), "yes") for label, x in zip(plans, results, strict=True)]
    ways += [("public rows only, 1 % of rows", bare(weather.public), "none read")]
    ways += [("public rows only, July week", bare(july.public), "none read")]
    ways += [("no privacy, gust included", bare(weather.private), NOT_PRIVATE)]
    found = [(label, *errors(*moments, *truth), protected) for label, moments, protected in ways]
    named = replace(results[0], columns=columns_of(WEATHER))
    say("")
    data = answer(named, "Mean and covariance of the same rows", warned, columns=list(WEATHER))
    show(
        "For demonstration only: how far from the truth",
        ("covariance and mean from", "covariance\nerror *", "mean\nerror *", "protected"),
        [
            (label, f"{covariance:.3f}", f"{mean:.3f}", protected)
            for label, covariance, mean, protected in found
        ],
        "relative Frobenius distance, and distance in standard deviations, to the rows without the gust",
    )
    ours, gapped, understated, public, alone, gust = (case[1] for case in found)
    happened(
        f"A week of July at one airport says little about the year: by itself it is off by {alone:.2f} in covariance and "
        f"{found[4][2]:.1f} standard deviations in mean. As a public set with a gap of {SHIFT_GAP:g} it leads to {gapped:.2f}, "
        f"nearly the {ours:.2f} that 1 % of the rows leads to ({public:.2f} by themselves). With the gap understated as 0 the "
        f"private rows are clipped to July, and the error is {understated:.2f}; privacy is the same in all three. The gust "
        f"alone spoils the ordinary covariance by {gust:.2f}."
    )
    beside = {
        label: {"covariance_error": first, "mean_error": second}
        for label, first, second, _ in found
    }
    return write("demo-gaussian", out, lambda path: named.plot(path, bounds=POSSIBLE), data, beside)
