"""Modules on PyTorch's `meta` device: names and shapes without memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

INITIALIZERS = {
    *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
    *(Tensor.normal_, Tensor.uniform_),
}


class _SkipInitialization(TorchFunctionMode):
    """Leave new parameters as they are."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch unless it draws initial values."""
        kwargs = kwargs or {}
        if func in INITIALIZERS:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


@contextmanager
def meta_device() -> Iterator[None]:
    """Build modules on the `meta` device, without initialization.

    Random numbers on this device would import PyTorch's compiler, which takes 2 s.
    """
    with torch.device("meta"), _SkipInitialization():
        yield
