"""The processes of a run: alone, or several that share the work of each step.

Takes what `torchrun` puts into the environment, gives a `Team` that adds up, shares and agrees.
Must not know model or data. Only the leader, rank 0, writes; whatever it decides or fails at, all
learn, so that all go on or stop together. A team of one does nothing of this.
"""

import datetime
import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from hubnmt.errors import ConfigError, HubNMTError

PATIENCE = datetime.timedelta(hours=2)
"""How long the others wait for the leader: it may read the data or translate a validation set."""

_Value = TypeVar("_Value")


class Team:
    """All processes of a run, seen from one of them."""

    def __init__(self, device: torch.device, *, rank: int = 0, size: int = 1) -> None:
        """Describe a team; `join_team` makes one that talks."""
        self.device = device
        self.rank = rank
        self.size = size

    @property
    def is_leader(self) -> bool:
        """Tell whether this process writes and speaks."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, in place, with the same bits for all."""
        if self.size > 1:
            distributed.all_reduce(tensor)

    def sum_gradients(self, parameters: list[Tensor]) -> None:
        """Replace every gradient by its sum over all processes, in one message."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        together = torch.cat([gradient.flatten() for gradient in gradients])
        self.sum(together)
        sizes = [gradient.numel() for gradient in gradients]
        parts = torch.split(together, sizes)
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the leader's, in place; the order must be the same for all."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def gather(self, value: _Value) -> list[_Value]:
        """Collect a value of every process, in the order of ranks, for all."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            distributed.all_gather_object(values, value)
        return values

    def run_on_rank0(self, work: Callable[[], _Value]) -> _Value:
        """Let the leader do something that can fail; all get its result, or its error.

        Raises:
            HubNMTError, FloatingPointError: what the leader raised.
        """
        if self.size == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.is_leader:
            try:
                outcome[0] = work()
            except (HubNMTError, FloatingPointError) as error:
                outcome[1] = error
        distributed.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        result: _Value = outcome[0]
        return result

    def leave(self) -> None:
        """Close the connection; a team of one has none."""
        if self.size > 1:
            distributed.destroy_process_group()


def join_team(device_name: str) -> Team:
    """Read the environment and connect; without `torchrun` the team is this process alone.

    Raises:
        ConfigError: if the device is not there.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
    device = pick_device(device_name, local_rank=local_rank, is_alone=size == 1)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size > 1:
        # Functions there take the group of the moment they are imported as their default, and
        # optimizers import it at their first step. The group then outlives `leave`, and a process
        # can end in an abort: https://github.com/pytorch/pytorch/issues/190489. Not at the top: a
        # PyTorch built for one process has no such module.
        importlib.import_module("torch.distributed.nn.functional")
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=PATIENCE)
    return Team(device, rank=rank, size=size)


def pick_device(
    name: str, *, local_rank: int = 0, is_alone: bool = True, setting: str = "run.device"
) -> torch.device:
    """Resolve `auto`, and refuse a device that is not there.

    Args:
        name: as in the recipe.
        local_rank: number of this process on its machine; each takes the GPU of its number.
        is_alone: whether it is the only process of the run.
        setting: what the user set, for errors.

    Raises:
        ConfigError: naming what there is.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"{setting} = {name!r} is no device; try auto, cpu or cuda")
    if device.type == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(f"{setting} = {name!r}, but no GPU is there; try auto or cpu")
    if device.index is not None and not is_alone:
        raise ConfigError(f"{setting} = {name!r} is one GPU for several processes; use cuda")
    index = local_rank if device.index is None else device.index
    n_gpus = torch.cuda.device_count()
    if index >= n_gpus:
        raise ConfigError(
            f"{setting} = {name!r} wants GPU {index}, but this machine has {n_gpus}, counted from "
            "0; use another, or fewer processes (torchrun --nproc-per-node)"
        )
    return torch.device("cuda", index)
