"""One optimizer step: forward, loss, backward, clip, update; on one device or on many.

Takes batches, gives the step's numbers and leaves better weights. Must not know files, texts or how
long the run is. The loss of a step is divided by the real tokens of all its batches on all
processes, so how the work is cut changes nothing but rounding.
"""

import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.inference.dtypes import DTYPES
from hubnmt.model import Transformer
from training.config.run import OptimizerConfig
from training.data.batching import Batch
from training.distributed import Team
from training.optim.loss import projected_cross_entropy, symmetric_divergence
from training.optim.oom import explain_out_of_memory, is_out_of_memory

log = logging.getLogger("training")

REMEDY = "lower optimizer.lr or raise optimizer.warmup_steps"
"""Of numbers that are none any more."""
MOST_SKIPPED = 20
"""Steps in a row that float16 may overflow: the scale has then fallen a million times."""


def group_parameters(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Name the weights of each rate of decay: it is for the matrices of linear layers alone.

    Pulled to zero, norms and biases lose their scale, and embeddings those of rare pieces.
    """
    every = list(model.parameters())
    if not weight_decay:
        return [{"params": every, "weight_decay": 0.0}]
    embeddings = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
    }
    matrices = [each for each in every if each.ndim > 1 and id(each) not in embeddings]
    chosen = {id(each) for each in matrices}
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": [each for each in every if id(each) not in chosen], "weight_decay": 0.0},
    ]


class Outcome(NamedTuple):
    """The numbers of one step, over all processes."""

    loss: float
    """Nats per real target token, smoothing (and R-Drop) included."""
    grad_norm: float
    """Before clipping."""
    n_tokens: int
    """Real target tokens."""
    must_stop: bool
    """Whether any process wants to end the run."""
    is_skipped: bool
    """Whether float16 overflowed and the weights were left as they were."""


class Stepper:
    """Model, optimizer and loss scale; each call of `launch` is one step."""

    def __init__(
        self,
        model: Transformer,
        settings: OptimizerConfig,
        team: Team,
        *,
        dtype: str,
        compiled: bool = False,
    ) -> None:
        """Build the optimizer; `compiled` fuses encoder and decoder at their first use."""
        self.model = model
        self.settings = settings
        self.team = team
        self.dtype = DTYPES[dtype]
        self.parameters: list[Tensor] = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            group_parameters(model, weight_decay=settings.weight_decay),
            lr=settings.lr,
            betas=settings.betas,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(team.device.type, enabled=dtype == "float16")
        self._encode, self._decode = model.encode, model.decode
        if compiled:  # the functions, not the module: names in saved states stay as they are
            self._encode = torch.compile(model.encode, dynamic=True)
            self._decode = torch.compile(model.decode, dynamic=True)
        self._n_skipped = 0

    def launch(self, batches: Sequence[Batch], *, lr: float, must_stop: bool = False) -> Tensor:
        """Do one step; a GPU may still be at it when this returns.

        Args:
            batches: this process's share.
            lr: learning rate of this step.
            must_stop: whether this process wants to end the run.

        Returns:
            (4,) numbers for `read`.
        """
        self.model.train()
        counts = [float(sum(len(batch.labels) for batch in batches)), float(must_stop)]
        facts = torch.tensor(counts, dtype=torch.float64).to(self.team.device, non_blocking=True)
        self.team.sum(facts)
        n_tokens = facts[0].float()
        total = torch.zeros((), device=self.team.device)
        for batch in batches:
            total += self._learn(batch, n_tokens)
        self.team.sum_gradients(self.parameters)
        self.team.sum(total)
        grad_norm = self._update(lr)
        return torch.stack([total / n_tokens, grad_norm, *facts.float()])

    def read(self, numbers: Tensor, *, step: int) -> Outcome:
        """Wait for a step and look at it.

        Raises:
            FloatingPointError: naming the step, if loss or gradient are no numbers any more.
        """
        loss, grad_norm, n_tokens, n_stops = numbers.tolist()
        is_skipped = self.scaler.is_enabled() and not math.isfinite(grad_norm)
        self._n_skipped = self._n_skipped + 1 if is_skipped else 0
        remedy = REMEDY
        if self.scaler.is_enabled():
            remedy += ", or leave float16 for bfloat16 or float32"
        if not math.isfinite(loss) or not (math.isfinite(grad_norm) or is_skipped):
            raise FloatingPointError(
                f"step {step}: loss {loss} and gradient norm {grad_norm}; {remedy}"
            )
        if self._n_skipped >= MOST_SKIPPED:
            raise FloatingPointError(
                f"step {step}: float16 overflowed {MOST_SKIPPED} times in a row; {remedy}"
            )
        return Outcome(loss, grad_norm, int(n_tokens), n_stops > 0, is_skipped)

    def batch_loss(self, batch: Batch) -> Tensor:
        """Sum the loss of one batch over its real tokens."""
        settings, weight = self.settings, self.model.output_proj.weight
        if settings.r_drop:
            batch = batch.twice()
        memory = self._encode(*batch.src)
        hidden = batch.pick(self._decode(batch.tgt_in, memory, batch.src.src_pad_mask))
        smoothed = projected_cross_entropy(
            hidden, weight, batch.labels, label_smoothing=settings.label_smoothing
        ).smoothed
        if not settings.r_drop:
            return smoothed
        one, other = hidden.chunk(2)
        # All of the paper's sum halved, so that the numbers compare with those of a run without.
        return (smoothed + settings.r_drop / 2 * symmetric_divergence(one, other, weight)) / 2

    def _learn(self, batch: Batch, n_tokens: Tensor) -> Tensor:
        """Add the gradients of one batch; memory that runs out is told with what would fit."""
        try:
            return self._backward(batch, n_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Here the error is gone, and with it what its traceback held of the failed pass.
        problem = explain_out_of_memory(
            batch,
            lambda part: self._backward(part, n_tokens),
            batch_tokens=self.settings.batch_tokens,
            accumulate=self.settings.accumulate,
        )
        if not self.team.is_leader:
            log.critical("process %d: %s", self.team.rank, problem)  # the others do not know
        raise problem

    def _backward(self, batch: Batch, n_tokens: Tensor) -> Tensor:
        """Do forward and backward pass; return the summed loss."""
        is_mixed = self.dtype is not torch.float32
        with torch.autocast(self.team.device.type, self.dtype, enabled=is_mixed):
            loss = self.batch_loss(batch)
        self.scaler.scale(loss / n_tokens).backward()  # type: ignore[no-untyped-call]  # torch's own
        return loss.detach()

    def _update(self, lr: float) -> Tensor:
        """Clip the gradients, move the weights, forget the gradients; return the norm before."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)
        clip = self.settings.grad_clip_norm or float("inf")
        grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters, clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return grad_norm
