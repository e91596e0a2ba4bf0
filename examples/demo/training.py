"""The sixth page of `fastpubpriv demo`: what makes flights arrive late, by regression on private rows and a few public ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastpubpriv as fpp

if TYPE_CHECKING:
    from fastpubpriv._types import FloatArray
    from fastpubpriv.experiments.delays import Delays

EPSILON, DELTA = 1, Fraction(1, 10**7)
LEVEL, WIDTH = 0.95, 1.96


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One model: coefficients of the terms, how wide their intervals are, and how far its predictions are off."""

    label: str
    coefficients: FloatArray
    half_widths: Any
    excess: float
    protected: str


def named(rows: FloatArray) -> Any:
    """The rows as a table whose columns have names."""
    import pyarrow as pa

    from fastpubpriv.experiments.delays import FEATURES, LABEL

    return pa.table({name: rows[:, j] for j, name in enumerate((*FEATURES, LABEL))})


def bare(delays: Delays) -> FloatArray:
    """Coefficients of least squares on the private rows, without any privacy; those of codes about the mean of public rows."""
    import numpy as np

    from fastpubpriv.experiments.delays import CODED, NUMBERS, expand

    whole = delays.private[np.isfinite(delays.private).all(axis=1)]
    terms = expand(whole, delays.names)
    found = np.linalg.lstsq(terms.T @ terms, terms.T @ whole[:, -1], rcond=None)[0].astype(np.float64)
    shown = delays.public[np.isfinite(delays.public).all(axis=1)]
    shares = expand(shown, delays.names).mean(axis=0)
    begin = 1 + len(NUMBERS)
    for name in CODED:
        place = slice(begin, begin + len(delays.names[name]))
        average = shares[place] @ found[place] / shares[place].sum()
        found[place] -= average
        found[0] += average
        begin = place.stop
    return found


def cases(delays: Delays, budget: Any, seed: int | None) -> tuple[fpp.TrainingResult, list[Case]]:
    """Release the model; beside it the public rows alone, the paper's algorithm, and least squares without privacy."""
    import numpy as np

    from fastpubpriv.experiments.delays import CODED, LABEL, NUMBERS, expand

    call: dict[str, Any] = {
        "x_pub": named(delays.public),
        "label": LABEL,
        "categories": dict.fromkeys(CODED, "public"),
        "budget": budget,
    }
    rows = named(delays.private)
    ours = fpp.linear_regression(rows, random_state=seed, method="newton", **call)
    paper = fpp.train(rows, loss="squared", random_state=None if seed is None else seed + 1, method="semi_dp", **call)
    whole = delays.private[np.isfinite(delays.private).all(axis=1)]
    labels, plain = whole[:, -1], bare(delays)
    least = float(np.mean((labels - expand(whole, delays.names) @ plain) ** 2))
    table = named(whole).drop_columns([LABEL])
    carriers = [i for i, term in enumerate(ours.terms) if term.startswith("carrier=")]
    first = 1 + len(NUMBERS)
    public_std = np.sqrt(np.diag(ours.public_covariance)[1:])[carriers]

    def excess(predictions: FloatArray) -> float:
        return float(np.mean((labels - predictions) ** 2)) / least - 1.0

    alone = fpp.linear_regression(rows, method="throw_away", **call)
    return ours, [
        Case(
            "private, Newton steps",
            ours.coefficients[carriers],
            WIDTH * ours.standard_error[carriers],
            excess(ours.predict(table)),
            "yes",
        ),
        Case(
            "private, Algorithm 1",
            paper.coefficients[0, carriers],
            None,
            excess(paper.predict(table)),
            "yes",
        ),
        Case(
            "public rows only",
            alone.coefficients[carriers],
            WIDTH * public_std,
            excess(alone.predict(table)),
            "none read",
        ),
        Case("no privacy", plain[first : first + len(carriers)], None, 0.0, "[bold red]NO[/]"),
    ]


def story(delays: Delays, ours: fpp.TrainingResult, found: list[Case]) -> str:
    """The page in plain sentences."""
    import numpy as np

    newton, paper, public, plain = found
    narrower = float(np.median(public.half_widths / newton.half_widths))
    inside = int(np.sum(np.abs(newton.coefficients - plain.coefficients) <= newton.half_widths))
    return (
        f"The mean squared error of the private model is {newton.excess:.2%} above that of least squares on all rows without "
        f"privacy; that of the {ours.n_pub:,} public rows by themselves is {public.excess:.2%} above it, that of the paper's "
        f"Algorithm 1, with the same budget and nothing tuned, {paper.excess:.2%}. The private intervals of the carriers are "
        f"{narrower:.1f} times narrower than the public ones, and {inside} of {len(plain.coefficients)} hold what least squares "
        f"finds without privacy."
    )


def draw(delays: Delays, found: list[Case], path: Path) -> None:
    """Left, what each carrier adds to the delay, with intervals; right, errors above that of least squares without privacy."""
    import numpy as np

    from fastpubpriv.experiments.delays import PUBLIC_EVERY, UNIT
    from fastpubpriv.results import plots as plotting

    figure = plotting.new_figure(11.0, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=(2.6, 1.0))
    places = np.arange(len(found[0].coefficients), dtype=np.float64)
    for i, case in enumerate(found):
        at = places + 0.2 * (i - 1.5)
        colour = plotting.PALETTE[i % len(plotting.PALETTE)]
        left.errorbar(
            at, case.coefficients, yerr=case.half_widths, fmt="o", ms=3.0, lw=1.2, color=colour, label=case.label
        )
    left.set_xticks(places, delays.names["carrier"])
    left.axhline(0.0, color="0.6", lw=0.8, ls=":")
    left.set_xlabel("carrier")
    left.set_ylabel(f"arrival delay beyond that of the average carrier ({UNIT})")
    left.legend(frameon=False, fontsize=8)
    shown = found[:-1]
    right.bar(
        [case.label.replace(", ", ",\n").replace(" only", "\nonly") for case in shown],
        [100.0 * case.excess for case in shown],
        color=[plotting.PALETTE[i] for i in range(len(shown))],
        width=0.6,
    )
    right.set_ylabel("error above least squares (%)")
    right.tick_params(axis="x", labelsize=8)
    figure.suptitle(
        f"Arrival delay of New York's flights, 2013: ε = {EPSILON}, every {PUBLIC_EVERY}th row public ({LEVEL:.0%} intervals); "
        "for demonstration only, what else one could have done",
        fontsize=10,
    )
    plotting.save(figure, path)


def page(seed: int | None, out: Path) -> list[Path]:
    """Print the sixth page and write its JSON and plot; returns the files."""
    from rich.table import Table

    from fastpubpriv.cli import outputs, report
    from fastpubpriv.experiments.delays import PUBLIC_EVERY, load_delays

    delays = load_delays()
    warned: list[str] = []
    with report.nice_warnings(warned):
        ours, found = cases(delays, fpp.ApproxDP(EPSILON, DELTA), seed)
    screen = report.console()
    screen.print(
        f"\nWhat makes a flight arrive late? {ours.n_priv:,} private flights; every {PUBLIC_EVERY}th is public.\n",
        highlight=False,
    )
    report.print_result(ours, level=LEVEL, title="Arrival delay, by regression")
    for name, levels in delays.names.items():
        screen.print(f"[dim]{name}: {', '.join(f'{i} {level}' for i, level in enumerate(levels))}[/]", highlight=False)
    table = Table(title="\nFor demonstration only: how far from the truth", title_justify="left", title_style="bold")
    table.add_column("model from")
    table.add_column("error above the\nleast possible *", justify="right")
    table.add_column("protected")
    for case in found:
        table.add_row(case.label, f"{case.excess:.3%}", case.protected)
    screen.print(table)
    screen.print("[dim]* mean squared error on the private rows, against least squares on them without privacy[/]\n")
    screen.print(f"[bold]What happened.[/] {story(delays, ours, found)}", highlight=False)
    json_path, plot_path = out / "demo-training.json", out / "demo-training.png"
    data = report.result_dict(ours, level=LEVEL, warned=warned)
    data["names"] = {name: list(levels) for name, levels in delays.names.items()}
    data["demonstration_only"] = {
        case.label: {"excess": case.excess, "carriers": case.coefficients.tolist()} for case in found
    }
    outputs.write_json(data, json_path)
    outputs.attempt(lambda place: draw(delays, found, place), plot_path)
    return [json_path, plot_path]
