"""What a result says, reduced to values: texts that must be equal, and numbers that must have the same bits or be close.

`canonical` gives each value a name, that of its field: where a field is renamed, so it is in results.json.
"""

import dataclasses
import enum
import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from fastpubpriv.privacy import Budget, Cost

# Fields that are not compared: texts that quote names of arguments, and what was added after the file was made.
LEFT_OUT = {"warnings", "total_std", "format_version"}
# Fields that were added after most of the file was made: compared where they say something.
ADDED = {
    "report": "None",
    "clipping_std": "None",
    "rows_per_person": "1",
    "about": "''",
    "rows_used": "None",
}

# What an answer about rows says in `about` follows from other fields; of persons it is compared.
ABOUT_ROWS = re.compile("all [0-9,]+ (rows|reports)|the complete rows|the public rows")

CLOSE = 2e-6  # of the scale of an array, or of a number that stands alone
INLINE = 8  # numbers of an array that are kept one by one; of longer ones a few weighted sums are
_ROOTS = np.sqrt([2.0, 3.0, 5.0, 7.0])
_ARRAY = "~"  # begins the text of an array that may be close
_LONGEST_TEXT = 240
_SHORT = 10**12  # a fraction of larger numbers has come out of floating-point arithmetic


@dataclasses.dataclass(frozen=True)
class Text:
    """Must be equal, everywhere."""

    text: str


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Numbers that stand alone: each must be close to the recorded one; `digests` tell exact fractions apart."""

    values: tuple[float, ...]
    digests: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Array:
    """Numbers of one scale. `exact` ones are integers that are the same on every machine."""

    array: np.ndarray
    exact: bool


Leaf = Text | Numbers | Array


def digest(data: bytes) -> str:
    """The first 64 bits of the SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def canonical(result: Any) -> dict[str, Leaf]:
    """Name of each value in a result, and the value."""
    return dict(_leaves(result, ""))


def _scalar(value: Any) -> Text | Numbers | None:
    """A value that is one word or number, None for all others."""
    if isinstance(value, Fraction):
        text = str(value)
        if max(abs(value.numerator), value.denominator) <= _SHORT:
            return Text(text)
        return Numbers((float(value),), (digest(text.encode()),))
    if isinstance(value, float | np.floating):
        return Numbers((float(value),), ("",))
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, enum.Enum):
        return Text(value.name.lower())
    if isinstance(value, type):
        return Text(value.__name__)
    if isinstance(value, bytes):
        return Text(value.hex())
    if value is None or isinstance(value, bool | int | np.integer | np.bool_):
        return Text(str(value))
    return None


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Leaf]]:
    scalar = _scalar(value)
    if scalar is not None:
        yield name or "value", scalar
    elif isinstance(value, np.ndarray):
        yield name or "value", Array(value, exact=value.dtype.kind in "biu")
    elif isinstance(value, list | tuple | range):
        yield from _sequence(list(value), name)
    else:
        kind, parts = _parts(value)
        kept = {key: part for key, part in parts.items() if repr(part) != ADDED.get(key)}
        named = {key: part for key, part in kept.items() if key not in LEFT_OUT}
        if ABOUT_ROWS.match(str(named.get("about"))):
            del named["about"]
        yield from _mapping({"kind": kind, **named} if kind else named, name)


def _parts(value: Any) -> tuple[str, dict[str, Any]]:
    """Kind and fields of a value that has fields."""
    kind = type(value).__name__
    if isinstance(value, Mapping):
        # JSON of a result says its kind.
        return str(value.get("kind", "")), {
            str(key): part for key, part in value.items() if key != "kind"
        }
    if isinstance(value, Cost):
        return f"Cost {value.notion.__name__}", dict(
            zip(value.notion.parts, value.amounts, strict=True)
        )
    if isinstance(value, Budget):
        return kind, dict(zip(value.parts, value.amounts, strict=True))
    if dataclasses.is_dataclass(value) and kind not in {"ClusterTree", "RowTree"}:
        return kind, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "to_dict"):
        return kind, value.to_dict()
    raise TypeError(f"golden_values has no rule for {type(value).__name__}")


def _mapping(parts: dict[str, Any], name: str) -> Iterator[tuple[str, Leaf]]:
    """Fields one by one at the top; below it the words of a record together, and its numbers together."""
    if not name:
        for key, part in parts.items():
            yield from _leaves(part, key)
        return
    scalars = {key: _scalar(part) for key, part in parts.items()}
    words = [f"{key}={leaf.text}" for key, leaf in scalars.items() if isinstance(leaf, Text)]
    numbers = {key: leaf for key, leaf in scalars.items() if isinstance(leaf, Numbers)}
    yield name, Text(", ".join(words))
    if numbers:
        yield (
            f"{name}: {', '.join(numbers)}",
            Numbers(
                tuple(leaf.values[0] for leaf in numbers.values()),
                tuple(leaf.digests[0] for leaf in numbers.values()),
            ),
        )
    for key, part in parts.items():
        if scalars[key] is None:
            yield from _leaves(part, f"{name}.{key}")


def _numeric(values: list[Any]) -> np.ndarray | None:
    """A list of numbers, or lists of as many numbers, as an array."""
    flat = values
    while flat and all(isinstance(each, list | tuple) for each in flat):
        flat = [part for each in flat for part in each]
    if not flat or not all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in flat
    ):
        return None
    try:
        return np.array(values)
    except (ValueError, OverflowError):
        return None


def _sequence(values: list[Any], name: str) -> Iterator[tuple[str, Leaf]]:
    array = _numeric(values)
    scalars = [_scalar(value) for value in values]
    if array is not None and array.dtype.kind in "iuf":
        yield name or "value", Array(array, exact=array.dtype.kind != "f")
    elif all(isinstance(leaf, Text) for leaf in scalars):
        yield (
            name or "value",
            Text("[" + ", ".join(leaf.text for leaf in scalars if isinstance(leaf, Text)) + "]"),
        )
    else:
        for index, value in enumerate(values):
            yield from _leaves(value, f"{name} {index}".strip())


# ---- what is kept of a value, and the comparison with it ------------------------------------------------------------


def _weighted_sums(values: np.ndarray) -> np.ndarray:
    """Sums with fixed weights between -1 and 1: no entry can change alone and leave them all as they were."""
    place = np.arange(1.0, len(values) + 1.0)
    return (2.0 * np.modf(place * _ROOTS[:, None])[0] - 1.0) @ values / math.sqrt(len(values))


def _near(array: np.ndarray) -> tuple[float, list[float]]:
    """Scale of an array, and its numbers (or weighted sums of them) as shares of the scale."""
    values = np.nan_to_num(array.astype(np.float64).ravel(), nan=0.0, posinf=0.0, neginf=0.0)
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0:
        return 0.0, []
    values = values / scale
    return scale, (values if len(values) <= INLINE else _weighted_sums(values)).tolist()


def _bits(array: np.ndarray) -> str:
    """Type, shape and digest of the little-endian bytes; how many entries are not finite, where there are some."""
    kind = array.dtype.kind.replace("u", "i")
    plain = np.ascontiguousarray(array, dtype={"f": "<f8", "i": "<i8", "b": "<i8"}[kind])
    odd = int((~np.isfinite(plain)).sum()) if kind == "f" else 0
    shape = "x".join(map(str, array.shape))
    return f"{'f' if kind == 'f' else 'i'} {shape} {f'odd={odd} ' if odd else ''}{digest(plain.tobytes())}"


def stored(leaf: Leaf) -> str | list[str]:
    """What results.json keeps of a value."""
    if isinstance(leaf, Text):
        text = leaf.text
        return text if len(text) <= _LONGEST_TEXT else f"{text[:40]}... {digest(text.encode())}"
    if isinstance(leaf, Numbers):
        return [
            f"{value.hex()} {tail}".strip()
            for value, tail in zip(leaf.values, leaf.digests, strict=True)
        ]
    if leaf.exact:
        short = leaf.array.ndim == 1 and leaf.array.size <= INLINE
        return str(leaf.array.tolist()) if short else _bits(leaf.array)
    scale, parts = _near(leaf.array)
    return f"{_ARRAY} {_bits(leaf.array)} {scale:.8g}: {' '.join(f'{part + 0.0:.6f}' for part in parts)}"


def _same_numbers(kept: list[str], now: list[str]) -> bool:
    pairs = [
        (float.fromhex(one.split()[0]), float.fromhex(other.split()[0]))
        for one, other in zip(kept, now, strict=True)
    ]
    return all(
        one == other
        or (math.isnan(one) and math.isnan(other))
        or math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-300)
        for one, other in pairs
    )


def _same_array(kept: str, now: str) -> bool:
    (head, parts), (head_now, parts_now) = (text.split(": ") for text in (kept, now))
    # Type, shape and number of entries that are not finite, then digest and scale.
    (*form, _, scale), (*form_now, _, scale_now) = head.split(), head_now.split()
    numbers = [float(part) for part in parts.split()]
    numbers_now = [float(part) for part in parts_now.split()]
    return (
        form == form_now
        and len(numbers) == len(numbers_now)
        and math.isclose(float(scale), float(scale_now), rel_tol=CLOSE)
        and all(abs(one - other) <= CLOSE for one, other in zip(numbers, numbers_now, strict=True))
    )


def agree(kept: str | list[str], now: str | list[str], *, bits: bool) -> bool:
    """Whether a stored value is the same as another: in every bit, or as close as another machine's arithmetic must come."""
    if kept == now:
        return True
    if bits or type(kept) is not type(now):
        return False
    if isinstance(kept, list):
        return len(kept) == len(now) and _same_numbers(kept, now)
    return bool(kept.startswith(_ARRAY) and now.startswith(_ARRAY) and _same_array(kept, now))


# ---- what a difference means: how many of its own errors a number moved ----------------------------------------------

# Fields, and what beside them is the error of each number, or of all; others have an interval, if any.
ERRORS = {
    "mean": ("noise_std", "mean_noise_std"),
    "counts": ("noise_std",),
    "count": ("count_noise_std",),
    "variance": ("variance_std",),
    "coefficients": ("standard_error()",),
    "intercept": ("intercept_error()",),
}
ENDS = ("confidence_interval 0()", "confidence_interval 1()")


def numbers_of(value: Any) -> np.ndarray | None:
    """The numbers of a stored value in its shape; None if they are not kept one by one, or are none."""
    if isinstance(value, list):
        return np.array([float.fromhex(text.split()[0]) for text in value])
    if not isinstance(value, str) or not value.startswith(_ARRAY):
        return None
    head, parts = value.split(": ") if ": " in value else (value.removesuffix(":"), "")
    shape = [int(size) for size in head.split()[2].split("x") if size]
    numbers = np.array([float(part) for part in parts.split()]) * float(head.split()[-1])
    if math.prod(shape) > INLINE:
        return None
    return np.zeros(shape) if not len(numbers) else numbers.reshape(shape)


def error_beside(
    case: dict[str, Any], name: str, shape: tuple[int, ...]
) -> tuple[str, np.ndarray] | None:
    """Name and numbers of the error of a field: a standard deviation, or half of an interval; None if there is none."""
    for each in ERRORS.get(name, ()):
        found = numbers_of(case.get(each))
        if found is not None and found.shape in (shape, (1,)):
            return each.removesuffix("()"), np.broadcast_to(found, shape)
    if name in ENDS or name.removesuffix("()") in {
        each.removesuffix("()") for own in ERRORS.values() for each in own
    }:
        return None
    low, high = (numbers_of(case.get(end)) for end in ENDS)
    if low is None or high is None or low.shape != shape or high.shape != shape:
        return None
    return "half-width", (high - low) / 2.0


def moves(kept: dict[str, Any], now: dict[str, Any], name: str) -> str:
    """How far each number of a field moved, in its own errors as they were; empty if its numbers are not kept."""
    was = numbers_of(kept[name])
    new = numbers_of(now[name])
    if was is None or new is None or was.shape != new.shape:
        return ""
    error = error_beside(kept, name, was.shape)
    found = []
    for place in np.argwhere(
        ~np.isclose(was, new, rtol=CLOSE, atol=CLOSE * float(np.abs(was).max(initial=0.0)))
    ):
        index = tuple(place.tolist())
        apart = float(abs(new[index] - was[index]))
        single = isinstance(kept[name], list) and was.size == 1
        number = name if single else f"{name}[{', '.join(map(str, index))}]"
        if error is not None and error[1][index] > 0.0:
            found.append(
                f"{number} moved by {apart / float(error[1][index]):.2g} of its {error[0]}"
            )
        elif was[index]:
            found.append(f"{number} moved by {apart / abs(float(was[index])):.2g} of itself")
        else:
            found.append(f"{number} moved by {apart:.2g} from zero")
    return "; ".join(found)


def differences(kept: dict[str, Any], now: dict[str, Any], *, bits: bool) -> list[str]:
    """One line for each field of a case that is not as it was."""
    found = [
        f"{name}: was {value!r}, is missing" for name, value in kept.items() if name not in now
    ]
    found += [f"{name}: is new, {value!r}" for name, value in now.items() if name not in kept]
    for name, value in kept.items():
        if name in now and not agree(value, now[name], bits=bits):
            moved = moves(kept, now, name)
            found.append(f"{name}: {moved}{': ' if moved else ''}was {value!r}, is {now[name]!r}")
    return found
