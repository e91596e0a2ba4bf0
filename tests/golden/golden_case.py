"""A case: one call with everything it is given, and how to write down what came of it."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from golden_uses import used
from golden_values import Array, Leaf, Text, canonical, stored

from fastpubpriv import FastPubPrivError
from fastpubpriv.privacy import Neighbors
from fastpubpriv.release.transcript import ReleaseRecord, Transcript, recording

SEED = 7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One call; `blas` is True where BLAS or LAPACK comes before rows become integers, which are then compared as numbers."""

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    blas: bool = False


def private(name: str, call: Callable[..., Any], x: Any, **given: Any) -> Case:
    """A call on private rows, with repeatable noise, one thread and no progress bar."""
    own = {field.name for field in dataclasses.fields(Case)}
    marks = {key: given.pop(key) for key in list(given) if key in own}
    options = {"random_state": SEED, "threads": 1, "progress": False, **given}
    return Case(name=name, call=call, args=(x,), options=options, **{"blas": True, **marks})


def public(name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Case:
    """A call that reads no private rows."""
    return Case(name=name, call=call, args=args, options=options)


def _releases(transcript: Transcript, blas: bool) -> Iterator[tuple[str, Leaf]]:
    """What each release was asked, at which price, and what it answered."""
    lineages: dict[str, int] = {}
    for index, call in enumerate(transcript.calls):
        facts = {
            "name": call.name,
            "shape": "x".join(map(str, call.public_shape)),
            **_price(call, lineages),
        }
        facts |= {"block": str(call.block)} if call.block else {}
        yield from canonical({f"call {index}": {**facts, "unit": call.unit}}).items()
        yield f"call {index} asked", Array(call.query, exact=not blas)
        yield f"call {index} answer", Array(np.asarray(call.answer, dtype=np.float64), exact=False)


def _price(call: ReleaseRecord, lineages: dict[str, int]) -> dict[str, Any]:
    """Event and scope. Clusters are numbered as they appear: their own names are digests of what decides membership."""
    event = {
        field.name: getattr(call.event, field.name) for field in dataclasses.fields(call.event)
    }
    clusters = event.pop("clusters", None)
    if event["relation"] is Neighbors.REPLACE_ONE:
        del event["relation"]
    found = {"event": type(call.event).__name__, **event}
    if clusters is not None:
        numbers = [lineages.setdefault(name, len(lineages)) for name in clusters.lineage]
        found |= {
            "stay": clusters.stay,
            "move": clusters.move,
            "clusters": "/".join(map(str, numbers)),
        }
    if call.reserve is not None:
        found |= {"scope": call.reserve.number, "scope costs": call.reserve.cost}
    return found


def outcome(case: Case) -> dict[str, Any]:
    """Everything that the case says, as results.json keeps it."""
    return {name: stored(leaf) for name, leaf in leaves_of(case).items()}


def leaves_of(case: Case) -> dict[str, Leaf]:
    """Everything that the case says: the result, the warnings, and the releases with their answers."""
    with warnings.catch_warnings(record=True) as caught, recording() as transcript:
        warnings.simplefilter("always")
        leaves: dict[str, Leaf] = {}
        try:
            result = case.call(*case.args, **case.options)
            leaves = canonical(result) | {
                f"{name}()": leaf for name, leaf in canonical(used(result)).items()
            }
        except FastPubPrivError as error:
            leaves = {"refused": Text(type(error).__name__)}
    names = sorted({item.category.__name__ for item in caught})
    if names:
        leaves["warned"] = Text(", ".join(names))
    return leaves | dict(_releases(transcript, case.blas))
