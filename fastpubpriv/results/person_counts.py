"""Released numbers of persons by key, where a person may have several keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.privacy.noise_quantiles import deviations
from fastpubpriv.results.base import LEVEL
from fastpubpriv.results.by_key import CountsByKey, Key
from fastpubpriv.results.comparisons import Comparison, Estimated, Kind, answer_of, compared
from fastpubpriv.results.fields import array, column, value_class
from fastpubpriv.results.result_tables import Facts, percent


@value_class
class PersonCounts(CountsByKey):
    """Released numbers of persons that have a row of each key.

    A part is a key. One has "few_rows" if its count is within two noise standard deviations of zero: it may have no person. A
    person counts once for each key, so the counts do not add up to the number of persons.

    Attributes
    ----------
    by : tuple of str
        Names of the columns that form a key.
    keys : tuple of tuples of str or float
        One entry for each column of `by`; "(other)" and "(missing)" are among them.
    counts : (k,) float64
        Estimated number of persons with each key. It is not rounded and may be negative, so that it is unbiased; tables and plots
        show `published`.
    noise_std : float
        Standard deviation of the noise in each count, in persons; noises are independent.
    noise_law : str
        "gaussian" or "laplace".
    keys_per_person : int
        Most keys of a person that count.
    left_out, left_out_std : float
        Most persons by which a count is expected to be too low because persons have more keys than that, as it was released, and
        the standard deviation of its noise; 0 if all keys count.

    Examples
    --------
    >>> import pandas
    >>> import fastpubpriv as fpp
    >>> visits = pandas.DataFrame({"patient": [*range(3000), *range(2000)], "ward": ["north"] * 3000 + ["south"] * 2000})
    >>> result = fpp.count_persons(visits, person="patient", by="ward", groups=["north", "south"], budget=fpp.ZCDP(rho=0.5))
    >>> lower, upper = result.confidence_interval(0.999999)
    >>> bool(lower[0] <= 3000 <= upper[0]), bool(lower[1] <= 2000 <= upper[1])
    (True, True)
    """

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    counts: FloatArray = array("keys")
    noise_std: float
    noise_law: str
    keys_per_person: int
    left_out: float = 0.0
    left_out_std: float = 0.0

    def _fits_together(self) -> bool:
        positive = min(self.noise_std, self.left_out, self.left_out_std) >= 0.0
        same_length = all(len(key) == len(self.by) for key in self.keys)
        return positive and self.keys_per_person >= 1 and same_length

    @property
    def published(self) -> FloatArray:
        """Counts for readers, (k,): whole numbers from 0 to the number of persons."""
        whole = np.rint(self.counts) + 0.0  # without the sign of -0.3
        return np.clip(whole, 0.0, float(self.n_priv))

    @property
    def share(self) -> FloatArray:
        """Shares of the persons, (k,): counts / n_priv. They do not add up to 1."""
        return self.counts / self.n_priv

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False, of: str = "persons"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (k,) each, of intervals for the counts.

        With `of` "persons", intervals are for these persons and include noise, and at the upper end `left_out`; with "population",
        for the expected counts among as many persons of the population, including sampling error. With `simultaneous`, all
        intervals hold jointly at this level by the union bound. Ends are clipped to [0, n_priv]. Laplace noise: the larger of both
        laws' quantiles.
        """
        level = validation.confidence_level(level)
        of = validation.choice("of", of, ("persons", "population"))
        together = 1
        if validation.boolean("simultaneous", simultaneous):
            together = max(len(self.counts), 1)
        z = deviations(self.noise_law, level, together)
        std = self._std(of)
        lower = np.clip(self.counts - z * std, 0.0, self.n_priv)
        beyond = self.left_out + z * np.hypot(std, self.left_out_std)
        upper = np.clip(self.counts + beyond, 0.0, self.n_priv)
        return lower, upper

    def _std(self, of: str) -> FloatArray:
        """Standard deviations of the errors of counts of these "persons", or of the "population"."""
        std = np.full(len(self.counts), self.noise_std)
        if of == "population":
            share = np.clip(self.share, 0.0, 1.0)
            std = np.hypot(std, np.sqrt(self.n_priv * share * (1.0 - share)))
        return std

    def difference(
        self, a: Any, b: Any, level: float = LEVEL, *, of: str = "persons"
    ) -> Comparison:
        """Difference of the numbers of persons with two keys, with an interval, from released numbers alone.

        With `of` "persons" of the counts of these persons, whose noises are independent; with "population" of the expected counts:
        a person may have both keys, so that the correlation of sampling errors is not known, and the interval is the widest. It is
        that of `counts`, not rounded, and allows for `left_out`. Raise InputError for a key that is not among `keys`.
        """
        return self._compared("difference", a, b, level, of)

    def ratio(self, a: Any, b: Any, level: float = LEVEL, *, of: str = "persons") -> Comparison:
        """Ratio of the numbers of persons with two keys, with an interval, from released numbers alone.

        The arguments are those of `difference`. The interval is infinite, and the reason "unresolved", if the second may be zero.
        """
        return self._compared("ratio", a, b, level, of)

    def _compared(self, kind: Kind, a: Any, b: Any, level: float, of: str) -> Comparison:
        level = validation.confidence_level(level)
        of = validation.choice("of", of, ("persons", "population"))
        places = self._places_of(a, b)
        r = 0.0 if of == "persons" else None
        z = deviations(self.noise_law, level, 1)
        # Each count may lack up to `left_out` persons: the first alone at the upper end, the second alone at the lower one.
        width = z * np.hypot(self._std(of), self.left_out_std)
        first, second = (self._noisy(place, width) for place in places)
        most_of_first = first.moved(self.left_out)
        most_of_second = second.moved(self.left_out)
        value = answer_of(kind, (first, second), r).value
        lower = answer_of(kind, (first, most_of_second), r).lower
        upper = answer_of(kind, (most_of_first, second), r).upper
        titles = {"persons": "persons", "population": "persons of the population"}
        answer = Estimated(value, lower, upper)
        most = float(self.n_priv)
        return compared(
            self, kind, answer, (a, b), places, of=titles[of], level=level, correlation=r, most=most
        )

    def _noisy(self, place: int, width: FloatArray) -> Estimated:
        """Return one count with these half-widths of all."""
        count = self.counts[[place]]
        half = width[[place]]
        return Estimated(count, count - half, count + half)

    @property
    @column(
        "count",
        ends="_whole_ends",
        error="_count_scale",
        unit="persons",
        drawn="private",
        bars=True,
        interval_of="the noise",
    )
    def _whole_counts(self) -> IntArray:
        return self.published.astype(np.int64)

    @property
    @column("share", error="_share_scale", unit="share of the persons")
    def _possible_share(self) -> FloatArray:
        return np.clip(self.share, 0.0, 1.0)

    @property
    def _share_scale(self) -> float:
        return self._count_scale / max(self.n_priv, 1)

    def _facts(self, level: float) -> Facts:
        noise = f"{self.noise_law}, standard deviation {self.noise_std:.3g} persons"
        facts = [
            ("Interval", f"{percent(level)} each, of the numbers of these persons"),
            ("Shares", "of all persons; one may have several keys, so they do not add up to 1"),
            ("Noise", noise),
        ]
        if self.left_out_std > 0.0:
            most = f"{self.left_out:,.0f} ± {self.left_out_std:.3g} persons"
            facts.append(("Keys left out", f"a count may lack {most}: upper ends allow for that"))
        return facts
