"""The shapes in the diagrams of hubnmt/model/README.md are those of the model."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hubnmt.model.attention import MultiHeadAttention, scaled_dot_product_attention
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer
from hubnmt.model.masks import causal_mask, padding_mask
from hubnmt.model.transformer import Decoder, Encoder, Transformer
from tests.models import make_config

README = Path(__file__).parents[4] / "hubnmt" / "model" / "README.md"
ARROW = re.compile(r'(?:-->|-\.->|==>)\|"(?:[^"]+ × )?\(([^()]+)\)"\| (\w+)')
LETTERS = "BSTNQKHDEFVLW"
B, S, T, N, Q, K, H, D, E, F, V, L, W = SIZES = 2, 5, 7, 8, 6, 21, 3, 12, 4, 17, 23, 13, 10


def read_ends() -> dict[str, dict[str, set[str]]]:
    """Shapes of the arrows into each box, by title of the diagram."""
    diagrams: dict[str, dict[str, set[str]]] = {}
    for block in README.read_text(encoding="utf-8").split("```mermaid\n")[1:]:
        block = block[: block.index("```")]
        arrows = ARROW.findall(block)
        assert len(arrows) == block.count('|"'), block
        ends = diagrams.setdefault(block.split("accTitle: ")[1].splitlines()[0], {})
        for shape, end in arrows:
            ends.setdefault(end, set()).add(shape)
    return diagrams


def run_blocks() -> dict[str, dict[str, Any]]:
    """Tensors of each diagram by the name of their box; several of one shape as a list."""
    config = make_config(n_encoder_layers=L, n_decoder_layers=L)
    q, k, v = torch.randn(B, H, Q, E), torch.randn(B, H, K, E), torch.randn(B, H, K, E)
    src, tgt, x = torch.randn(B, S, D), torch.randn(B, T, D), torch.randn(B, N, D)
    src_pad_mask = torch.arange(S) >= torch.tensor([[S], [3]])
    src_ids, tgt_in = torch.randint(3, 19, (B, S)), torch.randint(3, V, (B, T))
    memory_mask, self_mask = padding_mask(src_pad_mask), causal_mask(T, T)
    attention, model = MultiHeadAttention(D, H), Transformer(config)
    encoder, decoder, layer = Encoder(config), Decoder(config), DecoderLayer(config)

    cache = model.precompute_cross_attention(src, src_pad_mask)
    model.step(torch.ones(B, 1, dtype=torch.int64), cache)
    cache.reorder(torch.zeros(B, W, dtype=torch.int64))
    model.step(torch.randint(3, V, (B, W)), cache)
    hidden = model.step(torch.randint(3, V, (B, W)), cache)  # K = 1 + 2 W entries

    def name(*names: str) -> Any:
        return lambda tensors: dict(zip(names, tensors, strict=True))

    attended, weighted = name("out", "weights"), name("out", "self_weights", "cross_weights")
    cached = layer.precompute_cross_attention(src)
    return {
        "Scaled dot-product attention": name("mixture", "weights")(
            scaled_dot_product_attention(q, k, v)
        ),
        "Multi-head self-attention": attended(
            attention(*attention.project_all(x), need_weights=True)
        ),
        "Multi-head cross-attention": attended(
            attention(
                attention.project_queries(tgt), *attention.project_memory(src), need_weights=True
            )
        ),
        "Feed-forward network": {"out": FeedForward(D, F, activation="relu", dropout=0.5)(x)},
        "Sub-layer, pre-norm": {"out": SubLayer(config)(x, torch.sin)},
        "Sub-layer, post-norm": {"out": SubLayer(make_config(norm_order="post"))(x, torch.sin)},
        "Encoder layer": attended(EncoderLayer(config)(src, memory_mask, need_weights=True)),
        "Decoder layer": weighted(
            layer(tgt, cached, self_mask=self_mask, memory_mask=memory_mask, need_weights=True)
        ),
        "Embedding and positions": {"out": model.positions(model.src_embedding(src_ids))},
        "Encoder": name("memory", "weights")(encoder(src, memory_mask, need_weights=True)),
        "Decoder": name("hidden", "self_weights", "cross_weights")(
            decoder(
                tgt,
                decoder.precompute_cross_attention(src, memory_mask),
                self_mask,
                need_weights=True,
            )
        ),
        "Transformer": {"logits": model(src_ids, tgt_in, src_pad_mask)},
        "One step": {"logits": model.project(hidden)},
        "One step inside a decoder layer": {"out": hidden},
    }


def test_every_diagram_ends_in_the_shapes_of_the_model() -> None:
    diagrams, blocks = read_ends(), run_blocks()
    sizes = dict(zip(LETTERS, SIZES, strict=True))
    assert list(diagrams) == list(blocks)
    for title, ends in diagrams.items():
        for box, made in blocks[title].items():
            (shape,) = ends[box]
            drawn = tuple(sizes[letter] for letter in shape.split(", "))
            tensors = [made] if isinstance(made, Tensor) else made
            assert {tuple(each.shape) for each in tensors} == {drawn}, (title, box)


def test_legend_explains_every_letter_of_the_diagrams() -> None:
    legend = re.findall(r"^\| ([A-Z]) \|", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "".join(legend) == LETTERS
