"""Runs calls, decides by sequential draws which facts do not cover the truth, and shortens the calls that show a fault.

A fact with too many misses in a few draws starts 24 fresh draws; more than 4 misses there start 24 more; more than 4 again is a
fault. A fact of true coverage .95 raises a false alarm with probability 2.6e-7.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
import json
import math
import random
import resource
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastpubpriv as fpp
from tests.truth import arguments, known, oracles
from tests.truth.arguments import VERBS, Call, Case

BUDGETS = {
    "zcdp": (fpp.ZCDP(0.1), 20_000), "pure": (fpp.PureDP(1), 2_000), "approx": (fpp.ApproxDP(1, 1e-6), 400),
}  # fmt: skip
ROWS_OF_MIXTURES = 2_000  # of approximate DP, where 400 rows show no component
DRAWS, FRESH, MOST_MISSES = 3, 24, 4
QUICK_DRAWS, WHOLE_DRAWS = 2, 8
MOST_ROWS_OF_SLOW = 2_000
# Share of the pairs that the quick part runs of a fast verb. These take 8 CPU seconds, and all quick tests of this folder 78 (of
# which 33 are the sweep): a third would be 8 more, and 60 are meant.
PAIRS = 1 / 6
THIN = 0.2  # the speed of a verb below which the quick part runs each argument once
SEED_OF_DRAW = 7919
# Misses of all facts of a verb together.
POOLED_SHARE, POOLED_FACTS = 0.12, 200
NEVER = 30  # facts of a statistic of which none is ok
WORSE = 1.5


def cpu_seconds() -> float:
    """CPU seconds of this process, which other processes do not change."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Answer(NamedTuple):
    """What a call gave: a result with its facts and truths, or the text of a refusal, or faults."""

    result: Any
    facts: list[oracles.Fact]
    truths: list[float]
    faults: list[oracles.Fault]
    refusal: str = ""


class Finding(NamedTuple):
    """A fault, the shortest call that shows it, and the populations where it does."""

    verb: str
    kind: str
    cases: tuple[Case, ...]
    call: Call
    text: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the shortest call, as they stand in `known.py`."""
        return tuple(sorted(case.text for case in self.cases))

    def key(self) -> tuple[str, str, set[str], str, int]:
        """What `known.py` is asked about it."""
        return self.verb, self.kind, set(self.arguments), self.call.population, self.call.rows

    def line(self) -> str:
        """One line of the report."""
        budget = fpp.privacy.budgets.short(self.call.budget)
        where = f"{self.call.population} {budget}, {self.call.rows} rows, draw {self.call.draw}"
        return f"{self.verb}({', '.join(self.arguments)}): {self.kind}: [{where}] {self.text}"

    def code(self) -> str:
        """The call as code that runs."""
        return code(self.call)


def code(call: Call) -> str:
    """A call as code that runs with the seed."""
    texts = [case.text for case in VERBS[call.verb].all_cases()]
    numbers = [texts.index(case.text) for case in call.cases]
    made_call = f"{call.verb!r}, {numbers}, {call.population!r}, {call.rows}, fpp.{call.budget!r}, {call.draw}"
    return f"print(engine.answer(engine.made({made_call})))  # import fastpubpriv as fpp; from tests.truth import engine"


def made(
    verb: str, numbers: Iterable[int], population: str, rows: int, budget: Any, draw: int
) -> Call:
    """The call of a report."""
    cases = VERBS[verb].all_cases()
    return Call(verb, tuple(cases[number] for number in numbers), population, rows, budget, draw)


def of_interval(kind: str) -> bool:
    """Whether a kind of fault is about intervals that do not hold."""
    return kind == "far" or kind.startswith("coverage ")


# ---- One call --------------------------------------------------------------------------------------------------------
def result_of(call: Call, private: Any = None, **more: Any) -> Any:
    """The result of a call, with the seed of its draw; `more` are neutral arguments, or replace others."""
    verb = VERBS[call.verb]
    given = {**call.arguments(), **more}
    accepted = set(inspect.signature(verb.call).parameters)
    every = inspect.Parameter.VAR_KEYWORD in {
        p.kind for p in inspect.signature(verb.call).parameters.values()
    }
    usual = {
        "budget": call.budget,
        "random_state": SEED_OF_DRAW + call.draw,
        "threads": 1,
        "progress": False,
    }
    given = {**{name: value for name, value in usual.items() if name in accepted or every}, **given}
    with warnings.catch_warnings():
        for kind in (
            fpp.AccuracyWarning,
            fpp.PrivacyWarning,
            fpp.ExperimentalWarning,
            fpp.SeededNoiseWarning,
        ):
            warnings.simplefilter("ignore", kind)
        if verb.reports:
            return verb.call(**given)
        rows = call.tables.private if private is None else private
        if call.verb == "local.train":
            rows = call.tables.private[call.columns].to_numpy()
            given.pop("columns", None)
        return verb.call(rows, **given)


def answer(call: Call) -> Answer:
    """A result with its facts, truths and faults; an error that is not the package's own is a crash."""
    try:
        result = result_of(call)
    except (fpp.FastPubPrivError, ValueError, TypeError) as error:
        if not isinstance(error, fpp.FastPubPrivError):
            return Answer(
                None, [], [], [oracles.Fault("crash", f"{type(error).__name__}: {error}")]
            )
        return Answer(None, [], [], [], f"{type(error).__name__}: {error}")
    except Exception as error:
        return Answer(None, [], [], [oracles.Fault("crash", f"{type(error).__name__}: {error}")])
    found = oracles.facts(result)
    truths = [oracles.truth(fact, call, result) for fact in found]
    return Answer(
        result, found, truths, oracles.faults(call, result, found, truths, call.arguments())
    )


def bits(result: Any) -> str:
    """All bits of a result that are about the table."""
    return json.dumps(
        {name: value for name, value in result.to_dict().items() if name != "private"},
        sort_keys=True,
    )


# ---- Draws -----------------------------------------------------------------------------------------------------------
class Tally:
    """Misses and ok answers of each fact of a call, over draws."""

    def __init__(self) -> None:
        self.ok: collections.Counter[Any] = collections.Counter()
        self.misses: collections.Counter[Any] = collections.Counter()
        self.shown: dict[Any, str] = {}

    def add(self, answer: Answer) -> None:
        """Count the facts of an answer."""
        for fact, true in zip(answer.facts, answer.truths, strict=True):
            if not fact.ok or math.isnan(true):
                continue
            key = (fact.statistic, fact.where)
            self.ok[key] += 1
            if oracles.missed(fact, true):
                self.misses[key] += 1
                self.shown[key] = (
                    f"{fact.point:.6g} [{fact.low:.6g}, {fact.high:.6g}], truth {true:.6g}"
                )

    def suspects(self) -> list[Any]:
        """Facts with too many misses in few draws."""
        return [
            key for key, misses in self.misses.items() if misses >= max(2.0, 0.3 * self.ok[key])
        ]


def of_draws(call: Call, draws: Iterable[int]) -> Tally:
    """The tally of a call over draws."""
    tally = Tally()
    for draw in draws:
        tally.add(answer(dataclasses.replace(call, draw=draw)))
    return tally


def uncovered(call: Call, suspects: list[Any], seed: int) -> list[oracles.Fault]:
    """Facts that 24 fresh draws, and 24 more, do not cover."""
    start = 1_000 + 10_000 * seed
    for first in (start, start + FRESH):
        if not suspects:
            return []
        tally = of_draws(call, range(first, first + FRESH))
        suspects = [key for key in suspects if tally.misses[key] > MOST_MISSES]
    texts = [
        f"{statistic} {where}: {tally.misses[statistic, where]} of {tally.ok[statistic, where]} draws outside, "
        f"{tally.shown[statistic, where]}"
        for statistic, where in suspects
    ]
    return [
        oracles.Fault(f"coverage {key[0]}", text) for key, text in zip(suspects, texts, strict=True)
    ]


class Sweep:
    """The findings of a run, what each verb's facts add up to, and which cases ran."""

    def __init__(
        self,
        seed: int = 0,
        draws: int = DRAWS,
        seconds: float = math.inf,
        known: Iterable[known.Known] = (),
    ) -> None:
        self.seed, self.draws = seed, draws
        self.end = cpu_seconds() + seconds
        self.listed = tuple(known)  # not examined any further
        self.findings: list[Finding] = []
        self.by_statistic: dict[tuple[str, str], list[int]] = collections.defaultdict(
            lambda: [0, 0]
        )
        self.refused: dict[tuple[str, str], tuple[Case, str]] = {}
        self.ran: set[tuple[str, str]] = set()
        self.calls: dict[str, list[tuple[Call, int, int]]] = collections.defaultdict(list)
        self.cut = 0

    # -- a call --
    def over(self) -> bool:
        """Whether no time is left; what is cut is counted."""
        if cpu_seconds() < self.end:
            return False
        self.cut += 1
        return True

    def known(self, call: Call, kind: str) -> bool:
        """Whether this kind is known for a part of the cases of a call."""
        texts = {case.text for case in call.cases}
        if any(
            entry.matches(call.verb, kind, texts, call.population, call.rows)
            for entry in self.listed
        ):
            return True
        return any(
            finding.verb == call.verb and finding.kind == kind and set(finding.arguments) <= texts
            and (finding.call.population == call.population or not finding.cases)
            for finding in self.findings
        )  # fmt: skip

    def examine(self, call: Call) -> bool:
        """Run a call over its draws and keep what is found; False if it is refused."""
        tally = Tally()
        single: dict[str, tuple[int, str]] = {}
        for draw in range(self.draws):
            number = draw + 100 * self.seed
            got = answer(dataclasses.replace(call, draw=number))
            if got.refusal:
                for case in call.cases:
                    self.refused.setdefault((call.verb, case.text), (case, got.refusal))
                return False
            tally.add(got)
            for fault in got.faults:
                single.setdefault(fault.kind, (number, fault.text))
            for fact in got.facts:
                self.by_statistic[call.verb, fact.statistic][0] += fact.ok
                self.by_statistic[call.verb, fact.statistic][1] += 1
        self.ran |= {(call.verb, case.text) for case in call.cases}
        self.calls[call.verb].append((call, sum(tally.ok.values()), sum(tally.misses.values())))
        for kind, (draw, text) in sorted(single.items()):
            if not self.known(call, kind):
                self.keep(dataclasses.replace(call, draw=draw), kind, text)
        kinds = sorted({f"coverage {key[0]}" for key in tally.suspects()})
        for kind in kinds:
            if not self.known(call, kind):
                suspects = [key for key in tally.suspects() if f"coverage {key[0]}" == kind]
                for fault in uncovered(call, suspects, self.seed)[:1]:
                    self.keep(call, fault.kind, fault.text)
        return True

    def shows(self, call: Call, kind: str) -> bool:
        """Whether a call shows a kind of fault."""
        if not kind.startswith("coverage "):
            return any(fault.kind == kind for fault in answer(call).faults)
        tally = of_draws(call, range(1_000, 1_000 + FRESH))
        return any(
            f"coverage {key[0]}" == kind and misses > MOST_MISSES
            for key, misses in tally.misses.items()
        )

    def keep(self, call: Call, kind: str, text: str) -> None:
        """Keep a finding with the shortest call that shows it."""
        cases = call.cases
        # whose rows are no sample without persons
        for case in call.cases if call.population != "visits" else ():
            fewer = tuple(each for each in cases if each.text != case.text)
            if self.shows(dataclasses.replace(call, cases=fewer), kind):
                cases = fewer
        self.findings.append(
            Finding(call.verb, kind, cases, dataclasses.replace(call, cases=cases), text)
        )

    # -- many calls --
    def budgets_and_sizes(self, verb: str) -> list[tuple[Any, int]]:
        """The three pairs of budget and size, in the notions that the verb takes."""
        found = []
        for notion in VERBS[verb].budgets:
            budget, rows = BUDGETS[notion]
            found.append((budget, ROWS_OF_MIXTURES if VERBS[verb].budgets == ("approx",) else rows))
        return found

    def singles(self, verb: str, populations: Iterable[str], *, rotated: bool = False) -> None:
        """Each case alone, in every setting, or in one that moves on from case to case."""
        settings = self.budgets_and_sizes(verb)
        for population in populations:
            for number, cases in enumerate([(), *((case,) for case in VERBS[verb].all_cases())]):
                first = number % len(settings)
                # one that is refused gives way to the next
                for budget, rows in settings[first:] + settings[:first]:
                    if (
                        not self.over()
                        and self.examine(Call(verb, cases, population, rows, budget))
                        and rotated
                        and cases
                    ):
                        break

    def pairs(self, verb: str, populations: Iterable[str], share: float = 1.0) -> None:
        """A share of all pairs of cases, the same in every run; verbs with wide calls merge them."""
        shuffled = random.Random(f"{verb} {self.seed}")
        names = tuple(populations)
        every = [
            (first, second)
            for first, second in itertools.combinations(VERBS[verb].all_cases(), 2)
            if not set(first.names) & set(second.names)
        ]
        shuffled.shuffle(every)
        for cases in merged(every[: math.ceil(share * len(every))], VERBS[verb].widest):
            budget, rows = shuffled.choice(self.budgets_and_sizes(verb))
            if self.over():
                continue
            call = Call(verb, tuple(cases), shuffled.choice(names), rows, budget)
            if not self.examine(call) and len(cases) > 2:
                for pair in itertools.combinations(cases, 2):
                    self.examine(dataclasses.replace(call, cases=pair))

    def pooled(self, verb: str) -> None:
        """Misses of all facts together, confirmed with fresh seeds; and statistics that are never ok."""
        unexplained = [each for each in self.calls[verb] if not self.explained(each[0])]
        ok = sum(each[1] for each in unexplained)
        share = sum(each[2] for each in unexplained) / max(ok, 1)
        if ok >= POOLED_FACTS and share > POOLED_SHARE:
            tallies = [of_draws(call, [500_000 + self.seed]) for call, _, _ in unexplained]
            fresh = sum(sum(tally.misses.values()) for tally in tallies)
            again = fresh / max(sum(sum(tally.ok.values()) for tally in tallies), 1)
            if again > POOLED_SHARE:
                text = f"{share:.1%} of {ok} ok facts outside, {again:.1%} with fresh seeds"
                self.findings.append(Finding(verb, "pooled coverage", (), unexplained[0][0], text))
        for (name, statistic), (fine, count) in sorted(self.by_statistic.items()):
            if name == verb and count >= NEVER and not fine:
                text = f"{statistic}: none of {count} facts is ok"
                self.findings.append(
                    Finding(verb, f"never ok {statistic}", (), self.calls[verb][0][0], text)
                )

    def explained(self, call: Call) -> bool:
        """Whether a finding of its own says that intervals of this call do not hold."""
        texts = {case.text for case in call.cases}
        found = [
            set(each.arguments) <= texts
            for each in self.findings
            if each.verb == call.verb and of_interval(each.kind)
        ]
        return any(found) or any(
            entry.matches(call.verb, kind, texts, call.population, call.rows)
            for entry in self.listed
            for kind in filter(of_interval, entry.kinds)
        )

    def refusals(self) -> list[str]:
        """Cases that no call accepted."""
        return [
            f"argument {', '.join(case.names)} of {verb} never ran: {text}: {why}"
            for (verb, text), (case, why) in sorted(self.refused.items(), key=lambda pair: pair[0])
            if (verb, text) not in self.ran
        ]

    def unlisted(self, listed: Iterable[known.Known] = ()) -> list[Finding]:
        """The findings that a list of known faults does not have."""
        entries = tuple(listed)
        return [
            finding
            for finding in self.findings
            if not any(entry.matches(*finding.key()) for entry in entries)
        ]

    def repaired(self, listed: Iterable[known.Known]) -> list[known.Known]:
        """Known faults that no call showed."""
        return [
            entry
            for entry in listed
            if not any(entry.matches(*each.key()) for each in self.findings)
        ]

    def lines(self, listed: Iterable[known.Known] = ()) -> list[str]:
        """The report: one line for each finding, those of several populations together."""
        together: dict[Any, list[Finding]] = {}
        for finding in self.unlisted(listed):
            together.setdefault((finding.verb, finding.kind, finding.arguments), []).append(finding)
        found = []
        for same in together.values():
            more = sorted({each.call.population for each in same[1:]} - {same[0].call.population})
            found.append(same[0].line() + (f" (also {', '.join(more)})" if more else ""))
        return sorted(found)


def merged(pairs: list[tuple[Case, Case]], widest: int) -> Iterator[list[Case]]:
    """Calls of up to `widest` cases that hold every pair; a case stands beside no other of the same argument."""
    left = list(pairs)
    while left:
        cases = list(left.pop(0))
        for pair in list(left):
            texts = {case.text for case in cases}
            added = [case for case in pair if case.text not in texts]
            names = [name for case in (*cases, *added) for name in case.names]
            if len(cases) + len(added) <= widest and len(set(names)) == len(names):
                cases += added
                left.remove(pair)
        yield cases


# ---- Bits and effects ------------------------------------------------------------------------------------------------
def tried(call: Call, **more: Any) -> Any:
    """A result, or None where the call is refused."""
    try:
        return result_of(call, **more)
    except fpp.FastPubPrivError:
        return None


def neutral_values(verb: str) -> dict[str, Any]:
    """Values of the arguments that change no bit."""
    accepted = inspect.signature(VERBS[verb].call).parameters
    values = {"threads": 2, "progress": None, "max_memory": 1e10}
    return {name: value for name, value in values.items() if name in accepted}


def changed_bits(call: Call) -> list[oracles.Fault]:
    """Neutral arguments, or the same call again, that change a bit."""
    first = tried(call)
    if first is None:
        return []
    found = []
    if bits(result_of(call)) != bits(first):
        found.append(oracles.Fault("other bits the second time", ""))
    for name, value in neutral_values(call.verb).items():
        if bits(result_of(call, **{name: value})) != bits(first):
            found.append(oracles.Fault("other bits with a neutral argument", f"{name}={value!r}"))
    if "ledger" in inspect.signature(VERBS[call.verb].call).parameters:
        found += _with_ledger(call, bits(first))
    return found


def _with_ledger(call: Call, wanted: str) -> list[oracles.Fault]:
    total = fpp.ZCDP(10**6) if isinstance(call.budget, fpp.ZCDP) else fpp.ApproxDP(1024, 0.5)
    of_persons = oracles.uses_persons(call)
    relation = (
        fpp.privacy.Neighbors.REPLACE_PERSON if of_persons else fpp.privacy.Neighbors.REPLACE_ONE
    )
    ledger = fpp.Ledger(total, relation=relation)
    result = result_of(call, ledger=ledger)
    found = []
    if bits(result) != wanted:
        found.append(oracles.Fault("other bits with a neutral argument", "ledger"))
    charged = [float(each) for each in ledger.spent.amounts][: len(result.spent.amounts)]
    if charged != [float(each) for each in result.spent.amounts]:
        found.append(
            oracles.Fault("spent", f"the ledger says {ledger.spent!r}, the result {result.spent!r}")
        )
    return found


FORMS = ("polars", "arrow", "csv", "parquet", "dask", "numpy")


def in_form(frame: Any, form: str, folder: Any, columns: list[str]) -> Any:
    """A table in another form; an array has the columns of numbers alone."""
    if form == "polars":
        import polars

        return polars.from_pandas(frame)
    if form == "arrow":
        import pyarrow

        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    if form == "dask":
        import dask.dataframe

        return dask.dataframe.from_pandas(frame, npartitions=2)
    if form == "numpy":
        return frame[columns].to_numpy(float)
    path = folder / f"rows.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path, index=False)
    return path


def same_numbers(first: Any, second: Any) -> bool:
    """Whether two results print the same numbers; one from an array has no names."""
    return [repr(fact[2:]) for fact in oracles.facts(first)] == [
        repr(fact[2:]) for fact in oracles.facts(second)
    ]


def other_forms(call: Call, folder: Any) -> list[oracles.Fault]:
    """Forms of the table that change a bit."""
    columns = [
        *dict.fromkeys(
            [*call.columns, "g", "kind", "id", "x", "v", "y", "yes", "hits", "class", "w"]
        )
    ]
    frame = call.tables.private[columns]
    first = tried(call, private=frame)
    found = []
    for form in FORMS if first is not None else ():
        more: dict[str, Any] = {}
        if form == "numpy":
            numeric = (
                call.tables.private[call.columns].select_dtypes("number").shape[1]
                == len(call.columns)
                > 0
            )
            if not numeric or {"by", "person", "label"} & set(call.arguments()):
                continue
            more = {"columns": None}
            if "x_pub" in call.arguments():
                more["x_pub"] = call.arguments()["x_pub"][call.columns].to_numpy(float)
        try:
            result = result_of(call, private=in_form(frame, form, folder, call.columns), **more)
        except Exception as error:
            found.append(oracles.Fault("crash", f"{form}: {type(error).__name__}: {error}"))
            continue
        same = same_numbers(result, first) if form == "numpy" else bits(result) == bits(first)
        if not same:
            found.append(oracles.Fault("other bits from another form", form))
    return found


def prints_the_same(first: Any, second: Any) -> bool:
    """Whether a reader sees no difference between two results; summaries, which take longest, are read last."""
    numbers, others = (
        [repr(fact[2:5]) for fact in oracles.facts(result)] for result in (first, second)
    )
    return numbers == others and first.summary() == second.summary()


def without_effect(verb: str, populations: Iterable[str], rows: int = 2_000) -> list[Finding]:
    """Cases that change nothing of what is printed, in no population."""
    record = VERBS[verb]
    found = []
    budget = BUDGETS[record.budgets[0]][0]
    bases: dict[str, Any] = {}
    for case in record.all_cases():
        if case.text in record.same_as_default:
            continue
        ran = moved = False
        for population in populations:
            base = Call(verb, (), population, rows, budget)
            if population not in bases:
                bases[population] = tried(base)
            result = tried(dataclasses.replace(base, cases=(case,)))
            if result is None or bases[population] is None:
                continue
            ran = True
            if not prints_the_same(result, bases[population]):
                moved = True
                break
        if ran and not moved:
            call = Call(verb, (case,), "light", rows, budget)
            found.append(
                Finding(verb, "argument without effect", (case,), call, "nothing printed changes")
            )
    return found


def worse_with_more(verb: str, rows: int = 2_000) -> list[Finding]:
    """Whether median errors at rho .5 are larger than those at rho .05, in a few draws and in more fresh ones."""
    if "zcdp" not in VERBS[verb].budgets:
        return []
    ratio = error_ratio(verb, rows, range(9))
    if ratio > WORSE:  # that of a single fact varies by a factor of two
        ratio = error_ratio(verb, rows, range(100, 148))
    if ratio <= WORSE:
        return []
    call = Call(verb, (), "light", rows, fpp.ZCDP(0.5))
    return [
        Finding(
            verb,
            "more budget is worse",
            (),
            call,
            f"errors {ratio:.3g} times those of a tenth of it",
        )
    ]


def error_ratio(verb: str, rows: int, draws: Iterable[int]) -> float:
    """Median errors at rho .5 over those at rho .05, as a geometric mean over facts; 0 without facts."""
    errors: dict[float, dict[Any, list[float]]] = {}
    for rho in (0.05, 0.5):
        errors[rho] = collections.defaultdict(list)
        for draw in draws:
            got = answer(Call(verb, (), "light", rows, fpp.ZCDP(rho), draw))
            for fact, true in zip(got.facts, got.truths, strict=True):
                if (
                    math.isfinite(fact.point)
                    and math.isfinite(true)
                    and fact.statistic not in ("component", "covariance")
                ):
                    errors[rho][fact.statistic, fact.where].append(abs(fact.point - true))
    shared = [key for key in errors[0.5] if key in errors[0.05]]
    logs = [
        math.log((np.median(errors[0.5][k]) + 1e-12) / (np.median(errors[0.05][k]) + 1e-12))
        for k in shared
    ]
    return math.exp(float(np.mean(logs))) if logs else 0.0


# ---- Parts -----------------------------------------------------------------------------------------------------------
def with_visits(call: Call) -> Call:
    """The call on persons of whom some are heavy."""
    return dataclasses.replace(call, population="visits")


def heavy_persons(sweep: Sweep, verb: str, rows: int = 20_000) -> None:
    """The cases of persons, where the result says what it is about."""
    for case in VERBS[verb].all_cases():
        named = set(case.names) <= {"person", "rows_per_person"} and case.values[0] == "id"
        if (named or (verb == "persons" and "keep" not in case.names)) and not sweep.over():
            sweep.examine(Call(verb, (case,), "visits", rows, fpp.ZCDP(0.1)))


def same_bits(sweep: Sweep, verbs: Iterable[str], folder: Path) -> None:
    """Bits of the base calls, and of each case on `light`: again, with neutral arguments, from other forms."""
    for verb in verbs:
        budget, rows = sweep.budgets_and_sizes(verb)[-1]
        for population in VERBS[verb].populations:
            for cases in [
                (),
                *((case,) for case in VERBS[verb].all_cases() if population == "light"),
            ]:
                call = Call(verb, cases, population, rows, budget)
                if sweep.over() or tried(call) is None:
                    continue
                found = changed_bits(call)
                if not verb.startswith("local.") and not cases:
                    found += other_forms(call, folder)
                sweep.findings += [
                    Finding(verb, each.kind, cases, call, each.text) for each in found
                ]


Progress = Callable[[str], None]


def thinned(sweep: Sweep, verb: str) -> None:
    """The first case of each argument alone, once, in a setting that moves on from case to case."""
    settings = sweep.budgets_and_sizes(verb)
    firsts = [Case((names,) if isinstance(names, str) else names, value if isinstance(names, tuple) else (value,))
              for names, (value, *_) in VERBS[verb].cases.items()]  # fmt: skip
    for number, cases in enumerate([(), *((case,) for case in firsts)]):
        for turn in range(len(settings)):  # a notion that is refused gives way to the next
            budget, rows = settings[(number + turn) % len(settings)]
            if sweep.examine(Call(verb, cases, "light", min(rows, MOST_ROWS_OF_SLOW), budget)):
                break


def quick(verbs: Iterable[str] = tuple(VERBS), seed: int = 0, seconds: float = math.inf) -> Sweep:
    """Singles and a sixth of the pairs on `light`, the same in every run; of slow verbs each argument once."""
    sweep = Sweep(seed=seed, draws=QUICK_DRAWS, seconds=seconds, known=known.KNOWN)
    for verb in verbs:
        record = VERBS[verb]
        if record.speed < THIN:
            sweep.draws = 1
            thinned(sweep, verb)
            sweep.draws = QUICK_DRAWS
        else:
            sweep.singles(verb, ["light"], rotated=record.speed < 1.0)
            sweep.pairs(verb, ["light"], share=record.speed * PAIRS)
            sweep.findings += without_effect(verb, record.populations)
        sweep.pooled(verb)
    return sweep


def whole(
    verbs: Iterable[str] = tuple(VERBS),
    seed: int = 0,
    seconds: float = math.inf,
    tell: Progress = print,
) -> Sweep:
    """Everything, with eight draws."""
    sweep = Sweep(seed=seed, draws=WHOLE_DRAWS, seconds=seconds)
    for verb in verbs:
        start = cpu_seconds()
        before = len(sweep.findings)
        populations = VERBS[verb].populations
        sweep.singles(verb, populations)
        sweep.pairs(verb, populations)
        heavy_persons(sweep, verb)
        if not sweep.over():
            sweep.findings += without_effect(verb, populations)
            sweep.findings += worse_with_more(verb)
        sweep.pooled(verb)
        tell(f"{verb}: {len(sweep.findings) - before} findings, {cpu_seconds() - start:.0f} s")
    return sweep


__all__ = ["Call", "Finding", "Sweep", "answer", "arguments", "quick", "whole"]
