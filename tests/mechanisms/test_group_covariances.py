"""Groups by position, agreement as exact counts, and the stability bound that pays for the private center."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import raises
from scipy.linalg import logm

from fastpubpriv.errors import BudgetError, KernelError
from fastpubpriv.mechanisms import group_covariances
from fastpubpriv.mechanisms import group_covariances as mechanism
from fastpubpriv.mechanisms.sums import AffineMap
from fastpubpriv.privacy import ZCDP, ApproxDP, GaussianEvent, LaplaceEvent
from fastpubpriv.release.account import Account
from fastpubpriv.sources import Executor, private_rows


def wishart(rng, groups, dim, rows, scale=None):
    scale = np.eye(dim) if scale is None else scale
    data = rng.normal(size=(groups, rows, dim)) @ scale.T
    data -= data.mean(axis=1, keepdims=True)
    return np.einsum("gri,grj->gij", data, data) / (rows - 1)


ONE = Executor(threads=1, progress=False)


def taken(rows, base, groups):
    """Covariances of groups by position, and which are usable."""
    return ONE.run(mechanism.GroupQuery(base=base, groups=groups), rows)


def agreeing(covariance):
    return mechanism.agreements(covariance, np.ones(len(covariance), dtype=bool))


def good(covariance):
    return agreeing(covariance).sum() >= mechanism.GOOD * len(covariance) ** 2


def center_of(covariance):
    return mechanism.center(covariance, agreeing(covariance))


def as_floats(matrix):
    return np.array([[float(x) for x in row] for row in matrix])


def test_groups_are_rows_by_position_and_never_put_together():
    data = np.random.default_rng(0).normal(size=(203, 2)) * [1.0, 5.0] + 3.0
    matrix = np.array([[2.0, 0.0], [0.5, 0.1]])
    base = AffineMap(dim=2, center=np.array([1.0, 2.0]), matrix=matrix)
    covariance, valid = taken(private_rows(data), base, 10)
    mapped = (data - [1.0, 2.0]) @ matrix.T
    want = np.array([np.cov(mapped[g::10].T) for g in range(10)])
    assert valid.all()
    np.testing.assert_allclose(covariance, want, rtol=1e-10)
    # Parts of the rows are never put together.
    query = mechanism.GroupQuery(base=AffineMap(dim=2), groups=3)
    raises(KernelError, "in the order of the source", query.merge, query.zeros(), query.zeros())
    # Nor does an executor with many threads try to: it has one part.
    data = np.random.default_rng(7).normal(size=(400_000, 2))
    found = Executor(threads=4, progress=False).run(query, private_rows(data))
    assert found[0].tobytes() == taken(private_rows(data), AffineMap(dim=2), 3)[0].tobytes()


@pytest.mark.parametrize(
    "row", [[np.nan, 0.0], [1e308, -1e308], [np.inf, 1.0], [5.0, 5.0], [1e200, 0.0]]
)
def test_a_replaced_row_changes_one_group_and_no_bit_of_another(row):
    data = np.random.default_rng(2).normal(size=(400, 2))
    other = data.copy()
    other[137] = row
    base = AffineMap(dim=2, center=np.zeros(2), matrix=np.array([[1.0, 0.0], [0.3, 2.0]]))
    one, valid_one = taken(private_rows(data), base, 20)
    two, valid_two = taken(private_rows(other), base, 20)
    assert [g for g in range(20) if one[g].tobytes() != two[g].tobytes()] == [17]
    close_one = mechanism.agreements(one, valid_one)
    close_two = mechanism.agreements(two, valid_two)
    assert abs(int(close_one.sum() - close_two.sum())) <= 2 * 20 - 1
    assert np.abs(np.delete(close_one - close_two, 17)).max() <= 1


def test_degenerate_groups_agree_with_none():
    data = np.ones((400, 2))
    data[:, 0] = np.arange(400)  # rank one in every group
    covariance, valid = taken(private_rows(data), AffineMap(dim=2), 20)
    assert not valid.any()
    assert mechanism.agreements(covariance, valid).sum() == 0
    assert (
        as_floats(mechanism.center(covariance, np.zeros(20, dtype=np.int64))).tolist()
        == np.eye(2).tolist()
    )
    few, valid = taken(private_rows(data[:100]), AffineMap(dim=2), 20)
    assert not valid.any()  # five rows in a group of two columns
    assert few.shape == (20, 2, 2)


def test_agreement_is_the_factor_both_ways(monkeypatch):
    eye = np.eye(2)
    matrices = np.array([eye, 1.499 * eye, 1.501 * eye, np.diag([1.0, 1.0 / 1.501])])
    close = mechanism.agreements(matrices, np.ones(4, dtype=bool))
    # eye ~ 1.499, 1.499 ~ 1.501; the last agrees with itself only.
    assert close.tolist() == [2, 3, 2, 1]
    rng = np.random.default_rng(3)
    many = wishart(rng, 60, 3, 60)
    valid = rng.random(60) < 0.9
    direct = np.zeros(60, dtype=int)
    for i in range(60):
        for j in range(60):
            factors = np.linalg.eigvals(np.linalg.solve(many[i], many[j])).real
            direct[i] += valid[i] and valid[j] and factors.max() < 1.5 and factors.min() > 1 / 1.5
    assert mechanism.agreements(many, valid).tolist() == direct.tolist()
    # Any number of pairs at a time, in any number of threads.
    for pairs in (1, 60, 600):
        monkeypatch.setattr(mechanism, "_PAIRS", pairs)
        assert mechanism.agreements(many, valid, threads=2).tolist() == direct.tolist()


def account_of(budget=None, reserved=None):
    budget = ApproxDP(2, 1e-5) if budget is None else budget
    account = Account("test", budget, draws=1000, reserved=reserved)
    account.open()
    return account


def ask_agreement(data, account, price):
    asked = mechanism.GroupAgreement(base=AffineMap(dim=2), groups=2400)
    return asked.release(
        account, private_rows(data), ONE, name="test", cost=(price.epsilon, price.delta)
    )


def test_gaussian_groups_pass_and_two_clusters_fail():
    rng = np.random.default_rng(4)
    price = ApproxDP(Fraction(1, 4), 1e-6)
    same = rng.normal(size=(2400 * 220, 2))
    apart = same.copy()
    apart[::2] *= 3.0  # every other group
    # The test passes from a share of agreements of .85 on; its noise has scale 1 / 300, so both gaps are over 40 scales wide.
    assert (
        mechanism.agreements(*taken(private_rows(same), AffineMap(dim=2), 2400)).mean()
        > 0.98 * 2400
    )
    assert (
        mechanism.agreements(*taken(private_rows(apart), AffineMap(dim=2), 2400)).mean()
        < 0.51 * 2400
    )
    for _ in range(3):
        released = ask_agreement(same, account_of(reserved=price), price)
        assert released.passed
        assert released.facts["passed"] == 1.0
        assert released.facts["share"] > 0.98 - 40 / 300
        assert not ask_agreement(apart, account_of(reserved=price), price).passed


def test_the_margin_pays_for_a_false_pass():
    # P(noise >= margin) e^epsilon <= delta / 2, in the law of the noise itself.
    groups = 500
    epsilon = Fraction(1, 2)
    delta = Fraction(1, 10**6)
    scale = math.floor(epsilon * 2**40 / (2 * groups))
    assert LaplaceEvent(2 * groups * scale, 40, 1).epsilon <= epsilon
    steps = mechanism.pass_margin(groups, epsilon, delta) * scale * groups**2
    tail = math.exp(-steps / 2**40) / (1 + math.exp(-(2.0**-40)))
    assert math.exp(float(epsilon)) * tail <= float(delta) / 2
    assert math.exp(float(epsilon)) * tail > float(delta) / 8  # and does not waste rows


def test_laplace_beside_gaussian_is_taken_off_the_budget():
    price = ApproxDP(Fraction(1, 2), 1e-6)
    whole = account_of()
    less = account_of(reserved=price)
    assert less.allowance < whole.allowance
    assert (
        less.allowance
        == account_of(ApproxDP(2 - Fraction(1, 2), less.budget.delta - price.delta)).allowance
    )
    less.charge(LaplaceEvent(2**39, 40, 1))
    with pytest.raises(BudgetError, match="exceeds what was reserved"):
        less.charge(LaplaceEvent(1, 40, 1))
    less.charge(GaussianEvent(math.floor(less.allowance * 2 * 4**20), 20, 1))
    # With nothing reserved a Laplace release is paid by its epsilon, and leaves no room for Gaussian ones.
    whole.charge(LaplaceEvent(2**39, 40, 1))
    with pytest.raises(BudgetError, match="two accounts"):
        whole.charge(GaussianEvent(1, 20, 1))
    raises(BudgetError, "ApproxDP", account_of, ZCDP(1), reserved=price)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_logarithm_to_all_digits(dim):
    rng = np.random.default_rng(dim)
    factor = rng.normal(size=(dim, dim))
    matrix = factor @ factor.T + 0.1 * np.eye(dim)
    exact = [
        [Fraction(float(matrix[max(i, j), min(i, j)])) for j in range(dim)] for i in range(dim)
    ]
    steps = group_covariances.logarithm(exact, 2.0**-40)
    assert np.abs(np.array(steps) * 2.0**-40 - logm(as_floats(exact))).max() < 1e-11
    assert np.array_equal(np.array(steps), np.array(steps).T)
    spread = [[Fraction(0)] * dim for _ in range(dim)]
    for i in range(dim):
        spread[i][i] = Fraction(10) ** (-200 * i)
    capped = group_covariances.logarithm(spread, 1.0)
    assert [capped[i][i] for i in range(dim)] == [0, *[-group_covariances.LOG_CAP] * (dim - 1)]
    whitener = rng.normal(size=(dim, dim))
    np.testing.assert_allclose(
        as_floats(group_covariances.congruence(whitener, exact)),
        whitener @ matrix @ whitener.T,
        rtol=1e-9,
        atol=1e-12,
    )


def moved(one, other, whitener):
    """Frobenius distance of the released logarithms, in data units."""
    unit = 2.0**-36
    logs = [
        np.array(
            group_covariances.logarithm(group_covariances.congruence(whitener, center_of(p)), unit)
        )
        for p in (one, other)
    ]
    return float(np.linalg.norm((logs[0] - logs[1]) * unit))


def test_the_center_moves_by_no_more_than_its_sensitivity():
    rng = np.random.default_rng(5)
    groups = 40
    tried = 0
    worst = 0.0
    for trial in range(300):
        dim = 1 + trial % 3
        # Spread chosen so that many weights lie between 0 and 1.
        factor = np.exp(
            rng.uniform(0.0, rng.uniform(0.3, 0.95), size=groups) / (2 if trial % 2 else 1)
        )
        skew = (
            np.diag(10.0 ** rng.uniform(-3, 3, size=dim))
            @ np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        )
        covariance = wishart(rng, groups, dim, 400, skew) * factor[:, None, None]
        other = covariance.copy()
        other[0] *= rng.choice([1e6, 1.6, 0.5, 1e-6])
        if not (good(covariance) and good(other)):
            continue
        tried += 1
        gap = moved(covariance, other, rng.normal(size=(dim, dim)) * 10.0 ** rng.uniform(-2, 2))
        assert gap <= mechanism.log_sensitivity(dim, groups)
        worst = max(worst, gap / mechanism.log_sensitivity(dim, groups))
    assert tried > 100
    assert worst > 0.01  # the bound is for the worst case, which random populations are far from
    # Planted: without weights that vanish for outliers, one group moves the center without bound.
    plain = wishart(rng, groups, 2, 400)
    far = plain.copy()
    far[0] *= 1e6
    gap = np.linalg.norm(logm(plain.mean(axis=0)) - logm(far.mean(axis=0)))
    assert gap > mechanism.log_sensitivity(2, groups)


def test_the_logarithm_does_not_expand_relative_distances():
    rng = np.random.default_rng(6)
    for _ in range(100):
        left = rng.normal(size=(3, 3)) * 10.0 ** rng.uniform(-3, 3, size=3)
        one = left @ left.T
        tilt = np.linalg.cholesky(one)
        error = rng.normal(size=(3, 3)) * 0.05
        change = np.eye(3) + (error + error.T) / 2
        other = tilt @ change @ tilt.T
        exact = [
            [[Fraction(float(m[max(i, j), min(i, j)])) for j in range(3)] for i in range(3)]
            for m in (one, other)
        ]
        gap = np.linalg.norm(
            (
                np.array(group_covariances.logarithm(exact[0], 2.0**-36))
                - np.array(group_covariances.logarithm(exact[1], 2.0**-36))
            )
            * 2.0**-36
        )
        assert gap <= np.linalg.norm(np.log(np.linalg.eigvalsh(change))) + 1e-4


def test_mask_grid_is_within_its_cost():
    event, unit = mechanism.mask_grid(3, 2000, Fraction(1, 100))
    assert event.rho <= Fraction(1, 100)
    assert event.rho > Fraction(99, 10000)
    assert (
        math.isqrt(event.squared_sensitivity) * unit
        >= mechanism.log_sensitivity(3, 2000) + 3 * unit
    )


# ---- Groups that are found usable, or to agree, are so in exact arithmetic, from the least positive number to the largest.
SIZES = [
    5e-324,
    1e-322,
    1e-320,
    1e-316,
    1e-310,
    1e-300,
    1e-290,
    1e-281,
    1e-280,
    1e-279,
    1e-150,
    1.0,
    1e150,
    1e300,
    1e307,
]


def exact(matrix):
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


def definite(matrix):
    """Whether an exact symmetric matrix is positive definite: its pivots."""
    rest = [list(row) for row in matrix]
    for k in range(len(rest)):
        if rest[k][k] <= 0:
            return False
        for i in range(k + 1, len(rest)):
            factor = rest[i][k] / rest[k][k]
            for j in range(k, len(rest)):
                rest[i][j] -= factor * rest[k][j]
    return True


def combined(one, factor, other, weight):
    """factor one - weight other."""
    return [
        [factor * a - weight * b for a, b in zip(row, there, strict=True)]
        for row, there in zip(one, other, strict=True)
    ]


def pairs(rng, dim, size, count):
    """Pairs of matrices about `size`, whose ratio is at or about the tolerance in one direction, some nearly singular."""
    with np.errstate(all="ignore"):
        for _ in range(count):
            root = rng.normal(size=(dim, dim))
            if rng.random() < 0.5:
                root[-1] = root[0] + 10.0 ** rng.uniform(-6, -1) * root[-1]
            root /= np.sqrt(np.square(root).sum())
            base = root @ root.T
            away = rng.normal(size=dim)
            away = root @ (away / np.linalg.norm(away))
            # base + t away away^T has the factor 1 + t to base in one direction: below, at and beyond what agrees.
            t = rng.choice([0.3, 0.49, 0.4999, 0.49999999, 0.5, 0.5001, 0.6])
            yield symmetric(size * base), symmetric(size * (base + t * np.outer(away, away)))


def symmetric(matrix):
    return np.tril(matrix) + np.tril(matrix, -1).T


def usable(covariance, count):
    with np.errstate(all="ignore"):
        return mechanism.usable_groups(covariance, np.full(len(covariance), count))


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_what_agrees_does_so_exactly(dim):
    """notes/center.md: positive pivots prove B <= (1 + tau + 2e-4) A; the sensitivity has room for 1e-3."""
    rng = np.random.default_rng(dim)
    reach = Fraction(3, 2) + Fraction(2, 10_000)
    agreed = 0
    found = 0
    for size in SIZES:
        for one, other in pairs(rng, dim, size, 40):
            both = np.array([one, other])
            valid = usable(both, 1000.0)
            found += int(valid.sum())
            a = exact(one)
            b = exact(other)
            identity = [[Fraction(int(i == j)) for j in range(dim)] for i in range(dim)]
            for matrix, fine in zip((a, b), valid, strict=True):
                share = Fraction(9, 10) * Fraction(1, 10**8) * sum(matrix[i][i] for i in range(dim))
                assert not fine or definite(combined(matrix, 1, identity, share)), size
            if mechanism.agreements(both, valid).sum() == 4:
                agreed += 1
                assert definite(combined(a, reach, b, 1)), size
                assert definite(combined(b, reach, a, 1)), size
    assert agreed > 60
    assert found > 200


def test_ordinary_groups_are_usable_by_the_bound(monkeypatch):
    eye = np.eye(3)
    valid = usable(np.array(SIZES)[:, None, None] * eye, 1000.0)
    # the trace of the size 1e-280 is 3e-280
    assert valid.tolist() == [size >= 1e-280 for size in SIZES]
    assert not usable(
        np.array([np.full((3, 3), np.inf), np.full((3, 3), np.nan), 0.7e308 * eye]), 1000.0
    ).any()
    # Planted fault: without the least trace the exact check finds groups that agree in rounding only.
    monkeypatch.setattr(mechanism, "LEAST_TRACE", 0.0)
    raises(AssertionError, None, test_what_agrees_does_so_exactly, 3)
