"""What public rows choose for local training: where it starts, how far it goes, and what gradients are clipped to."""

from __future__ import annotations

import numpy as np
import pytest

from fastpubpriv import InputError
from fastpubpriv.local import LOSSES, public_facts, train

pytestmark = pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning")

PUBLIC = {"start": "public", "clip_norm": "public", "radius": "public"}


class Absolute:
    """A loss of one's own, with a kink."""

    def value(self, weights, x, y):
        return np.abs(x @ weights - y)

    def gradient(self, weights, x, y):
        return np.sign(x @ weights - y)[:, None] * x


class NoValue:
    """Gradients alone do not say where the minimum is."""

    gradient = Absolute.gradient


def noisy(n, seed, dim=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    best = np.linspace(-1.0, 1.0, dim)
    return x, x @ best + rng.normal(size=n), best


def test_a_public_start_is_far_better_than_public_rows_or_a_start_at_zero():
    """The mean of 4 seeded draws, 40 public rows in 6 columns; by public rows alone the excess is about 6 / (2 * 40)."""
    errors = []
    for seed in range(4):
        x, y, best = noisy(10_040, seed)
        shown = {"x_pub": x[:40].copy(), "y_pub": y[:40].copy()}
        call = {"epsilon": 4.0, "batch_rows": 50, "random_state": seed, **shown}
        begun = train(x[40:], y[40:], **PUBLIC, **call)
        assert np.allclose(begun.start, np.linalg.lstsq(x[:40], y[:40], rcond=None)[0])
        # As wide as the truth asks for, and a clip that few gradients reach.
        zero = train(x[40:], y[40:], clip_norm=8.0, radius=2.0 * float(np.linalg.norm(best)), **call)
        errors.append(
            [0.5 * np.sum((each - best) ** 2) for each in (begun.start, zero.coefficients, begun.coefficients)]
        )
    public, zero, both = np.mean(errors, axis=0)
    assert both < 0.15 * public
    assert both < 0.2 * zero


def test_what_public_rows_choose_is_what_is_said():
    x, y, _ = noisy(1060, 1)
    shown, labels = x[:60].copy(), y[:60].copy()
    call = {"x_pub": shown, "y_pub": labels, "epsilon": 4.0, "batch_rows": 50, "random_state": 0}
    found = train(x[60:], y[60:], **PUBLIC, **call)
    assert (found.n_priv, found.n_pub) == (1000, 60)
    assert found.provenance == dict.fromkeys(("start", "clip_norm", "radius"), "public rows")
    begun = public_facts.PublicStart.of(LOSSES["squared"], shown, labels)
    assert found.radius == 3.0 * begun.error
    assert found.releases[0]["clip_norm"] == np.quantile(begun.lengths, 0.75)
    # The public rows are used once: the same numbers without them give the same weights.
    same = {"start": found.start, "radius": found.radius, "clip_norm": found.releases[0]["clip_norm"]}
    plain = train(x[60:], y[60:], epsilon=4.0, batch_rows=50, random_state=0, **same)
    assert np.array_equal(plain.coefficients, found.coefficients)
    assert plain.excess_bound == found.excess_bound
    # A public clip by itself: lengths at the start, and the rows are used in the pass.
    clipped = train(x[60:], y[60:], clip_norm="public", radius=2.0, **call)
    lengths = np.linalg.norm(labels[:, None] * shown, axis=1)
    assert clipped.releases[0]["clip_norm"] == pytest.approx(np.quantile(lengths, 0.75))
    assert not np.array_equal(
        clipped.coefficients,
        train(x[60:], y[60:], clip_norm=clipped.releases[0]["clip_norm"], radius=2.0, epsilon=4.0, batch_rows=50, random_state=0)
        .coefficients,
    )  # fmt: skip


def test_the_error_of_a_public_fit_is_that_of_its_jackknife():
    """200 seeded fits: the root mean square of distances is within a tenth of the mean of what is said."""
    said, found = [], []
    for seed in range(200):
        x, y, best = noisy(80, seed, dim=4)
        begun = public_facts.PublicStart.of(LOSSES["squared"], x, y)
        said.append(begun.error)
        found.append(np.linalg.norm(begun.weights - best))
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(np.sqrt(np.mean(np.square(said))), rel=0.15)
    assert np.mean(np.array(found) < 2.0 * np.array(said)) > 0.95


@pytest.mark.parametrize("loss", ["logistic", "huber", Absolute()])
def test_a_public_start_for_any_loss(loss):
    x, y, best = noisy(3060, 2, dim=3)
    y = (y > 0.0).astype(float) if loss == "logistic" else y
    call = {"x_pub": x[:60].copy(), "y_pub": y[:60].copy(), "epsilon": 4.0, "batch_rows": 50, "random_state": 0}
    found = train(x[60:], y[60:], loss=loss, **PUBLIC, **call)
    cosine = found.coefficients @ best / np.linalg.norm(found.coefficients) / np.linalg.norm(best)
    assert cosine > 0.9
    assert np.linalg.norm(found.coefficients - found.start) <= found.radius


def test_classes_that_a_plane_divides_have_a_public_start():
    x = np.linspace(-1.0, 1.0, 40)[:, None]
    begun = public_facts.PublicStart.of(LOSSES["logistic"], x, (x[:, 0] > 0.0).astype(float))
    assert 1.0 < begun.weights[0] < 100.0
    assert begun.radius < 100.0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({**PUBLIC, "x_pub": None, "y_pub": None}, "needs public rows"),
        ({**PUBLIC, "start": None}, "start='public' too"),
        ({**PUBLIC, "start": "zero"}, "start"),
        ({**PUBLIC, "clip_norm": "auto"}, "clip_norm"),
        ({**PUBLIC, "x_pub": np.ones((6, 6)), "y_pub": np.ones(6)}, "more public rows than columns"),
        ({**PUBLIC, "y_pub": np.zeros(40)}, "gradients that are not zero"),
        ({**PUBLIC, "loss": NoValue()}, "function of values"),
    ],
)
def test_public_choices_that_cannot_be_made(more, why):
    x, y, _ = noisy(100, 3)
    with pytest.raises(InputError, match=why):
        train(x[40:], y[40:], **{"x_pub": x[:40].copy(), "y_pub": y[:40].copy(), "epsilon": 4.0, **more})
