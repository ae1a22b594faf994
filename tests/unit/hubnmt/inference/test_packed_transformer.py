"""PackedTransformer: number for number what the readable Transformer says, one token at a time.

Weights are float64 and random, so that agreement to 1e-7 leaves no room for a missing term.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.inference.packed_transformer import PackedTransformer
from hubnmt.model import Transformer
from tests.models import make_model

ARCHITECTURES = pytest.mark.parametrize(
    "changes",
    [
        {"norm_order": "pre", "activation": "relu"},
        {"norm_order": "post", "activation": "gelu"},
        {"norm_order": "pre", "share_embeddings": True, "tgt_vocab_size": 19, "tie_output": True},
    ],
    ids=str,
)
N_SRC_TOKENS = pytest.mark.parametrize(
    "lengths", [[5, 3], [3], [5], [4, 4, 4]], ids=lambda lengths: f"S={lengths}"
)
"""[3] is one sentence short enough for its cross-attention to be multiplied out; the others are
several, padded or not, and one too long for that."""


@pytest.fixture
def make_source() -> Callable[[list[int]], tuple[Tensor, Tensor]]:
    def make(lengths: list[int]) -> tuple[Tensor, Tensor]:
        pad_mask = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]  # (B, S)
        return torch.randint(3, 19, pad_mask.shape).masked_fill(pad_mask, 0), pad_mask

    return make


def replay(model: Transformer, rows: Tensor, src: tuple[Tensor, Tensor], sentence: int) -> Tensor:
    """Hidden (W, D) at the last of rows (W, t), all of the same sentence, by teacher forcing."""
    src_ids, pad_mask = (x[sentence].expand(len(rows), -1) for x in src)
    return model.decode(rows, model.encode(src_ids, pad_mask), pad_mask)[:, -1]


@ARCHITECTURES
@N_SRC_TOKENS
def test_steps_of_forking_beams_are_the_reference_models_replay(
    lengths: list[int], changes: dict[str, Any], make_source: Any
) -> None:
    """Beams fork, merge and grow over the cache's first size; sentences leave half-way."""
    model = make_model(**changes).requires_grad_(False)
    packed = PackedTransformer(model)
    src = make_source(lengths)
    cache = packed.precompute_cross_attention(packed.encode(*src), src[1])
    sentences = list(range(len(lengths)))
    rows = torch.ones(len(lengths), 1, 0, dtype=torch.int64)  # (B, W, t)
    for n_step, width in enumerate((1, 4, 4, 3, 6, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4)):
        if n_step == 4 and len(sentences) > 1:
            kept = torch.tensor([len(sentences) - 1, *range(1, len(sentences) - 1)])
            cache.keep(kept)
            rows, sentences = rows[kept], kept.tolist()
        parents = torch.randint(rows.shape[1], (len(sentences), width))
        last = torch.randint(3, 19, (len(sentences), width))
        cache.reorder(parents)
        rows = rows.gather(1, parents[..., None].expand(-1, -1, rows.shape[2]))
        rows = torch.cat((rows, last[..., None]), dim=2)
        hidden = packed.step(last, cache)
        for place, sentence in enumerate(sentences):
            torch.testing.assert_close(hidden[place], replay(model, rows[place], src, sentence))
