"""The released description of a table, and its HTML page."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.results import plots
from fastpubpriv.results.base import LEVEL, Result, shown
from fastpubpriv.results.by_key import CountResult, deviation_ends, rows_counted
from fastpubpriv.results.estimates import MeanResult
from fastpubpriv.results.fields import PARTS, array, value_class
from fastpubpriv.results.ranks import QuantileResult
from fastpubpriv.results.reasons import explained
from fastpubpriv.results.result_tables import (
    Facts,
    Table,
    TableColumn,
    label_of,
    listed_facts,
    number,
    percent,
    scale_of,
    with_ends,
    with_reasons,
)

# Lower and upper ends of intervals.
Ends = tuple[FloatArray, FloatArray]


@value_class
class Description(Result):
    """Released summary of a table: d numeric columns, then text columns.

    Attributes
    ----------
    means : MeanResult or None
        Means and numbers of missing values of the numeric columns; None if there are none.
    quantiles : QuantileResult or None
        Their quantiles.
    variance, variance_std, variance_tail : (d,) float64 or None
        Their variances (divisor: rows - 1), the standard errors of these from noise, sampling and clipping, and their largest
        increase by undetected rows. NaN and infinite where the column is unresolved (null in JSON).
    texts : tuple of CountResult
        Counts of the values of each text column.
    shares : mapping
        Share of the budget of each kind of release.

    Examples
    --------
    >>> import numpy as np
    >>> import fastpubpriv as fpp
    >>> rows = np.random.default_rng(0).normal(36.6, 2.0, size=(20_000, 1))
    >>> result = fpp.describe(rows[9:], x_pub=rows[:9], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[0] < 2.0 < upper[0]), result.texts
    (True, ())
    """

    means: MeanResult | None = None
    quantiles: QuantileResult | None = None
    variance: FloatArray | None = array("numbers", missing=math.nan, default=None)
    variance_std: FloatArray | None = array(
        "numbers", missing=math.inf, default=None, sampling=True
    )
    variance_tail: FloatArray | None = array("numbers", missing=math.inf, default=None)
    texts: tuple[CountResult, ...] = ()
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)

    _main = "texts"

    def _fits_together(self) -> bool:
        numbers = [self.means, self.quantiles, self.variance, self.variance_std, self.variance_tail]
        dims = {
            None if each is None else each.dim if isinstance(each, Result) else len(each)
            for each in numbers
        }
        known = len(self.part_reasons) == self.dim and (
            self.means is None or self.means.report is not None
        )
        return known and len(dims) == 1 and self.dim == (dims.pop() or 0) + len(self.texts)

    @property
    def numbers(self) -> int:
        """Number of numeric columns; they come first."""
        return self.dim - len(self.texts)

    @property
    def standard_deviation(self) -> FloatArray:
        """Standard deviations of the numeric columns, (d,)."""
        return (
            np.zeros(0)
            if self.variance is None
            else np.asarray(np.sqrt(np.maximum(self.variance, 0.0)))
        )

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (d,) each, of intervals for the standard deviations.

        They include noise, sampling, clipping, and undetected rows. For the intervals of means, quantiles and counts of texts, see
        `means`, `quantiles` and `texts`.
        """
        level = validation.confidence_level(level)
        if (
            self.means is None
            or self.variance is None
            or self.variance_std is None
            or self.variance_tail is None
        ):
            return np.zeros(0), np.zeros(0)
        return deviation_ends(
            self.means.noise_law, level, self.variance, self.variance_std, self.variance_tail
        )

    def interval_parts(self, level: float = 0.95) -> FloatArray:
        """Half-widths of the intervals of `means`, (d, 4): see `MeanResult.interval_parts`."""
        return np.zeros((0, 4)) if self.means is None else self.means.interval_parts(level)

    def top(self, column: str) -> CountResult:
        """Return the counts of a text column; raise KeyError for any other column."""
        return {each.by[0]: each for each in self.texts}[column]

    def plot(
        self,
        path: str | Path | None = None,
        *,
        level: float = LEVEL,
        x_pub: Any = None,
        ax: Any = None,
    ) -> Any:
        """Draw a panel for each column (needs matplotlib): quantiles and mean with intervals, or the most frequent texts.

        `x_pub` is ignored; it exists because other results draw public rows.
        `ax` are axes of matplotlib to draw into, in place of a figure of their own.
        """
        # Quantiles and mean of a numeric column share a line, the shares of a text column a group of lines; each has its unit.
        d = self.numbers
        names = list(self.labels[: self.numbers])
        estimates = []
        groups: plots.Groups = [("", [j]) for j in range(d)]
        if self.means is not None and self.quantiles is not None:
            shares = ", ".join(f"{q:g}" for q in self.quantiles.q)
            lower, upper = (end.ravel() for end in self.quantiles.confidence_interval(level))
            places = np.repeat(np.arange(d), len(self.quantiles.q))
            values = self.quantiles.quantile.ravel()
            estimates = [
                plots.Estimate(f"quantiles {shares}", values, lower, upper, places, "tick"),
                plots.Estimate("mean", self.means.mean, *self.means.confidence_interval(level)),
            ]
        chosen = []
        for counts in self.texts:
            keys = counts.named[: counts.top]
            if len(keys):
                place = list(range(len(names), len(names) + len(keys)))
                groups.append((f"{counts.by[0]}, shares of the rows", place))
            names += [label_of(counts.keys[key]) for key in keys]
            chosen.append([each[keys] for each in (counts.share, *counts.share_interval(level))])
        if chosen:
            share, lower, upper = np.concatenate(chosen, axis=1)
            estimates.append(
                plots.Estimate("share", share, lower, upper, np.arange(d, len(names)), "bar")
            )
        label = f"with {level:.0%} intervals"
        return plots.plot_forest(
            estimates, names, groups=groups, apart=True, label=label, path=path, ax=ax
        )

    def to_html(self, path: str | Path | None = None, *, level: float = LEVEL) -> str:
        """Return a self-contained HTML page with a picture for each column, and write it to `path` if one is given."""
        level = validation.confidence_level(level)
        cards = [_of_numbers(self, j, level) for j in range(self.numbers)]
        cards += [_of_texts(self, counts, level) for counts in self.texts]
        notes = [
            f'<p class="note">{", ".join(own)}</p>' if own else "" for own in self.part_reasons
        ]
        named = zip(self.labels, cards, notes, strict=True)
        sections = "".join(
            f"<section><h2>{html.escape(name)}</h2>{card}{note}</section>"
            for name, card, note in named
        )
        facts = dict(shown(self)[1])
        shares = ((f"for {name}", f"{share:.1%}") for name, share in sorted(self.shares.items()))
        spent = [
            ("Spent", facts["Spent"]),
            *shares,
            *((name, facts[name]) for name in ("Neighbors", "Private")),
        ]
        head = (
            f"{self.about}; {self.n_pub:,} public rows; intervals hold with {percent(level)} each"
        )
        text = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
            f'initial-scale=1"><title>A table under differential privacy</title><style>{STYLE}</style></head><body>'
            f"<h1>A table under differential privacy</h1><p>{head}</p><main>{sections}</main>"
            f"<footer><section>{listed_facts(explained(self.reasons, self.part_reasons))}"
            f"<h2>What was spent</h2>{listed_facts(spent)}</section></footer></body></html>\n"
        )
        if path is not None:
            Path(validation.path_name(path)).write_text(text, encoding="utf-8")
        return text

    def _table(self, level: float) -> Table:
        blank = [None] * len(self.texts)
        first: list[TableColumn] = []
        last: list[TableColumn] = []
        for name, values, ends in self._estimates(level):
            scale = np.nan_to_num(scale_of(*ends), posinf=0.0)
            added = with_ends(name, values, ends, scale, (f"{name}_lower", f"{name}_upper"))
            added = [each._replace(values=[*each.values.tolist(), *blank]) for each in added]
            # the interval ends of others are at the right of the table
            near = 3 if name == "mean" else 1
            first += added[:near]
            last += added[near:]
        rows = np.ones(self.dim)
        missing, present = self._counted
        count = TableColumn("count", np.array(present), rows)
        # With several rows per person those that a person does not have are counted with the missing numbers.
        gaps = []
        if not np.isnan(missing).any():
            gaps.append(TableColumn("missing", np.array(missing), rows))
        tops = [""] * self.numbers
        tops += [_top_in_words(counts) for counts in self.texts]
        words = [*with_reasons(self.part_reasons), TableColumn("top", tops)]
        more = []
        for name, widths in zip(PARTS, self.interval_parts(level).T.tolist(), strict=True):
            title = f"width_{name.split()[0]}"
            more.append(TableColumn(title, [*widths, *blank]))
        columns = [*gaps, *first, *words, count, *last]
        return Table("column", self.labels, columns, more=more, units=self.labels)

    def _estimates(self, level: float) -> Iterator[tuple[str, FloatArray, Ends]]:
        """Return the estimates of the numeric columns: name, values (d,) and interval ends."""
        if self.means is None or self.quantiles is None:
            return
        yield "mean", self.means.mean, self.means.confidence_interval(level)
        yield "std", self.standard_deviation, self.confidence_interval(level)
        lower, upper = self.quantiles.confidence_interval(level)
        for k, q in enumerate(self.quantiles.q.tolist()):
            yield f"q{100 * q:g}", self.quantiles.quantile[:, k], (lower[:, k], upper[:, k])

    @property
    def _counted(self) -> tuple[list[float], list[float]]:
        """Numbers of missing and of present cells of each column."""
        missing = [float(each.published[-1]) for each in self.texts]
        present = [
            rows_counted(each) - gone for each, gone in zip(self.texts, missing, strict=True)
        ]
        if self.means is None or self.means.report is None:
            return missing, present
        known = self.means.report.rows_used
        if known is None:
            known = self.n_priv - self.means.missing_rows
        return [*self.means.missing_rows.tolist(), *missing], [*known.tolist(), *present]

    def _facts_of_rows_used(self, level: float) -> Facts:
        return [] if self.means is None else self.means._facts_of_rows_used(level)

    def _facts(self, level: float) -> Facts:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in sorted(self.shares.items()))
        facts = [("Interval", f"{percent(level)} each")]
        if self.means is not None:
            facts += self.means._facts_of_parts("Means", level)
            facts += self.means._facts_of_range()
        return [*facts, ("Shares", shares)]


def _top_in_words(counts: CountResult) -> str:
    """Return the most frequent keys of a text column with their shares."""
    named = counts.named[: min(3, counts.top or 3)]
    shares = _shares_in_words(counts)
    return ", ".join(f"{label_of(counts.keys[key])} {shares[key]}" for key in named)


# The HTML page of a description: a card with a small picture for each column, the reasons, and the spent budget.
# It holds released and public values only, no scripts and no external resources. Every text is escaped.

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #f5f6f8; --card: #fff; --line: #d5dae1; --soft: #5a6775;
  --blue: #2f6db5; --red: #b5462f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --paper: #14181d; --card: #1d232b; --line: #36404c;
  --soft: #9aa7b5; --blue: #6aa5e8; --red: #ec8a72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: 1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem; min-width: 0; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; color: var(--soft); } svg { grid-column: 1 / -1; width: 100%; height: .6rem; margin-bottom: .3rem; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem .8rem; margin: .5rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.note { color: var(--red); } footer { margin-top: 1rem; } footer dd { text-align: left; }
"""


def _with_ends(value: float, lower: float, upper: float) -> str:
    """Return a number and its interval as text, rounded by the width of the interval."""
    scale = (upper - lower) / 4.0
    if not math.isfinite(scale):
        return f"{value:.6g} (no interval)" if math.isfinite(value) else "not resolved"
    return f"{number(value, scale)} ({number(lower, scale)} to {number(upper, scale)})"


# name, text, and value with interval ends
Estimates = list[tuple[str, str, tuple[float, float, float]]]


def _drawn(estimates: Estimates, facts: list[tuple[str, str]], *shown: float) -> str:
    """Return estimates, each above its interval on their common axis, which includes the numbers `shown`; and facts."""
    ends = np.array([each for *_, each in estimates]).reshape(-1, 3)
    known = np.append(ends[np.isfinite(ends)], shown)
    begin, end = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    with np.errstate(all="ignore"):
        part = (ends / 2.0 - begin / 2.0) / max(end / 2.0 - begin / 2.0, 5e-324)
    parts = []
    for (name, text, (value, *_)), line in zip(
        estimates, np.clip(np.nan_to_num(part), 0.0, 1.0), strict=True
    ):
        parts.append(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>")
        x, low, high = 2.0 + 296.0 * line
        if math.isfinite(value):
            parts.append(
                '<svg viewBox="0 0 300 10" preserveAspectRatio="none" aria-hidden="true"><path d="M2 5H298" stroke="var(--line)"/>'
                f'<path d="M{low:.1f} 5H{high:.1f}" stroke="var(--blue)" stroke-width="6" opacity=".5"/>'
                f'<path d="M{x:.1f} 0V10" stroke="var(--red)" stroke-width="2"/></svg>'
            )
    return f"<dl>{''.join(parts)}</dl>{listed_facts(facts)}"


def _of_numbers(described: Any, j: int, level: float) -> str:
    """Return the HTML card of a numeric column."""
    means = described.means
    quantiles = described.quantiles
    lower, upper = means.confidence_interval(level)
    low, high = described.confidence_interval(level)
    names = [*(f"{100 * q:g} % below" for q in quantiles.q.tolist()), "mean"]
    of_quantiles = zip(
        quantiles.quantile[j],
        *(ends[j] for ends in quantiles.confidence_interval(level)),
        strict=True,
    )
    values = [*of_quantiles, (means.mean[j], lower[j], upper[j])]
    facts = [("deviation", _with_ends(described.standard_deviation[j], low[j], high[j]))]
    if means.report.rows_used is None:
        facts.append(("missing", f"{means.missing_rows[j]:,.0f} of {described.n_priv:,}"))
    else:
        rows_used = means.report.rows_used[j]
        facts.append(("rows used", f"{rows_used:,.0f} (± {means._missing_std:.3g})"))
    return _drawn(
        [(name, _with_ends(*each), each) for name, each in zip(names, values, strict=True)], facts
    )


def _of_texts(described: Any, counts: CountResult, level: float) -> str:
    """Return the HTML card of a text column."""
    published = counts.published
    lower, upper = counts.confidence_interval(level)
    shares_of = _shares_in_words(counts)
    used = rows_counted(counts)
    among = "unknown" if math.isnan(used) else f"{used:,.0f}"
    estimates = [
        (
            label_of(counts.keys[k]),
            f"{published[k]:,.0f} ({shares_of[k]})",
            (published[k], lower[k], upper[k]),
        )
        for k in counts.named[: counts.top].tolist()
    ]
    return _drawn(estimates, [("missing", f"{published[-1]:,.0f} of {among}")], 0.0)


def _shares_in_words(counts: CountResult) -> list[str]:
    """Return the share of each key as text."""
    shares = np.clip(counts.share, 0.0, 1.0).tolist()
    return ["share unknown" if math.isnan(each) else f"{each:.1%}" for each in shares]
