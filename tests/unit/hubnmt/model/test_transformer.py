"""Transformer: torch's stacks say the same; padding, future and company change nothing.

And decoding step by step, with forking beams, is the same as all at once.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.config import ModelConfig
from hubnmt.model.embedding import N_TABULATED, sinusoidal_positions
from hubnmt.model.kv_cache import DecoderCache
from hubnmt.model.transformer import Transformer

B, S, T, H, D, F, V = 2, 5, 7, 3, 12, 17, 23
MakeConfig = Callable[..., ModelConfig]
MakeModel = Callable[..., Transformer]
ORDERS = pytest.mark.parametrize("norm_order", ["pre", "post"])

TORCH_NAMES = {
    "self_attention.qkv_proj.": "self_attn.in_proj_",
    "self_attention.out_proj.": "self_attn.out_proj.",
    "cross_attention.qkv_proj.": "multihead_attn.in_proj_",
    "cross_attention.out_proj.": "multihead_attn.out_proj.",
    "feed_forward.widen.": "linear1.",
    "feed_forward.narrow.": "linear2.",
    "frame_self.norm.": "norm1.",
    "frame_cross.norm.": "norm2.",
    "final_norm.": "norm.",
}


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
        for ours, theirs in (TORCH_NAMES | {"frame_ff.norm.": last_norm}).items():
            torch_name = torch_name.replace(ours, theirs)
        state[torch_name] = value
    twin.load_state_dict(state)
    return twin


def torch_logits(model: Transformer, batch: Any) -> Tensor:
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


# --- against torch -------------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_logits_agree_with_torchs_transformer(
    norm_order: str, activation: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order, activation=activation)
    torch.testing.assert_close(model(*batch), torch_logits(model, batch))


@ORDERS
def test_gradients_agree_with_torchs_transformer(
    norm_order: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order)
    names = ["src_embedding.weight", "tgt_embedding.weight"]
    weights = [model.get_parameter(name) for name in names]
    upstream = torch.randn(B, T, V, dtype=torch.float64)
    mine = torch.autograd.grad(model(*batch), weights, upstream)
    theirs = torch.autograd.grad(torch_logits(model, batch), weights, upstream)
    torch.testing.assert_close(mine, theirs)


@ORDERS
def test_fused_inference_agrees_with_explicit_training_path(
    norm_order: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order)
    with torch.no_grad():
        fused = model(*batch)
    torch.testing.assert_close(fused, model(*batch).detach())


# --- invariances ---------------------------------------------------------------------------------


@ORDERS
def test_padding_does_not_change_logits(norm_order: str, make_model: MakeModel, batch: Any) -> None:
    model = make_model(norm_order=norm_order)
    logits = model(*batch)
    more_pads = torch.full((B, 4), 11)  # any id: what it says must not matter
    longer_src = torch.cat((batch.src_ids, more_pads), dim=1)
    longer_mask = functional.pad(batch.src_pad_mask, (0, 4), value=True)
    torch.testing.assert_close(model(longer_src, batch.tgt_in, longer_mask), logits)
    other_pads = torch.where(batch.src_pad_mask, 9, batch.src_ids)
    torch.testing.assert_close(model(other_pads, batch.tgt_in, batch.src_pad_mask), logits)


@ORDERS
def test_future_tokens_do_not_change_logits(
    norm_order: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order)
    logits = model(*batch)
    for end in range(1, T):
        changed = batch.tgt_in.clone()
        changed[:, end:] = (changed[:, end:] + 5) % V
        altered = model(batch.src_ids, changed, batch.src_pad_mask)
        torch.testing.assert_close(altered[:, :end], logits[:, :end])
        assert not torch.allclose(altered[:, end:], logits[:, end:])


def test_past_tokens_and_every_source_token_do_change_logits(
    make_model: MakeModel, batch: Any
) -> None:
    model = make_model()
    logits = model(*batch)
    changed = batch.tgt_in.clone()
    changed[:, 0] = (changed[:, 0] + 5) % V
    altered = model(batch.src_ids, changed, batch.src_pad_mask)
    assert ((altered - logits).abs().amax(-1) > 1e-9).all()
    for position in range(3):
        src_ids = batch.src_ids.clone()
        src_ids[:, position] = (src_ids[:, position] + 5) % 19
        altered = model(src_ids, batch.tgt_in, batch.src_pad_mask)
        assert ((altered - logits).abs().amax(-1) > 1e-9).all()


def test_word_order_matters(make_model: MakeModel, batch: Any) -> None:
    model = make_model()
    swapped = batch.src_ids.clone()
    swapped[0, :2] = batch.src_ids[0, :2].flip(0)
    assert swapped[0, 0] != swapped[0, 1]
    altered = model(swapped, batch.tgt_in, batch.src_pad_mask)
    assert not torch.allclose(altered[0], model(*batch)[0])


@ORDERS
def test_batch_order_does_not_matter(norm_order: str, make_model: MakeModel, batch: Any) -> None:
    model = make_model(norm_order=norm_order)
    reversed_logits = model(*(part.flip(0) for part in batch))
    torch.testing.assert_close(reversed_logits.flip(0), model(*batch))


@ORDERS
def test_a_sentence_alone_scores_as_in_company(
    norm_order: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order)
    logits = model(*batch)
    alone = model(batch.src_ids[1:, :3], batch.tgt_in[1:, :4], batch.src_pad_mask[1:, :3])
    torch.testing.assert_close(alone, logits[1:, :4])


def test_one_token_on_each_side_is_enough(make_model: MakeModel) -> None:
    model = make_model()
    logits = model(torch.tensor([[2]]), torch.tensor([[1]]), torch.tensor([[False]]))
    assert logits.isfinite().all()


def test_length_has_no_limit(make_model: MakeModel) -> None:
    model = make_model(n_encoder_layers=1, n_decoder_layers=1).requires_grad_(False)
    ids = torch.randint(3, 19, (1, N_TABULATED + 6))
    pad_mask = torch.zeros_like(ids, dtype=torch.bool)
    logits = model(ids, ids, pad_mask)
    shorter = model(ids, ids[:, : N_TABULATED - 1], pad_mask)
    torch.testing.assert_close(logits[:, : N_TABULATED - 1], shorter)
    assert logits.isfinite().all()


# --- the composition -----------------------------------------------------------------------------


def test_forward_is_encode_decode_project(make_model: MakeModel, batch: Any) -> None:
    model = make_model()
    memory = model.encode(batch.src_ids, batch.src_pad_mask)
    hidden = model.decode(batch.tgt_in, memory, batch.src_pad_mask)
    assert torch.equal(model.project(hidden), model(*batch))


def test_projection_takes_any_leading_shape(make_model: MakeModel) -> None:
    model = make_model()
    hidden = torch.randn(B, T, D, dtype=torch.float64)
    torch.testing.assert_close(model.project(hidden)[0, 3], model.project(hidden[0, 3]))


@ORDERS
def test_replay_with_attention_gives_the_same_logits(
    norm_order: str, make_model: MakeModel, batch: Any
) -> None:
    model = make_model(norm_order=norm_order)
    with torch.no_grad():
        logits, _ = model.attend(*batch)
        torch.testing.assert_close(logits, model(*batch))


def test_attention_rows_sum_to_one_and_pads_and_future_get_nothing(
    make_model: MakeModel, batch: Any
) -> None:
    _, maps = make_model().attend(*batch)
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert (maps.src_self_attn[1, :, :, :, 3:] == 0).all()
    assert (maps.cross_attn[1, :, :, :, 3:] == 0).all()
    assert (maps.cross_attn[0] > 0).all()
    assert (maps.tgt_self_attn.triu(1) == 0).all()
    assert (maps.tgt_self_attn[..., range(T), range(T)] > 0).all()


def test_attention_maps_are_those_of_each_layer_in_order(
    make_model: MakeModel, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    seen: dict[str, Tensor] = {}
    for name, layer in model.decoder.layers.named_children():
        attend = layer.cross_attention.forward

        def spy(*args: Any, _name: str = name, _attend: Any = attend, **kwargs: Any) -> Any:
            result = _attend(*args, **kwargs)
            seen[_name] = result[1]
            return result

        monkeypatch.setattr(layer.cross_attention, "forward", spy)
    _, maps = model.attend(*batch)
    assert torch.equal(maps.cross_attn, torch.stack([seen[name] for name in "012"], dim=1))


# --- one step at a time --------------------------------------------------------------------------


def teacher_forced(model: Transformer, rows: Tensor, batch: Any, sentence: int) -> Tensor:
    """Hidden states of the last position of each row, for one sentence: (rows, D)."""
    n_rows = len(rows)
    src_ids = batch.src_ids[sentence].expand(n_rows, -1)
    pad_mask = batch.src_pad_mask[sentence].expand(n_rows, -1)
    return model.decode(rows, model.encode(src_ids, pad_mask), pad_mask)[:, -1]


@pytest.fixture
def start(batch: Any) -> Callable[[Transformer], DecoderCache]:
    def remember(model: Transformer) -> DecoderCache:
        memory = model.encode(batch.src_ids, batch.src_pad_mask)
        return model.precompute_cross_attention(memory, batch.src_pad_mask)

    return remember


@ORDERS
def test_steps_equal_teacher_forcing(
    norm_order: str, make_model: MakeModel, batch: Any, start: Callable[..., DecoderCache]
) -> None:
    model = make_model(norm_order=norm_order).requires_grad_(False)
    cache = start(model)
    steps = [model.step(batch.tgt_in[:, t : t + 1], cache) for t in range(T)]
    memory = model.encode(batch.src_ids, batch.src_pad_mask)
    expected = model.decode(batch.tgt_in, memory, batch.src_pad_mask)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected)


def test_steps_without_a_cache_of_gradients_also_work_with_gradients_on(
    make_model: MakeModel, batch: Any, start: Callable[..., DecoderCache]
) -> None:
    model = make_model()
    cache = start(model)
    steps = [model.step(batch.tgt_in[:, t : t + 1], cache) for t in range(T)]
    memory = model.encode(batch.src_ids, batch.src_pad_mask)
    expected = model.decode(batch.tgt_in, memory, batch.src_pad_mask)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected)


@ORDERS
def test_forking_beams_equal_teacher_forcing_of_each_hypothesis(
    norm_order: str, make_model: MakeModel, batch: Any, start: Callable[..., DecoderCache]
) -> None:
    model = make_model(norm_order=norm_order).requires_grad_(False)
    cache = start(model)
    rows = torch.ones(B, 1, 0, dtype=torch.int64)  # (B, W, tokens so far)
    for n_beams in (1, 4, 4, 3, 6, 2, 4):
        parents = torch.randint(rows.shape[1], (B, n_beams))
        last = torch.randint(3, V, (B, n_beams))
        cache.reorder(parents)
        index = parents[..., None].expand(-1, -1, rows.shape[2])
        rows = torch.cat((rows.gather(1, index), last[..., None]), dim=2)
        hidden = model.step(last, cache)
        for b in range(B):
            torch.testing.assert_close(hidden[b], teacher_forced(model, rows[b], batch, b))


@pytest.mark.parametrize("kept", [[1], [0], [1, 0], [0, 1]])
def test_kept_sentences_go_on_as_if_alone(
    kept: list[int], make_model: MakeModel, batch: Any, start: Callable[..., DecoderCache]
) -> None:
    model = make_model().requires_grad_(False)
    cache = start(model)
    model.step(torch.ones(B, 1, dtype=torch.int64), cache)
    cache.reorder(torch.zeros(B, 3, dtype=torch.int64))
    second = torch.randint(3, V, (B, 3))
    model.step(second, cache)
    parents = torch.tensor([[2, 0, 0], [1, 2, 1]])
    cache.reorder(parents)
    cache.keep(torch.tensor(kept))
    third = torch.randint(3, V, (len(kept), 3))
    hidden = model.step(third, cache)
    for row, b in enumerate(kept):
        past = second[b, parents[b]]
        tokens = torch.stack((torch.ones_like(past), past, third[row]), dim=1)
        torch.testing.assert_close(hidden[row], teacher_forced(model, tokens, batch, b))


def test_sentences_can_leave_one_by_one(
    make_model: MakeModel, batch: Any, start: Callable[..., DecoderCache]
) -> None:
    model = make_model().requires_grad_(False)
    cache = start(model)
    model.step(batch.tgt_in[:, :1], cache)
    cache.keep(torch.tensor([1]))
    model.step(batch.tgt_in[1:, 1:2], cache)
    hidden = model.step(batch.tgt_in[1:, 2:3], cache)
    torch.testing.assert_close(hidden[0], teacher_forced(model, batch.tgt_in[1:, :3], batch, 1))


def test_steps_go_on_beyond_the_table_of_positions(
    make_model: MakeModel, start: Callable[..., DecoderCache]
) -> None:
    model = make_model().requires_grad_(False)
    cache = start(model)
    cache.n_positions = N_TABULATED
    assert model.step(torch.ones(B, 1, dtype=torch.int64), cache).isfinite().all()


# --- weights -------------------------------------------------------------------------------------

TABLES = [
    {"share_embeddings": share, "tie_output": tie, "src_vocab_size": V if share else 19}
    for share, tie in itertools.product((True, False), repeat=2)
]
TABLE_NAMES = ["shared, tied", "shared, untied", "separate, tied", "separate, untied"]


@pytest.mark.parametrize("tables", TABLES, ids=TABLE_NAMES)
def test_tables_that_are_one_share_their_storage(
    tables: dict[str, Any], make_config: MakeConfig
) -> None:
    model = Transformer(make_config(**tables))
    src, tgt = model.src_embedding.weight, model.tgt_embedding.weight
    assert (src is tgt) is tables["share_embeddings"]
    assert (src.data_ptr() == tgt.data_ptr()) is tables["share_embeddings"]
    out = model.output_proj.weight
    assert (out is tgt) is tables["tie_output"]
    assert (out.data_ptr() == tgt.data_ptr()) is tables["tie_output"]


@pytest.mark.parametrize("tables", TABLES, ids=TABLE_NAMES)
def test_tied_tables_stay_tied_after_a_step_and_a_move(
    tables: dict[str, Any], make_config: MakeConfig, batch: Any
) -> None:
    model = Transformer(make_config(**tables)).double()
    model(*batch).square().mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    tied = model.output_proj.weight is model.tgt_embedding.weight
    assert tied is tables["tie_output"]
    assert (model.src_embedding is model.tgt_embedding) is tables["share_embeddings"]


@pytest.mark.parametrize("tables", TABLES, ids=TABLE_NAMES)
@ORDERS
@pytest.mark.parametrize("depths", [(2, 3), (1, 4)])
def test_counted_parameters_are_the_ones_announced(
    tables: dict[str, Any], norm_order: str, depths: tuple[int, int], make_config: MakeConfig
) -> None:
    n_encoder_layers, n_decoder_layers = depths
    config = make_config(
        **tables,
        norm_order=norm_order,
        n_encoder_layers=n_encoder_layers,
        n_decoder_layers=n_decoder_layers,
    )
    model = Transformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == config.n_parameters
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("tables", TABLES, ids=TABLE_NAMES)
@ORDERS
def test_every_parameter_is_used(
    tables: dict[str, Any], norm_order: str, make_config: MakeConfig, batch: Any
) -> None:
    model = Transformer(make_config(**tables, norm_order=norm_order))
    model(*batch).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@ORDERS
def test_only_pre_norm_stacks_end_with_a_norm(norm_order: str, make_config: MakeConfig) -> None:
    model = Transformer(make_config(norm_order=norm_order))
    kind = nn.LayerNorm if norm_order == "pre" else nn.Identity
    assert isinstance(model.encoder.final_norm, kind)
    assert isinstance(model.decoder.final_norm, kind)


def test_same_seed_builds_the_same_model(make_config: MakeConfig) -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(11)
        states.append(Transformer(make_config()).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_fresh_model_is_nearly_undecided(make_config: MakeConfig, batch: Any) -> None:
    model = Transformer(make_config(d_model=96, n_heads=8, tgt_vocab_size=500)).eval()
    entropy = torch.distributions.Categorical(logits=model(*batch)).entropy()
    assert math.log(500) - 1 < entropy.mean().item() < math.log(500)


# --- training and types --------------------------------------------------------------------------


def test_dropout_acts_in_training_only(make_config: MakeConfig, batch: Any) -> None:
    model = Transformer(make_config(dropout=0.5))
    assert not torch.equal(model.train()(*batch), model(*batch))
    assert torch.equal(model.eval()(*batch), model(*batch))


def test_without_dropout_training_is_inference(make_config: MakeConfig, batch: Any) -> None:
    model = Transformer(make_config())
    assert torch.equal(model.train()(*batch), model.eval()(*batch))


def test_bfloat16_autocast_is_close_to_float32(make_config: MakeConfig, batch: Any) -> None:
    model = Transformer(make_config()).eval()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(*batch)
    expected = model(*batch)
    assert (logits.float() - expected).abs().max() < 0.05 * expected.abs().max()


def test_forward_leaves_no_state_behind(make_model: MakeModel, batch: Any) -> None:
    model = make_model(dropout=0.1)
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    model(*batch)
    model.attend(*batch)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def test_shapes(make_model: MakeModel, batch: Any) -> None:
    model = make_model()
    memory = model.encode(batch.src_ids, batch.src_pad_mask)
    assert memory.shape == (B, S, D)
    assert model.decode(batch.tgt_in, memory, batch.src_pad_mask).shape == (B, T, D)
    logits, maps = model.attend(*batch)
    assert logits.shape == model(*batch).shape == (B, T, V)
    assert maps.src_self_attn.shape == (B, 2, H, S, S)
    assert maps.tgt_self_attn.shape == (B, 3, H, T, T)
    assert maps.cross_attn.shape == (B, 3, H, T, S)
