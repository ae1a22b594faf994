"""Alignment: the head that looks along the links between words is found."""

import dataclasses

import pytest
import torch

from hubnmt.attention_map import Attention
from hubnmt.checkpoint import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer
from hubnmt.translator import Translator
from tests.lexicon import invent_pairs
from training.alignment import choose_head


@pytest.fixture
def translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Translator:
    stored = StoredModel(
        model=tiny_model,
        src_tokenizer=tiny_tokenizer,
        tgt_tokenizer=tiny_tokenizer,
        decoding=DecodingConfig(),
    )
    return Translator(stored)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("head", [(0, 2), (1, 0)])
def test_the_head_that_looks_along_the_links_is_chosen(
    head: tuple[int, int], shift: int, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One head is made to look at the word that stands at the same place, at once or late."""
    attend = Translator.attend

    def look(self: Translator, src: str, tgt: str, **options: bool) -> Attention:
        maps = attend(self, src, tgt, **options)
        maps = dataclasses.replace(maps, cross=maps.cross.clone())
        words, sources = maps.by_word().tgt.chars, maps.by_word().src.chars
        maps.cross[head] = 0
        for row, (start, end) in enumerate(maps.tgt.chars[:-1]):
            place = next(n for n, (a, b) in enumerate(words) if a <= start and end <= b)
            first = next(n for n, (a, b) in enumerate(maps.src.chars) if sources[place][0] <= a < b)
            maps.cross[head][row + shift, first] = 1
        return maps

    monkeypatch.setattr(Translator, "attend", look)
    sources, targets = ([" ".join(ws) for ws in side] for side in invent_pairs(60))
    best = choose_head(translator, ["", *sources], ["", *targets])
    assert best is not None
    assert (best.head, best.shift) == (head, shift)
    assert best.accuracy > 0.9
    assert best.n_links > 200
    assert best.all_heads.shape == (2, 2, 3)
    assert best.accuracy == pytest.approx(float(best.all_heads.max()))
    others = best.all_heads.clone()
    others[shift, head[0], head[1]] = 0
    assert others.max() < best.accuracy
    assert torch.all(best.all_heads >= 0)


def test_without_links_there_is_no_head(translator: Translator) -> None:
    assert choose_head(translator, [], []) is None
    assert choose_head(translator, [" "], ["x"]) is None
