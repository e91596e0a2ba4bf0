"""The minimum with a secret linear term: what is computed against what is exact, the event, and where the secret may not be."""

import math
import pickle
import weakref
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fastpubpriv import ZCDP, ApproxDP, BudgetError, InputError, PureDP, ReplayError
from fastpubpriv.errors import KernelError
from fastpubpriv.kernels import noise
from fastpubpriv.losses import LOSSES
from fastpubpriv.mechanisms.objectives import SECOND, SLOPES, PerturbedMinimum, PrivateLoss
from fastpubpriv.privacy import GaussianEvent, ObjectiveEvent
from fastpubpriv.privacy.events import VOLUME_BITS, log_upper
from fastpubpriv.release.account import Account
from fastpubpriv.release.release import release, release_minimum
from fastpubpriv.release.transcript import recording

LOSS_NAMES = ["huber", "logistic", "smooth_hinge"]


def short(n, seed, loss="huber", dim=4):
    """Rows of norm at most 1.5, some tiny, labels near zero, far out or classes, and one that is lost."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, dim))
    rows *= (1.5 * rng.uniform(0.01, 1.0, n) / np.linalg.norm(rows, axis=1))[:, None]
    labels = rng.normal(size=n) * rng.choice([1.0, 1.0, 1e9], size=n) if loss == "huber" else rng.integers(0, 2, n)
    table = np.column_stack([rows, labels])
    table[0] = [*np.zeros(dim), np.nan]
    return table


def made(rows, public, *, loss="huber", l2=0.05, priv_weight=0.8, steps=24, epsilon=1, start=0.1):
    """The problem, its noise, and the loss of the rows."""
    problem = PerturbedMinimum(
        start=np.linspace(-start, start, public.shape[1] - 1), public=public, loss=LOSSES[loss], radius=1.5,
        priv_weight=priv_weight, l2=l2, steps=steps, computed_share=0.1,
    )  # fmt: skip
    found = problem.noise(Fraction(epsilon), len(rows))

    def ask(query):
        sums = query.zeros()
        query.add(rows, sums)
        return sums

    return (
        problem,
        found,
        PrivateLoss(problem=problem, n=len(rows), secret_unit=found.secret_unit, unit=found.unit, ask=ask),
    )


def exact_gradient(problem, rows, moved):
    """Of the loss without its secret, in extended precision."""
    weights = (problem.start + moved).astype(np.longdouble)
    parts = []
    for table in (rows, problem.public):
        known = table[np.isfinite(table[:, -1])].astype(np.longdouble)
        scores, labels = known[:, :-1] @ weights, known[:, -1]
        if problem.loss.name == "huber":
            residual = np.clip(labels - scores, -SLOPES["huber"], SLOPES["huber"])
        elif problem.loss.name == "logistic":
            residual = labels - 1 / (1 + np.exp(-scores))
        else:
            sign = 2 * labels - 1
            residual = sign * np.clip(1 - sign * scores, 0, 1)
        parts.append(-(residual[:, None] * known[:, :-1]).sum(axis=0) / len(table))
    share = np.longdouble(problem.priv_weight)
    return share * parts[0] + (1 - share) * parts[1] + np.longdouble(problem.l2) * moved.astype(np.longdouble)


def secrets(dim, count, seed):
    return [noise.discrete_laplace(bytes([seed, k]) * 16, dim, 32) for k in range(count)]


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("l2", [1.0, 1e-3])
def test_a_computed_gradient_is_as_close_as_declared(loss, l2):
    rows, public = short(200, 1, loss), short(20, 2, loss)
    problem, found, private = made(rows, public, loss=loss, l2=l2, epsilon=20)
    bound, rng = problem.gradient_error(len(rows), found.secret_unit), np.random.default_rng(3)
    assert bound < 1e-10
    for size in (0.0, 1.0, 20.0, 99.0, 1e3):
        moved = rng.normal(size=4)
        moved *= size / np.linalg.norm(moved)
        gap = np.linalg.norm((private._down(moved)[0] + exact_gradient(problem, rows, moved)).astype(np.float64))
        assert gap <= bound * max(1.0, size / problem.ball)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("steps", [24, 1])
def test_a_computed_minimum_is_as_close_as_declared(loss, steps):
    """A strongly convex loss is as close to its minimum as its gradient says; with one pass, more follow by themselves."""
    rows, public = short(100, 4, loss), short(10, 5, loss)
    for l2, n_secrets in ((1.0, 4), (0.01, 4)):
        problem, found, private = made(rows, public, loss=loss, l2=l2, steps=steps, epsilon=5)
        for secret in secrets(4, n_secrets, 6):
            moved = private.solve(secret)
            left = exact_gradient(problem, rows, moved) + secret.astype(np.longdouble) * np.longdouble(
                found.secret_unit
            )
            cell = 0.5 * math.sqrt(4) * found.secret_unit
            assert (float(np.linalg.norm(left)) + cell) / l2 <= problem.distance(len(rows), found.secret_unit)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_plain_gradient_steps_are_sure(loss):
    rows, public = short(50, 7, loss), short(10, 8, loss)
    problem, found, private = made(rows, public, loss=loss, l2=0.5, epsilon=2)
    for secret in secrets(4, 2, 9):
        one, other = private.solve(secret), private._descend(secret * found.secret_unit)
        near = problem.distance(len(rows), found.secret_unit)
        assert np.linalg.norm(one - other) <= 2 * near
        assert 0 < near < 1e-9


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_the_second_derivative_is_that_of_the_residual(loss):
    scores, labels = np.linspace(-3.05, 3.05, 40), np.tile([0.0, 1.0], 20)
    step = 1e-6
    slopes = LOSSES[loss].residuals_of(scores - step, labels) - LOSSES[loss].residuals_of(scores + step, labels)
    np.testing.assert_allclose(SECOND[loss](scores, labels), slopes / (2 * step), atol=1e-8)
    assert np.all(SECOND[loss](scores, labels) <= LOSSES[loss].curvature)


def opposite(loss):
    """Neighbours whose gradients differ as much as may be: one long row, its label on either side."""
    rows = np.zeros((6, 5))
    rows[2, :4] = 0.75
    rows[2, -1] = 1e9 if loss == "huber" else 1.0
    other = rows.copy()
    other[2, -1] = -1e9 if loss == "huber" else 0.0
    return rows, other


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_neighbours_are_compared_at_one_point(loss):
    """The secrets that lead to a point, and what is computed from them; a determinant moves where a row's curvature does."""
    rows, other = opposite(loss)
    public = short(10, 10, loss)
    _, found, one = made(rows, public, loss=loss, epsilon=5, l2=0.3)
    _, _, two = made(other, public, loss=loss, epsilon=5, l2=0.3)
    reached = 0.0
    for point in (np.zeros(4), np.full(4, 0.3), np.array([50.0, 0.0, 0.0, 1.0]), np.full(4, 1e3), np.full(4, 1e300)):
        told = [
            np.concatenate([secret, each.in_steps(each.solve(secret)), [each.log_volume(point)]])
            for each in (one, two)
            for secret in [each.secret_at(point)]
        ]
        event = found.event
        cost = event.pair_cost(*told, PureDP)
        assert cost <= event.epsilon
        moved = np.abs(told[0] - told[1])
        reached = max(reached, float(moved[:4].sum()) / event.l1_sensitivity)
        if math.sqrt(np.sum(np.minimum(point, 1e9) ** 2)) <= 90.0:
            # Both secrets lead to the point itself, up to what is computed.
            assert np.all(np.abs(told[0][4:8] * found.unit - point) <= 1e-9)
    if loss == "huber":
        assert 0.999 < reached <= 1.0  # each residual at its bound, on a row along the diagonal


def test_the_determinant_of_the_worst_row():
    """One row of largest curvature beside rows without any: the log-determinant moves by ln(1 + ratio)."""
    rows, other = np.zeros((4, 5)), np.zeros((4, 5))
    rows[1, 0] = 1.5
    other[1, 0], other[1, -1] = 1.5, 1e9
    public = np.zeros((2, 5))
    problem, found, one = made(rows, public, l2=0.4, epsilon=5, start=0.0)
    two = made(other, public, l2=0.4, epsilon=5, start=0.0)[2]
    moved = (one.log_volume(np.zeros(4)) - two.log_volume(np.zeros(4))) / 2.0**VOLUME_BITS
    assert moved == pytest.approx(math.log1p(0.8 / 4 * 1.5**2 / 0.4), rel=1e-5)
    assert float(found.event.determinant_epsilon) == pytest.approx(moved, rel=1e-5)
    assert log_upper(problem.curvature_ratio(4)) == found.event.determinant_epsilon


def test_points_far_out_are_moved_to_the_ball():
    problem, found, private = made(short(10, 1), short(5, 2), epsilon=5)
    far = np.array([3e5, -4e5, 0.0, 0.0])
    expected = np.rint(np.array([0.6, -0.8, 0.0, 0.0]) * problem.ball / found.unit)
    assert np.abs(private.in_steps(far) - expected).max() <= 4
    assert np.abs(private.in_steps(far)).max() < 2**52


def test_noise_that_does_not_exist_is_refused():
    rows = short(50, 1)
    with pytest.raises(InputError, match="l2=1e-06 is too small for this budget"):
        made(rows, short(5, 2), l2=1e-6)
    with pytest.raises(InputError, match="budget"):
        made(rows, short(5, 2), l2=1e6, epsilon=Fraction(1, 10**8))
    problem, found, _ = made(rows, short(5, 2), epsilon=Fraction(3, 2))
    assert Fraction(149, 100) < found.event.epsilon <= Fraction(3, 2)
    assert problem.noise(Fraction(3, 2), 10**6).secret_unit < found.secret_unit


EVENT = ObjectiveEvent(
    l1_sensitivity=2**30,
    log2_scale=32,
    curvature=Fraction(1, 4),
    computed_sensitivity=2**20,
    computed_log2_scale=24,
    draws=4,
)


def test_the_event_answers_for_its_cost():
    epsilon = Fraction(1, 4) + log_upper(Fraction(1, 4)) + Fraction(1, 16)
    assert EVENT.epsilon == EVENT.price(PureDP) == EVENT.price(ApproxDP) == epsilon
    assert EVENT.price(ZCDP) == EVENT.rho_bound < epsilon**2 / 2
    assert float(log_upper(Fraction(1, 4))) >= math.log(1.25)
    assert EVENT.record()["epsilon"] == epsilon
    told = np.array([2**29, -(2**29), 5, -3, 2**37])
    zero = np.zeros(5, dtype=np.int64)
    expected = Fraction(1, 4) + Fraction(1, 8) + Fraction(8, 2**24)
    assert EVENT.pair_cost(told, zero, PureDP) == expected
    assert EVENT.pair_cost(zero, zero, ZCDP) == 0
    assert 0 < EVENT.pair_cost(told, zero, ZCDP) < expected**2 / 2


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [(0, 2**30 + 1, "moved by"), (3, -(2**20) - 1, "moved by"), (4, 2**38, "log-determinant moved")],
)
def test_a_broken_promise_is_caught(place, value, words):
    told, zero = np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64)
    told[place] = value
    with pytest.raises(ReplayError, match=words):
        EVENT.pair_cost(told, zero, PureDP)
    with pytest.raises(ReplayError, match="declares 4 draws"):
        EVENT.pair_cost(told[:3], zero[:3], PureDP)


@pytest.mark.parametrize(
    "wrong",
    [{"draws": 3}, {"curvature": -1}, {"l1_sensitivity": -1}, {"log2_scale": 7}, {"computed_log2_scale": 41}],
)
def test_events_out_of_range(wrong):
    with pytest.raises(BudgetError):
        replace(EVENT, **wrong)


class Written:
    """A loss that writes down what it is asked; `fails` is raised while the secret is in its hands."""

    def __init__(self, fails=None):
        self.fails, self.log = fails, []

    def solve(self, secret):
        self.log.append("solve")
        self.total = int(np.abs(secret).sum())
        if self.fails is not None:
            raise self.fails
        return np.array([0.25, -0.5])

    def in_steps(self, point):
        return np.rint(point * 2.0**30).astype(np.int64)

    def secret_at(self, point):
        return np.array([7, 8])

    def log_volume(self, point):
        return 9


class Payer:
    """An account that writes down when it is charged and when it gives keys."""

    def __init__(self, loss, budget=PureDP(4)):  # noqa: B008
        self.account, self.log = Account("test", budget, draws=4), loss.log
        self.account.open()
        self.path, self.reserve, self.number = (), None, self.account.number

    def charge(self, event):
        self.account.charge(event)
        self.log.append("charge")

    def fresh_key(self):
        self.log.append("key")
        return self.account.fresh_key()


def ask(loss, payer, event=EVENT):
    return release_minimum(payer, name="minimum", loss=loss, event=event, unit=2.0**-30)


def test_it_is_charged_first_and_drawn_twice():
    loss = Written()
    answer = ask(loss, Payer(loss))
    assert loss.log == ["charge", "key", "solve", "key"]
    assert loss.total > 0
    assert np.abs(answer - [0.25, -0.5]).max() < 2.1  # 128 scales
    assert np.all(answer * 2.0**30 == np.rint(answer * 2.0**30))  # no half step


def test_what_is_refused_reads_nothing():
    loss = Written()
    with pytest.raises(BudgetError, match="exceed"):
        ask(loss, Payer(loss, PureDP(Fraction(1, 4))))
    with pytest.raises(BudgetError, match="event"):
        ask(loss, Payer(loss), event=None)
    with pytest.raises(KernelError, match="ObjectiveEvent"):
        ask(loss, Payer(loss), event=GaussianEvent(4, 8, 2))
    with pytest.raises(KernelError, match="no noise has the law 'objective'"):
        release(Payer(loss), name="x", query=lambda: None, shape=(4,), event=EVENT, unit=1.0)
    assert loss.log == []
    loss.in_steps = lambda point: point
    with pytest.raises(KernelError, match="int64 array"):
        ask(loss, Payer(loss))


def frames_of(error):
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found


@pytest.mark.parametrize("fails", [ValueError("secret"), KeyboardInterrupt(), MemoryError(), KernelError("ours")])
def test_an_error_while_the_secret_exists_says_nothing_of_it(fails):
    """No frame of the traceback holds an array that was drawn, no chained error, and no word of another's error."""
    loss = Written(fails)
    with pytest.raises(BaseException) as caught:
        ask(loss, Payer(loss))
    error = caught.value
    assert "secret" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    inside = [frame for frame in frames_of(error) if frame.f_code.co_filename.endswith(("release.py", "guard.py"))]
    assert inside
    for frame in inside:
        for value in frame.f_locals.values():
            assert not isinstance(value, np.ndarray)
            if isinstance(value, BaseException):
                assert value is error


def test_the_secret_is_in_no_transcript_and_dies():
    """What an audit keeps are the secrets that a public point implies; the one that was drawn is nowhere, alive or kept."""
    drawn, alive = [], []

    class Keeps(Written):
        def solve(self, secret):
            drawn.append(secret.tobytes())
            alive.append(weakref.ref(secret))
            return super().solve(secret)

    loss = Keeps()
    with recording() as recorded:
        ask(loss, Payer(loss))
    call = recorded.calls[0]
    assert call.query.tolist()[:2] == [7, 8]
    assert call.query.tolist()[-1] == 9
    assert drawn[1] == np.array([7, 8]).tobytes()
    assert alive[0]() is None
    assert drawn[0] not in pickle.dumps((call.event, call.query, call.answer, call.unit))
    with recording(script=recorded.calls) as replayed:
        again = ask(loss, Payer(loss))
    np.testing.assert_array_equal(again, call.answer)
    assert len(drawn) == 3  # the replay draws nothing
    np.testing.assert_array_equal(replayed.calls[0].query, call.query)
