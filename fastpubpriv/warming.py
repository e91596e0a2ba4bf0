"""What first calls would do first, done before: imports, and the compilation of searches and of custom losses."""

from __future__ import annotations

from importlib import import_module

from fastpubpriv.errors import InputError
from fastpubpriv.kernels import geometry, mixture_rows
from fastpubpriv.kernels.gradients import prepare
from fastpubpriv.losses import LOSSES, Loss

# What `import fastpubpriv` leaves for first calls, besides the homes of its public names.
_LATE = ("fastpubpriv.auditing", "fastpubpriv.local", "scipy.optimize")


def warmup(*losses: str | Loss) -> None:
    """Import now what functions would import in their first calls, and compile losses of your own, so that first calls are quick.

    For a service that answers its first question as fast as its second.

    Parameters
    ----------
    losses : str or Loss
        Any number of them: what `train` will get as `loss=`. Losses with a name need nothing; the residual of a `Loss` of your own
        is compiled by Numba, in about half a second.

    Returns
    -------
    None
        Imported modules and compiled functions stay until the process ends.

    Raises
    ------
    InputError
        What is given is no loss.

    Privacy
    -------
    No private row is needed, and none is read.

    Notes
    -----
    Losses of your own are compiled in each process, and not kept on disk. Searches among many public rows (`supercluster`,
    `terrific_ball`) and passes of mixtures over many private rows are compiled once, and then loaded from where Numba keeps them:
    beside the package, or in your own cache folder.

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
            raise InputError(f"warmup takes names of losses and Loss values: pass one of {sorted(LOSSES)}, or a Loss")
    for name in (*import_module("fastpubpriv")._HOMES.values(), *_LATE):
        import_module(name)
    geometry.prepare()
    mixture_rows.prepare(2**31, 1)
    for each in losses:
        if isinstance(each, Loss):
            prepare(each.residual, outputs=each.scores)
