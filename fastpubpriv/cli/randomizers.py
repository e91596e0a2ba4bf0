"""What both ends of `fastpubpriv local` make of their options."""

from __future__ import annotations

from typing import Any

import click

from fastpubpriv._types import FloatArray
from fastpubpriv.local import Duchi, PrivUnit, PrivUnitG, SubsetSelection
from fastpubpriv.local.public_facts import public_norm_bound

DEFAULT_WORDS = 256


def make_randomizer(dim: int, settings: dict[str, Any], public: FloatArray | None = None) -> Any:
    """The randomizer of the options: family, epsilon, form and words, and norm_bound where rows may lie in a ball.

    `public` rows are those that "public" stands for, in the units that are reported.
    """
    family, epsilon, form, words = settings["family"], settings["epsilon"], settings["form"], settings["words"]
    norm_bound: Any = settings["norm_bound"]
    if norm_bound == "public":
        if public is None:
            raise click.UsageError("--norm-bound public needs --public FILE: it is the length of the longest row there")
        norm_bound = public_norm_bound(public)
    if words is not None and family != "subset-selection":
        raise click.UsageError("--words belongs to subset-selection")
    if family == "subset-selection":
        if form != "direct":
            raise click.UsageError("--form: a report of subset-selection names a word, it has no other form")
        return SubsetSelection(dim, epsilon, norm_bound=norm_bound, words=words or DEFAULT_WORDS)
    if family != "duchi":
        kind = PrivUnit if family == "privunit" else PrivUnitG
        return kind(dim, epsilon, norm_bound=norm_bound, form=form)
    if norm_bound is None:
        raise click.UsageError("--randomizer duchi is for rows in a ball: add --norm-bound")
    return Duchi(dim, epsilon, norm_bound, form=form)


def check_standardize(settings: dict[str, Any], dim: int) -> None:
    """A usage error unless the options that --standardize needs are there."""
    if not settings["standardize"]:
        return
    if settings["public_path"] is None:
        raise click.UsageError("--standardize needs --public FILE: the units come from public rows")
    if settings["norm_bound"] is None:
        raise click.UsageError(
            f"--standardize needs --norm-bound: pass public, for the length of the longest public row, or a number; rows of {dim} "
            f"such columns have a length of about {dim**0.5:.3g}"
        )
