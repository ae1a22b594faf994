"""Training throughput and peak memory."""

import sys
import time

import torch

if sys.platform == "win32":
    import psutil
else:
    import resource


class Throughput:
    """Mean loss and tokens per second since the last log line."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._loss = 0.0
        self._n_tokens = 0

    def add(self, loss: float, n_tokens: int) -> None:
        """Add one step."""
        self._loss += loss * n_tokens
        self._n_tokens += n_tokens

    def pause(self, seconds: float) -> None:
        """Exclude time not spent on training, such as a validation."""
        self._started += seconds

    def to_dict(self) -> dict[str, float]:
        """Return nats per token and target tokens per second."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        n_tokens = max(self._n_tokens, 1)
        return {"loss": self._loss / n_tokens, "tokens_per_s": n_tokens / seconds}


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB: allocated on the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere
