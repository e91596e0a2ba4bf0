"""What a plan says of its budget is what the result says that is made with it."""

import numpy as np
import pytest
from spies import seeded

import fastpubpriv as fpp
from fastpubpriv.results.base import explain

RHO = fpp.ZCDP(rho=0.5)

SAID = [
    ("mean", {"n_pub": 60}, lambda x, public: seeded(fpp.estimate_mean, x, x_pub=public, budget=RHO)),
    ("gaussian", {"n_pub": 60}, lambda x, public: seeded(fpp.estimate_gaussian, x, x_pub=public, budget=RHO)),
    (
        "weighted_mean",
        {"n_pub": 60, "norm_bound": 3.0},
        lambda x, public: seeded(fpp.weighted_mean, x, x_pub=public, norm_bound=3.0, budget=RHO),
    ),
    (
        "axis_aligned_mixture",
        {"n_pub": 60, "n_components": 2, "method": "public_list"},
        lambda x, public: seeded(
            fpp.learn_axis_aligned_mixture, x, x_pub=public, n_components=2, budget=RHO, method="public_list"
        ),
    ),
]


@pytest.mark.parametrize(("task", "arguments", "call"), SAID, ids=[task for task, _, _ in SAID])
def test_a_plan_and_its_result_say_the_same_epsilon(task, arguments, call):
    """Of Gaussian noise where all of it is Gaussian, else of zCDP alone; always at one delta, which both name."""
    rng = np.random.default_rng(5)
    rows, public = rng.normal(size=(2_000, 2)), rng.normal(size=(60, 2))
    result = call(rows, public)
    sentence = explain(result.spent, result.releases)
    planned = fpp.plan(task, dim=2, n_priv=2_000, budget=RHO, **arguments)
    assert dict(planned._facts())["Budget"] == sentence
    assert sentence.endswith(f"epsilon = {planned.details['implied_epsilon']:.3g} at delta = 1e-6")
    assert dict(type(planned).from_json(planned.to_json())._facts())["Budget"] == sentence
