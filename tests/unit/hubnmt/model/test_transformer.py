"""Transformer: equal to torch's; invariant to padding and batch."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.layers import sinusoidal_positions
from hubnmt.model.transformer import Transformer
from tests.models import Batch, make_batch, make_config, make_model

B, T, H, D, F, V = 2, 7, 3, 12, 17, 23
ORDERS = pytest.mark.parametrize("norm_order", ["pre", "post"])

TORCH_NAMES = {
    "self_attention.qkv_proj.": "self_attn.in_proj_",
    "self_attention.out_proj.": "self_attn.out_proj.",
    "cross_attention.qkv_proj.": "multihead_attn.in_proj_",
    "cross_attention.out_proj.": "multihead_attn.out_proj.",
    "feed_forward.": "",
    "self_residual.norm.": "norm1.",
    "cross_residual.norm.": "norm2.",
    "final_norm.": "norm.",
}


@pytest.fixture
def batch() -> Batch:
    return make_batch()


def torch_twin(model: Transformer) -> nn.Transformer:
    """torch's own Transformer with the same weights (it has no embeddings and no projection)."""
    config = model.config
    pre = config.norm_order == "pre"
    options: dict[str, Any] = {
        "dropout": 0.0,
        "activation": config.activation,
        "batch_first": True,
        "norm_first": pre,
        "dtype": torch.float64,
    }
    encoder_norm, decoder_norm = (
        nn.LayerNorm(D, dtype=torch.float64) if pre else None for _ in range(2)
    )
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, H, F, **options),
        config.n_encoder_layers,
        norm=encoder_norm,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(D, H, F, **options), config.n_decoder_layers, norm=decoder_norm
    )
    twin = nn.Transformer(
        D, H, custom_encoder=encoder, custom_decoder=decoder, batch_first=True, dtype=torch.float64
    )
    state = {}
    for name, value in model.state_dict().items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        last_norm = "norm2." if name.startswith("encoder.") else "norm3."
        torch_name = name
        for ours, theirs in (TORCH_NAMES | {"ff_residual.norm.": last_norm}).items():
            torch_name = torch_name.replace(ours, theirs)
        state[torch_name] = value
    twin.load_state_dict(state)
    return twin


def torch_logits(model: Transformer, batch: Batch) -> Tensor:
    twin = torch_twin(model)

    def embed(embedding: nn.Embedding, ids: Tensor) -> Tensor:
        vectors = functional.embedding(ids, embedding.weight) * math.sqrt(D)
        return vectors + sinusoidal_positions(0, ids.shape[1], D).double()

    hidden = twin(
        embed(model.src_embedding, batch.src_ids),
        embed(model.tgt_embedding, batch.tgt_in),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(T) < 0,
        src_key_padding_mask=batch.src_pad_mask,
        memory_key_padding_mask=batch.src_pad_mask,
    )
    return hidden @ model.output_proj.weight.T  # type: ignore[no-any-return]


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_logits_and_gradients_agree_with_torch(
    norm_order: str, activation: str, batch: Batch
) -> None:
    model = make_model(norm_order=norm_order, activation=activation)
    mine, theirs = model(*batch), torch_logits(model, batch)
    torch.testing.assert_close(mine, theirs)
    tables = [model.src_embedding.weight, model.tgt_embedding.weight]
    upstream = torch.randn(B, T, V, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(mine, tables, upstream), torch.autograd.grad(theirs, tables, upstream)
    )


def test_padding_does_not_change_logits(batch: Batch) -> None:
    model = make_model()
    logits = model(*batch)
    more_pads = torch.full((B, 4), 11)  # any id
    longer_src = torch.cat((batch.src_ids, more_pads), dim=1)
    longer_mask = functional.pad(batch.src_pad_mask, (0, 4), value=True)
    torch.testing.assert_close(model(longer_src, batch.tgt_in, longer_mask), logits)
    alone = model(batch.src_ids[1:, :3], batch.tgt_in[1:, :4], batch.src_pad_mask[1:, :3])
    torch.testing.assert_close(alone, logits[1:, :4])


def test_future_tokens_do_not_change_logits(batch: Batch) -> None:
    model = make_model()
    logits = model(*batch)
    for end in range(1, T):
        changed = batch.tgt_in.clone()
        changed[:, end:] = (changed[:, end:] + 5) % V
        altered = model(batch.src_ids, changed, batch.src_pad_mask)
        torch.testing.assert_close(altered[:, :end], logits[:, :end])
        assert not torch.allclose(altered[:, end:], logits[:, end:])


def test_attend_returns_the_logits_and_the_weights_of_each_layer(batch: Batch) -> None:
    model, seen = make_model(), []
    for layer in model.decoder.layers:
        layer.cross_attention.register_forward_hook(lambda *call: seen.append(call[2][1]))
    with torch.no_grad():
        logits, maps = model.attend(*batch)
    assert torch.equal(maps.cross_attn, torch.stack(seen, dim=1))
    with torch.no_grad():
        torch.testing.assert_close(logits, model(*batch))
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert (maps.src_self_attn[1, ..., 3:] == 0).all()
    assert (maps.cross_attn[1, ..., 3:] == 0).all()
    assert (maps.cross_attn[0] > 0).all()
    assert (maps.tgt_self_attn.triu(1) == 0).all()
    assert (maps.tgt_self_attn[..., range(T), range(T)] > 0).all()


TABLES = pytest.mark.parametrize(
    "tables",
    [
        {"share_embeddings": share, "tie_output": tie, "src_vocab_size": V if share else 19}
        for share, tie in itertools.product((True, False), repeat=2)
    ],
    ids=["shared, tied", "shared, untied", "separate, tied", "separate, untied"],
)


@TABLES
def test_tied_tables_stay_tied_after_a_step_and_a_move(
    tables: dict[str, Any], batch: Batch
) -> None:
    model = Transformer(make_config(**tables)).double()
    model(*batch).square().mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    src, tgt = model.src_embedding.weight, model.tgt_embedding.weight
    assert (src.data_ptr() == tgt.data_ptr()) is tables["share_embeddings"]
    assert (model.output_proj.weight.data_ptr() == tgt.data_ptr()) is tables["tie_output"]


@TABLES
@ORDERS
def test_parameters_are_counted_and_used(
    tables: dict[str, Any], norm_order: str, batch: Batch
) -> None:
    config = make_config(**tables, norm_order=norm_order)
    model = Transformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == config.n_parameters
    model(*batch).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "ff_dropout"])
def test_each_dropout_acts_in_training_only(rate: str, batch: Batch) -> None:
    model = Transformer(make_config(**{rate: 0.5}))
    assert not torch.equal(model.train()(*batch), model(*batch))
    assert torch.equal(model.eval()(*batch), model(*batch))
