"""Packed layers: each map is its module's, up to rounding.

That whole layers agree with the reference model is shown in `test_packed`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hubnmt.inference.packed_layers import (
    Affine,
    HalfAffine,
    pack_affine,
    pack_decoder_layer,
    pack_encoder_layer,
    pack_final_norm,
    pack_projection,
    transpose,
)
from hubnmt.model import Transformer

ORDERS = pytest.mark.parametrize("norm_order", ["pre", "post"])


@pytest.fixture
def layers(make_model: Callable[..., Transformer]) -> Any:
    def make(**changes: Any) -> tuple[Any, Any]:
        model = make_model(**changes).requires_grad_(False)
        return model.encoder.layers[0], model.decoder.layers[0]

    return make


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_feed_forward_network_in_its_frame(norm_order: str, activation: str, layers: Any) -> None:
    for layer, pack in zip(
        layers(norm_order=norm_order, activation=activation),
        (pack_encoder_layer, pack_decoder_layer),
        strict=True,
    ):
        x = torch.randn(4, layer.frame_ff.norm.weight.shape[0], dtype=torch.float64)
        inner = layer.feed_forward(layer.frame_ff.norm(x) if norm_order == "pre" else x)
        expected = x + inner if norm_order == "pre" else layer.frame_ff.norm(x + inner)
        torch.testing.assert_close(pack(layer).feed_forward(x), expected)


def test_queries_are_scaled_and_nothing_else_is(layers: Any) -> None:
    _, layer = layers()
    packed, attention = pack_decoder_layer(layer), layer.self_attention
    d_model = attention.d_model
    x = torch.randn(4, d_model, dtype=torch.float64)
    expected = attention.qkv_proj(x)
    expected[:, :d_model] /= (d_model // attention.n_heads) ** 0.5
    torch.testing.assert_close(packed.qkv(x), expected)
    cross = layer.cross_attention.qkv_proj(x)
    torch.testing.assert_close(packed.cross_kv(x), cross[:, d_model:])
    scale = (d_model // attention.n_heads) ** 0.5
    torch.testing.assert_close(packed.cross_q(x), cross[:, :d_model] / scale)


@pytest.mark.parametrize("n_rows", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float64, Affine), (torch.bfloat16, HalfAffine)], ids=str
)
def test_a_map_and_its_sum_with_the_stream(dtype: torch.dtype, kind: type, n_rows: int) -> None:
    weight, bias, x = (torch.randn(shape).to(dtype) for shape in ((6, 4), (6,), (n_rows, 4)))
    stream = torch.randn(n_rows, 6).to(dtype)
    packed, expected = pack_affine(weight, bias), x @ weight.T + bias
    assert type(packed) is kind
    close = {"rtol": 0.02, "atol": 0.05} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(packed(x), expected, **close)
    total = stream + expected
    torch.testing.assert_close(packed.add_to(stream, x), total, **close)
    torch.testing.assert_close(stream, total, **close)  # in place


@pytest.mark.parametrize("shape", [(4,), (1, 1, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_projection(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    weight, x = torch.randn(6, 4).to(dtype), torch.randn(shape).to(dtype)
    torch.testing.assert_close(pack_projection(weight)(x), x @ weight.T)


def test_a_final_norm_may_be_none() -> None:
    norm, x = nn.LayerNorm(6), torch.randn(3, 6)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(pack_final_norm(norm)(x), norm(x))
    assert pack_final_norm(nn.Identity())(x) is x


def test_a_matrix_is_stored_by_its_inputs() -> None:
    weight = torch.randn(3, 5)
    stored = transpose(weight)
    assert torch.equal(stored, weight.T)
    assert stored.is_contiguous()
