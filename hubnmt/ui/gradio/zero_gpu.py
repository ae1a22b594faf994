"""ZeroGPU support: request a GPU for each model call on a Space that provides one.

Such a Space only starts if some function requests a GPU, and state created during a request is
lost afterwards; therefore the default model is loaded at start-up.
Source: https://huggingface.co/docs/hub/spaces-zerogpu
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

try:
    import spaces  # provided by the Space only
except ImportError:
    spaces = None

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_lent() -> bool:
    """Return whether this is a ZeroGPU Space."""
    return spaces is not None and bool(os.environ.get("SPACES_ZERO_GPU"))


def on_gpu(function: _Function) -> _Function:
    """Wrap a function to request the GPU on a ZeroGPU Space; return it unchanged elsewhere."""
    wrapped: _Function = spaces.GPU(function) if is_lent() else function
    return wrapped


def device() -> str:
    """Return the device for the page's models."""
    return "cuda" if is_lent() else "cpu"
