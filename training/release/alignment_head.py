"""Choose the cross-attention head that aligns words best.

The reference links come from co-occurrence, not from the model. A head's score is the share of
linked target words for which its attention is largest on the linked source word, either at the
step that generates the word or one step later, when it is the decoder's input: lower layers often
align there (Chen et al. 2020, https://arxiv.org/abs/2004.14837).
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from hubnmt.attention.maps import TokenSpans
from hubnmt.attention.replay import attend
from hubnmt.text.characters import number_words
from hubnmt.translator import Translator
from training.run.validation import HeldOutPairs

MAX_PAIRS = 1_000
"""Pairs to align and to evaluate on; more would change little."""

Link = tuple[int, int]
"""(target word, source word), counted from 0."""


class HeadScore(NamedTuple):
    """The best head and its alignment accuracy."""

    head: tuple[int, int]
    """(decoder layer, head)."""
    shift: Literal[0, 1]
    """0 to align by the step that generates the word, 1 by the next; see `ModelConfig`."""
    accuracy: float
    """Share of links predicted correctly, 0 to 1."""
    n_links: int


def choose_head(translator: Translator, pairs: HeldOutPairs) -> HeadScore | None:
    """Find the cross-attention head that aligns words best; None if there is no reference link."""
    # 1. Find the source word that each head looks at most for each target word.
    sources, targets, most_attended = [], [], []
    for src, tgt in [(src, tgt) for src, tgt in pairs.ids if src and tgt][:MAX_PAIRS]:
        maps = attend(translator.model, src, tgt, translator.tokenizers)
        cross = torch.stack([maps.shifted(shift).by_word().cross for shift in (0, 1)])
        most_attended.append(cross.argmax(-1))  # (2, L, H, T)
        sources.append(_words_of(maps.src))
        targets.append(_words_of(maps.tgt))
    # 2. Count how often it is the linked one.
    links = link_words(sources, targets)
    n_links = sum(map(len, links))
    if not n_links:
        return None
    n_right = torch.zeros(2, translator.config.n_decoder_layers, translator.config.n_heads)
    for looked_at, pair_links in zip(most_attended, links, strict=True):
        for target, source in pair_links:
            n_right += looked_at[..., target] == source
    accuracies = n_right / n_links  # (2, L, H)
    shift, layer, head = (accuracies == accuracies.max()).nonzero()[0].tolist()
    return HeadScore((layer, head), shift, float(accuracies[shift, layer, head]), n_links)


def link_words(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[list[Link]]:
    """Return the links between words that are each other's most associated word of the pair.

    The association is Dice's coefficient over all pairs, times a factor of 1 on the diagonal and
    of 1/2 far from it, which decides between equal words.
    Source: Melamed 2000, section 3, https://aclanthology.org/J00-2004
    """
    n_src, n_tgt, n_both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for src, tgt in zip(sources, targets, strict=True):
        n_src.update(set(src))
        n_tgt.update(set(tgt))
        n_both.update(itertools.product(set(src), set(tgt)))
    links = []
    for src, tgt in zip(sources, targets, strict=True):
        dice = [[2 * n_both[s, t] / (n_src[s] + n_tgt[t]) for s in src] for t in tgt]
        tgt_places, src_places = (
            torch.arange(len(words)).add(0.5) / len(words) for words in (tgt, src)
        )
        distance = (tgt_places[:, None] - src_places).abs()  # (T, S)
        scores = torch.tensor(dice) * (1 - distance / 2)
        is_best = scores == scores.amax(1, keepdim=True)
        links.append((is_best & (scores == scores.amax(0))).nonzero().tolist())
    return links


def _words_of(side: TokenSpans) -> list[str]:
    words, _ = side.group(number_words)
    tokens = [token.strip().casefold() for token in words.tokens]
    return [token for n, token in enumerate(tokens) if not words.is_special(n)]
