"""Attention: equal to torch's, by either path and under every mask."""

import pytest
import torch
from torch import Tensor, nn

from hubnmt.model.attention import MultiHeadAttention
from tests.models import randomize

B, H, Q, K, D = 2, 3, 5, 7, 12


def masks() -> dict[str, Tensor | None]:
    """None, one per sentence, and one for all sentences."""
    pads = torch.arange(K)[None, :] < torch.tensor([[K], [4]])
    past = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
    return {"no mask": None, "padding": pads[:, None, None], "past": past[None, None]}


@pytest.mark.parametrize("mask", ["no mask", "padding", "past"])
def test_both_paths_agree_with_torchs_module(mask: str) -> None:
    mine = MultiHeadAttention(D, H).eval()
    randomize(mine)
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    names = {"qkv_proj.": "in_proj_", "out_proj.": "out_proj."}
    theirs.load_state_dict(
        {names[name[:9]] + name[9:]: weight for name, weight in mine.state_dict().items()}
    )
    x = torch.randn(B, Q, D, dtype=torch.float64)
    memory = torch.randn(B, K, D, dtype=torch.float64)
    allowed = masks()[mask]
    expected, expected_weights = theirs(
        x,
        memory,
        memory,
        key_padding_mask=~allowed[:, 0, 0] if mask == "padding" and allowed is not None else None,
        attn_mask=~allowed[0, 0] if mask == "past" and allowed is not None else None,
        average_attn_weights=False,
    )
    with torch.no_grad():
        qkv = mine.project_queries(x), *mine.project_memory(memory)
        fused, _ = mine(*qkv, attn_mask=allowed)
        explicit, weights = mine(*qkv, attn_mask=allowed, need_weights=True)
    torch.testing.assert_close(fused, expected)
    torch.testing.assert_close(explicit, expected)
    torch.testing.assert_close(weights, expected_weights)


def test_each_projection_starts_within_its_own_glorot_bound_and_biases_at_zero() -> None:
    attention = MultiHeadAttention(60, 4)
    bound = (6 / (60 + 60)) ** 0.5
    for weight in (*attention.qkv_proj.weight.chunk(3), attention.out_proj.weight):
        assert 0.98 * bound < weight.abs().max().item() <= bound
    assert not attention.qkv_proj.bias.any()
    assert not attention.out_proj.bias.any()


def test_a_mask_that_is_known_to_be_causal_changes_nothing() -> None:
    attention, x = MultiHeadAttention(D, H), torch.randn(B, Q, D)
    past = torch.ones(Q, Q, dtype=torch.bool).tril()[None, None]
    with torch.no_grad():
        qkv = attention.project_all(x)
        masked, causal = (attention(*qkv, attn_mask=past, is_causal=c)[0] for c in (False, True))
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
