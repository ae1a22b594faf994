"""The shapes in the diagrams of hubnmt/model/README.md are those of the model."""

import re
from pathlib import Path

import torch
from torch import Tensor

from hubnmt.model.attention import LayerCache, MultiHeadAttention, causal_mask, padding_mask
from hubnmt.model.layers import DecoderLayer
from hubnmt.model.transformer import Transformer
from tests.models import make_config

README = Path(__file__).parents[4] / "hubnmt" / "model" / "README.md"
ARROW = re.compile(r'(?:-->|-\.->|==>)\|"(?:[^"]+ × )?\(([^()]+)\)"\| (\w+)')
LETTERS = "BSTNQKHDEFVLW"
SIZES = 2, 5, 7, 8, 6, 21, 3, 12, 4, 17, 23, 13, 10
B, S, T, N, Q, K, H, D, E, F, V, L, W = SIZES


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


def run_blocks() -> dict[str, dict[str, Tensor]]:
    """Tensors of each diagram by the name of their box."""
    model = Transformer(make_config(n_encoder_layers=L, n_decoder_layers=L))
    src, tgt, x = torch.randn(B, S, D), torch.randn(B, T, D), torch.randn(B, N, D)
    src_ids, tgt_in = torch.randint(3, 19, (B, S)), torch.randint(3, V, (B, T))
    src_pad_mask = torch.arange(S) >= torch.tensor([[S], [3]])
    memory_mask, self_mask = padding_mask(src_pad_mask), causal_mask(T, T)

    attention, layer = MultiHeadAttention(D, H), DecoderLayer(make_config())
    out, weights = attention(*attention.project_all(x), need_weights=True)
    hidden, _, _ = layer(
        tgt,
        LayerCache(*layer.cross_attention.project_memory(src)),
        self_mask=self_mask,
        memory_mask=memory_mask,
        need_weights=False,
    )
    cache = model.new_cache(src, src_pad_mask)
    model.step(torch.ones(B, 1, dtype=torch.int64), cache)
    cache.reorder(torch.zeros(B, W, dtype=torch.int64))
    newest = model.step(torch.randint(3, V, (B, W)), cache)
    return {
        "Transformer": {"logits": model(src_ids, tgt_in, src_pad_mask)},
        "Multi-head self-attention": {"out": out, "weights": weights},
        "Decoder layer": {"out": hidden},
        "Masks": {"memory_mask": memory_mask, "self_mask": self_mask},
        "One step": {"logits": model.project(newest)},
    }


def test_every_diagram_ends_in_the_shapes_of_the_model() -> None:
    diagrams, blocks = read_ends(), run_blocks()
    sizes = dict(zip(LETTERS, SIZES, strict=True)) | {"1": 1}
    assert list(diagrams) == list(blocks)
    for title, ends in diagrams.items():
        for box, made in blocks[title].items():
            (shape,) = ends[box]
            assert made.shape == tuple(sizes[letter] for letter in shape.split(", ")), (title, box)


def test_legend_explains_every_letter_of_the_diagrams() -> None:
    legend = re.findall(r"^\| ([A-Z]) \|", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "".join(legend) == LETTERS
