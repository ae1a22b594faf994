"""Attention: as torch and as a slow loop have it, by either path, and blind to what is masked."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.attention import MultiHeadAttention, scaled_dot_product_attention

B, H, Q, K, E, D = 2, 3, 5, 7, 4, 12


def random_qkv(n_queries: int = Q, n_keys: int = K) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(B, H, n_queries, E, dtype=torch.float64, requires_grad=True)
    k = torch.randn(B, H, n_keys, E, dtype=torch.float64, requires_grad=True)
    v = torch.randn(B, H, n_keys, E, dtype=torch.float64, requires_grad=True)
    return q, k, v


def masks() -> dict[str, Tensor | None]:
    """None, one per sentence, one for all sentences, and one per sentence and query."""
    pads = torch.arange(K)[None, :] < torch.tensor([[K], [4]])
    past = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
    return {
        "no mask": None,
        "padding": pads[:, None, None],
        "past": past[None, None],
        "both": pads[:, None, None] & past,
    }


def attend_by_loop(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Equation 1 of the paper, one number at a time."""
    n_rows, n_heads, n_queries, d_head = q.shape
    n_keys = k.shape[2]
    allowed = torch.ones(n_rows, n_heads, n_queries, n_keys, dtype=torch.bool)
    if attn_mask is not None:
        allowed = attn_mask.expand_as(allowed)
    mixture, weights = torch.zeros_like(q), q.new_zeros(n_rows, n_heads, n_queries, n_keys)
    for b in range(n_rows):
        for h in range(n_heads):
            for i in range(n_queries):
                keys = [j for j in range(n_keys) if allowed[b, h, i, j]]
                scores = [sum(q[b, h, i] * k[b, h, j]).item() / math.sqrt(d_head) for j in keys]
                total = sum(map(math.exp, scores))
                for j, score in zip(keys, scores, strict=True):
                    weights[b, h, i, j] = math.exp(score) / total
                    mixture[b, h, i] += weights[b, h, i, j] * v[b, h, j]
    return mixture, weights


# --- one head's arithmetic -----------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["no mask", "padding", "past", "both"])
def test_agrees_with_a_slow_loop(mask: str) -> None:
    q, k, v = (x.detach() for x in random_qkv())
    mixture, weights = scaled_dot_product_attention(q, k, v, attn_mask=masks()[mask])
    expected_mixture, expected_weights = attend_by_loop(q, k, v, masks()[mask])
    torch.testing.assert_close(mixture, expected_mixture)
    torch.testing.assert_close(weights, expected_weights)


@pytest.mark.parametrize("mask", ["no mask", "padding", "past", "both"])
def test_explicit_path_equals_torchs_fused_one_in_value_and_gradients(mask: str) -> None:
    inputs = random_qkv()
    upstream = torch.randn(B, H, Q, E, dtype=torch.float64)
    explicit, _ = scaled_dot_product_attention(*inputs, attn_mask=masks()[mask])
    fused = functional.scaled_dot_product_attention(*inputs, attn_mask=masks()[mask])
    torch.testing.assert_close(explicit, fused)
    for mine, torchs in zip(
        torch.autograd.grad(explicit, inputs, upstream),
        torch.autograd.grad(fused, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, torchs)


def test_what_stands_under_the_mask_changes_nothing() -> None:
    q, k, v = random_qkv()
    mask = masks()["padding"]
    clean, _ = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    with torch.no_grad():
        k[1, :, 4:], v[1, :, 4:] = 1e6, -1e6
    soiled, _ = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert torch.equal(clean, soiled)


def test_large_scores_stay_finite() -> None:
    q, k, v = (x.detach() for x in random_qkv())
    mixture, weights = scaled_dot_product_attention(1e4 * q, 1e4 * k, v)
    assert mixture.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_dropout_mixes_fewer_values_but_shows_the_weights_undropped() -> None:
    q, k, v = (x.detach() for x in random_qkv())
    plain_mixture, plain_weights = scaled_dot_product_attention(q, k, v)
    mixture, weights = scaled_dot_product_attention(q, k, v, dropout=0.5)
    assert torch.equal(weights, plain_weights)
    assert not torch.allclose(mixture, plain_mixture)


# --- many heads ----------------------------------------------------------------------------------


def make_pair(
    randomize: Callable[[nn.Module], nn.Module],
) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Ours and torch's with the same weights."""
    mine, torchs = MultiHeadAttention(D, H), nn.MultiheadAttention(D, H, batch_first=True)
    randomize(mine)
    torchs.double().load_state_dict(
        {
            "in_proj_weight": mine.qkv_proj.weight,
            "in_proj_bias": mine.qkv_proj.bias,
            "out_proj.weight": mine.out_proj.weight,
            "out_proj.bias": mine.out_proj.bias,
        }
    )
    return mine.eval(), torchs


def cross_attend(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor, **options: Any
) -> tuple[Tensor, Tensor | None]:
    q, (k, v) = attention.project_queries(x), attention.project_memory(memory)
    result: tuple[Tensor, Tensor | None] = attention(q, k, v, **options)
    return result


@pytest.mark.parametrize("mask", ["no mask", "padding", "past"])
def test_cross_attention_agrees_with_torch(
    mask: str, randomize: Callable[[nn.Module], nn.Module]
) -> None:
    mine, torchs = make_pair(randomize)
    x = torch.randn(B, Q, D, dtype=torch.float64)
    memory = torch.randn(B, K, D, dtype=torch.float64)
    allowed = masks()[mask]
    output, weights = cross_attend(mine, x, memory, attn_mask=allowed, need_weights=True)
    expected, expected_weights = torchs(
        x,
        memory,
        memory,
        key_padding_mask=~allowed[:, 0, 0] if mask == "padding" and allowed is not None else None,
        attn_mask=~allowed[0, 0] if mask == "past" and allowed is not None else None,
        average_attn_weights=False,
    )
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_self_attention_agrees_with_torch_in_value_and_gradients(
    randomize: Callable[[nn.Module], nn.Module],
) -> None:
    mine, torchs = make_pair(randomize)
    x = torch.randn(B, Q, D, dtype=torch.float64, requires_grad=True)
    output, _ = mine(*mine.project_all(x))
    expected, _ = torchs(x, x, x)
    torch.testing.assert_close(output, expected)
    upstream = torch.randn_like(output)
    mine_grads = torch.autograd.grad(output, [x, mine.qkv_proj.weight], upstream)
    torchs_grads = torch.autograd.grad(expected, [x, torchs.in_proj_weight], upstream)
    torch.testing.assert_close(mine_grads, torchs_grads)


@pytest.mark.parametrize("mask", ["no mask", "padding", "past", "both"])
def test_both_paths_of_the_module_give_the_same(
    mask: str, randomize: Callable[[nn.Module], nn.Module]
) -> None:
    mine, _ = make_pair(randomize)
    x = torch.randn(B, Q, D, dtype=torch.float64)
    memory = torch.randn(B, K, D, dtype=torch.float64)
    with torch.no_grad():
        fused, nothing = cross_attend(mine, x, memory, attn_mask=masks()[mask])
        explicit, weights = cross_attend(
            mine, x, memory, attn_mask=masks()[mask], need_weights=True
        )
    assert nothing is None
    assert weights is not None
    torch.testing.assert_close(fused, explicit)


def test_translating_takes_the_fused_path_and_cpu_training_the_explicit_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    fused = functional.scaled_dot_product_attention

    def count(*args: Any, **kwargs: Any) -> Tensor:
        calls.append(args)
        return fused(*args, **kwargs)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", count)
    attention, x = MultiHeadAttention(D, H), torch.randn(B, Q, D)
    _, weights = attention(*attention.project_all(x))
    assert len(calls) == 0
    assert weights is None  # computed, but nobody asked
    with torch.no_grad():
        attention(*attention.project_all(x))
    assert len(calls) == 1


def test_heads_are_equal_slices_of_the_features() -> None:
    attention, x = MultiHeadAttention(D, H), torch.randn(B, Q, D)
    q, _, _ = attention.project_all(x)
    whole = (x @ attention.qkv_proj.weight.T)[..., :D]
    for head in range(H):
        torch.testing.assert_close(q[:, head], whole[..., head * E : (head + 1) * E])


def test_each_projection_starts_within_its_own_glorot_bound_and_biases_at_zero() -> None:
    attention = MultiHeadAttention(60, 4)
    bound = (6 / (60 + 60)) ** 0.5
    for weight in (*attention.qkv_proj.weight.chunk(3), attention.out_proj.weight):
        assert 0.98 * bound < weight.abs().max().item() <= bound
    assert not attention.qkv_proj.bias.any()
    assert not attention.out_proj.bias.any()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_that_is_known_to_be_causal_changes_nothing(need_weights: bool) -> None:
    attention, x = MultiHeadAttention(D, H), torch.randn(B, Q, D)
    past = torch.ones(Q, Q, dtype=torch.bool).tril()[None, None]
    with torch.no_grad():
        masked, causal = (
            attention(
                *attention.project_all(x),
                attn_mask=past,
                is_causal=is_causal,
                need_weights=need_weights,
            )[0]
            for is_causal in (False, True)
        )
    torch.testing.assert_close(causal, masked)


@pytest.mark.gpu
def test_gpu_takes_the_flash_kernel_for_a_causal_mask() -> None:
    attention = MultiHeadAttention(128, 2).to("cuda", torch.bfloat16)
    qkv = attention.project_all(torch.randn(B, Q, 128, device="cuda", dtype=torch.bfloat16))
    past = torch.ones(Q, Q, dtype=torch.bool, device="cuda").tril()[None, None]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        flash, _ = attention(*qkv, attn_mask=past, is_causal=True)
    explicit, _ = attention(*qkv, attn_mask=past, need_weights=True)
    torch.testing.assert_close(flash, explicit, rtol=2e-2, atol=2e-2)
