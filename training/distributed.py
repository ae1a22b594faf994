"""Data-parallel training: reductions, broadcasts and error propagation between processes.

Only rank 0 writes files. Its decisions and errors are broadcast, so that all processes
continue or stop together. With a single process all of this is a no-op.
"""

import dataclasses
import datetime
import importlib
import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from hubnmt.errors import ConfigError, HubNMTError
from hubnmt.inference.dtypes import get_device

TIMEOUT = datetime.timedelta(hours=2)
"""Timeout of collective operations: rank 0 may read the data or translate a validation set."""

_Value = TypeVar("_Value")


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The process group of a run, which `join_group` joins, and the rank of this process in it."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_rank0(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, in place; bitwise equal on all ranks."""
        if self.size > 1:
            distributed.all_reduce(tensor)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wrap a module whose gradients are averaged over all processes during `backward`."""
        if self.size == 1:
            return module
        # Sinusoids are the only buffers, and equal. PyTorch 2.13 renamed the option.
        is_renamed = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
        name = "forward_sync_buffers" if is_renamed else "broadcast_buffers"
        options: dict[str, Any] = {name: False, "gradient_as_bucket_view": True}
        return DistributedDataParallel(module, **options)

    @staticmethod
    def exchange_if(wanted: bool, module: nn.Module) -> AbstractContextManager[None]:
        """Return a context in which a pass exchanges the gradients of a module only if wanted."""
        if wanted or not isinstance(module, DistributedDataParallel):
            return nullcontext()
        return module.no_sync()

    def gather(self, value: _Value) -> list[_Value]:
        """Return the values of all processes, ordered by rank, on every process."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            distributed.all_gather_object(values, value)
        return values

    def run_on_rank0(self, work: Callable[[], _Value]) -> _Value:
        """Run a function on rank 0 and broadcast its result, or its error, to all processes."""
        if self.size == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.is_rank0:
            try:
                outcome[0] = work()
            except (HubNMTError, FloatingPointError) as error:
                outcome[1] = error
        distributed.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]  # type: ignore[no-any-return]  # of this type on rank 0

    def run_rank0_first(self, first: Callable[[], _Value], then: Callable[[], _Value]) -> _Value:
        """Run `first` on rank 0, then `then` on the others; an error of `first` is of all ranks."""
        results: list[_Value] = []
        self.run_on_rank0(lambda: results.append(first()))
        return results[0] if results else then()

    def leave(self) -> None:
        """Destroy the process group, if there is one; wrapped modules must be gone by then.

        Otherwise the last of them does, holding Python's lock, for which the group may wait.
        """
        if self.size > 1:
            distributed.destroy_process_group()


def join_group(device_name: str) -> ProcessGroup:
    """Join the process group that `torchrun` set up; without it, the group is this process alone.

    Raises:
        ConfigError: if the device is not available.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
    device = pick_device(device_name, local_rank=local_rank, is_alone=size == 1)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size > 1:
        # Import before the group exists: the functions of this module bind the default group at
        # import time, and optimizers import it at their first step. The group would then outlive
        # `leave`, and the process could abort: https://github.com/pytorch/pytorch/issues/190489.
        # Not at the top: a PyTorch built without distributed support lacks the module.
        importlib.import_module("torch.distributed.nn.functional")
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
    return ProcessGroup(device, rank=rank, size=size)


def pick_device(name: str, *, local_rank: int = 0, is_alone: bool = True) -> torch.device:
    """Resolve a device name, including `auto`; `cuda` is the GPU whose index is `local_rank`.

    Raises:
        ConfigError: if the device is unknown or not available.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda:") and not is_alone:
        raise ConfigError(f"run.device = {name!r} is one GPU for several processes; use cuda")
    device = get_device(f"cuda:{local_rank}" if name == "cuda" else name)
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"run.device = {name!r} cannot train; use auto, cpu or cuda")
    return device
