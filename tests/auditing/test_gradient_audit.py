"""A black-box audit of training over sampled rows by a canary, and of a twin whose noise is a sixth of what it should be."""

import numpy as np
import pytest
from spies import seeded

from fastpubpriv import ApproxDP, train
from fastpubpriv.auditing import audit
from fastpubpriv.release import release
from fastpubpriv.training import SemiDP

pytestmark = [
    pytest.mark.audit,
    pytest.mark.filterwarnings("ignore::fastpubpriv.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::fastpubpriv.PrivacyWarning"),
]
CLAIM = ApproxDP(1, 1e-3)
FIXED = {"steps": 6, "step_size": 1.0, "priv_weight": 1.0, "clip_norm": 1.0, "start": "zero", "scaling": "none"}
METHODS = {
    "full": SemiDP(**FIXED),
    "poisson": SemiDP(sampling="poisson", batch_rows=2, **FIXED),
    "fixed size": SemiDP(sampling="without_replacement", batch_rows=2, **FIXED),
}
PUBLIC = np.array([[1.0, 0.5], [-1.0, 0.2], [0.5, -0.1], [2.0, 0.3]])


def rows(label):
    """Three rows that count for nothing, and a canary whose gradient is as long as the clip allows."""
    found = np.full((4, 2), np.nan)
    found[2] = [1.0, label]
    return found


def finals(method):
    seeds = iter(range(10**9))

    def statistic(data, runs):
        common = {"label": -1, "loss": "squared", "x_pub": PUBLIC, "budget": CLAIM, "method": method, "threads": 1}
        return np.array([seeded(train, data, random_state=next(seeds), **common).weights[0] for _ in range(runs)])

    return statistic


@pytest.mark.parametrize("name", METHODS)
def test_a_canary_stays_within_the_claim_and_less_noise_does_not(name, monkeypatch):
    """At 1 - 1e-6 confidence; the claim is passed by an honest run with at least that probability."""
    settings = {"claim": CLAIM, "runs": 250, "confidence": 1 - 1e-6}
    assert audit(finals(METHODS[name]), rows(1e9), rows(-1e9), **settings).passed
    plain = release._SAMPLERS["gaussian"]
    monkeypatch.setitem(release._SAMPLERS, "gaussian", lambda *given: plain(*given) // 6)
    assert not audit(finals(METHODS[name]), rows(1e9), rows(-1e9), **settings).passed
