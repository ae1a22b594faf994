"""Find the words of a translation that the model is unsure of."""

import itertools
import math
from collections.abc import Sequence

from hubnmt.attention.replay import locate
from hubnmt.pipeline.segmentation import find_protected
from hubnmt.text.graphemes import number_words
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.types import UNSURE


def bind_sentence(translator: Translator, sentence: str) -> Tokenizer:
    """Return the target tokenizer with the protected spans of a source sentence."""
    protected = find_protected(sentence, translator.tokenizers.src)
    return translator.tokenizers.tgt.with_spans(protected)


def find_unsure(
    text: str,
    rows: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]],
    tokenizers: Sequence[Tokenizer],
) -> list[list[int]]:
    """Return the start and end, in characters, of each word less probable than `UNSURE`.

    A word's probability is the product of its tokens', as in the steering row.

    Args:
        text: the translation.
        rows: token ids of each of its sentences, without special tokens.
        log_probs: log-probability of each token and eos of each sentence, nats.
        tokenizers: target tokenizer with the protected spans of each sentence.
    """
    found: list[list[int]] = []
    behind = 0
    for row, values, tokenizer in zip(rows, log_probs, tokenizers, strict=False):
        words, sizes = locate(row, tokenizer).group(number_words)
        sentence = words.text.strip()
        start = max(text.find(sentence, behind), behind)
        moved = start - words.text.index(sentence)
        for number, end in enumerate(itertools.accumulate(sizes)):
            probability = math.exp(min(sum(values[end - sizes[number] : end]), 0.0))
            first, last = words.word_span(number)
            if probability < UNSURE and any(map(str.isalnum, words.text[first:last])):
                found.append([first + moved, last + moved])
        behind = start + len(sentence)
    return found
