"""A black-box audit of objective perturbation by a canary, and of two twins: a quarter of the secret, and no secret at all."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import PureDP, SeededNoiseWarning
from fastpubpriv.auditing import audit
from fastpubpriv.losses import LOSSES
from fastpubpriv.mechanisms.objectives import SLOPES, PerturbedMinimum, PrivateLoss
from fastpubpriv.release.account import Account
from fastpubpriv.sources import Executor, private_rows

pytestmark = pytest.mark.audit
CLAIM, L2 = PureDP(1), 20.0
PUBLIC = np.array([[1.0, 1.0, 0.5], [1.0, -1.0, -0.5], [1.0, 1.0, -0.5], [1.0, -1.0, 0.5]])
MINIMUM = PerturbedMinimum(
    start=np.zeros(2), public=PUBLIC, loss=LOSSES["huber"], radius=2.0**0.5, priv_weight=1.0, l2=L2, steps=6,
    computed_share=0.005,
)  # fmt: skip
EDGE = SLOPES["huber"] / (4 * L2)  # where the canary alone would move either weight


def rows(label):
    """Three rows that count for nothing, and a canary, both entries as large as l1 allows and the residual at its bound."""
    found = np.zeros((4, 3))
    found[:, -1] = np.nan
    found[2] = [1.0, 1.0, label]
    return found


def corners():
    """The lesser of both weights: where both are large, the ratio of two products of Laplace laws is the largest."""
    seeds = iter(range(10**9))
    executor = Executor(threads=1, progress=False)

    def once(table):
        account = Account("audit", CLAIM, draws=4, random_state=next(seeds))
        account.open()
        return MINIMUM.release(account, table, executor, name="minimum", cost=Fraction(account.allowance)).value.min()

    def statistic(data, runs):
        table = private_rows(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            return np.array([once(table) for _ in range(runs)])

    return statistic


def report(runs):
    """At 1 - 1e-6 confidence; the claim is passed by an honest run with at least that probability."""
    settings = {"claim": CLAIM, "runs": runs, "threshold": EDGE, "confidence": 1 - 1e-6}
    return audit(corners(), rows(1e9), rows(-1e9), **settings)


def test_a_canary_stays_within_the_claim_and_a_smaller_secret_does_not(monkeypatch):
    honest = report(8000)
    assert honest.passed
    assert honest.epsilon_lower > 0.7  # the attack is as sharp as the accounting, up to what is counted
    plain = PrivateLoss.solve
    monkeypatch.setattr(PrivateLoss, "solve", lambda self, secret: plain(self, secret // 4))
    assert not report(8000).passed


def test_the_noise_on_the_minimum_alone_is_no_privacy(monkeypatch):
    """Without a secret what comes out is the minimum, up to what is computed."""
    plain = PrivateLoss.solve
    monkeypatch.setattr(PrivateLoss, "solve", lambda self, secret: plain(self, 0 * secret))
    settings = {"claim": CLAIM, "runs": 100, "threshold": 0.0, "confidence": 1 - 1e-6}
    assert not audit(corners(), rows(1e9), rows(-1e9), **settings).passed
