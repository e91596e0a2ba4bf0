"""One page of a Description that opens from disk: a card with a small picture for each column, reasons, and what was spent.

It holds released and public values only, no script, and nothing from elsewhere. Every text is escaped.
"""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.results.base import LEVEL, explain, listed_facts, number, percent
from fastpubpriv.results.estimates import STATUSES

WIDTH, LEFT, RIGHT = 300.0, 10.0, 290.0  # of a picture, in its own units; it is as wide as its card
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
p { margin: .4rem 0; color: var(--soft); } svg { display: block; width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--soft); }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem .8rem; margin: .5rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.note { color: var(--red); } footer { margin-top: 1rem; } footer dd { text-align: left; }
"""


def _with_ends(value: float, lower: float, upper: float) -> str:
    """A number and its interval, rounded to what the interval shows."""
    scale = (upper - lower) / 4.0
    if not math.isfinite(scale):
        return f"{value:.6g} (no interval)" if math.isfinite(value) else "not resolved"
    return f"{number(value, scale)} ({number(lower, scale)} to {number(upper, scale)})"


def _picture(parts: list[str], height: float, label: str) -> str:
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{html.escape(label, quote=True)}">{inside}</svg>'


def _line(x: float, low: float, high: float, y: float, color: str) -> str:
    """An interval, and on it the estimate as a tick."""
    return (
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="var(--{color})" stroke-width="7" opacity=".35"/>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9}" y2="{y + 9}" stroke="var(--{color})" stroke-width="2"/>'
    )


def _of_numbers(described: Any, j: int, level: float) -> str:
    """The card of a column of numbers."""
    means, quantiles = described.means, described.quantiles
    lower, upper = means.confidence_interval(level)
    low, high = described.confidence_interval(level)
    first, last = quantiles.confidence_interval(level)
    values = np.append(quantiles.quantile[j], means.mean[j])
    lows, highs = np.append(first[j], lower[j]), np.append(last[j], upper[j])
    known = np.concatenate([each[np.isfinite(each)] for each in (values, lows, highs)])
    parts: list[str] = []
    if len(known):
        begin, end = float(known.min()), float(known.max())
        places, starts, stops = (_at(each, begin, end) for each in (values, lows, highs))
        for k in np.flatnonzero(np.isfinite(values)).tolist():
            mean = k == len(values) - 1
            parts.append(_line(places[k], starts[k], stops[k], 42 if mean else 16, "red" if mean else "blue"))
        parts.append(
            f'<text x="{LEFT}" y="66">{begin:.6g}</text><text x="{RIGHT}" y="66" text-anchor="end">{end:.6g}</text>'
        )
    facts = [
        (f"{100 * q:g} % below", _with_ends(*each))
        for q, *each in zip(
            quantiles.q.tolist(), quantiles.quantile[j].tolist(), first[j].tolist(), last[j].tolist(), strict=True
        )
    ]
    facts.append(("mean", _with_ends(float(means.mean[j]), float(lower[j]), float(upper[j]))))
    facts.append(("deviation", _with_ends(float(described.standard_deviation[j]), float(low[j]), float(high[j]))))
    if means.report is not None:
        facts.append(("missing", f"{means.report.missing[j]:,.0f} of {described.n_priv:,}"))
    word = means.status[j]
    note = "" if word == "resolved" else f'<p class="note">{html.escape(f"{word}: {STATUSES[word]}")}</p>'
    return (
        _picture(parts, 70, f"quantiles above, mean below, with {percent(level)} intervals")
        + listed_facts(facts)
        + note
    )


def _at(values: FloatArray, begin: float, end: float) -> FloatArray:
    """Places in the picture of values between two ends; those beyond are at its margin."""
    with np.errstate(all="ignore"):
        part = (values / 2.0 - begin / 2.0) / max(end / 2.0 - begin / 2.0, 5e-324)
    return LEFT + (RIGHT - LEFT) * np.clip(np.nan_to_num(part), 0.0, 1.0)


def _of_texts(described: Any, place: int, level: float) -> str:
    """The card of a column of text."""
    counts = described.texts[place]
    keys = counts.named[: counts.top].tolist()
    lower, upper = (ends / max(counts.n_priv, 1) for ends in counts.confidence_interval(level))
    share, parts, facts = counts.share, [], []
    for line, key in enumerate(keys):
        y = 14 + 16 * line
        low, high, end = (
            LEFT + (RIGHT - LEFT) * min(max(float(each[key]), 0.0), 1.0) for each in (lower, upper, share)
        )
        parts.append(
            f'<rect x="{LEFT}" y="{y - 5}" width="{end - LEFT:.1f}" height="10" fill="var(--blue)" opacity=".5"/>'
        )
        parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="var(--red)" stroke-width="2"/>')
        facts.append((counts._label(key), f"{max(counts.counts[key], 0.0):,.0f} ({share[key]:.1%})"))
    facts.append(("missing", f"{max(counts.counts[-1], 0.0):,.0f} of {described.n_priv:,}"))
    return _picture(
        parts, 8 + 16 * max(len(keys), 1), f"shares of texts, with {percent(level)} intervals"
    ) + listed_facts(facts)


def page(described: Any, level: float = LEVEL) -> str:
    """The page as HTML."""
    cards = []
    for j, name in enumerate(described.labels):
        body = (
            _of_numbers(described, j, level)
            if j < described.numbers
            else _of_texts(described, j - described.numbers, level)
        )
        cards.append(f"<section><h2>{html.escape(name)}</h2>{body}</section>")
    spent = [
        ("Spent", explain(described.spent, described.releases)),
        *((f"for {name}", f"{share:.1%}") for name, share in sorted(described.shares.items())),
        ("Neighbors", described.relation),
        ("Private", "yes" if described.private else "NO: the noise came from a seed, so these values are not private"),
    ]
    head = (
        f"{described.n_priv:,} private rows, {described.n_pub:,} public ones; intervals hold with {percent(level)} each"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>A table under differential privacy</title><style>{STYLE}</style></head><body>'
        f"<h1>A table under differential privacy</h1><p>{head}</p><main>{''.join(cards)}</main>"
        f"<footer><section><h2>What was spent</h2>{listed_facts(spent)}</section></footer></body></html>\n"
    )
