"""First calls in a fresh process: slow modules are imported only where they are needed."""

import resource
import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import raises
from scipy import stats
from scipy.stats import qmc

from fastpubpriv import warmup
from fastpubpriv.errors import InputError
from fastpubpriv.results import public_draws

SLOW = (
    "numba",
    "llvmlite",
    "scipy.stats",
    "scipy.optimize",
    "pyarrow",
    "pandas",
    "polars",
    "matplotlib",
    "rich",
    "click",
)
PREPARED = """
import sys
import numpy as np
import fastpubpriv as fpp
rng = np.random.default_rng(0)
x, p = rng.normal(size=(2000, 3)), rng.normal(size=(40, 3))
line, zcdp, approx = rng.normal(size=(2000, 1)), fpp.ZCDP(0.5), fpp.ApproxDP(1, 1e-6)
quiet = {"progress": False}
"""
CALLS = {
    "estimate_mean": "fpp.estimate_mean(x, x_pub=p, budget=zcdp, **quiet).confidence_interval(0.9)",
    "estimate_gaussian": "fpp.estimate_gaussian(x, x_pub=p, budget=zcdp, **quiet).sample(3, random_state=1)",
    "quantiles": "fpp.quantiles(x, x_pub=p, budget=zcdp, **quiet).confidence_interval(0.9)",
    "describe": "fpp.describe(x, x_pub=p, budget=zcdp, **quiet).confidence_interval(0.9)",
    "value_counts": "fpp.value_counts(line > 0, keys=[0, 1], budget=zcdp, **quiet).rank_interval()",
    "weighted_mean": "fpp.weighted_mean(x, x_pub=p, budget=zcdp, variance=1.0, norm_bound=10.0, **quiet)",
    "coinpress_mean": "fpp.coinpress_mean(x, budget=zcdp, variance=1.0, center=0.0, radius=10.0, **quiet)",
    "separated mixture": "fpp.learn_separated_mixture(x, x_pub=p, n_components=1, min_weight=0.5, budget=zcdp, **quiet)",
    "axis-aligned mixture": "fpp.learn_axis_aligned_mixture(line, n_components=1, budget=approx, **quiet)",
    "stable_histogram": "fpp.stable_histogram(line, bins=fpp.BinGrid(width=0.5), budget=approx, **quiet)",
    "supercluster": "fpp.supercluster(p, n_components=1)",
    "plan": "fpp.plan('mean', n_priv=1000, n_pub=1, dim=5, budget=zcdp)",
    "plan of training": "fpp.plan('train', n_priv=1000, n_pub=20, dim=5, budget=zcdp)",
    "linear_regression": "fpp.linear_regression(x, x[:, 0], x_pub=p, y_pub=p[:, 0], budget=zcdp, **quiet)",
    "logistic_regression": "fpp.logistic_regression(x, x[:, 0] > 0, x_pub=p, y_pub=p[:, 0] > 0, budget=zcdp, **quiet)",
    "train": "fpp.train(x, x[:, 0], x_pub=p, y_pub=p[:, 0], loss='huber', budget=zcdp, **quiet)",
    "local": "fpp.local.PrivUnit(20, 4.0).privatize(p[:, :1] * np.ones((1, 20)))",
}
# Includes the search for parameters of PrivUnit, and the fit to public rows.
# `train` compares gradient methods, which start at a public fit.
NEEDED = {"local": ["scipy.optimize"], "train": ["scipy.optimize"]}


@pytest.mark.parametrize("name", CALLS)
def test_a_first_call_imports_nothing_that_it_does_not_need(name):
    said = printed(f"{PREPARED}\n{CALLS[name]}\nprint(sorted(set({SLOW!r}) & set(sys.modules)))")
    assert said == str(NEEDED.get(name, []))


def printed(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WARM = """
import warnings
def pinball(prediction, label):
    return 0.5 if label > prediction else -0.5
def values(scores, labels):
    return 0.5 * abs(labels - scores)
own = fpp.training.Loss(name="median", residual=pinball, values=values)
assert "numba" not in sys.modules and not set(fpp._HOMES.values()) <= set(sys.modules)
fpp.warmup(own, "huber")
assert set(fpp._HOMES.values()) <= set(sys.modules)
before = set(sys.modules)
warnings.simplefilter("ignore")
fpp.train(x, x[:, 0], x_pub=p, y_pub=p[:, 0], loss=own, budget=zcdp, **quiet)
fpp.estimate_gaussian(x, x_pub=p, budget=zcdp, **quiet)
fpp.local.PrivUnit(20, 4.0)
print(sorted({name.partition(".")[0] for name in set(sys.modules) - before} & {"numba", "llvmlite", "scipy", "fastpubpriv"}))
"""


def test_after_a_warm_up_first_calls_import_nothing():
    assert printed(PREPARED + WARM) == "[]"
    for wrong in ("hubert", 3, None):
        raises(InputError, "warmup takes names of losses", warmup, wrong)


def test_windows_is_refused_in_one_sentence():
    code = "import sys, numpy; sys.platform = 'win32'; import fastpubpriv"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: fastpubpriv does not run on Windows"
    )


def test_quantiles_have_the_bits_of_scipy():
    rng = np.random.default_rng(0)
    probabilities = [*rng.random(200), *10.0 ** -rng.uniform(1, 15, 100)]
    for p in map(float, probabilities):
        assert public_draws.normal_quantile(p) == stats.norm.ppf(p)
        for freedom in (1, 2, 7, 300):
            assert public_draws.chi2_quantile(p, freedom) == stats.chi2.ppf(p, freedom)
            assert public_draws.chi2_upper_quantile(p, freedom) == stats.chi2.isf(p, freedom)
            assert public_draws.t_quantile(p, freedom) == stats.t.ppf(p, freedom)
            assert public_draws.f_quantile(p, freedom, 9) == stats.f.ppf(p, freedom, 9)
            assert public_draws.beta_quantile(p, freedom, 9) == stats.beta.ppf(p, freedom, 9)
    many = public_draws.chi2_quantiles(np.array(probabilities), 4.0)
    assert np.array_equal(many, stats.chi2.ppf(probabilities, 4.0))


@pytest.mark.parametrize("dim", [1, 2, 17, 26, 27])
def test_public_points_have_the_bits_of_scipy(dim):
    for log2_count in (0, 1, 9):
        for seed in (None, 0, 77):
            theirs = qmc.Sobol(dim, scramble=seed is not None, seed=seed).random_base2(log2_count)
            ours = public_draws.sobol_points(dim, log2_count, seed=seed)
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("random_state", [None, 5, "generator"])
def test_public_draws_have_the_bits_of_scipy(random_state):
    def state():
        return np.random.default_rng(3) if random_state == "generator" else random_state

    for draw, law in (
        (public_draws.draw_normals, stats.norm),
        (public_draws.draw_uniforms, stats.uniform),
    ):
        drawn = draw((7, 3), state())
        assert drawn.shape == (7, 3)
        if random_state is not None:
            assert np.array_equal(drawn, law.rvs(size=(7, 3), random_state=state()))
        raises(InputError, "random_state must be", draw, 3, "seed")
        raises(InputError, "random_state must be", draw, 3, -1)


@pytest.mark.serial
def test_the_import_costs_little_beside_numpy_and_numba():
    """The import takes less than 0.3 s more: minimum CPU time of several runs, which depends little on other load."""
    alone = min(cpu_seconds("import numpy, numba") for _ in range(5))
    ours = min(cpu_seconds("import numpy, numba, fastpubpriv") for _ in range(5))
    assert ours - alone < 0.3


def cpu_seconds(code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
