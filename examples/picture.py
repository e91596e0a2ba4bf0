"""`python -m examples.picture`: the figure of the README, a private regression compared with public rows alone.

The rows are those of the last page of `make demo`. The noise is seeded for a reproducible figure, so this is not a release.
"""

import warnings
from pathlib import Path

import numpy as np

import fastpubpriv as fpp
from examples import new_york
from examples.demo.flights import bare, named
from fastpubpriv.results import plots

FILE = Path(__file__).resolve().parents[1] / "docs" / "static" / "carriers.png"
BUDGET = fpp.ApproxDP(epsilon=1, delta=1e-6)
NAMES = {
    "9E": "Endeavor", "AA": "American", "B6": "JetBlue", "DL": "Delta", "EV": "ExpressJet", "MQ": "Envoy", "UA": "United",
    "US": "US Airways", "WN": "Southwest", "other": "others",
}  # fmt: skip


def fits(delays):
    """Return the private model; for each carrier its interval and that of the public rows alone; and least squares."""
    asked = {"x_pub": named(delays.public), "label": new_york.LABEL, "budget": BUDGET}
    asked["categories"] = dict.fromkeys(new_york.CODED, "public")
    rows = named(delays.private)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fpp.SeededNoiseWarning)
        ours = fpp.linear_regression(rows, random_state=0, **asked)
    alone = fpp.linear_regression(rows, method="throw_away", **asked)
    chosen = [i for i, term in enumerate(ours.terms) if term.startswith("carrier=")]
    least = bare(delays)[1 + len(new_york.NUMBERS) :][: len(chosen)]
    return ours, [_interval(ours, chosen), _interval(alone, chosen)], least


def _interval(model, chosen):
    return model.coefficients[chosen], *(end[chosen] for end in model.confidence_interval(0.95))


def draw(delays, ours, intervals, least, path):
    """Draw one line for each carrier, the most delayed at the top."""
    order = np.argsort(least)
    places = np.arange(len(order), dtype=np.float64)
    figure = plots.new_figure(7.4, 4.0)
    axes = figure.subplots()
    axes.axvline(0.0, color="0.6", lw=0.8, ls=":", zorder=0)
    labels = (
        f"{ours.n_priv:,} private flights, ε = {BUDGET.epsilon}",
        f"{ours.n_pub:,} public flights alone",
    )
    for (center, lower, upper), shift, color, label in zip(
        intervals, (0.14, -0.2), plots.PALETTE, labels, strict=False
    ):
        ends = np.stack([center - lower, upper - center])[:, order]
        axes.errorbar(
            center[order],
            places + shift,
            xerr=ends,
            fmt="o",
            ms=3.5,
            lw=1.8,
            color=color,
            label=label,
        )
    axes.plot(
        least[order], places + 0.14, "|", ms=9, mew=1.2, color="black", label="without privacy"
    )
    axes.set_yticks(places, [NAMES[delays.names["carrier"][i]] for i in order])
    axes.set_xlabel(
        "minutes of arrival delay beyond the average carrier, all else equal (95 % intervals)"
    )
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    plots.save(figure, path)


def main():
    """Fit the models and draw the figure."""
    delays = new_york.load_delays()
    draw(delays, *fits(delays), FILE)
    print(f"wrote {FILE.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
