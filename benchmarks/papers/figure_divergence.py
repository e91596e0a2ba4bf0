"""Figure 6 of paper B: at a tiny epsilon DP-SGD diverges, and Algorithm 1 does not."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.papers import gradient_cells as cells
from benchmarks.papers.experiment import (
    SEED_NOTE,
    Experiment,
    Options,
    Row,
    curve,
    finish,
    panels,
    text_table,
    where,
)
from benchmarks.papers.samples import SimulatedDraws
from benchmarks.papers.sweeps import Array, Sweep, sweep

SIZE = cells.Size(50, 1000, 5000, 500, 100)
EPSILON, RATIO = 0.01, 0.1
METHODS = ("Algorithm 1", "DP-SGD")
STEP_SIZE = 0.01  # the smallest of the paper's grid: the best case of a method that diverges
KEPT = tuple(sorted({round(SIZE.steps ** (i / 60)) for i in range(61)}))


def inverse_variance(dim: int, noise: float, batch: int, public_batch: int) -> float:
    """Return the private weight P / (P + A), for gradients of norm 1: P = 1 / K_pub, A = 1 / K_priv + d z^2 / K_priv^2."""
    public = 1.0 / public_batch
    private = 1.0 / batch + dim * (noise / batch) ** 2
    return public / (public + private)


def one_run(seed: int) -> tuple[list[tuple[float, float]], list[list[float]], float]:
    """Run both methods on one draw; return noise and weight, losses at the start and at KEPT, and the loss of the public fit."""
    data = cells.make_data(SIZE, seed)
    known = cells.split(data, RATIO)
    settings = []
    losses = []
    for n_pub in (known.n_pub, 0):
        x = data.x[n_pub:]
        y = data.y[n_pub:]
        rate = Fraction(1, -(-len(y) // SIZE.batch))
        noise = cells.noise_for(rate, EPSILON, SIZE.steps, cells.HONEST)
        batch = round(len(y) * rate)
        weight = inverse_variance(SIZE.dim, noise, batch, known.n_pub) if n_pub else 1.0
        seen: list[float] = [float(cells.losses_of(known.fitted[None], data.truth)[0])]

        def keep(step: int, weights: Array, seen: list[float] = seen) -> None:
            if step + 1 in KEPT:
                seen.append(float(cells.losses_of(weights.T, data.truth)[0]))

        sweep(
            Sweep(
                step_size=np.array([2.0 * STEP_SIZE]),
                priv_weight=weight,
                steps=SIZE.steps,
                clip_norm=0.5,
                noise_multiplier=noise,
                batch_rows=batch,
            ),
            *(x, y),
            draws=SimulatedDraws(
                seed, n=len(y), rate=float(rate), n_pub=known.n_pub, public_rows=None
            ),
            x_pub=data.x[:n_pub] if n_pub else None,
            y_pub=data.y[:n_pub] if n_pub else None,
            start=known.fitted,
            on_step=keep,
        )
        settings.append((noise, weight))
        losses.append(seen)
    return settings, losses, known.throw_away


def rows(options: Options) -> list[Row]:
    """Return the loss of each method by step, medians over draws."""
    made = [one_run(seed) for seed in range(options.runs)]
    losses = np.median([each[1] for each in made], axis=0)
    alone = float(np.median([each[2] for each in made]))
    return [
        {
            "method": method,
            "noise_multiplier": noise,
            "priv_weight": weight,
            "step": step,
            "loss": float(loss),
        }
        | {"throw_away": alone}
        for method, (noise, weight), seen in zip(METHODS, made[0][0], losses, strict=True)
        for step, loss in zip((0, *KEPT), seen, strict=True)
    ]


def lines(found: list[Row], options: Options) -> Iterator[str]:
    """Yield first and last losses."""
    yield f"test loss after {SIZE.steps} steps, epsilon = {EPSILON}; throw-away {found[0]['throw_away']:.4f}"
    ends = [where(found, method=method) for method in METHODS]
    columns = {
        "method": "{method}",
        "noise multiplier": "{noise_multiplier:.4g}",
        "at the start": "{start:.4f}",
        "at the end": "{loss:.4g}",
    }
    yield from text_table(columns, [part[-1] | {"start": part[0]["loss"]} for part in ends])
    yield SEED_NOTE


def draw(found: list[Row], options: Options) -> Any:
    """Draw the loss by step, with both axes logarithmic."""
    figure, ((axes,),) = panels(6.4, 4.2)
    for i, method in enumerate(METHODS):
        curve(axes, where(found, method=method)[1:], "step", "loss", "-", i, label=method)
    axes.axhline(found[0]["throw_away"], color="0.5", lw=0.8, ls=":", label="throw-away")
    title = f"d = {SIZE.dim}, n = {SIZE.n}, ε = {EPSILON}, n_pub/n = {RATIO}"
    finish(axes, "step", "test loss", log="xy", title=title)
    return figure


NOTES = f"""\
Optimal DP Model Training with Public Data, Figure 6: d = 50, n = 1000, epsilon = 0.01, n_pub / n = 0.1, warm start
batches, steps, delta and grid as in its Tables 5 to 10; step size 0.01, the least of the grid, for both methods
noise for the paper's own definition of privacy, where a row is replaced: its software states epsilon with an error of 0.01,
so that it finds no noise for 0.01 that is not absurd
Algorithm 1: weight of the private gradient by inverse variance, from public numbers
loss: population loss (1 is the least), median over draws of rows and noise
{SEED_NOTE}"""

EXPERIMENT = Experiment(
    name="b-figure-6",
    summary="Linear regression at a tiny epsilon: DP-SGD runs away, Algorithm 1 with some public rows does not",
    source="Lowy, Li, Huang, Razaviyayn, Optimal DP Model Training with Public Data (2024), Figure 6",
    runs=5,
    rows=rows,
    lines=lines,
    draw=draw,
    notes=NOTES,
)
