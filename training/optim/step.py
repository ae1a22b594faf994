"""Optimizer step: learning rate, forward, loss, backward, clipping and update.

The loss is divided by the number of non-pad target tokens of all batches on all processes, so that
splitting the work differently changes the result by rounding only.

Sources of the schedules, with linear warm-up: `linear`, Li et al. 2020, section 4,
https://arxiv.org/abs/1905.04753; `inverse_sqrt`, Vaswani et al. 2017, section 5.3 (their peak rate
is (d_model * warmup_steps) ** -0.5); `cosine`, Loshchilov and Hutter 2017, equation 5, without
restarts, https://arxiv.org/abs/1608.03983
"""

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.errors import ConfigError
from hubnmt.inference.dtypes import DTYPES
from hubnmt.model.transformer import Transformer
from training.config.run import OptimizerConfig
from training.data.batching import Batch
from training.distributed import ProcessGroup
from training.optim.loss import projected_cross_entropy

log = logging.getLogger("training")

BETAS = (0.9, 0.98)
"""Adam's betas (Vaswani et al. 2017, section 5.3)."""
REMEDY = "lower optimizer.lr or raise optimizer.warmup_steps"
WARMUP_SHARE = 0.1
"""Share of the budget in which `linear` warms up, unless `warmup_steps` is set."""
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


class StepStats(NamedTuple):
    """Statistics of one step, over all processes."""

    loss: float
    """Nats per non-pad target token, label smoothing included."""
    grad_norm: float
    """Gradient norm before clipping."""
    n_tokens: int
    wants_stop: bool
    time_share: float
    """Share of the time limit that the next step will have used, as given to `run`."""


def rate_at(step: int, config: OptimizerConfig, *, share: float) -> float:
    """Return the learning rate of an optimizer step.

    Args:
        step: counted from 1.
        config: schedule and peak rate.
        share: share of the run's budget that is used, 0 to 1, for `linear`.
    """
    warmup_steps = config.warmup_steps or 0
    rising = min(1.0, step / max(warmup_steps, 1))
    if config.warmup_steps is None:  # `linear` only
        rising = share / WARMUP_SHARE
    match config.schedule:
        case "linear":
            falling = (1 - share) / (1 - WARMUP_SHARE)
        case "inverse_sqrt":
            falling = math.sqrt(max(warmup_steps, 1) / step)
        case "cosine":
            n_steps = max((config.decay_steps or 0) - warmup_steps, 1)
            progress = min(max(step - warmup_steps, 0) / n_steps, 1.0)
            falling = 0.5 * (1 + math.cos(math.pi * progress))
        case "constant":
            falling = 1.0
    return config.lr * min(rising, falling)


class BatchLoss(nn.Module):
    """The loss of a batch as a module, so that `DistributedDataParallel` sees its parameters."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        """Wrap a model."""
        super().__init__()
        self.model = model
        self._label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of one batch, summed over its non-pad tokens."""
        memory = self.model.encode(*batch.src)  # (B, S, D)
        hidden = self.model.decode(batch.tgt_in, memory, batch.src.src_pad_mask)  # (B, T, D)
        return projected_cross_entropy(
            batch.pick(hidden),
            self.model.output_proj.weight,
            batch.labels,
            label_smoothing=self._label_smoothing,
        ).smoothed


class Stepper:
    """Model and optimizer; each call of `run` is one step."""

    def __init__(
        self, model: Transformer, config: OptimizerConfig, group: ProcessGroup, *, dtype: str
    ) -> None:
        """Build the optimizer."""
        self.model = model
        self.group = group
        self.dtype = DTYPES[dtype]
        self.parameters: list[Tensor] = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            model.parameters(), config.lr, BETAS, weight_decay=0.0, fused=True
        )
        self.batch_loss = BatchLoss(model, config.label_smoothing)
        self._loss_module: nn.Module = self.batch_loss
        self._clip_norm = config.grad_clip_norm or math.inf

    @contextlib.contextmanager
    def exchanging_gradients(self) -> Iterator[None]:
        """Exchange gradients between the processes; afterwards nothing refers to their group."""
        self._loss_module = self.group.wrap(self.batch_loss)
        try:
            yield
        finally:
            self._loss_module = self.batch_loss

    def start_step(
        self,
        batches: Sequence[Batch],
        *,
        lr: float,
        wants_stop: bool = False,
        time_share: float = 0.0,
    ) -> Tensor:
        """Run one step; on a GPU it may still be in progress on return.

        `wants_stop` and `time_share` of this process share the reduction of the token counts;
        ranks other than 0 give 0 for the latter.

        Returns:
            (5,) statistics for `read`.
        """
        self.model.train()
        # 1. Count the target tokens of all processes, which the loss is divided by.
        n_labels = sum(len(batch.labels) for batch in batches)
        counts = torch.tensor([n_labels, wants_stop, time_share], dtype=torch.float64)
        sums = counts.to(self.group.device, non_blocking=True)
        self.group.sum(sums)
        n_tokens = sums[0].float()
        # 2. Accumulate the gradients of all batches; the last pass exchanges them.
        total = torch.zeros((), device=self.group.device)
        for number, batch in enumerate(batches, 1):
            is_last = number == len(batches)
            with self.group.exchange_if(is_last, self._loss_module):
                total += self._accumulate(batch, n_tokens)
        self.group.sum(total)
        # 3. Clip the gradients; the norm is that before.
        grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters, self._clip_norm)
        # 4. Update the weights at this step's learning rate, and zero the gradients.
        for options in self.optimizer.param_groups:
            options["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack([total / n_tokens, grad_norm, *sums.float()])

    def rehearse(self, batch: Batch) -> None:
        """Run one forward and backward pass and discard the gradients, to measure its time."""
        self.model.train()
        self._accumulate(batch, torch.ones((), device=self.group.device))
        self.optimizer.zero_grad()
        if self.group.device.type == "cuda":
            torch.cuda.synchronize(self.group.device)

    def finish_step(self, stats: Tensor, *, step: int) -> StepStats:
        """Wait for a step and return its statistics.

        Raises:
            FloatingPointError: if the loss or the gradient is not finite; names the step.
        """
        loss, grad_norm, n_tokens, n_stops, time_share = stats.tolist()
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise FloatingPointError(
                f"step {step}: loss {loss} and gradient norm {grad_norm}; {REMEDY}"
            )
        return StepStats(loss, grad_norm, int(n_tokens), n_stops > 0, time_share)

    def _accumulate(self, batch: Batch, n_tokens: Tensor) -> Tensor:
        """Add the gradients of one batch; return its summed loss."""
        is_mixed = self.dtype is not torch.float32
        with torch.autocast(self.group.device.type, self.dtype, enabled=is_mixed):
            loss: Tensor = self._loss_module(batch)
        # The gradients are averaged over the processes, but their sum is wanted.
        (loss * self.group.size / n_tokens).backward()  # type: ignore[no-untyped-call]  # torch's own
        return loss.detach()


@contextlib.contextmanager
def reporting_out_of_memory(config: OptimizerConfig, group: ProcessGroup) -> Iterator[None]:
    """Raise a lack of memory in the block as an error that names the settings to change."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not (
            isinstance(error, (torch.OutOfMemoryError, MemoryError))
            or any(sign in str(error) for sign in _OUT_OF_MEMORY)
        ):
            raise
        tokens, accumulate = config.batch_tokens, config.accumulate
        problem = (
            f"out of memory with optimizer.batch_tokens = {tokens}: half of it with twice the "
            f"accumulation is equivalent, --set optimizer.batch_tokens={tokens // 2} "
            f"--set optimizer.accumulate={2 * accumulate}; or lower data.max_tokens"
        )
        if not group.is_rank0:
            log.critical("process %d: %s", group.rank, problem)  # rank 0 may go on
        raise ConfigError(problem) from None
