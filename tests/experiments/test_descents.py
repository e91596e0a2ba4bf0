"""The engine of the gradient experiments against a loop that takes one row at a time."""

import numpy as np
import pytest

from fastpubpriv.experiments import descents


def problem(seed=0, n=60, dim=5):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dim)).astype(np.float32)
    return x, (x @ rng.standard_normal(dim) + rng.standard_normal(n)).astype(np.float32)


def by_rows(x, y, w, clip_norm, form):
    total = np.zeros(len(w))
    for row, label in zip(x.astype(float), y.astype(float), strict=True):
        gradient = 2.0 * (row @ w - label) * row
        norm = np.linalg.norm(gradient)
        if form == "sphere":
            gradient = gradient * (clip_norm / norm) if norm > 0 else gradient
        elif form == "clip":
            gradient = gradient * min(1.0, clip_norm / norm)
        total += gradient
    return total


@pytest.mark.parametrize("form", descents.PUBLIC_GRADIENTS)
def test_every_setting_is_the_loop_over_rows(form):
    x, y = problem()
    private, public = descents.Batches(x[20:], y[20:], 40), descents.Batches(x[:20], y[:20], 20)
    eta, alpha = np.array([0.1, 0.02, 0.05, 0.03]), np.array([0.0, 0.4, 1.0, 1.0])
    inverse = descents.mirror_inverse(x[:20])
    settings = descents.Settings(eta, alpha, 0.0, inverse=inverse, preconditioned=1)
    found, kept = descents.descend(
        np.ones(5), private, public, settings, steps=7, rng=np.random.default_rng(0), public_gradient=form, every=3
    )
    assert len(kept) == 2
    for i in range(4):
        w = np.ones(5)
        for step in range(7):
            move = alpha[i] * by_rows(x[20:], y[20:], w, 1.0, "clip") / 40
            if i == 3:
                move = inverse.astype(float) @ move
            w = w - eta[i] * (move + (1 - alpha[i]) * by_rows(x[:20], y[:20], w, 1.0, form) / 20)
            if step == 5:
                assert np.allclose(kept[1][i], w, atol=2e-5)
        assert np.allclose(found[i], w, atol=2e-5)


def test_noise_and_batches_follow_their_law():
    x, y = problem(1, n=400, dim=50)
    private = descents.Batches(0 * x, y, 100, rate=0.25)
    settings = descents.Settings(np.ones(2), np.array([1.0, 0.5]), 3.0)
    rng = np.random.default_rng(2)
    found, _ = descents.descend(np.zeros(50), private, None, settings, steps=400, rng=rng)
    # A sum of 400 steps of standard deviation 3 / 100; 5 standard deviations of the mean of 50 squares.
    assert np.mean(found[0] ** 2) == pytest.approx(400 * 0.03**2, rel=5 * np.sqrt(2 / 50))
    assert np.allclose(found[1], 0.5 * found[0], atol=1e-5)
    sizes = [len(private.draw(rng)[1]) for _ in range(2000)]
    assert np.mean(sizes) == pytest.approx(100, abs=5 * np.sqrt(75 / 2000))
    assert np.var(sizes) == pytest.approx(75, rel=0.2)


def test_settings_without_private_weight_never_read_private_rows():
    x, y = problem(3)
    public = descents.Batches(x[:20], y[:20], 10)
    settings = descents.Settings(np.array([0.1]), np.array([0.0]), 5.0)
    answers = [
        descents.descend(
            np.zeros(5), descents.Batches(rows, y, 30, 0.5), public, settings, steps=5, rng=np.random.default_rng(1)
        )[0]
        for rows in (x, np.full_like(x, np.nan))
    ]
    assert np.array_equal(*answers)


def test_least_squares_is_the_shortest_with_few_rows():
    x, y = problem(4, n=9, dim=20)
    found = descents.least_squares(x, y)
    assert np.allclose(found, np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)[0], atol=1e-4)
    x, y = problem(5, n=200, dim=20)
    assert np.allclose(descents.least_squares(x, y), np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-4)
