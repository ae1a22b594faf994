"""Occlusion: how much each source word contributes to each target token.

A word's contribution is the drop in each token's log-probability when the word is removed.
Attention shows which words a model attends to; occlusion shows which ones it depends on, at the
cost of one scoring pass per word.
Source: "leave one out" as in Zeiler & Fergus 2014, section 2.2, on words instead of pixels.
"""

import dataclasses
from collections.abc import Sequence

from hubnmt.attention.maps import Span, TokenSpans
from hubnmt.attention.replay import locate
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import encode_whole
from hubnmt.pipeline.targets import pair_sentences
from hubnmt.text.characters import number_words, single_spaced
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.types import Candidate


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Occlusion:
    """Contribution of each source word to each target token."""

    src_words: tuple[str, ...]
    """S words in order; punctuation marks are words of their own."""
    spans: tuple[Span, ...]
    """(start, end) of each word in the normalized source, in characters."""
    tgt_tokens: tuple[str, ...]
    """T readable pieces, `<eos>` last."""
    drops: tuple[tuple[float, ...], ...]
    """(S, T) drop in log-probability of token t without word s, in nats; negative if it rises."""


def occlude(translator: Translator, src: str, tgt: str | Candidate) -> Occlusion:
    """Score a translation once for each source word, with that word removed.

    Args:
        translator: the model.
        src: one sentence of at least two words.
        tgt: its translation; a `Candidate` is scored with the tokens found by the search.

    Raises:
        InputError: if the source is not one sentence of at least two words.
    """
    too_short = InputError(
        "occlusion needs one sentence of at least two words; give another source"
    )
    if len(find_words(translator, src).tokens) < 2:
        raise too_short
    pairs = pair_sentences(src, tgt, translator.tokenizers, config=translator.config, split=False)
    pair = pairs[0]
    # Without a word, the other words keep their placeholders.
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    words = _find_words(pair.src_ids, tokenizers.src)
    if len(pairs) > 1 or len(words.tokens) < 2:
        raise too_short
    shorter = [words.text[:start] + words.text[end:] for start, end in words.chars]
    rows = [pair.src_ids, *(tokenizers.src.encode(single_spaced(text)) for text in shorter)]
    whole, *without = translator.replay([(row, pair.tgt_ids) for row in rows])
    return Occlusion(
        src_words=tuple(token.strip() for token in words.tokens),
        spans=words.chars,
        tgt_tokens=tuple(tokenizers.tgt.readable([*pair.tgt_ids, tokenizers.tgt.eos_id])),
        drops=tuple(
            tuple(before - after for before, after in zip(whole, row, strict=True))
            for row in without
        ),
    )


def find_words(translator: Translator, src: str) -> TokenSpans:
    """Split a sentence into words, without `<eos>`."""
    part = encode_whole(src, translator.tokenizers.src)
    return _find_words(part.ids, translator.tokenizers.src.with_spans(part.protected))


def _find_words(src_ids: Sequence[int], tokenizer: Tokenizer) -> TokenSpans:
    words, _ = locate(src_ids, tokenizer).group(number_words)
    kept = [index for index in range(len(words.tokens)) if not words.is_special(index)]
    return TokenSpans(
        words.text,
        tuple(words.tokens[index] for index in kept),
        tuple(words.chars[index] for index in kept),
        tuple(words.utf8[index] for index in kept),
    )
