"""Which attention head aligns words best, by a yardstick that owes nothing to the model.

Takes sentence pairs and a model, gives the head. Must not know training. The yardstick is made of
the pairs alone, by `training.word_links`. A head's score is the share of linked target words for
which it looks most at the source word of the link, while it is chosen or one step later, as the
decoder's input: lower layers often align there (Chen et al. 2020,
https://arxiv.org/abs/2004.14837).
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from hubnmt.attention_map import Attention
from hubnmt.translator import Translator
from training.word_links import align

MAX_PAIRS = 2_000
"""Pairs to learn from and to look at; more would change little."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HeadScore:
    """How well the best head aligns."""

    head: tuple[int, int]
    """(decoder layer, head)."""
    shift: Literal[0, 1]
    """0 if a word is aligned by the step that chose it, 1 if by the next; see `ModelConfig`."""
    accuracy: float
    """Share of the links that it agrees with, 0 to 1."""
    n_links: int
    """Links it was measured on."""
    all_heads: Tensor
    """(2, L, H) accuracies, by shift."""


def choose_head(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> HeadScore | None:
    """Find the cross-attention head that aligns words best.

    Args:
        translator: of the model.
        sources: sentences, such as the validation set's.
        targets: their translations by people, one each.

    Returns:
        None if the pairs give no link to measure with.
    """
    lines = [
        (" ".join(src.split()), " ".join(tgt.split()))
        for src, tgt in zip(sources, targets, strict=True)
    ]
    maps = [
        translator.attend(src, tgt, split=False) for src, tgt in lines[:MAX_PAIRS] if src and tgt
    ]
    words = [_words_of(each.by_word()) for each in maps]
    links = align([src for src, _ in words], [tgt for _, tgt in words])
    config = translator.config
    n_right = torch.zeros(2, config.n_decoder_layers, config.n_heads)
    for each, pairs in zip(maps, links, strict=True):
        both = torch.stack([each.shifted(shift).by_word().cross for shift in (0, 1)])
        looked_at = both.argmax(-1)  # (2, L, H, T)
        for target, source in pairs:
            n_right += looked_at[:, :, :, target] == source
    n_links = sum(map(len, links))
    if not n_links:
        return None
    accuracies = n_right / n_links  # (2, L, H)
    shift, layer, head = (accuracies == accuracies.max()).nonzero()[0].tolist()
    return HeadScore(
        head=(layer, head),
        shift=1 if shift else 0,
        accuracy=float(accuracies[shift, layer, head]),
        n_links=n_links,
        all_heads=accuracies,
    )


def _words_of(words: Attention) -> tuple[list[str], list[str]]:
    """Read the words of both sides, lower case, `<eos>` left out."""
    sides = []
    for side in (words.src, words.tgt):
        tokens = [token.strip().casefold() for token in side.tokens]
        sides.append([token for n, token in enumerate(tokens) if not side.is_special(n)])
    return sides[0], sides[1]
