"""What holds for every public function that spends a budget: an exception means that nothing was debited.

Whatever can be refused is refused, from public numbers, before the debit; after it every released number has a defined result. All
functions are in one table, `public_calls.CALLS`, and a function that is not fails here.
"""

import inspect
import random
import warnings
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest
from adversary import PATTERNS, Adversary, forcing
from helpers.errors import raises
from helpers.instructions import instruction_set
from public_calls import (
    CALLS,
    LINE,
    NOTIONS,
    ROWS,
    SHARED,
    ample,
    full_name,
    listed,
    quiet,
    spending_functions,
    spent_nothing,
)
from spies import SpyLedger, SpyRows

from fastpubpriv import ZCDP, ApproxDP, Ledger, PureDP, Rows, select_hypothesis, session
from fastpubpriv.auditing import record_replay
from fastpubpriv.errors import (
    BudgetError,
    InfeasibleError,
    InputError,
    OutOfMemoryError,
)
from fastpubpriv.estimators import coinpress
from fastpubpriv.kernels._cext import lib
from fastpubpriv.mechanisms import selection as choosing
from fastpubpriv.mixtures.list_decoding import decoders
from fastpubpriv.mixtures.list_decoding.decoders import decode_gaussians
from fastpubpriv.sources import fold

LIGHT = {name: call for name, call in CALLS.items() if not (call.heavy or call.named)}
each_light_call = pytest.mark.parametrize("call", LIGHT.values(), ids=LIGHT)
every = pytest.mark.parametrize("name", CALLS)


def test_every_spending_function_is_in_the_table():
    assert {full_name(call.function) for call in CALLS.values()} == set(spending_functions())


def outcome(call, given, *, adversary=None):
    """The result of a call, or the exception that it raised with nothing debited; AssertionError where something was.

    With an adversary every release has its answer, and numbers may be of any size: the caller's error state is then the strictest.
    """
    ledger = ample(given["budget"])
    options = {key: value for key, value in given.items() if key != "x_priv"}

    def run():
        return call(given.get("x_priv"), ledger=ledger, **options)

    failure = None
    with warnings.catch_warnings(action="error"):
        try:
            if adversary is None:
                result = run()
            else:
                with np.errstate(all="raise"):
                    result = forcing(adversary)(run)
        except Exception as error:
            failure = error
    if failure is not None:
        assert spent_nothing(ledger), (
            f"{type(failure).__name__} after the debit, with {options}: {failure}"
        )
        return failure
    result.to_json()
    repr(result)
    return result


FEW_BUDGETS = [
    *(ZCDP(rho) for rho in (2.0**-60, 1e6)),
    *(PureDP(epsilon) for epsilon in (2.0**-30, 46, 60, 1024)),
    *(ApproxDP(epsilon, 1e-9) for epsilon in (2.0**-30, 46, 780)),
]


def check_budgets(name, budgets):
    call = CALLS[name]
    taken = tuple(type(NOTIONS[notion]) for notion in call.notions)
    for budget in budgets:
        if not isinstance(budget, taken):
            continue
        found = outcome(call, {"budget": budget})
        if isinstance(found, Exception):
            assert isinstance(found, BudgetError | InputError | InfeasibleError), found
            continue
        added = found.numerics.get("implementation_delta", 0.0)
        stated = sum(
            (Fraction(one["delta"]) for one in found.releases if "delta" in one), Fraction(0)
        )
        if isinstance(budget, ApproxDP):
            # each block of rows has all of the budget
            in_blocks = ("decode", "learn_axis", "no public rows")
            blocks = 2 if any(each in name for each in in_blocks) else 1
            assert Fraction(added) <= budget.delta
            assert stated <= blocks * budget.delta
            assert found.spent.amounts[0] <= budget.epsilon
        elif isinstance(budget, PureDP):
            assert added <= 2.0**-100


@pytest.mark.parametrize("name", LIGHT)
def test_large_and_small_budgets_are_kept_or_refused_at_the_door(name):
    check_budgets(name, FEW_BUDGETS)


@pytest.mark.audit
@every
def test_the_whole_range_of_budgets_is_kept_or_refused_at_the_door(name):
    check_budgets(
        name,
        [budget for budget in SHARED["budget"] if isinstance(budget, ZCDP | PureDP | ApproxDP)],
    )


def drawn(name, seed):
    """Arguments of a call, one to three of them hostile."""
    call = CALLS[name]
    rng = random.Random(f"{name} {seed}")
    names = inspect.signature(call.function).parameters
    pools = {key: pool for key, pool in {**SHARED, **call.hostile}.items() if key in names}
    given = {"budget": NOTIONS[rng.choice(call.notions)]}
    for key in rng.sample(sorted(pools), rng.choice([1, 1, 2, 3])):
        given[key] = rng.choice(pools[key])
    return given


@pytest.mark.parametrize("name", LIGHT)
def test_hostile_public_arguments(name):
    for seed in range(4 if CALLS[name].slow else 8):
        outcome(CALLS[name], drawn(name, seed))


def test_hostile_arguments_are_neither_all_refused_nor_all_taken():
    found = [outcome(CALLS["estimate_mean"], drawn("estimate_mean", seed)) for seed in range(60)]
    assert 10 < sum(isinstance(each, Exception) for each in found) < 50


@pytest.mark.audit
@pytest.mark.parametrize("name", LIGHT)
def test_many_hostile_public_arguments(name):
    for seed in range(150):
        given = drawn(name, seed)
        outcome(CALLS[name], given)
        outcome(CALLS[name], given, adversary=Adversary(PATTERNS[seed % len(PATTERNS)], seed, 300))


@each_light_call
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.extended)])
def test_released_extremes_have_results(call, step):
    for index, pattern in enumerate(PATTERNS[:: 4 if call.slow else step]):
        given = {"budget": NOTIONS[call.notions[index % len(call.notions)]]}
        found = outcome(call, given, adversary=Adversary(pattern, index, len(call.rows)))
        assert not isinstance(found, Exception), found


@pytest.mark.audit
@every
@pytest.mark.parametrize("pattern", PATTERNS)
def test_many_released_extremes_have_results(name, pattern):
    call = CALLS[name]
    for seed in range(1 if call.heavy else 4):
        for notion in call.notions:
            outcome(
                call,
                {"budget": NOTIONS[notion]},
                adversary=Adversary(pattern, seed, len(call.rows)),
            )


def test_the_bound_of_a_choice_is_finite_for_any_failure_probability():
    for probability in (5e-324, 1e-300, 0.5, 1.0 - 2.0**-53):
        result = quiet(
            select_hypothesis,
            LINE,
            hypotheses=listed(12, 1),
            budget=PureDP(1),
            accuracy=0.5,
            failure_prob=probability,
        )
        assert 0.0 < result.slack < 100.0
    plain = choosing.slack_at(10, 1000, 1.0, 0.05)
    assert plain == pytest.approx(
        2.0 * np.sqrt(np.log(90 * 4 / 0.05) / 2000) + 2.0 * np.log(200 * 4) / 1000 + 0.001
    )


def test_control_an_error_after_the_debit_is_caught(monkeypatch):
    """The fault that was there: a division by a probability so small that a quarter of it is zero, after the debit."""
    honest = choosing.slack_at
    monkeypatch.setattr(
        "fastpubpriv.mixtures.select._result", lambda *a, **k: 1.0 / (k["slack"] and 5e-324 / 4.0)
    )
    assert honest(10, 100, 1.0, 5e-324) > 0.0
    words = "ZeroDivisionError after the debit"
    raises(AssertionError, words, outcome, CALLS["select_hypothesis, cells"], {"budget": PureDP(1)})


def test_control_an_overflow_of_a_released_number_is_caught(monkeypatch):
    @contextmanager
    def careless(self):
        self.account.open()
        yield

    call = CALLS["decode_axis_aligned"]
    given = {"budget": NOTIONS["approx"]}
    assert not isinstance(outcome(call, given, adversary=Adversary("top", 2, 300)), Exception)
    monkeypatch.setattr(session.Session, "paid", careless)
    words = "FloatingPointError after the debit"
    raises(AssertionError, words, outcome, call, given, adversary=Adversary("top", 2, 300))


def test_a_number_of_scales_for_which_the_papers_noise_does_not_do(monkeypatch):
    """The event is made after a released number; where there is none the exact accounting stands ready."""
    honest = decoders.paper_event
    monkeypatch.setattr(
        decoders, "paper_event", lambda *a, **k: honest(*a, **k) if k["histograms"] == 12 else None
    )
    found = decode_gaussians(
        LINE * 1.0, budget=ApproxDP(8, 1e-6), accounting="paper", min_weight=0.9, max_scales=12
    )
    assert len(found.scales) == 1
    monkeypatch.setattr(decoders, "paper_event", lambda *a, **k: None)
    budget = ApproxDP(8, 1e-6)
    ledger = ample(budget)
    given = {"budget": budget, "accounting": "paper", "max_scales": 12}
    raises(BudgetError, "paper's parameters", decode_gaussians, LINE, **given, ledger=ledger)
    assert spent_nothing(ledger)


def test_where_memory_runs_out_after_the_debit_the_error_says_what_became_of_the_budget(
    monkeypatch,
):
    def no_room(*_args, **_options):
        raise MemoryError("Unable to allocate 1 TiB for an array with shape (5, 7)")

    ledger = Ledger(ZCDP(1))
    monkeypatch.setattr(coinpress, "mean_result", no_room)
    found = raises(
        OutOfMemoryError, "stays debited", CALLS["coinpress_mean"], budget=ZCDP(1), ledger=ledger
    )
    assert found.__cause__ is None
    assert found.__suppress_context__
    assert ledger.spent.amounts == (1,)


# ---- What each public function promises whatever its method: when it reads, that threads change no bit, that no row raises.
@each_light_call
def test_the_debit_comes_before_the_first_read(call):
    log = []
    ledger = SpyLedger(ample(NOTIONS[call.notions[0]]).total, log)
    call(SpyRows(call.rows, log), budget=NOTIONS[call.notions[0]], ledger=ledger)
    # Nothing where the public rows alone are predicted to be best.
    assert log == [] or (log[0] == "debit" and log.count("debit") == 1)


@each_light_call
def test_threads_and_instruction_sets_change_no_bit(call, monkeypatch):
    expected = call.bits()
    monkeypatch.setattr(fold, "_SHARED_CHUNK_WORK", 100)
    with instruction_set(lib.FPP_ISA_BASELINE):
        assert call.bits(threads=3) == expected


@pytest.mark.parametrize(
    "name",
    [
        "estimate_mean",
        "estimate_mean, public covariance",
        "coinpress_mean",
        "coinpress_covariance",
        "weighted_mean",
    ],
)
def test_the_order_of_rows_changes_no_bit(name):
    call = CALLS[name]
    rows = np.array(ROWS)
    rows[17] = np.nan
    rows[18, 1] = np.inf
    rows[19] = 3e38
    expected = call.bits(rows)
    assert call.bits(np.random.default_rng(0).permutation(rows)) == expected
    rows[5] += 1.0
    assert call.bits(rows) != expected  # control: one row does count


CONTENTS = {
    "nothing but missing numbers": lambda rows: np.full_like(rows, np.nan),
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "the largest numbers": lambda rows: (
        np.full_like(rows, 1.7e308) * np.where(rows > 0.0, 1.0, -1.0)
    ),
    "the least numbers": lambda rows: np.full_like(rows, 5e-324),
    "equal rows": np.ones_like,
    "signalling NaN": lambda rows: np.full(rows.shape, 0x7FF4000000000001, dtype=np.uint64).view(
        np.float64
    ),
    "a few hostile rows": lambda rows: np.concatenate(
        [rows[:-4], *(np.full_like(rows[:1], bad) for bad in (np.nan, np.inf, -1.7e308, -0.0))]
    ),
}


def numbers_in(value):
    """All floating-point numbers of a dictionary, at any depth."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)


@each_light_call
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_private_rows_of_any_content_raise_nothing(call, content, caplog):
    """Nor does NumPy warn, nor is anything logged; and densities keep covariances that are positive definite."""
    caplog.set_level(0, logger="fastpubpriv")
    rows = content(np.array(call.rows))
    before = rows.tobytes()
    with warnings.catch_warnings(action="error", category=RuntimeWarning), np.errstate(all="raise"):
        result = call(rows, budget=NOTIONS[call.notions[0]], random_state=3)
    assert rows.tobytes() == before
    assert not [record for record in caplog.records if record.name.startswith("fastpubpriv")]
    assert np.all(np.isfinite([each for each in numbers_in(result.to_dict()) if each is not None]))
    if hasattr(result, "log_prob"):
        for name in {"covariance", "covariances"} & set(dir(result)):
            assert np.all(np.linalg.eigvalsh(getattr(result, name)) > 0.0)


# Not those that ask about some of the blocks only, or read nothing.
WHOLE = {
    name: call
    for name, call in LIGHT.items()
    if "ladder, public" not in name and not name.startswith("decode_")
}


@pytest.mark.parametrize("call", WHOLE.values(), ids=WHOLE)
def test_a_stream_with_other_rows_than_declared_is_refused(call):
    rows = np.array(call.rows)
    for declared in (len(rows) - 100, len(rows) - 1, len(rows) + 1):
        stream = Rows.from_chunks(lambda: [rows[:90], rows[90:]], n=declared, dim=rows.shape[1])
        raises(
            InputError,
            f"rows than were declared: n = {declared} is public",
            call,
            stream,
            budget=NOTIONS[call.notions[0]],
        )


# ---- Every public function under record and replay, its rows in one piece and in chunks of one and of seven rows.
SHORT = {name: call for name, call in CALLS.items() if len(call.rows) <= 1000 and not call.named}


def pair(call):
    """The call's rows, and the same with one replaced."""
    other = np.array(call.rows)
    other[17] = -3.0
    return np.array(call.rows), other


@pytest.mark.parametrize("name", SHORT)
def test_the_same_integers_are_asked_about_in_any_chunks(name):
    call = CALLS[name]
    for index, size in enumerate((1, 7)):
        budget = NOTIONS[call.notions[index % len(call.notions)]]
        record_replay(
            lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=size
        )


@pytest.mark.audit
@pytest.mark.parametrize(
    "name", [name for name, call in CALLS.items() if not (name in SHORT or call.named)]
)
def test_the_same_integers_are_asked_about_in_any_chunks_of_many_rows(name):
    call = CALLS[name]
    for notion in call.notions:
        budget = NOTIONS[notion]
        record_replay(
            lambda x, b=budget: call(x, budget=b), *pair(call), budget=budget, pieces=4999
        )
