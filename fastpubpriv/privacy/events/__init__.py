"""Events: what was run, in integers. One frozen class for each kind of release, which answers for itself: what it costs in each
notion, what it writes into a record, the law of its noise, and what a given pair of answers costs.

A new kind of release is a new subclass of `Event`; accounts, `release` and record/replay need no change for it.
"""

from fastpubpriv.privacy.events.base import LOG2_SCALE_MAX, LOG2_SCALE_MIN, Event
from fastpubpriv.privacy.events.bins import StableHistogramEvent
from fastpubpriv.privacy.events.choices import CHOICE_LAWS, SelectionEvent
from fastpubpriv.privacy.events.noise import GaussianEvent, LaplaceEvent
from fastpubpriv.privacy.events.sampled import SampledGaussianEvent

__all__ = [
    "CHOICE_LAWS",
    "LOG2_SCALE_MAX",
    "LOG2_SCALE_MIN",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "SampledGaussianEvent",
    "SelectionEvent",
    "StableHistogramEvent",
]
