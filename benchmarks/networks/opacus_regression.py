"""Opacus DP-SGD on a linear regression, tuned on the test rows, against Newton steps without tuning.

    python -m benchmarks.networks.opacus_regression

Opacus gets every advantage: the best of its settings on the test rows, its own accountant (add or remove a row, about half the
epsilon of replacing one), and a start from the public fit as well as from zero. Epsilon of ours is for replacing a row.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
import opacus
import torch

import fastpubpriv as fpp

N, DIM, N_PUB, N_TEST = 20_000, 50, 500, 20_000
DELTA = 1e-5
STEP_SIZES = (0.03, 0.1, 0.3, 1.0)
CLIP_NORMS = (1.0, 3.0)
EPOCHS = (5, 20)
BATCHES = (1000,)


def make_rows(seed: int) -> dict[str, Any]:
    """Return rows whose covariance has eigenvalues 1/j in a random basis; a fifth of the label variance is noise."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] * np.sqrt(1.0 / np.arange(1, DIM + 1))
    truth = rng.standard_normal(DIM)
    x = rng.standard_normal((N + N_PUB + N_TEST, DIM)) @ basis.T
    signal = x @ truth
    y = signal + rng.standard_normal(len(x)) * signal.std() / 2.0
    cut = np.split(np.arange(len(x)), [N_PUB, N_PUB + N])
    return {
        name: (x[part], y[part])
        for name, part in zip(("public", "private", "test"), cut, strict=True)
    }


def error(model: Any, rows: tuple[Any, Any]) -> float:
    """Return the mean squared error over the variance of the label."""
    return float(np.mean((model(rows[0]) - rows[1]) ** 2) / np.var(rows[1]))


def public_fit(rows: tuple[Any, Any]) -> Any:
    """Return ridge regression on the public rows, its penalty chosen by leave-one-out."""
    x, y = rows
    mean = x.mean(axis=0)
    label = y.mean()
    left, values, right = np.linalg.svd(x - mean, full_matrices=False)
    tried = []
    for strength in np.geomspace(1e-3, 1e4, 40):
        shrunk = values**2 / (values**2 + strength)
        off = y - label - left @ (shrunk * (left.T @ (y - label)))
        tried.append(
            (
                np.mean((off / (1.0 - (left**2) @ shrunk)) ** 2),
                right.T @ (values / (values**2 + strength) * (left.T @ (y - label))),
            )
        )
    weights = min(tried, key=lambda each: each[0])[1]
    return weights, label - mean @ weights


class Batches(torch.utils.data.TensorDataset):  # type: ignore[misc]
    """Rows that are read one batch at a time; the loader's default, one row at a time, would dominate the run time."""

    def __getitems__(self, places: list[int]) -> tuple[Any, ...]:
        return tuple(each[places] for each in self.tensors)


def opacus_fit(rows: dict[str, Any], epsilon: float, setting: tuple[Any, ...]) -> Any:
    """Run Opacus's DP-SGD once as documented; return the prediction as a function of rows."""
    step_size, clip_norm, epochs, batch, warm, seed = setting
    torch.manual_seed(seed)
    (x_pub, y_pub), (x, y) = rows["public"], rows["private"]
    center = x_pub.mean(axis=0)
    scale = x_pub.std(axis=0)
    label_center = y_pub.mean()
    label_scale = y_pub.std()
    # a category that no public row has would otherwise be scaled by 1e9
    scale = np.where(scale > 0.0, scale, 1.0)
    inputs = torch.tensor((x - center) / scale, dtype=torch.float32)
    labels = torch.tensor((y - label_center) / label_scale, dtype=torch.float32)[:, None]
    model = torch.nn.Linear(x.shape[1], 1)
    with torch.no_grad():
        weights, intercept = public_fit(
            ((x_pub - center) / scale, (y_pub - label_center) / label_scale)
        )
        model.weight[:] = torch.tensor(weights * warm, dtype=torch.float32)
        model.bias[:] = float(intercept * warm)
    optimizer = torch.optim.SGD(model.parameters(), lr=step_size)
    loader = torch.utils.data.DataLoader(
        Batches(inputs, labels), batch_size=batch, collate_fn=tuple
    )
    model, optimizer, loader = opacus.PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=epochs,
        max_grad_norm=clip_norm,
    )
    for _ in range(epochs):
        for batch_x, batch_y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(batch_x), batch_y).backward()
            optimizer.step()
    found = (
        model._module.weight.detach().numpy()[0].astype(np.float64),
        float(model._module.bias.detach()[0]),
    )
    return lambda z: label_center + label_scale * ((z - center) / scale @ found[0] + found[1])


def main() -> None:
    """Run all and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        f"{N} private rows, {DIM} columns, {N_PUB} public rows, delta = {DELTA:g}; mean squared error / variance of the label"
    )
    print(
        "epsilon   non-private  public  newton (replace-one)  Opacus, best on test (add/remove)   seconds: newton, one Opacus run"
    )
    for epsilon in arguments.epsilon:
        table = []
        seconds = []
        for seed in range(arguments.seeds):
            rows = make_rows(seed)
            x, y = rows["private"]
            with_one = np.column_stack([np.ones(len(x)), x])
            plain = np.linalg.lstsq(with_one, y, rcond=None)[0]
            weights, intercept = public_fit(rows["public"])
            begin = time.perf_counter()
            ours = fpp.linear_regression(
                x,
                y,
                x_pub=rows["public"][0],
                y_pub=rows["public"][1],
                budget=fpp.ApproxDP(epsilon, DELTA),
                method="newton",
            )
            middle = time.perf_counter()
            settings = list(
                itertools.product(STEP_SIZES, CLIP_NORMS, EPOCHS, BATCHES, (0.0, 1.0), (seed,))
            )
            theirs = [
                error(opacus_fit(rows, epsilon, setting), rows["test"]) for setting in settings
            ]
            seconds.append((middle - begin, (time.perf_counter() - middle) / len(settings)))
            table.append(
                (
                    error(lambda z, w=plain: w[0] + z @ w[1:], rows["test"]),
                    error(lambda z, w=weights, b=intercept: b + z @ w, rows["test"]),
                    error(ours.predict, rows["test"]),
                    min(theirs),
                )
            )
        plain_error, public, newton, best = np.median(table, axis=0)
        own, other = np.median(seconds, axis=0)
        print(
            f"{epsilon:7g}   {plain_error:11.4f}  {public:6.4f}  {newton:20.4f}  {best:33.4f}   {own:15.2f}, {other:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
