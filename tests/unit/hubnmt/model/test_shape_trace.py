"""Traced shapes: the shapes are those of the real network, and every parameter is counted once."""

import dataclasses
from typing import Any

import pytest
import torch

from hubnmt.config import ModelConfig
from hubnmt.model import Transformer
from hubnmt.model.shape_trace import trace_shapes

S, T = 5, 7


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_order": "post"},
        {"tie_output": False},
        {"share_embeddings": False, "tgt_vocab_size": 310},
        {"share_embeddings": False, "tie_output": False},
    ],
)
def test_every_parameter_is_counted_once(tiny_config: ModelConfig, changes: dict[str, Any]):
    config = dataclasses.replace(tiny_config, **changes)
    stages = trace_shapes(config, n_src_tokens=S, n_tgt_tokens=T)
    assert sum(stage.n_parameters for stage in stages) == config.n_parameters


def test_shapes_are_those_of_the_real_network(tiny_model: Transformer):
    stages = trace_shapes(tiny_model.config, n_src_tokens=S, n_tgt_tokens=T)
    ids = torch.full((1, S), 9), torch.full((1, T), 9)
    logits, maps = tiny_model.attend(*ids, torch.zeros(1, S, dtype=torch.bool))
    shapes = {(s.part, s.layer, s.name.split("-")[0]): dict(s.tensors) for s in stages}
    assert shapes["output", None, "Score every token of the vocabulary"]["logits"] == logits.shape
    src, tgt, cross = (m[:, 0] for m in (maps.src_self_attn, maps.tgt_self_attn, maps.cross_attn))
    assert shapes["encoder", 1, "Self"]["weights"] == src.shape
    assert shapes["decoder", 2, "Self"]["weights"] == tgt.shape
    assert shapes["decoder", 2, "Cross"]["weights"] == cross.shape == (1, 3, T, S)
    assert shapes["decoder", 2, "Cross"]["keys"] == (1, 3, S, 4)
    assert shapes["decoder", 1, "Feed"]["widened"] == (1, T, 20)
