"""What to say about each column: the released mean, the parts of its interval, and a status."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastpubpriv._types import FloatArray
from fastpubpriv.estimators.columns.clips import Map
from fastpubpriv.estimators.columns.scales import Column, Scale, doubtful_sum, edges_of, undetected_at, undetected_rows
from fastpubpriv.estimators.columns.shares import Shares
from fastpubpriv.results.estimates import ColumnReport

MANY_ZEROS, MOST_ZEROS = 0.4, 0.8
FAINT = 8.0
NORMAL = 1.959964  # quantile of the interval that a hidden tail is compared with
TAIL = 1.5
BESIDE = 2.0  # the same of a side without a row to be seen, where most rows are at the centre
MOST_UNSEEN = 0.02  # share of the rows that may lie unseen in a resolved column: "one row in fifty" of its status
HIDDEN = 8.0  # times the rest of the interval that a hidden tail may ask for before the status says so


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """All that was released and worked out of one column; `total` and `noise` are of its sum, `bias` is the ball's, in widths;
    `instead` is the mean where the counts show nothing, with a deviation of `instead_std`, infinite where that is not known.
    """

    column: Column
    scale: Scale
    map: Map
    shares: Shares
    total: float
    noise: float
    bias: float
    instead: float
    instead_std: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The numbers of one column, in data units."""

    mean: float
    noise_std: float
    sampling_std: float
    clipping_std: float
    tail_below: float
    tail_above: float
    status: str


def may_hide(unseen: float, n: int) -> bool:
    """Whether so many rows that may lie anywhere unseen are too many for the interval to pass over them in silence."""
    return unseen > MOST_UNSEEN * n


def say(found: Found, n_pub: int, *, neutral: bool, bounded: bool) -> Said:
    """Mean, deviations and status of one column; `bounded` where the interval has what rows within bounds may move it by."""
    shares = found.shares
    clip, unit = found.map.clip, found.map.clip.absolute
    n, stretch = shares.n, shares.n / clip.rows
    middle, width = (found.map.middle, found.map.width) if found.map.used else (0.0, 0.0)
    estimate = middle + (width * found.total + clip.correction) / n
    if clip.missing:  # rows that are missing were counted as rows here
        place = middle if neutral else clip.first_mean
        estimate = place + (estimate - place) * stretch
    mean = finite(found.column.center + unit(estimate))
    sampling = unit(clip.std / math.sqrt(clip.rows))
    noise = unit(width * found.noise / n * stretch)
    clipping = unit(math.hypot(math.sqrt(clip.variance), width * found.bias) / n * stretch)
    tails = [unit(TAIL * hidden / n * stretch) for hidden in (clip.hidden_below, clip.hidden_above)]
    half = NORMAL * math.hypot(noise, sampling, clipping)
    status = status_of(
        found,
        heavy=max(tails) > HIDDEN * half,
        doubtful=doubtful_sum(found.column, found.scale, shares) / n * stretch > half
        or _beside(found, tails, BESIDE * half),
        wide=noise > sampling_of(clip.std, n_pub, unit) / 2.0,
        hidden=not bounded and may_hide(undetected_rows(found.shares), shares.n),
    )
    # Without a scale from counts the noise is known all the same: never worse than the public rows by themselves.
    lost = noise > found.instead_std or (not found.scale.referenced and not shares.blind)
    if status == "unresolved" and lost:
        mean = found.instead
    return Said(
        mean=mean, noise_std=noise, sampling_std=sampling, clipping_std=clipping, tail_below=tails[0], tail_above=tails[1],
        status=status,
    )  # fmt: skip


def _beside(found: Found, tails: list[float], most: float) -> bool:
    """Whether a column of mostly one value may have rows on a side where none are seen that move its mean by more than `most`."""
    pairs = zip(found.map.clip.sides, tails, strict=True)
    return found.column.zero > MOST_ZEROS * found.shares.n and any(side is None and tail > most for side, tail in pairs)


def finite(value: float) -> float:
    """The nearest finite number."""
    largest = float(np.finfo(np.float64).max)
    return min(max(value, -largest), largest)


def sampling_of(std: float, n_pub: int, unit: object) -> float:
    """Standard deviation of the public mean."""
    return float(unit(std / math.sqrt(n_pub)))  # type: ignore[operator]


def status_of(found: Found, *, heavy: bool, doubtful: bool, hidden: bool, wide: bool) -> str:
    """The word for a column."""
    shares, zero, sides = found.shares, found.column.zero, [side for side in found.map.clip.sides if side is not None]
    if not shares.blind and found.scale.above is None and found.scale.below is None and zero > MANY_ZEROS * shares.n:
        return "point_mass"
    if not found.scale.anchored or not sides:
        return "unresolved"
    rest = found.map.clip.rows - zero
    rare = zero > MOST_ZEROS * shares.n and rest < FAINT * shares.count_std
    if doubtful or rare or found.scale.outlying or any(side.faint for side in sides):
        return "faint"
    if heavy or any(side.heavy for side in sides):
        return "heavy_tail"
    return "unseen" if hidden else "wide" if wide else "resolved"


def report_of(founds: list[Found], said: list[Said], bounds: tuple[FloatArray, FloatArray] | None) -> ColumnReport:
    """The report of all columns."""
    edges, dim = edges_of(founds[0].shares.log2_parts), len(founds)
    center = np.array([found.column.center for found in founds])
    reached = np.array(
        [
            [0.0 if last is None else edges[last + 1] for last in (found.scale.below, found.scale.above)]
            for found in founds
        ]
    ).reshape(dim, 2)
    clips = np.array(
        [[found.map.clip.absolute(end) for end in (found.map.clip.below, found.map.clip.above)] for found in founds]
    ).reshape(dim, 2)
    unseen = np.array([undetected_rows(found.shares) for found in founds])
    unknown = np.array([each.status in ("point_mass", "unresolved") for each in said])
    worst = np.where(unknown[:, None], math.inf, np.zeros((dim, 2)))
    lowest, highest = np.full(dim, -math.inf), np.full(dim, math.inf)
    if bounds is not None:
        lowest, highest = bounds
        distance = np.stack([center - lowest, highest - center], axis=1)
        rows = np.array(
            [
                [undetected_at(found.column, found.scale, found.shares, max(far, 0.0)) for far in ends]
                for found, ends in zip(founds, distance.tolist(), strict=True)
            ]
        ).reshape(dim, 2)
        worst, unseen = rows / founds[0].shares.n * np.maximum(distance - clips, 0.0), rows.max(axis=1)
        worst[[each.status == "unresolved" for each in said]] = math.inf
    return ColumnReport(
        status=tuple(each.status for each in said),
        missing=np.array([found.map.clip.missing for found in founds]),
        resolved_from=np.clip(center - reached[:, 0], -np.finfo(np.float64).max, np.finfo(np.float64).max),
        resolved_to=np.clip(center + reached[:, 1], -np.finfo(np.float64).max, np.finfo(np.float64).max),
        undetected_rows=unseen,
        clipping_std=np.array([each.clipping_std for each in said]),
        tail_below=np.array([each.tail_below for each in said]),
        tail_above=np.array([each.tail_above for each in said]),
        worst_below=worst[:, 0],
        worst_above=worst[:, 1],
        lowest=lowest,
        highest=highest,
    )
