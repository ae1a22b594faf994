"""Traced values are those of the forward pass."""

from collections.abc import Iterator

import pytest
import torch

from hubnmt.model.trace import AttentionKind, LayerTrace, trace_layer
from hubnmt.model.transformer import Transformer
from tests.models import make_batch, make_model

N_LAYERS = {"encoder": 2, "decoder": 3, "cross": 3}
every_layer = pytest.mark.parametrize(
    ("kind", "layer"), [(kind, layer) for kind, n in N_LAYERS.items() for layer in range(n)]
)


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(params=["pre", "post"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return make_model(norm_order=request.param)


def _trace(model: Transformer, kind: AttentionKind, layer: int) -> LayerTrace:
    batch = make_batch()
    return trace_layer(model, batch.src_ids[:1], batch.tgt_in[:1], kind=kind, layer=layer)


@every_layer
def test_weights_are_those_of_the_forward_pass(
    model: Transformer, kind: AttentionKind, layer: int
) -> None:
    batch = make_batch()
    _, maps = model.attend(*(each[:1] for each in batch))
    expected = {
        "encoder": maps.src_self_attn,
        "decoder": maps.tgt_self_attn,
        "cross": maps.cross_attn,
    }[kind][0, layer]
    found = _trace(model, kind, layer).attention
    torch.testing.assert_close(found.weights, expected)
    hidden = found.scores.masked_fill(~found.attn_mask, -torch.inf)
    torch.testing.assert_close(hidden.softmax(-1), expected)
    torch.testing.assert_close(found.weights @ found.values, found.mixed)


def test_the_last_layers_lead_to_the_memory_and_the_logits(model: Transformer) -> None:
    batch = make_batch()
    src_ids, tgt_in, pad_mask = (each[:1] for each in batch)
    out = _trace(model, "encoder", 1).feed_forward_residual.out
    memory = model.encode(src_ids, pad_mask)
    torch.testing.assert_close(model.encoder.final_norm(out), memory[0])
    for kind in ("decoder", "cross"):
        out = _trace(model, kind, 2).feed_forward_residual.out
        logits = model.project(model.decoder.final_norm(out))
        torch.testing.assert_close(logits, model(src_ids, tgt_in, pad_mask)[0])
