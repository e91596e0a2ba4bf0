"""Warm-up: imports, and compilation of searches and custom losses, which first calls would otherwise do."""

from __future__ import annotations

from importlib import import_module

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import geometry, mixture_rows
from fastpubpriv.kernels.gradients import loss_fields
from fastpubpriv.rowwise.losses import LOSSES, Loss

# Modules that first calls import, besides those of the public names.
_LATE = ("fastpubpriv.auditing", "fastpubpriv.local", "scipy.optimize")


def warmup(*losses: str | Loss) -> None:
    """Import now what functions would import in their first calls, and compile custom losses, so that first calls are quick.

    For a service whose first request must be as fast as the second.

    Parameters
    ----------
    losses : str or Loss
        Any number of values of `loss=` for later calls of `train`. Named losses need no compilation; the residual of a custom
        `Loss` is compiled by Numba, in about half a second.

    Returns
    -------
    None
        Imported modules and compiled functions stay until the process ends.

    Raises
    ------
    InputError
        An argument is not a loss.

    Privacy
    -------
    No private row is needed, and none is read.

    See Also
    --------
    train : takes the custom losses that are compiled here.
    linear_regression : whose first call is then quick.

    Notes
    -----
    Custom losses are compiled in each process, and not cached on disk. Searches among many public rows (`supercluster`,
    `terrific_ball`) and passes of mixtures over many private rows are compiled once, and then loaded from Numba's cache,
    beside the package or in the cache folder of the user.

    Examples
    --------
    >>> from fastpubpriv import warmup
    >>> from fastpubpriv.training import Loss
    >>> def pinball(prediction, label):
    ...     return 0.9 if label > prediction else -0.1
    >>> warmup(Loss(name="0.9 quantile", residual=pinball))
    """
    for each in losses:
        if not isinstance(each, Loss) and not (isinstance(each, str) and each in LOSSES):
            raise InputError(
                f"warmup takes names of losses and Loss values: pass one of {sorted(LOSSES)}, or a Loss"
            )
    for name in (*import_module("fastpubpriv")._HOMES.values(), *_LATE):
        import_module(name)
    geometry.prepare()
    mixture_rows.prepare(2**31, 1)
    for each in losses:
        if isinstance(each, Loss):
            loss_fields(each.residual, outputs=each.scores)
