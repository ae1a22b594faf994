"""The memory of one sentence: what is written comes back by head, and only ancestors are seen.

That whole steps agree with the reference model is shown in `test_packed`.
"""

from collections.abc import Callable

import pytest
import torch

from hubnmt.inference.packed_layers import Affine, pack_decoder_layer
from hubnmt.inference.packed_sentence import FoldedCrossAttention, SentenceCache
from hubnmt.model import Transformer

L, H, E, S = 2, 3, 4, 5
D = H * E


def make_cache() -> SentenceCache:
    score = Affine(torch.randn(D, H * S), torch.randn(H * S))
    return SentenceCache([FoldedCrossAttention(score, torch.randn(H * S, D), S)] * L, H)


@pytest.mark.parametrize("widths", [[7], [1] * 40, [1] + [4] * 20, [1, 5, 5, 2], [1, 3, 30, 1]])
def test_what_was_written_comes_back_by_head(widths: list[int]) -> None:
    cache, written = make_cache(), torch.zeros(L, 0, 3, H, E)
    for width in widths:
        cache.reorder(torch.zeros(1, width, dtype=torch.int64))
        new = torch.randn(L, width, 3, H, E)
        written = torch.cat((written, new), dim=1)
        _, places = cache.advance(width)
        assert len(places) == L
        for layer, (row, q, k, v) in enumerate(places):
            row.copy_(new[layer].flatten(1))
            assert torch.equal(q, new[layer, :, 0].transpose(0, 1))
            assert torch.equal(k, written[layer, :, 1].permute(1, 2, 0))
            assert torch.equal(v, written[layer, :, 2].transpose(0, 1))
    assert cache.n_positions == len(widths)


def test_room_grows_rarely() -> None:
    cache = make_cache()
    addresses = {cache.advance(1)[1][0][2].data_ptr() for _ in range(200)}
    assert len(addresses) <= 6


def test_a_hypothesis_sees_itself_and_its_ancestors() -> None:
    cache, seen = make_cache(), []
    for parents in ([0], [0, 0], [1, 1, 0], [2]):
        cache.reorder(torch.tensor([parents]))
        bias, _ = cache.advance(len(parents))
        seen.append(None if bias is None else bias.exp().int().tolist())
    assert seen == [
        None,
        [[1, 1, 0], [1, 0, 1]],
        [[1, 0, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1]],
        [[1, 1, 0, 0, 0, 1, 1]],
    ]


def test_one_hypothesis_needs_no_mask() -> None:
    cache = make_cache()
    for _ in range(3):
        cache.reorder(torch.tensor([[0]]))
        assert cache.advance(1)[0] is None


def test_hypotheses_that_nobody_knows_are_refused() -> None:
    cache = make_cache()
    with pytest.raises(ValueError, match="2 hypotheses, but the cache holds 1"):
        cache.advance(2)


def test_a_reading_is_cross_attention(make_model: Callable[..., Transformer]) -> None:
    """Scores, softmax, mix and projection by hand, one head after the other."""
    model = make_model().requires_grad_(False)
    layer = pack_decoder_layer(model.decoder.layers[0])  # type: ignore[arg-type]  # nn.Module
    n_heads, d_model = model.config.n_heads, model.config.d_model
    memory = torch.randn(S, d_model, dtype=torch.float64)
    x = torch.randn(4, d_model, dtype=torch.float64)
    k, v = layer.cross_kv(memory).view(S, 2, n_heads, -1).unbind(1)
    q = layer.cross_q(layer.cross_residual.pre_norm(x)).view(4, n_heads, -1)
    mixed = [(q[:, h] @ k[:, h].T).softmax(-1) @ v[:, h] for h in range(n_heads)]
    expected = layer.cross_residual.add_residual(x.clone(), torch.cat(mixed, dim=1))
    found = FoldedCrossAttention.of(layer, memory, n_heads)(x.clone(), layer.cross_residual)
    torch.testing.assert_close(found, expected)
