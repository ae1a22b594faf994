"""Training throughput, remaining time and peak memory."""

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


def seconds_left(
    *, steps_done: int, steps_to_do: int, seconds_spent: float, limit_s: float
) -> float:
    """Estimate the remaining time of a session.

    Args:
        steps_done: steps of this session.
        steps_to_do: remaining steps.
        seconds_spent: duration of this session so far, validations included.
        limit_s: seconds until the time limit; infinity without one.
    """
    by_steps = seconds_spent / max(steps_done, 1) * steps_to_do
    return max(0.0, min(by_steps, limit_s))


def show_time(seconds: float) -> str:
    """Format a duration: `45 s`, `12 min`, `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB: allocated on the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere
