"""Heads switched off: the same as heads whose output is zero, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import nn

from hubnmt.analysis.head_ablation import Head, ablate_heads, without_heads
from hubnmt.checkpoint.folder import StoredModel
from hubnmt.errors import InputError
from hubnmt.model import Transformer
from hubnmt.translator import Translator

HEADS = [Head("encoder", 0, 2), Head("decoder", 1, 0), Head("cross", 0, 1), Head("cross", 0, 2)]


def _block(model: Transformer, head: Head) -> Any:
    side = model.encoder if head.part == "encoder" else model.decoder
    layer: Any = side.layers[head.layer]
    return layer.cross_attention if head.part == "cross" else layer.self_attention


def _logits(model: Transformer) -> torch.Tensor:
    src_ids, tgt_in = torch.tensor([[5, 9, 7, 2]]), torch.tensor([[1, 8, 6]])
    with torch.inference_mode():
        return model(src_ids, tgt_in, torch.zeros(1, 4, dtype=torch.bool))


@pytest.mark.parametrize("heads", [HEADS[:1], HEADS[1:2], HEADS[2:], HEADS])
def test_a_head_switched_off_is_a_head_that_mixes_zeros(
    stored: StoredModel, heads: list[Head]
) -> None:
    model = stored.model
    silent = _logits(ablate_heads(model, heads))
    before = _logits(model)

    def mute(head: Head) -> Any:
        size = model.config.d_model // model.config.n_heads

        def hook(_: nn.Module, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            mixed = given[0].clone()
            mixed[..., head.head * size : (head.head + 1) * size] = 0
            return (mixed,)

        return hook

    for head in heads:
        _block(model, head).out_proj.register_forward_pre_hook(mute(head))
    torch.testing.assert_close(silent, _logits(model), rtol=0, atol=1e-5)
    assert not torch.allclose(silent, before, atol=1e-3)


@pytest.mark.parametrize(
    "head", [Head("cross", 9, 0), Head("cross", 0, 3), Head("encoder", -1, 0), Head("ffn", 0, 0)]
)
def test_a_head_that_is_not_there_is_named(random_model: Translator, head: Head) -> None:
    with pytest.raises(InputError, match="there is no"):
        without_heads(random_model, [head])
