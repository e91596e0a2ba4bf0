"""A transcript that answers every release itself, with values that noise makes possible but next to impossible."""

import numpy as np

from fastpubpriv.privacy import LaplaceEvent, SelectionEvent, StableHistogramEvent
from fastpubpriv.release import transcript as transcripts

TOP = 2**63 - 1
BOTTOM = -(2**63)
LEAST_EXPONENT = -1075  # keys of dyadic bins
LARGEST_EXPONENT = 1023
LARGEST_KEY = 2**53


def words(pattern, rng, shape):
    """Released integers: sums are taken modulo 2^64, so every int64 is possible."""
    size = int(np.prod(shape))
    if pattern in ("large diagonal", "negative diagonal"):
        words = np.zeros(shape, dtype=np.int64)
        if len(shape) >= 2 and shape[-1] == shape[-2]:
            words[..., np.arange(shape[-1]), np.arange(shape[-1])] = (
                2**62 if pattern == "large diagonal" else -(2**62)
            )
        return words
    if pattern == "one":
        flat = np.zeros(size, dtype=np.int64)
        flat[rng.integers(size)] = rng.choice([TOP, BOTTOM, 2**62, -(2**62)])
        return flat.reshape(shape)
    return {
        "zeros": lambda: np.zeros(shape),
        "minus one": lambda: np.full(shape, -1),
        "top": lambda: np.full(shape, TOP),
        "bottom": lambda: np.full(shape, BOTTOM),
        "signs": lambda: rng.choice([-(2**62), 2**62], size=shape),
        "anything": lambda: rng.integers(BOTTOM, TOP, size=shape, endpoint=True),
        "all scales": lambda: (
            rng.choice([-1, 1], size=shape) * 2 ** rng.integers(0, 62, size=shape)
        ),
    }[pattern]()


PATTERNS = (
    "zeros",
    "minus one",
    "top",
    "bottom",
    "signs",
    "one",
    "anything",
    "all scales",
    "large diagonal",
    "negative diagonal",
    "mixed",
    "first honest",
)


class Adversary(transcripts.Transcript):
    """Answers of one pattern; "mixed" takes another one for each release, "first honest" starts with real answers."""

    __slots__ = ("n", "pattern", "rng", "turn")

    def __init__(self, pattern, seed, n):
        super().__init__()
        self.pattern = pattern
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.turn = 0

    def forced(self, name, shape, event, unit):
        self.turn += 1
        pattern = self.pattern
        if pattern == "mixed" or (pattern == "first honest" and self.turn > 2):
            pattern = str(self.rng.choice(PATTERNS[:-2]))
        if pattern == "first honest":
            return None
        if isinstance(event, SelectionEvent):
            most = event.candidates
            return np.array(
                [float({"zeros": 0, "top": most - 1}.get(pattern, self.rng.integers(most)))]
            )
        if isinstance(event, StableHistogramEvent):
            return self.bins(pattern, name, event)
        half = 0.0 if isinstance(event, LaplaceEvent) else 0.5
        return (words(pattern, self.rng, shape).astype(np.float64) + half) * unit

    def bins(self, pattern, name, event):
        """A table (histogram, count, key ...): none, one, or as many bins as there are rows, anywhere."""
        rows = []
        most = max(1, min(self.n, event.draws // event.histograms))
        for index in range(event.histograms):
            size = {"zeros": 0, "minus one": 1, "one": 1, "top": most}.get(
                pattern, int(self.rng.integers(most + 1))
            )
            dyadic = "scales" in name or "dyadic" in name
            low, high = (
                (LEAST_EXPONENT, LARGEST_EXPONENT) if dyadic else (-LARGEST_KEY, LARGEST_KEY)
            )
            steps = np.repeat(np.minimum(np.arange(size), high - low)[:, None], 4, axis=1)
            if pattern == "bottom":
                keys = low + steps
            elif pattern in ("top", "one"):
                keys = high - steps
            elif pattern == "all scales":
                keys = self.rng.choice([-1, 1], size=(size, 4)) * np.minimum(
                    2 ** self.rng.integers(0, 53, size=(size, 4)), high
                )
            else:
                keys = self.rng.integers(low, high, size=(size, 4), endpoint=True)
            keys = np.unique(keys, axis=0)  # in lexical order
            counts = np.full(len(keys), event.threshold)
            if pattern not in ("minus one", "zeros"):
                counts += self.rng.choice([0, 1, event.step * self.n, 2**60], size=len(keys))
            rows.append(np.column_stack([np.full(len(keys), index), counts, keys]))
        return np.concatenate(rows).astype(np.int64)


def forcing(adversary):
    """Run `call` with the adversary's answers."""

    def run(call):
        token = transcripts._CURRENT.set(adversary)
        try:
            return call()
        finally:
            transcripts._CURRENT.reset(token)

    return run
