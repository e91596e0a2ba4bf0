"""The methods of noisy gradient descent: the query and the budget of a step, and the checkpoint of released values.

With a checkpoint a run can resume after a crash, and no noise is ever drawn twice. A step is marked as begun, on disk, before its
query runs. A step that was begun and has no value in the file is lost: it is skipped, and its noise is not drawn again. The file
has lines of JSON, the first one about the call, and zeros up to its final size, so that a truncated file is too short.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import math
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import numpy as np

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.mechanisms import gradient_sums
from fastpubpriv.mechanisms.sums import Released, sum_grid
from fastpubpriv.privacy import (
    FullBatch,
    Poisson,
    SampledGaussianEvent,
    Sampling,
    WithoutReplacement,
)
from fastpubpriv.privacy.calibration import Grid, SampledGrid, sampled_sum_grid
from fastpubpriv.release.account import Account
from fastpubpriv.session import Noise, Session
from fastpubpriv.sources import Executor, Rows
from fastpubpriv.training.coordinates import fits, mapped_rows
from fastpubpriv.training.gradient import gradient_problem
from fastpubpriv.training.gradient.plan import (
    DescentPlan,
    NoiseOf,
    descend,
    gradient_lengths,
    make_plan,
    public_curvature,
    step_choices,
)
from fastpubpriv.training.problem import TrainingMethod

_KIND = "fastpubpriv checkpoint 2"
_MOST_HEAD, _MOST_WORDS = 1 << 12, 64  # maximum bytes of the first line, and of a step's lines without its value
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """Facts of a call that its checkpoint must match."""

    digest: str  # of everything public that decides the queries
    shape: tuple[int, ...]  # of a released value
    steps: int  # number of steps of the run
    # whether the noise comes from a seed; such a run is not private, and a private run must not resume from its values
    seeded: bool

    @property
    def size(self) -> int:
        """Bytes of a file that holds all steps."""
        return _MOST_HEAD + self.steps * (2 * _MOST_WORDS + 4 * math.ceil(8 * math.prod(self.shape) / 3))

    @property
    def head(self) -> dict[str, Any]:
        """Content of the first line."""
        return {"kind": _KIND, **dataclasses.asdict(self), "shape": list(self.shape), "bytes": self.size}


class Checkpoint:
    """An open checkpoint, locked against other processes."""

    def __init__(self, descriptor: int, call: CheckpointFacts, name: str) -> None:
        self._fd, self._call, self._name = descriptor, call, name
        self._values: dict[int, FloatArray] = {}
        self.begun = 0  # number of steps that have begun
        self._end = 0  # offset of the end of the lines
        self._started = False
        self.resumed = self._read()  # whether the file was there before, so that the budget has been debited

    # ---- Reading -----------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Read the file; return False for an empty one, which is extended to its final size."""
        size = self._of_system(os.fstat).st_size
        first = self._at(0, _MOST_HEAD)
        if not first.strip(b"\0") and size in (0, self._call.size):
            self._of_system(_reserve, self._call.size)
            return False
        self._check_head(first.partition(b"\n")[0], size)
        text = self._at(0, size).rstrip(b"\0")
        whole = text[: text.rfind(b"\n") + 1]  # a line that a crash has cut off is ignored
        self._started, self._end = True, len(whole)
        for line in whole.splitlines()[1:]:
            self._take(self._parsed(line, "is damaged"))
        if len(text) > len(whole):
            self._put(len(whole), bytes(len(text) - len(whole)))
        return True

    def _check_head(self, line: bytes, size: int) -> None:
        head = self._parsed(line, "is not a checkpoint")
        kind = head.get("kind")
        if kind != _KIND:
            other = isinstance(kind, str) and kind.startswith("fastpubpriv checkpoint")
            self._refuse("is a checkpoint of another version of fastpubpriv" if other else "is not a checkpoint")
        if head.get("seeded") is not self._call.seeded:
            self._refuse(
                "holds noise from a seed, and this call asks for private noise"
                if head.get("seeded") is True
                else "holds private noise, and this call asks for noise from a seed"
            )
        if head != self._call.head:
            self._refuse("belongs to a call with other data, settings or budget")
        if size != self._call.size:
            self._refuse("was cut, or is a part of a copy: what it has lost was released, and it cannot be resumed")

    def _parsed(self, line: bytes, problem: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: deeply nested brackets
            self._refuse(problem)
        if not isinstance(record, dict):
            self._refuse(problem)
        return record

    def _take(self, line: dict[str, Any]) -> None:
        """Take a line after the first: the beginning of the next step, or the value of the last step that has begun."""
        if set(line) == {"begun"} and _is_number(line["begun"], self.begun) and self.begun < self._call.steps:
            self.begun += 1
            return
        last = self.begun - 1
        if set(line) != {"step", "value"} or not _is_number(line["step"], last) or last in self._values:
            self._refuse("is damaged")
        try:
            raw = np.frombuffer(base64.b64decode(line["value"], validate=True), dtype="<f8")
            self._values[last] = raw.astype(np.float64).reshape(self._call.shape)
        except (ValueError, TypeError):
            self._refuse("is damaged")

    def _refuse(self, words: str) -> NoReturn:
        raise InputError(f"checkpoint: {self._name!r} {words}: pass another path, or delete it to begin anew")

    # ---- The file ----------------------------------------------------------------------------------------------------

    def _of_system(self, call: Any, *given: Any) -> Any:
        try:
            return call(self._fd, *given)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
        paid = "what was released until now stays in it, and was paid for" if self._started else "nothing was spent"
        raise InputError(
            f"checkpoint: {self._name!r} cannot be written or read ({reason}); it needs {self._call.size:,} bytes; {paid}"
        )

    def _at(self, begin: int, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._of_system(os.pread, min(_PIECE, count - len(data)), begin + len(data))
            if not piece:
                break
            data += piece
        return bytes(data)

    def _put(self, begin: int, content: bytes) -> None:
        while content:
            count = self._of_system(os.pwrite, content[:_PIECE], begin)
            begin, content = begin + count, content[count:]

    def _write(self, line: dict[str, Any], *, durable: bool) -> None:
        content = json.dumps(line).encode() + b"\n"
        self._put(self._end, content)
        self._end += len(content)
        if durable:
            self._of_system(os.fsync)

    def leave(self) -> None:
        """Truncate a file in which nothing is written to zero bytes."""
        if not self._started:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)

    # ---- Steps -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Write the first line of a new file; called after the debit, so that an existing file has been paid for."""
        self._started = True
        self._write(self._call.head, durable=True)

    def value(self, step: int) -> FloatArray | None:
        """Return the value that a step released, or None if it was lost."""
        return self._values.get(step)

    def begin(self, step: int) -> None:
        """Mark a step as begun, before its query runs."""
        self._write({"begun": step}, durable=True)
        self.begun = step + 1

    def keep(self, step: int, value: FloatArray) -> None:
        """Write the value that a step has released. If a crash loses the line, the step is lost."""
        text = base64.b64encode(np.ascontiguousarray(value, dtype="<f8").tobytes()).decode()
        self._write({"step": step, "value": text}, durable=False)


def _is_number(value: Any, wanted: int) -> bool:
    return type(value) is int and value == wanted


def _reserve(descriptor: int, size: int) -> None:
    """Allocate zeros up to this size on disk, so that a full disk is noticed before the debit."""
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # file systems that cannot allocate in advance
            os.ftruncate(descriptor, 0)
            raise


def open_checkpoint(path: Any, call: CheckpointFacts, files: ExitStack) -> Checkpoint | None:
    """Open the checkpoint at a path, new or resumed; `files` closes it. Raise InputError for a file that does not match."""
    if path is None:
        return None
    name = validation.path_name(path)
    descriptor = _opened(name)
    files.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"checkpoint: {name!r} is in use by another process") from None
    made = Checkpoint(descriptor, call, name)
    files.callback(made.leave)
    return made


def _opened(name: str) -> int:
    """Open the regular file of this name, created if missing, and return its descriptor."""
    wanted = f"checkpoint: {name!r} is not a regular file: pass the path of a file, or of one that is to be made"
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.lstat(name).st_mode):
            raise InputError(wanted)  # checked first, since opening has side effects on a device or a pipe
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        raise InputError(f"checkpoint: {name!r} cannot be opened for writing") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(wanted)
    return descriptor


def scheme(settings: gradient_problem.Descent, n: int) -> Sampling | None:
    """Return the sampling of batches; None if every step is a plain sum (full batches, and one pass)."""
    rows = settings.batch_rows
    if rows is None or settings.sampling == "one_pass":
        return None
    sampling: Sampling = Poisson(Fraction(rows, n)) if settings.sampling == "poisson" else WithoutReplacement(rows, n)
    return None if sampling.rate == FullBatch().rate else sampling


def noise_of(problem: gradient_problem.GradientProblem, account: Account) -> NoiseOf:
    """Return the noise multiplier as a function of the number of steps, on an infinitely fine grid."""
    sampling = scheme(problem.settings, problem.n_priv)
    plain = partial(Noise(account.pure, account.allowance).vector, problem.size)
    if sampling is None:
        once = problem.settings.sampling == "one_pass"
        return lambda steps: plain(Fraction(1, 1 if once else steps))
    return lambda steps: sampled_grid(problem, account, sampling, steps).noise_multiplier


def sampled_grid(
    problem: gradient_problem.GradientProblem, account: Account, sampling: Sampling, steps: int
) -> SampledGrid:
    """Return the grid on which `steps` sums over sampled rows meet the budget."""
    epsilon, delta = account.approx_left
    return sampled_sum_grid(epsilon, delta, sampling, steps=steps, dim=problem.size, n=problem.n_priv)


def check(problem: gradient_problem.GradientProblem, rows: Rows, executor: Executor) -> None:
    """Raise InputError, before the debit, if batches cannot be read from these rows."""
    # In one pass the rows of a step are a contiguous range, which the workers of a cluster read in place.
    settings: gradient_problem.Descent = problem.settings
    if scheme(settings, rows.n) is None and (settings.sampling != "one_pass" or rows.cluster is not None):
        return
    if not rows.random_access and not fits(rows.n, problem.units, executor):
        raise InputError(
            "batches need rows of which any can be read, or that fit into memory: pass an array or a .npy file, or sampling='full'"
        )


def _share(problem: gradient_problem.GradientProblem, plan: DescentPlan, account: Account) -> Fraction:
    """Return the budget of a step: all of it if the steps read disjoint rows."""
    return account.allowance / (1 if problem.settings.sampling == "one_pass" else plan.steps)


def _gradients(problem: gradient_problem.GradientProblem, weights: FloatArray) -> gradient_sums.Gradients:
    if problem.loss is not None:
        return partial(gradient_sums.linear_gradients, weights=weights, residual=problem.loss.residual)
    assert problem.row_loss is not None
    return partial(gradient_sums.gradients_by_row, weights=weights, gradient=problem.row_loss.gradient)


def ready_grid(problem: gradient_problem.GradientProblem, plan: DescentPlan, account: Account) -> SampledGrid | None:
    """Return the grid of sums over sampled rows, None for plain sums. Raise, before the debit, if the steps cannot be run."""
    # The query runs on one public row, to find a residual that Numba cannot compile or a gradient of the wrong shape.
    sampling, sampled = scheme(problem.settings, problem.n_priv), None
    grid: Grid
    if sampling is not None:
        grid = sampled = sampled_grid(problem, account, sampling, plan.steps)
        if sampled.event.epsilon > account.approx_left[0]:
            raise BudgetError("the steps of a sampled run do not fit into the budget: pass fewer steps")
    else:
        rows = plan.batch_rows if problem.settings.sampling == "one_pass" else problem.n_priv
        grid = sum_grid(account, _share(problem, plan, account), problem.size, rows)
    row = np.column_stack([problem.x[:1], problem.y[:1]]).astype(problem.units.dtype)
    query = _gradients(problem, plan.start)(grid, plan.clip_norm)
    # A single row, as for private rows, among which one whose gradient fails is ignored without an error.
    problem.gradients(plan.start, slice(0, 1))
    try:
        query.add(row, query.zeros())
    except Exception as error:
        raise InputError(f"loss: it fails at the first public row ({type(error).__name__}: {error})") from error
    return sampled


class Asker:
    """Releases the gradient sums of one run. It is made after the debit, as it maps private rows to the units of the fit."""

    def __init__(self, run: Session, problem: gradient_problem.GradientProblem, plan: DescentPlan) -> None:
        self._run, self._problem, self._plan = run, problem, plan
        self._grid = plan.grid
        self._share = _share(problem, plan, run.account)
        self.noise_std = 0.0
        self.lost = 0
        self._rows: Rows = mapped_rows(run.rows, problem.units, run.executor, single=plan.grid is not None)

    def __call__(self, weights: FloatArray, step: int) -> FloatArray | None:
        """Return minus the released sum of the gradients of a step, or None if a crash has lost it."""
        checkpoint: Checkpoint | None = self._plan.checkpoint
        if checkpoint is not None and step < checkpoint.begun:
            return self._replayed(step, checkpoint)
        if checkpoint is not None:
            checkpoint.begin(step)
        released = self._released(weights, step)
        self.noise_std = released.noise_std
        if checkpoint is not None:
            checkpoint.keep(step, released.value)
        return released.value if self._problem.loss is not None else -released.value

    def _payer(self, step: int) -> tuple[Session, Rows]:
        """Return the session that pays for a step, and the rows that the step reads."""
        if self._problem.settings.sampling != "one_pass":
            return self._run, self._rows
        size = self._plan.batch_rows
        part = self._rows.slice(step * size, (step + 1) * size)
        return self._run.block(part), part

    def _released(self, weights: FloatArray, step: int) -> Released:
        gradients, clip, name = _gradients(self._problem, weights), self._plan.clip_norm, f"gradient, step {step + 1}"
        run, rows = self._payer(step)
        if self._grid is None:
            plain = gradient_sums.GradientSum(gradients=gradients, shape=weights.shape, clip_norm=clip)
            return run.on(rows).release(plain, name=name, cost=self._share, clip_radius=clip)
        sampled = gradient_sums.SampledGradientSum(gradients=gradients, clip_norm=clip, grid=self._grid)
        return run.on(rows).release(sampled, name=name, cost=_event(self._grid, step), clip_radius=clip)

    def _replayed(self, step: int, checkpoint: Checkpoint) -> FloatArray | None:
        """Return minus the sum of a step from the checkpoint, which has been paid for, or None if it was lost."""
        run, rows = self._payer(step)
        grid = self._grid or sum_grid(self._run.account, self._share, self._problem.size, rows.n)
        event = _event(grid, step) if isinstance(grid, SampledGrid) else grid.event
        self.noise_std = event.noise_std * grid.step(self._plan.clip_norm)
        run.repeat(
            event,
            name=f"gradient, step {step + 1}",
            keys=1 if self._grid is None else 2,  # of the noise, and of the batch if sampled
            facts={"noise_std": self.noise_std},
            clip_radius=self._plan.clip_norm,
        )
        value = checkpoint.value(step)
        self.lost += value is None
        return value if value is None or self._problem.loss is not None else -value


def _event(grid: SampledGrid, step: int) -> SampledGaussianEvent:
    """Return the event of a step; the first step of a sampled run pays for all."""
    return grid.event if step == 0 else grid.event.later


def _draws(problem: gradient_problem.GradientProblem) -> int:
    problem.settings.check_rows(problem.n_priv)
    return max(step_choices(problem)) * problem.size


def _prepare(problem: gradient_problem.GradientProblem, account: Account) -> DescentPlan:
    """Return the plan with the least predicted error. Raise, before the debit, if the run is impossible."""
    if problem.rows is not None and problem.executor is not None:
        check(problem, problem.rows, problem.executor)
    plan = make_plan(problem, noise_of(problem, account))
    if not plan.reads or problem.rows is None:
        return plan
    grid = ready_grid(problem, plan, account)
    call = CheckpointFacts(
        digest=_digest(problem, plan), shape=problem.shape, steps=plan.steps, seeded=not account.private
    )
    checkpoint = open_checkpoint(problem.settings.checkpoint, call, problem.files)
    return replace(plan, grid=grid, checkpoint=checkpoint, resumed=checkpoint is not None and checkpoint.resumed)


def _learn(run: Session, problem: gradient_problem.GradientProblem, plan: DescentPlan) -> gradient_problem.Descended:
    """Run the steps of the descent."""
    if not plan.reads:
        return gradient_problem.Descended(weights=descend(problem, plan, None))
    if plan.checkpoint is not None and not plan.checkpoint.resumed:
        plan.checkpoint.start()
    asker = Asker(run, problem, plan)
    weights = descend(problem, plan, asker)
    return gradient_problem.Descended(weights=weights, noise_std=asker.noise_std, lost_steps=asker.lost)


def _digest(problem: gradient_problem.GradientProblem, plan: DescentPlan) -> str:
    """Hash everything public that determines the queries, which a checkpoint must match."""
    facts = (
        repr(problem.settings.with_(checkpoint=None, start="public")),
        problem.settings.name,
        problem.loss.name if problem.loss is not None else type(problem.row_loss).__name__,
        problem.n_priv,
        problem.shape,
        repr(problem.budget),
        (plan.steps, plan.clip_norm.hex(), float(plan.step_size).hex(), float(plan.priv_weight).hex(), plan.batch_rows),
    )
    digest = hashlib.sha256(repr(facts).encode())
    for part in (problem.table, plan.start):
        digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return digest.hexdigest()


def prepare_public(problem: gradient_problem.GradientProblem) -> gradient_problem.PreparedDescent:
    """Return the plan of public rows alone, which reads no private row."""
    if problem.loss is None or problem.loss.values is None:
        raise InputError("method='throw_away' needs a loss with values, which public rows can minimize")
    lengths = gradient_lengths(problem)
    clip = float(np.max(lengths)) or 1.0
    alone = problem.excess_part * public_curvature(problem, lengths, clip).public_error
    return gradient_problem.PreparedDescent(
        predicted=alone, public_excess=alone, steps=0, clip_norm=clip, batch_rows=problem.n_priv,
        priv_weight=0.0, ranges={"start": "public weights"}, reads=False,
    )  # fmt: skip


SEMI_DP, DP_SGD, PDA_MIRROR_DESCENT = (
    TrainingMethod(
        name=kind.name,
        settings=kind,
        draws=_draws,
        prepare=_prepare,
        learn=_learn,
        noise=lambda problem, plan, account: noise_of(problem, account)(plan.steps),
    )
    for kind in (gradient_problem.SemiDP, gradient_problem.DPSGD, gradient_problem.MirrorDescent)
)
