"""Choose the cross-attention head that aligns words best.

The reference links come from co-occurrence, not from the model. A head's score is the share of
linked target words for which its attention is largest on the linked source word, either at the
step that generates the word or one step later, when it is the decoder's input: lower layers often
align there (Chen et al. 2020, https://arxiv.org/abs/2004.14837).
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hubnmt.attention.maps import Attention, TokenSpans
from hubnmt.attention.replay import locate
from hubnmt.text.graphemes import number_words
from hubnmt.translator import Translator
from training.data.batching import Pair, collate, measure_lengths, plan_epoch
from training.run.validation import HeldOutPairs

MAX_PAIRS = 2_000
"""Pairs to align and to evaluate on; more would change little."""
BATCH_TOKENS = 1024
"""Padded tokens whose attention is held in memory at once: about 20 MB for 6 layers of 8 heads."""

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
    ids = [(src, tgt) for src, tgt in pairs.ids if src and tgt][:MAX_PAIRS]
    spans = [
        (locate(src, translator.tokenizers.src), locate(tgt, translator.tokenizers.tgt))
        for src, tgt in ids
    ]
    links = link_words([_words_of(src) for src, _ in spans], [_words_of(tgt) for _, tgt in spans])
    config = translator.config
    n_right = torch.zeros(2, config.n_decoder_layers, config.n_heads)
    for row, most_attended in _argmax_words(translator, ids, spans):
        for target, source in links[row]:
            n_right += most_attended[:, :, :, target] == source
    n_links = sum(map(len, links))
    if not n_links:
        return None
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


def _argmax_words(
    translator: Translator, pairs: Sequence[Pair], spans: Sequence[tuple[TokenSpans, TokenSpans]]
) -> Iterator[tuple[int, Tensor]]:
    """Yield each pair's number and the source word with the largest attention per target word.

    The words are (2, L, H, T), by shift. Only the maps of one batch are held in memory: those of
    all pairs would take gigabytes.
    """
    for rows in plan_epoch(measure_lengths(pairs), batch_tokens=BATCH_TOKENS, seed=0):
        batch = collate(
            [pairs[row] for row in rows],
            tokenizers=translator.tokenizers,
        ).to(translator.device)
        with torch.inference_mode():
            maps = translator.model.cross_attend(
                batch.src.src_ids, batch.tgt_in, batch.src.src_pad_mask
            )  # (B, L, H, T, S)
            maps = maps.float().cpu()
        for row, cross in zip(rows, maps, strict=True):
            attention = _make_attention(cross, *spans[row])
            both = [attention.shifted(shift).by_word().cross for shift in (0, 1)]
            yield row, torch.stack(both).argmax(-1)  # (2, L, H, T)


def _make_attention(cross: Tensor, src: TokenSpans, tgt: TokenSpans) -> Attention:
    """Remove the padding; the self-attention maps are left empty."""
    n_src, n_tgt = len(src.tokens), len(tgt.tokens)
    return Attention(
        src=src,
        tgt=tgt,
        cross=cross[:, :, :n_tgt, :n_src],
        encoder_self=cross.new_empty(0, 0, n_src, n_src),
        decoder_self=cross.new_empty(0, 0, n_tgt, n_tgt),
        tgt_log_probs=(0.0,) * n_tgt,
    )


def _words_of(side: TokenSpans) -> list[str]:
    words, _ = side.group(number_words)
    tokens = [token.strip().casefold() for token in words.tokens]
    return [token for n, token in enumerate(tokens) if not words.is_special(n)]
