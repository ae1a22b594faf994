"""Out of memory: the batch size that fits is found by trying, and said in one line."""

from collections.abc import Callable

import pytest
import torch

from hubnmt.errors import ConfigError
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.data.batching import Batch, collate
from training.optim.oom import explain_out_of_memory


@pytest.fixture
def batch(tiny_tokenizer: Tokenizer) -> Batch:
    """Sixteen pairs."""
    pairs = [([5] * (3 + n % 4), [6] * (2 + n % 5)) for n in range(16)]
    return collate(pairs, tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))


def room_for(n_rows: int, tried: list[int]) -> Callable[[Batch], None]:
    """Fail as CUDA does for more rows than these."""

    def attempt(part: Batch) -> None:
        tried.append(len(part.tgt_in))
        assert len(part.labels) == len(part.places)
        assert int(part.places.max()) < part.tgt_in.numel()
        if len(part.tgt_in) > n_rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    return attempt


def explain(batch: Batch, n_rows: int) -> tuple[ConfigError, list[int]]:
    tried: list[int] = []
    attempt = room_for(n_rows, tried)
    return explain_out_of_memory(batch, attempt, batch_tokens=4096, accumulate=2), tried


@pytest.mark.parametrize(
    ("n_rows", "n_tried", "tokens", "accumulate"),
    [(15, [8], 1843, 6), (4, [8, 4], 921, 10), (1, [8, 4, 2, 1], 230, 36)],
)
def test_the_message_names_what_fits_and_how_to_set_it(
    n_rows: int, n_tried: list[int], tokens: int, accumulate: int, batch: Batch
) -> None:
    error, tried = explain(batch, n_rows)
    assert tried == n_tried
    message = str(error)
    assert f"batch_tokens = 4096; about {tokens} would fit" in message
    assert (
        f"--set optimizer.batch_tokens={tokens} --set optimizer.accumulate={accumulate}" in message
    )
    assert "\n" not in message
    assert tokens * accumulate >= 4096 * 2  # a step learns from as much as before
