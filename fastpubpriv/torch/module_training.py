"""Training of a PyTorch module by weighted public and private gradients: rows, per-row gradients by Opacus, and the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fastpubpriv import session, validation
from fastpubpriv._types import FloatArray, IntArray
from fastpubpriv.errors import BudgetError, InputError
from fastpubpriv.kernels.rows import rows_sum
from fastpubpriv.mechanisms.gradient_sums import SampledGradientSum
from fastpubpriv.mechanisms.sums import AffineMap, ArrayQuery
from fastpubpriv.privacy import ApproxDP, Ledger, Neighbors, Poisson, epsilon_of
from fastpubpriv.privacy.calibrated_budget import has_delta
from fastpubpriv.privacy.calibration import sampled_sum_grid
from fastpubpriv.privacy.events import SampledGaussianEvent
from fastpubpriv.rowwise.row_maps import RowMap
from fastpubpriv.sources import private_rows
from fastpubpriv.sources.row_types import Chunk

PUBLIC_GRADIENTS = ("raw", "clip", "sphere")


def make_semi_private(
    module: Any,
    optimizer: Any,
    private: Any,
    *,
    public: Any,
    loss: Callable[[Any, Any], Any],
    budget: ApproxDP,
    steps: int,
    batch_rows: int,
    public_batch_rows: int,
    clip_norm: float,
    priv_weight: float,
    public_gradient: str = "clip",
    ledger: Ledger | None = None,
    random_state: int | None = None,
) -> SemiPrivateTraining:
    """Training of a PyTorch module, in which each step adds a public gradient to a private one that is clipped and noisy.

    Parameters
    ----------
    module : torch.nn.Module
        In training mode; Opacus must support per-row gradients of it, which excludes batch normalization. Modified in place.
    private, public : (x, y) or dataset
        Tensors with rows along the first axis, or a dataset with a length and a pair of tensors (x, y) at each position. x is
        floating point. The first public row determines shapes and dtypes. A private row is ignored if these differ, if it cannot
        be read, if x is not finite, or if its label is not valid for the outputs of the module.
    budget : ApproxDP
        Spent in full, and debited at the first step.

    optimizer : torch.optim.Optimizer
        Over parameters of the module. Its step size, momentum, schedule and weight decay apply to the weighted sum of both
        gradients, which is already released.
    loss : callable
        loss(outputs, y) -> (k,), one number per row, as `torch.nn.functional.cross_entropy(..., reduction="none")`. The number of
        a row must not depend on other rows.
    steps : int
        T, fixed beforehand: the noise is calibrated for this number of steps.
    batch_rows, public_batch_rows : int
        Expected number of private rows, and exact number of public rows, of a step.
    clip_norm : float
        Bound on the l2 norm of one row's gradient.
    priv_weight : float in (0, 1]
        Weight of the private gradient and its noise; the public one has 1 - priv_weight. 1 is DP-SGD on the private rows.
    public_gradient : "raw", "clip" or "sphere"
        Gradient of a public row: unchanged, clipped to norm `clip_norm`, or rescaled to norm `clip_norm`.

    ledger : Ledger, optional
        Debited by the budget, as in any other call.
    random_state : None or int
        None takes keys from the operating system; an int makes noise and batches repeatable, and the result not private.

    Returns
    -------
    SemiPrivateTraining
        Iterate over it, or call `step` or `run`. The module is trained in place.

    Raises
    ------
    InputError
        Public arguments out of range, or a module that mixes rows (batch normalization). Never for the content of a private row.
    BudgetError
        A budget that is not ApproxDP, or too small for any noise scale.

    Privacy
    -------
    Protected: every private row, features and label together, against replacement by any other. Public: the number of private
    rows, all public rows, the module, and every argument. Released: one sum of clipped gradients for each step, over a secret
    Poisson batch, with Gaussian noise; each row's gradient is rounded to integers, which are added up exactly. One
    `SampledGaussianEvent` is charged for all steps together. Batches and noise come from this library's keys (ChaCha20, from the
    operating system). PyTorch's generators are not used for them, so `secure_mode` is not needed; nor are Opacus's `PrivacyEngine`,
    samplers and accountants. Proofs: `notes/sampled_gradient_sum.md`, `notes/subsampled_gaussian.md`.

    **Opacus has another neighboring relation**: its accountants protect a row that is added or removed. Where they state
    epsilon = 2, replacing a row may cost more than 4. Here `budget` is for replacing; `epsilon_add_remove` is their epsilon.
    **The guarantee assumes real arithmetic** (attribute `arithmetic`): the gradient of a row must depend on the module and that row
    alone, but PyTorch computes those of a batch together, so that the last bits of a row may depend on the other rows. Where the
    module or the loss is discontinuous or has a kink (a sign, a ReLU), such a bit can change a whole clipped gradient, and the true
    delta is then larger; deterministic algorithms and a fixed batch size do not help, as a row may be at another position.
    `fastpubpriv.train` with a `RowLoss` evaluates each row separately. Tuning arguments on private results is not covered.

    See Also
    --------
    fastpubpriv.train : linear models, whose rows are evaluated one by one.
    fastpubpriv.training.SemiDP : the same steps for a linear model.
    fastpubpriv.privacy.noise_multiplier_for : the noise that a budget needs.

    Notes
    -----
    LLHR (paper B), Algorithm 1, with the fixed divisor `batch_rows` for any batch; batch sizes are secret.

    Examples
    --------
    >>> import torch
    >>> from fastpubpriv import ApproxDP
    >>> x = torch.randn(600, 3)
    >>> y = x.sum(dim=1)
    >>> net = torch.nn.Linear(3, 1)
    >>> training = make_semi_private(
    ...     net,
    ...     torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
    ...     (x[100:].clone(), y[100:].clone()),
    ...     public=(x[:100].clone(), y[:100].clone()),
    ...     loss=lambda outputs, y: (outputs[:, 0] - y) ** 2,
    ...     budget=ApproxDP(epsilon=4, delta=1e-5),
    ...     steps=20,
    ...     batch_rows=100,
    ...     public_batch_rows=50,
    ...     clip_norm=1.0,
    ...     priv_weight=0.7,
    ... )
    >>> training.run()
    >>> training.spent
    ApproxDP(epsilon=4.0, delta=1e-05)
    """
    torch = import_torch()
    hidden = TensorTable(torch, private, "private")
    shown = TensorTable(torch, public, "public")
    if not has_delta(budget):
        raise BudgetError("steps over sampled rows need a budget ApproxDP(epsilon=..., delta=...)")
    validation.choice("public_gradient", public_gradient, PUBLIC_GRADIENTS)
    count = validation.integer("steps", steps, minimum=1)
    size = validation.integer("batch_rows", batch_rows, minimum=1)
    if size >= hidden.n:
        raise InputError(
            f"batch_rows must be less than the {hidden.n} private rows: a batch is a sample of them"
        )
    public_size = min(
        shown.n, validation.integer("public_batch_rows", public_batch_rows, minimum=1)
    )
    weight = validation.positive("priv_weight", priv_weight)
    if weight > 1.0:
        raise InputError(f"priv_weight must lie in (0, 1], got {weight:g}")
    rows_of = RowGradients(torch, module, loss, shown.item(0))
    norm = validation.clip_norm(clip_norm)
    positions = private_rows(np.arange(hidden.n, dtype=np.float64)[:, None])
    sampling = Poisson(Fraction(size, hidden.n))
    run = session.start(
        "make_semi_private",
        positions,
        budget,
        draws=count * rows_of.size,
        **session.asked(ledger, random_state, threads=1, progress=False),
    )
    left_epsilon, left_delta = run.account.approx_left
    grid = sampled_sum_grid(
        left_epsilon, left_delta, sampling, steps=count, dim=rows_of.size, n=hidden.n
    )
    public_batches = PublicBatches(torch, rows_of, shown, public_size, norm, public_gradient)
    gradients = partial(module_gradients, rows_of=rows_of, table=hidden)
    measurement = SampledGradientSum(gradients=gradients, clip_norm=norm, grid=grid)
    return SemiPrivateTraining(run, measurement, public_batches, optimizer, count, size, weight)


class SemiPrivateTraining:
    """Training of a PyTorch module that `make_semi_private` has prepared.

    Attributes
    ----------
    steps, steps_done : int
        Number of steps that the budget covers, and number of steps made.
    arithmetic : str
        "real": the guarantee assumes real arithmetic in PyTorch's gradients, see `make_semi_private`.

    Examples
    --------
    >>> import torch
    >>> from fastpubpriv import ApproxDP
    >>> x, net = torch.randn(300, 2), torch.nn.Linear(2, 1)
    >>> training = make_semi_private(
    ...     net,
    ...     torch.optim.SGD(net.parameters(), lr=0.1),
    ...     (x[50:].clone(), x[50:, 0].clone()),
    ...     public=(x[:50].clone(), x[:50, 0].clone()),
    ...     loss=lambda outputs, y: (outputs[:, 0] - y) ** 2,
    ...     budget=ApproxDP(epsilon=2, delta=1e-5),
    ...     steps=5,
    ...     batch_rows=50,
    ...     public_batch_rows=20,
    ...     clip_norm=1.0,
    ...     priv_weight=0.7,
    ... )
    >>> for made in training:  # `run` makes all steps at once
    ...     if made == 5:
    ...         print("the last one")
    the last one
    >>> training.steps_done
    5
    """

    arithmetic: ClassVar[str] = "real"

    def __init__(
        self,
        run: Any,
        measurement: SampledGradientSum,
        public: PublicBatches,
        optimizer: Any,
        steps: int,
        batch_rows: int,
        priv_weight: float,
    ) -> None:
        self._run = run
        self._measurement = measurement
        self._public = public
        self._optimizer = optimizer
        self._batch_rows = batch_rows
        self._priv_weight = priv_weight
        self.steps = steps
        self.steps_done = 0

    def __repr__(self) -> str:
        return f"SemiPrivateTraining(steps_done={self.steps_done}, steps={self.steps}, spent={self.spent!r})"

    def __iter__(self) -> Iterator[int]:
        while self.steps_done < self.steps:
            yield self.step()

    def run(self) -> None:
        """Make all remaining steps."""
        for _ in self:
            pass

    def step(self) -> int:
        """Make one step and return the number of steps made; raise BudgetError once all steps of the budget are made."""
        if self.steps_done >= self.steps:
            raise BudgetError(
                f"all {self.steps} steps that the budget was for have been made; prepare another training"
            )
        public = self._public.gradient()
        if not self.steps_done:
            if not np.isfinite(public).all():
                raise InputError(
                    "the gradient of the public rows is not finite at the first step; nothing was spent"
                )
            self._run.account.open()
        event = self._event if not self.steps_done else self._event.later
        # also if the step fails: its budget is spent, and it cannot be repeated
        self.steps_done += 1
        with np.errstate(all="ignore"):
            released = self._run.release(
                self._measurement, name=f"step {self.steps_done}", cost=event
            )
            self._move(released.value, np.where(np.isfinite(public), public, 0.0))
        if self.steps_done == self.steps:
            self._public.rows_of.close()
        return self.steps_done

    def _move(self, total: FloatArray, public: FloatArray) -> None:
        """Set alpha total / K + (1 - alpha) public as the gradient, and call the optimizer's step."""
        joint = self._priv_weight * total / self._batch_rows + (1.0 - self._priv_weight) * public
        begin = 0
        for p in self._public.rows_of.parameters:
            part = joint[begin : begin + p.numel()].reshape(tuple(p.shape))
            p.grad = p.new_tensor(part)
            begin += p.numel()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    @property
    def _event(self) -> SampledGaussianEvent:
        return self._measurement.grid.event

    @property
    def spent(self) -> Any:
        """Budget spent, for all steps at once; zero before the first one."""
        return self._run.account.spent()

    @property
    def private(self) -> bool:
        """False if noise and batches come from a seed."""
        return bool(self._run.account.private)

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise on the sum of gradients, over `clip_norm`."""
        return self._event.noise_multiplier

    @property
    def epsilon_add_remove(self) -> float:
        """Epsilon of the same noise, batches and delta under add-remove-one, the relation of Opacus's accountants."""
        event = self._event
        return epsilon_of(
            event.noise_multiplier,
            event.sampling,
            self.steps,
            event.delta,
            Neighbors.ADD_REMOVE_ONE,
        )

    def record(self) -> dict[str, Any]:
        """Return the numbers to publish with the module: sizes, budget spent, each release and its noise."""
        return {
            **self._run.fields(self._public.n),
            "relation": Neighbors.REPLACE_ONE.name,
            "arithmetic": self.arithmetic,
            "steps": self.steps_done,
        }


# ---- Rows, of which only the form is checked, and their gradients

_PIECE = 1 << 25  # maximum number of per-row gradient entries in memory


def import_torch() -> Any:
    """Return the torch module; raise InputError unless PyTorch and Opacus are installed."""
    try:
        import opacus  # noqa: F401
        import torch
    except ImportError:
        raise InputError(
            "this needs PyTorch and Opacus: pip install 'fastpubpriv[torch]'"
        ) from None
    return torch


class TensorTable:
    """Labeled rows of tensors or of a dataset; only lengths are checked before rows are requested."""

    def __init__(self, torch: Any, data: Any, name: str) -> None:
        self._torch = torch
        self._pair = None
        if isinstance(data, tuple | list):
            if len(data) != 2 or not all(isinstance(each, torch.Tensor) for each in data):
                raise InputError(
                    f"{name} must be a pair of tensors (x, y), or a dataset of such pairs"
                )
            if len(data[0]) != len(data[1]):
                raise InputError(f"{name} has {len(data[0])} rows and {len(data[1])} labels")
            self._pair = (data[0].detach(), data[1].detach())
            self.n = len(data[0])
        else:
            if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
                raise InputError(
                    f"{name} must be a pair of tensors (x, y), or a dataset with a length and positions"
                )
            self.n = len(data)
        self._data = data
        if self.n < 1:
            raise InputError(f"{name} has no rows")

    def item(self, place: int) -> tuple[Any, Any]:
        """Return one row and its label as tensors."""
        x, y = (
            self._data[place]
            if self._pair is None
            else (self._pair[0][place], self._pair[1][place])
        )
        return self._torch.as_tensor(x), self._torch.as_tensor(y)

    def rows(self, places: IntArray, kind: RowGradients) -> tuple[Any, Any, Any]:
        """Return stacked rows and labels at these positions, and which are valid; others are replaced by the first public row."""
        if self._pair is not None and self._pair[0].is_floating_point():
            x, y = (part[self._torch.from_numpy(places)] for part in self._pair)
            counts = kind.fitting(x, y)
            x[~counts], y[~counts] = kind.example
            return x, y, counts.cpu().numpy()
        pairs = []
        counts = np.ones(len(places), dtype=bool)
        for i, place in enumerate(places.tolist()):
            try:
                pair = self.item(place)
                counts[i] = kind.alike(*pair) and bool(
                    kind.fitting(*(part[None] for part in pair))[0]
                )
            # nothing of a private row may be revealed, not even that it cannot be read
            except Exception:
                counts[i] = False
            pairs.append(pair if counts[i] else kind.example)
        stack = self._torch.stack
        return stack([x for x, _ in pairs]), stack([y for _, y in pairs]), counts


class RowGradients:
    """Per-row gradients of a module's loss, computed by Opacus, as one vector each."""

    def __init__(
        self, torch: Any, module: Any, loss: Callable[[Any, Any], Any], example: tuple[Any, Any]
    ) -> None:
        from opacus import GradSampleModule
        from opacus.validators import ModuleValidator

        self._torch = torch
        self._loss = loss
        self.example = example
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"module must be a torch.nn.Module, got {type(module).__name__}")
        if not example[0].is_floating_point():
            raise InputError("x must be floating point: convert whole numbers and codes before")
        if isinstance(module, GradSampleModule):
            raise InputError(
                "module must be the plain module: pass the one inside GradSampleModule, after remove_hooks()"
            )
        problems = ModuleValidator.validate(module, strict=False)
        if problems:
            raise InputError(
                f"Opacus cannot take gradients of this module row by row: {problems[0]}"
            )
        self._module = GradSampleModule(module, loss_reduction="sum")
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            raise InputError("module has no parameters to train")
        self.size = sum(p.numel() for p in self.parameters)
        self.piece = max(1, _PIECE // self.size)
        self._device = self.parameters[0].device
        # The hooks of Opacus warn if no input of their module needs a gradient, as of those behind the rows or a frozen part.
        trained = [
            each
            for each in module.modules()
            if any(p.requires_grad for p in each.parameters(recurse=False))
        ]
        self._hooks = [each.register_forward_pre_hook(self._with_gradients) for each in trained]
        with torch.no_grad():
            self._outputs = self._module(example[0][None].to(self._device)).shape[1:]

    def _with_gradients(self, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs of a module such that one needs a gradient, unless all are whole numbers."""
        tensors = [each for each in inputs if isinstance(each, self._torch.Tensor)]
        if not self._torch.is_grad_enabled() or any(each.requires_grad for each in tensors):
            return inputs
        can_need = [
            isinstance(each, self._torch.Tensor) and each.is_floating_point() for each in inputs
        ]
        pairs = zip(inputs, can_need, strict=True)
        return tuple(each.detach().requires_grad_() if can else each for each, can in pairs)

    def close(self) -> None:
        """Remove the hooks of Opacus from the module; its parameters stay as trained."""
        self._module.remove_hooks()
        for hook in self._hooks:
            hook.remove()

    def alike(self, x: Any, y: Any) -> bool:
        """Return whether a row has the shapes and dtypes of the first public row."""
        first_x, first_y = self.example
        return (x.shape, x.dtype, y.shape, y.dtype) == (
            first_x.shape,
            first_x.dtype,
            first_y.shape,
            first_y.dtype,
        )

    def fitting(self, x: Any, y: Any) -> Any:
        """Return (k,) True for rows that are finite and have a label that is valid for the outputs."""
        good = self._torch.isfinite(x).flatten(1).all(dim=1)
        if y.is_floating_point():
            label = self._torch.isfinite(y)
        else:
            # An integer label is a class index; with a single output, only 0 and 1 are valid.
            label = (y >= 0) & (y < (max(2, int(self._outputs[0])) if len(self._outputs) else 2))
        return good & label.reshape(len(x), -1).all(dim=1)

    def gradients(self, x: Any, y: Any) -> Any:
        """Return the gradients of k rows as a NumPy array, (k, size) float32 or float64."""
        for p in self.parameters:
            p.grad = None
            p.grad_sample = None
        values = self._loss(self._module(x.to(self._device)), y.to(self._device))
        if tuple(values.shape) != (len(x),):
            raise InputError("loss must return one number for each row: pass reduction='none'")
        values.sum().backward()
        gradients = self._torch.cat(
            [p.grad_sample.reshape(len(x), -1) for p in self.parameters], dim=1
        )
        for p in self.parameters:
            p.grad = None
            p.grad_sample = None
        return gradients.detach().cpu().numpy()


def module_gradients(
    grid: Any, clip_norm: float, *, rows_of: RowGradients, table: TensorTable
) -> ModuleGradientQuery:
    """Return the query for the gradients of a module's loss at rows of a table, given by position (a `Gradients`)."""
    row_map = AffineMap(dim=rows_of.size).on_grid(grid, clip_norm)
    return ModuleGradientQuery(shape=(rows_of.size,), rows_of=rows_of, table=table, row_map=row_map)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModuleGradientQuery(ArrayQuery):
    """Sum of the integer gradients of the rows at given positions."""

    rows_of: RowGradients
    table: TensorTable
    row_map: RowMap

    def add(self, chunk: Chunk, accumulators: tuple[IntArray]) -> None:
        """See `Query.add`."""
        places = chunk[:, 0].astype(np.int64)
        for begin in range(0, len(places), self.rows_of.piece):
            x, y, counts = self.table.rows(places[begin : begin + self.rows_of.piece], self.rows_of)
            gradients = self.rows_of.gradients(x, y)
            gradients[~counts] = 0.0
            rows_sum(gradients, self.row_map, accumulators[0])


class PublicBatches:
    """A new public batch in each step, and its gradient."""

    def __init__(
        self,
        torch: Any,
        rows_of: RowGradients,
        table: TensorTable,
        size: int,
        clip_norm: float,
        form: str,
    ) -> None:
        self._torch = torch
        self._table = table
        self._size = size
        self._clip_norm = clip_norm
        self._form = form
        self.rows_of, self.n = rows_of, table.n
        # The batches of public rows are public, so a fixed seed is used.
        self._generator = torch.Generator().manual_seed(0)

    def gradient(self) -> FloatArray:
        """Return the mean gradient of a new batch, (size,)."""
        rows_of = self.rows_of
        places = self._torch.randperm(self.n, generator=self._generator)[: self._size].numpy()
        total = np.zeros(rows_of.size)
        for begin in range(0, len(places), rows_of.piece):
            pairs = [
                self._table.item(int(place)) for place in places[begin : begin + rows_of.piece]
            ]
            gradients = rows_of.gradients(
                *(self._torch.stack(list(part)) for part in zip(*pairs, strict=True))
            )
            gradients = gradients.astype(np.float64)
            if self._form != "raw":
                norms = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
                factor = self._clip_norm / np.maximum(norms, 1e-300)
                factor[norms == 0.0] = 0.0
                gradients *= (factor if self._form == "sphere" else np.minimum(1.0, factor))[
                    :, None
                ]
            total += gradients.sum(axis=0)
        return total / len(places)
