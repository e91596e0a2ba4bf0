"""Nets: exact sizes, every point once, and what they cover."""

import itertools
import math

import numpy as np
import pytest

from fastpubpriv.errors import InputError
from fastpubpriv.mixtures.list_decoding import results


def units(point, resolution):
    return tuple(np.rint(np.asarray(point) * resolution).astype(int).tolist())


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("resolution", [1, 2, 5, 8])
def test_simplex_net_is_complete_and_lazy(k, resolution):
    points = [units(point, resolution) for point in results.simplex_net(k, resolution)]
    wanted = [t for t in itertools.product(range(resolution + 1), repeat=k) if sum(t) == resolution]
    assert points == wanted
    assert results.simplex_net_size(k, resolution) == len(points) <= (3 * resolution) ** k
    for begin in range(len(points)):
        some = [units(point, resolution) for point in results.simplex_net(k, resolution, begin=begin, end=begin + 1)]
        assert some == points[begin : begin + 1]


def test_a_point_far_out_in_a_huge_net():
    size = results.simplex_net_size(6, 1000)
    assert size == math.comb(1005, 5)
    (point,) = results.simplex_net(6, 1000, begin=size - 1)
    assert units(point, 1000) == (1000, 0, 0, 0, 0, 0)


def test_rounding_moves_no_weight_by_more_than_a_step():
    rng = np.random.default_rng(0)
    for _ in range(500):
        k, resolution = int(rng.integers(1, 9)), int(rng.integers(1, 50))
        weights = rng.dirichlet(np.full(k, 0.3))
        rounded = results.round_to_simplex(weights, resolution)
        assert sum(units(rounded, resolution)) == resolution
        assert np.abs(rounded - weights).max() <= 1.0 / resolution + 1e-12
    floored = np.floor(np.array([0.6, 0.4]) * 3) / 3  # the planted fault: floors alone do not add up
    assert floored.sum() < 1.0


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("resolution", [1, 3, 4])
@pytest.mark.parametrize("candidates", [0, 1, 2, 3])
def test_mixture_net_has_each_mixture_once(k, resolution, candidates):
    found = [
        tuple(sorted(zip(components.tolist(), units(weights, resolution), strict=True)))
        for components, weights in results.mixture_net(candidates, k, resolution)
    ]
    ordered = {
        tuple(sorted(zip(components, units(point, resolution), strict=True)))
        for components in itertools.product(range(candidates), repeat=k)
        for point in results.simplex_net(k, resolution)
    }
    assert len(found) == len(set(found)) == results.mixture_net_size(candidates, k, resolution)
    assert set(found) == ordered
    assert len(found) <= candidates**k * results.simplex_net_size(k, resolution)


@pytest.mark.parametrize("accuracy", [0.05, 0.3, 0.66])
def test_gaussian_net_comes_close(accuracy):
    rng = np.random.default_rng(1)
    for _ in range(200):
        scale = math.ldexp(1.0, int(rng.integers(-20, 20)))
        sigma = scale * rng.uniform(0.5, 1.0)
        center = rng.normal() * 100 * scale
        mu = center + rng.uniform(-1, 1) * sigma
        net = results.gaussian_net(center, scale, accuracy)
        assert net.shape == (results.gaussian_net_size(accuracy), 2)
        gaps = np.abs(net - [mu, sigma]) / sigma
        assert (gaps <= accuracy * (1 + 1e-12)).all(axis=1).any()
    assert not (np.abs(results.gaussian_net(0.0, 1.0, accuracy) - [1.7, 0.7]) <= accuracy * 0.2).all(axis=1).any()


def test_arguments_out_of_range_are_refused():
    for call in (
        lambda: results.simplex_net_size(0, 5),
        lambda: results.simplex_net_size(2, 0),
        lambda: next(results.simplex_net(2, 5, begin=7)),
        lambda: results.round_to_simplex([], 5),
        lambda: results.round_to_simplex([-1.0, 2.0], 5),
        lambda: results.round_to_simplex([np.nan, 1.0], 5),
        lambda: results.mean_steps(0.0),
        lambda: results.std_factors(-1.0),
        lambda: results.mixture_net_size(-1, 2, 2),
    ):
        with pytest.raises(InputError):
            call()
