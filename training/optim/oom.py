"""Out-of-memory errors that recommend a batch size, found by trying smaller batches."""

import gc
from collections.abc import Callable

import torch

from hubnmt.errors import ConfigError
from training.data.batching import Batch

SPARE = 0.9
"""Recommended share of the largest batch that fits: other batches have other shapes."""
_SIGNS = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that GPU or main memory ran out."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def explain_out_of_memory(
    batch: Batch, attempt: Callable[[Batch], object], *, batch_tokens: int, accumulate: int
) -> ConfigError:
    """Find the batch size that fits and return an error with the settings to change.

    Call it after the `except` block, when the error no longer refers to the failed pass's tensors.

    Args:
        batch: the batch that did not fit.
        attempt: runs the forward and backward pass of a batch.
        batch_tokens: current value of the setting.
        accumulate: current value of the setting, which can compensate for smaller batches.
    """
    n_rows = len(batch.tgt_in)
    fitting = _find_rows(batch, attempt)
    if not fitting:
        return ConfigError(
            f"out of memory: not even one pair of {batch.tgt_in.shape[1]} target tokens fits; "
            "lower data.max_tokens, or make the model smaller"
        )
    tokens = max(1, int(SPARE * batch_tokens * fitting / n_rows))
    times = -(-batch_tokens // tokens)
    return ConfigError(
        f"out of memory with optimizer.batch_tokens = {batch_tokens}; about {tokens} would fit "
        f"({fitting} of the {n_rows} pairs of the batch did): --set optimizer.batch_tokens="
        f"{tokens} --set optimizer.accumulate={accumulate * times} is equivalent"
    )


def _find_rows(batch: Batch, attempt: Callable[[Batch], object]) -> int:
    """Halve the batch until it fits; 0 if a single pair does not."""
    n_rows = len(batch.tgt_in) // 2
    while n_rows and not _fits(batch.first_rows(n_rows), attempt):
        n_rows //= 2
    return n_rows


def _fits(batch: Batch, attempt: Callable[[Batch], object]) -> bool:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    try:
        attempt(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True
