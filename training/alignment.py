"""Which attention head aligns words best, by a yardstick that owes nothing to the model.

Takes sentence pairs and a model, gives the head. Must not know training. The yardstick is made of
the pairs alone: two word translation tables, one for each direction, are learned by
expectation-maximisation with a preference for the diagonal, and only links that both directions
agree on count. Such links are few and reliable. A head's score is the share of these target words
for which it looks most at the linked source word, while it is chosen or one step later, as the
decoder's input: lower layers often align there (Chen et al. 2020,
https://arxiv.org/abs/2004.14837). Sources of the yardstick: Brown et al. 1993 (model 1),
https://aclanthology.org/J93-2003; Dyer et al. 2013 (the diagonal), https://aclanthology.org/N13-1073;
Och and Ney 2003 (agreement), https://aclanthology.org/J03-1002.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from hubnmt.attention_map import Attention
from hubnmt.translator import Translator

ROUNDS = 6
"""Of expectation-maximisation; a table of this size has settled by then."""
DIAGONAL = 4.0
"""How fast the prior falls with the distance from the diagonal, as in fast_align."""
NULL_SHARE = 0.08
"""Prior of a word that translates nothing."""
MAX_PAIRS = 2_000
"""Pairs to learn from and to look at; more would change little."""

Words = Sequence[str]
Link = tuple[int, int]
"""(target word, source word), counted from 0."""


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


def align(sources: Sequence[Words], targets: Sequence[Words]) -> list[set[Link]]:
    """Link the words of sentence pairs, where both directions agree."""
    forward = _most_probable(sources, targets)
    backward = _most_probable(targets, sources)
    return [
        {(t, s) for t, s in one.items() if other.get(s) == t}
        for one, other in zip(forward, backward, strict=True)
    ]


def _most_probable(givens: Sequence[Words], saids: Sequence[Words]) -> list[dict[int, int]]:
    """For each word said find the given word it most probably translates; none for no word."""
    table: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(ROUNDS):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for given, said in zip(givens, saids, strict=True):
            for place, word in enumerate(said):
                posterior = _posterior(table, given, word, place, len(said))
                for other, share in zip(["", *given], posterior, strict=True):
                    counts[other, word] += share
                    totals[other] += share
        table = defaultdict(
            float, {pair: count / totals[pair[0]] for pair, count in counts.items()}
        )
    found = []
    for given, said in zip(givens, saids, strict=True):
        links = {}
        for place, word in enumerate(said):
            posterior = _posterior(table, given, word, place, len(said))
            best = max(range(len(posterior)), key=posterior.__getitem__)
            if best:
                links[place] = best - 1
        found.append(links)
    return found


def _posterior(
    table: dict[tuple[str, str], float], given: Words, word: str, place: int, n_said: int
) -> list[float]:
    """Share a word out among no word at all and the given ones."""
    distances = [abs((n + 0.5) / len(given) - (place + 0.5) / n_said) for n in range(len(given))]
    priors = [math.exp(-DIAGONAL * distance) for distance in distances]
    scale = (1 - NULL_SHARE) / max(sum(priors), 1e-9)
    weights = [NULL_SHARE * table["", word]]
    weights += [
        scale * prior * table[other, word] for prior, other in zip(priors, given, strict=True)
    ]
    total = sum(weights)
    return [weight / total for weight in weights] if total else [1.0, *([0.0] * len(given))]


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
