"""Layers: torch's encoder and decoder layers with the same weights say the same, in both orders."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from hubnmt.config import ModelConfig
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer
from hubnmt.model.masks import causal_mask, padding_mask

B, S, T, H, D, F = 2, 5, 7, 3, 12, 17
MakeConfig = Callable[..., ModelConfig]
Randomize = Callable[[nn.Module], nn.Module]
ORDERS = pytest.mark.parametrize("norm_order", ["pre", "post"])

PAD_MASK = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


def attention_weights(mine: nn.Module, prefix: str, name: str) -> dict[str, Tensor]:
    state = mine.get_submodule(prefix).state_dict()
    return {
        f"{name}.in_proj_weight": state["qkv_proj.weight"],
        f"{name}.in_proj_bias": state["qkv_proj.bias"],
        f"{name}.out_proj.weight": state["out_proj.weight"],
        f"{name}.out_proj.bias": state["out_proj.bias"],
    }


def plain_weights(mine: nn.Module, names: dict[str, str]) -> dict[str, Tensor]:
    state = mine.state_dict()
    return {
        f"{torchs}.{kind}": state[f"{ours}.{kind}"]
        for ours, torchs in names.items()
        for kind in ("weight", "bias")
    }


def torch_encoder_layer(mine: EncoderLayer, config: ModelConfig) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        D,
        H,
        F,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm_order == "pre",
        dtype=torch.float64,
    )
    names = {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2"}
    names |= {"frame_self.norm": "norm1", "frame_ff.norm": "norm2"}
    layer.load_state_dict(
        attention_weights(mine, "self_attention", "self_attn") | plain_weights(mine, names)
    )
    return layer


def torch_decoder_layer(mine: DecoderLayer, config: ModelConfig) -> nn.TransformerDecoderLayer:
    layer = nn.TransformerDecoderLayer(
        D,
        H,
        F,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm_order == "pre",
        dtype=torch.float64,
    )
    names = {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2"}
    names |= {"frame_self.norm": "norm1", "frame_cross.norm": "norm2", "frame_ff.norm": "norm3"}
    layer.load_state_dict(
        attention_weights(mine, "self_attention", "self_attn")
        | attention_weights(mine, "cross_attention", "multihead_attn")
        | plain_weights(mine, names)
    )
    return layer


def run_decoder_layer(layer: DecoderLayer, x: Tensor, memory: Tensor) -> Tensor:
    n_tokens = x.shape[1]
    out, _, _ = layer(
        x,
        layer.precompute_cross_attention(memory),
        self_mask=causal_mask(n_tokens, n_tokens),
        memory_mask=padding_mask(PAD_MASK[: len(x)]),
    )
    return out


# --- against torch -------------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer_agrees_with_torch_in_value_and_gradient(
    norm_order: str, activation: str, make_config: MakeConfig, randomize: Randomize
) -> None:
    config = make_config(norm_order=norm_order, activation=activation)
    mine = EncoderLayer(config)
    randomize(mine)
    theirs = torch_encoder_layer(mine, config)
    x = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    out, _ = mine(x, padding_mask(PAD_MASK))
    expected = theirs(x, src_key_padding_mask=PAD_MASK)
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad(out, x, upstream), torch.autograd.grad(expected, x, upstream)
    )


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoder_layer_agrees_with_torch_in_value_and_gradients(
    norm_order: str, activation: str, make_config: MakeConfig, randomize: Randomize
) -> None:
    config = make_config(norm_order=norm_order, activation=activation)
    mine = DecoderLayer(config)
    randomize(mine)
    theirs = torch_decoder_layer(mine, config)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    out = run_decoder_layer(mine, x, memory)
    expected = theirs(
        x, memory, tgt_mask=~causal_mask(T, T)[0, 0], memory_key_padding_mask=PAD_MASK
    )
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad(out, (x, memory), upstream),
        torch.autograd.grad(expected, (x, memory), upstream),
    )


# --- invariances ---------------------------------------------------------------------------------


@ORDERS
def test_encoder_layer_does_not_see_padding(norm_order: str, make_config: MakeConfig) -> None:
    layer = EncoderLayer(make_config(norm_order=norm_order))
    x = torch.randn(B, S, D)
    soiled = torch.where(PAD_MASK[..., None], 1e4, x)
    clean_out, _ = layer(x, padding_mask(PAD_MASK))
    soiled_out, _ = layer(soiled, padding_mask(PAD_MASK))
    torch.testing.assert_close(clean_out[~PAD_MASK], soiled_out[~PAD_MASK])


@ORDERS
def test_decoder_layer_does_not_see_the_future(norm_order: str, make_config: MakeConfig) -> None:
    layer = DecoderLayer(make_config(norm_order=norm_order))
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    for end in range(1, T):
        torch.testing.assert_close(
            run_decoder_layer(layer, x[:, :end], memory),
            run_decoder_layer(layer, x, memory)[:, :end],
        )


@ORDERS
def test_decoder_layer_one_token_at_a_time_equals_all_at_once(
    norm_order: str, make_config: MakeConfig
) -> None:
    layer = DecoderLayer(make_config(norm_order=norm_order)).requires_grad_(False)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    cache = layer.precompute_cross_attention(memory)
    memory_mask = padding_mask(PAD_MASK)
    steps = [
        layer(x[:, t : t + 1], cache, self_mask=causal_mask(1, t + 1), memory_mask=memory_mask)[0]
        for t in range(T)
    ]
    torch.testing.assert_close(torch.cat(steps, dim=1), run_decoder_layer(layer, x, memory))


@ORDERS
def test_asking_for_weights_changes_no_output(norm_order: str, make_config: MakeConfig) -> None:
    config = make_config(norm_order=norm_order)
    encoder, decoder = EncoderLayer(config), DecoderLayer(config)
    x, y = torch.randn(B, S, D), torch.randn(B, T, D)
    masks = {"self_mask": causal_mask(T, T), "memory_mask": padding_mask(PAD_MASK)}
    with torch.no_grad():
        for need_weights in (False, True):
            x_out, weights = encoder(x, masks["memory_mask"], need_weights=need_weights)
            y_out, self_weights, cross_weights = decoder(
                y, decoder.precompute_cross_attention(x), **masks, need_weights=need_weights
            )
            given = [w is not None for w in (weights, self_weights, cross_weights)]
            assert given == [need_weights] * 3
            if not need_weights:
                plain = x_out, y_out
    torch.testing.assert_close((x_out, y_out), plain)


# --- the frame -----------------------------------------------------------------------------------


def test_frame_stands_before_or_after_the_block(make_config: MakeConfig) -> None:
    x = torch.randn(B, S, D)
    pre, post = (SubLayer(make_config(norm_order=order)) for order in ("pre", "post"))
    torch.testing.assert_close(pre(x, torch.sin), x + pre.norm(x).sin())
    torch.testing.assert_close(post(x, torch.sin), post.norm(x + x.sin()))


def test_residual_stream_itself_is_never_dropped(make_config: MakeConfig) -> None:
    frame = SubLayer(make_config(dropout=0.5)).train()
    x = torch.randn(B, S, D)
    added = frame(x, torch.ones_like) - x
    assert {round(value, 3) for value in added.flatten().tolist()} == {0.0, 2.0}


def test_each_dropout_rate_reaches_its_own_place(make_config: MakeConfig) -> None:
    config = make_config(dropout=0.1, attention_dropout=0.2, ff_dropout=0.3)
    layer = DecoderLayer(config)
    assert [frame.dropout.p for frame in (layer.frame_self, layer.frame_cross, layer.frame_ff)] == (
        [0.1] * 3
    )
    assert (layer.self_attention.dropout, layer.cross_attention.dropout) == (0.2, 0.2)
    assert layer.feed_forward.dropout.p == 0.3


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "ff_dropout"])
def test_each_dropout_acts_in_training_only(rate: str, make_config: MakeConfig) -> None:
    layer = DecoderLayer(make_config(**{rate: 0.5}))
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    layer.train()
    assert not torch.equal(run_decoder_layer(layer, x, memory), run_decoder_layer(layer, x, memory))
    layer.eval()
    assert torch.equal(run_decoder_layer(layer, x, memory), run_decoder_layer(layer, x, memory))


def test_shapes(make_config: MakeConfig) -> None:
    encoder, decoder = EncoderLayer(make_config()), DecoderLayer(make_config())
    x, y = torch.randn(B, S, D), torch.randn(B, T, D)
    x_out, weights = encoder(x, padding_mask(PAD_MASK), need_weights=True)
    cache = decoder.precompute_cross_attention(x)
    assert cache.memory_k.shape == cache.memory_v.shape == (B, H, S, D // H)
    y_out, self_weights, cross_weights = decoder(
        y,
        cache,
        self_mask=causal_mask(T, T),
        memory_mask=padding_mask(PAD_MASK),
        need_weights=True,
    )
    assert (x_out.shape, weights.shape) == ((B, S, D), (B, H, S, S))
    assert y_out.shape == (B, T, D)
    assert (self_weights.shape, cross_weights.shape) == ((B, H, T, T), (B, H, T, S))
