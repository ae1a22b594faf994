"""A step with the cache says what teacher forcing says, with the model's layers and with fast ones.

Weights are float64 and random, so that agreement to 1e-7 leaves no room for a missing term.
"""

import platform
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.inference.fast_layers import (
    FastLinear,
    has_onednn,
    keep_freed_memory,
    with_fast_layers,
)
from hubnmt.model.transformer import Transformer
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
    "lengths", [[5, 3], [3], [17] * 8], ids=lambda lengths: f"S={lengths}"
)
"""One sentence and several, padded or not; the last are too long for explicit products."""


def make_source(lengths: list[int]) -> tuple[Tensor, Tensor]:
    pad_mask = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]  # (B, S)
    return torch.randint(3, 19, pad_mask.shape).masked_fill(pad_mask, 0), pad_mask


def replay(model: Transformer, rows: Tensor, src: tuple[Tensor, Tensor], sentence: int) -> Tensor:
    """Hidden (W, D) at the last of rows (W, t), all of the same sentence, by teacher forcing."""
    src_ids, pad_mask = (x[sentence].expand(len(rows), -1) for x in src)
    return model.decode(rows, model.encode(src_ids, pad_mask), pad_mask)[:, -1]


@ARCHITECTURES
@N_SRC_TOKENS
@pytest.mark.parametrize("is_fast", [True, False])
def test_steps_of_forking_beams_are_the_models_replay(
    is_fast: bool, lengths: list[int], changes: dict[str, Any]
) -> None:
    """Beams fork, merge and grow over the cache's first size; sentences leave half-way."""
    model = make_model(**changes).requires_grad_(False)
    stepped = with_fast_layers(model) if is_fast else model
    src = make_source(lengths)
    cache = stepped.new_cache(stepped.encode(*src), src[1])
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
        hidden = stepped.step(last, cache)
        for place, sentence in enumerate(sentences):
            torch.testing.assert_close(hidden[place], replay(model, rows[place], src, sentence))


@pytest.mark.skipif(not has_onednn(), reason="PyTorch without oneDNN")
@pytest.mark.parametrize("n_rows", [1, 3, 64, 200])
@pytest.mark.parametrize("has_bias", [True, False])
def test_products_are_those_of_the_weights_for_every_number_of_rows(
    has_bias: bool, n_rows: int
) -> None:
    weight, x = torch.randn(960, 640), torch.randn(2, n_rows, 640)
    bias = torch.randn(960) if has_bias else None
    expected = torch.nn.functional.linear(
        x.double(), weight.double(), None if bias is None else bias.double()
    )
    torch.testing.assert_close(FastLinear(weight, bias)(x).double(), expected, atol=1e-3, rtol=1e-4)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_the_same_tensors_again_cause_few_page_faults() -> None:
    resource = pytest.importorskip("resource", reason="needs POSIX")
    keep_freed_memory()
    counts = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        tensors = [torch.ones(5, 2**20) for _ in range(6)]  # 120 MB, 30,000 pages
        del tensors
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert min(counts) < 3_000  # other threads of the process have faults too
