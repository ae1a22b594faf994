"""How fast a run goes, how long it will take, how much memory it took.

Takes what each step did, gives the numbers of a log line. Must not know model or files.
"""

import sys
import time

import torch

if sys.platform == "win32":
    import psutil
else:
    import resource


class Meter:
    """Loss and speed since the last log line."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._loss = 0.0
        self._n_tokens = 0

    def add(self, loss: float, n_tokens: int) -> None:
        """Count one step."""
        self._loss += loss * n_tokens
        self._n_tokens += n_tokens

    def pause(self, seconds: float) -> None:
        """Leave out time that was not spent on training, such as a validation."""
        self._started += seconds

    def to_dict(self) -> dict[str, float]:
        """Return nats per token and target tokens per second."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        n_tokens = max(self._n_tokens, 1)
        return {"loss": self._loss / n_tokens, "tokens_per_s": n_tokens / seconds}


def seconds_left(
    *, steps_done: int, steps_to_do: int, seconds_spent: float, limit_s: float
) -> float:
    """Estimate how long a sitting goes on.

    Args:
        steps_done: in this sitting, which `seconds_spent` took, validations included.
        steps_to_do: until the last.
        seconds_spent: see above.
        limit_s: seconds until the clock ends the run; infinity where none does.
    """
    by_steps = seconds_spent / max(steps_done, 1) * steps_to_do
    return max(0.0, min(by_steps, limit_s))


def show_time(seconds: float) -> str:
    """Write a time as people say it: `45 s`, `12 min`, `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def peak_memory_mib(device: torch.device) -> float:
    """Return the most memory so far, MiB: of the GPU, or of this process where there is none."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere
