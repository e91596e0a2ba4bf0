"""Record and replay of regressions on neighbours, how near the worst pair comes, and the planted faults that it must catch."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, PureDP, ReplayError, linear_regression, logistic_regression, train
from fastpubpriv.auditing import record_replay
from fastpubpriv.estimators.moments import TwoPieces
from fastpubpriv.kernels import residuals as kernels
from fastpubpriv.mechanisms.residuals import ResidualQuery, ResidualSum
from fastpubpriv.mechanisms.sums import GramQuery
from fastpubpriv.training.exact import RowAtStart
from fastpubpriv.training.rotated import Rotation

pytestmark = [
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.SeededNoiseWarning"),
]
DIM = 3
BUDGETS = {"zcdp": ZCDP(0.5), "approx": ApproxDP(1, 1e-6), "pure": PureDP(1)}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, DIM)) * [1.0, 10.0, 0.1]
PUBLIC = np.column_stack([X, X @ [1.0, 0.2, -3.0] + RNG.normal(size=60)])
FEW = np.column_stack([*[X[:2]] * 3, PUBLIC[:2, -1:]])
CLASSES = np.column_stack([X, X[:, 0] > 0.3])
HOSTILE = np.array(
    [
        [np.nan] * 4, [np.inf, 0, 0, 0], [0, 0, 0, np.nan], [0, 0, 0, -np.inf], [1e308] * 4, [-1e308, 1e308, 0, 1e308],
        [5e-324] * 4, [0.0] * 4, [1e30, 0, 0, 1], [0, 0, 1e9, -1e9], [0, 0, 0, 7], [1, 10, 0.1, 1e300],
    ]
)  # fmt: skip


def runs(budget):
    common = {"label": -1, "budget": budget, "threads": 1, "progress": False}
    for tails in ("any", "light"):
        yield (
            f"newton, {tails}",
            lambda x, t=tails: linear_regression(x, x_pub=PUBLIC, method="newton", tails=t, **common),
        )
    # So few public rows that the mean of the private ones is released first: a column stands there three times.
    yield (
        "few public rows",
        lambda x: linear_regression(np.column_stack([*[x[:, :3]] * 3, x[:, 3:]]), x_pub=FEW, method="newton", **common),
    )
    yield "huber", lambda x: train(x, x_pub=PUBLIC, loss="huber", method="newton", **common)
    yield "logistic", lambda x: logistic_regression(x, x_pub=CLASSES, method="newton", **common)
    weights = {"weights_priv": np.ones(30), "weights_pub": np.full(60, 0.5), "weight_cap": 1.0}
    yield "weighted", lambda x: linear_regression(x, x_pub=PUBLIC, method="newton", **weights, **common)


CASES = [
    pytest.param(budget, run, id=f"{notion}: {name}")
    for notion, budget in BUDGETS.items()
    for name, run in runs(budget)
]


@pytest.mark.parametrize(("budget", "run"), CASES)
def test_neighbours(budget, run):
    rng = np.random.default_rng(4)
    for trial in range(12):
        rows = np.column_stack([rng.normal(size=(30, DIM)) * [1.0, 10.0, 0.1], rng.integers(0, 2, 30)])
        other = rows.copy()
        rows[3], other[3] = HOSTILE[trial % len(HOSTILE)], HOSTILE[(5 * trial + 1) % len(HOSTILE)]
        report = record_replay(run, rows, other, budget=budget)
        assert report.pair_cost <= report.declared_cost <= report.allowance * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(("tails", "least"), [("light", 0.9), ("any", 0.6)])
def test_opposite_labels_come_near_the_declared_cost(tails, least):
    """A label far up and the same far down: opposite gradients and scores. Counts of norms and the curvature are then the same."""
    tightness = []
    for length in (*np.linspace(0.5, 3.0, 8), 20.0):
        rows = np.column_stack([np.repeat([[length, 0.0, 0.0]], 40, axis=0), np.zeros(40)])
        other = rows.copy()
        rows[0, -1], other[0, -1] = 1e9, -1e9
        report = record_replay(
            lambda x: linear_regression(x, label=-1, x_pub=PUBLIC, budget=ZCDP(0.5), method="newton", tails=tails),
            rows, other, budget=ZCDP(0.5),
        )  # fmt: skip
        tightness.append(report.tightness)
    assert least < max(tightness) <= 1.0


def caught(words, *, run=None):
    rows = np.column_stack([X[:30], PUBLIC[:30, -1]])
    other = rows.copy()
    rows[0], other[0] = [9.0, 90.0, 0.9, 1e6], [-9.0, -90.0, -0.9, 1e6]
    given = run or (lambda x: linear_regression(x, label=-1, x_pub=PUBLIC, budget=ZCDP(0.5), method="newton"))
    with pytest.raises(ReplayError, match=words):
        record_replay(given, rows, other, budget=ZCDP(0.5))


def test_a_term_that_is_not_clipped_is_caught(monkeypatch):
    def loose(chunk, residual_map, sums):
        kernels_sum(chunk, residual_map, sums)
        sums += (chunk[:, :-1] > 0.0).sum(axis=0) << 40

    kernels_sum = kernels.residual_sum
    monkeypatch.setattr(kernels, "residual_sum", loose)
    caught("moved by|sensitivity")


def test_a_row_in_two_sums_is_caught(monkeypatch):
    plain = ResidualQuery.add
    monkeypatch.setattr(
        ResidualQuery, "add", lambda self, chunk, sums: (plain(self, chunk, sums), plain(self, chunk, sums))
    )
    caught("moved by|sensitivity")


@pytest.mark.parametrize(("notion", "times"), [("zcdp", 2), ("approx", 2), ("pure", 4)])
def test_rows_added_to_the_second_moments_twice_are_caught(monkeypatch, notion, times):
    """Rows at a right angle then move the curvature by twice what is declared; the l1 bound of pure epsilon is loose for them."""
    plain, budget = GramQuery.add, BUDGETS[notion]

    def repeated(self, chunk, found):
        for _ in range(times):
            plain(self, chunk, found)

    monkeypatch.setattr(GramQuery, "add", repeated)
    rows = np.column_stack([np.repeat([[2.0, 20.0, 0.2]], 40, axis=0), np.zeros(40)])
    other = rows.copy()
    rows[0, 0], other[0, 1] = 1e3, 1e4
    common = {"label": -1, "x_pub": PUBLIC, "budget": budget, "threads": 1, "progress": False}
    with pytest.raises(ReplayError, match=r"moved by|sensitivity"):
        record_replay(lambda x: linear_regression(x, method="newton", **common), rows, other, budget=budget)


def test_a_scale_from_private_rows_is_caught(monkeypatch):
    plain = ResidualSum.release

    def release(self, account, rows, executor, *, name, cost):
        spread = float(np.concatenate(list(rows.chunks()))[:, 0].max())
        return plain(
            dataclasses.replace(self, radius=self.radius * (1.0 + abs(spread))),
            account,
            rows,
            executor,
            name=name,
            cost=cost,
        )

    monkeypatch.setattr(ResidualSum, "release", release)
    caught("unit")


def test_a_centre_from_the_chunk_is_caught(monkeypatch):
    plain = Rotation.__call__
    monkeypatch.setattr(Rotation, "__call__", lambda self, chunk: plain(self, chunk - np.nanmean(chunk, axis=0)))
    caught("moved by|sensitivity|differ")


def test_scores_beyond_their_radius_are_held_by_the_norm(monkeypatch):
    """Both pieces are clipped once more as they are added up, so that privacy does not hang on their map."""
    plain = TwoPieces.__call__
    monkeypatch.setattr(TwoPieces, "__call__", lambda self, chunk: 50.0 * plain(self, chunk))
    rows = np.column_stack([X[:30], PUBLIC[:30, -1]])
    other = rows.copy()
    rows[0, -1], other[0, -1] = 1e6, -1e6
    report = record_replay(
        lambda x: linear_regression(x, label=-1, x_pub=PUBLIC, budget=ZCDP(0.5)), rows, other, budget=ZCDP(0.5)
    )
    assert report.pair_cost <= report.declared_cost


def test_a_score_that_depends_on_other_rows_is_caught(monkeypatch):
    plain = RowAtStart.factors
    monkeypatch.setattr(
        RowAtStart, "factors", lambda self, scores, labels: plain(self, scores - 9.0 * scores.mean(), labels)
    )
    caught("moved by|sensitivity")
