"""ZeroGPU: the Hub lends a Space a GPU for as long as one request takes.

Takes a function that runs a model, gives it back as one that asks for the GPU first; anywhere but
on such a Space it is the same function. Must not know what it does. A Space without a function that
asks is not started, and what a request loads is gone after it: the opening model is loaded before.
Source: https://huggingface.co/docs/hub/spaces-zerogpu
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

try:
    import spaces  # put there by the Space, and nowhere else
except ImportError:
    spaces = None

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_lent() -> bool:
    """Tell whether this is a Space that lends a GPU."""
    return spaces is not None and bool(os.environ.get("SPACES_ZERO_GPU"))


def on_gpu(function: _Function) -> _Function:
    """Let a function ask for the GPU where one is lent."""
    lent: _Function = spaces.GPU(function) if is_lent() else function
    return lent


def device() -> str:
    """Name the device that models of the page run on."""
    return "cuda" if is_lent() else "cpu"
