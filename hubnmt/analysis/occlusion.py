"""Occlusion: how much each source word contributes to each target token.

A word's contribution is the drop in each token's log-probability when the word is removed.
Attention shows which words a model attends to; occlusion shows which ones it depends on, at the
cost of one scoring pass per word.
Source: "leave one out" as in Zeiler & Fergus 2014, section 2.2, on words instead of pixels.
"""

import dataclasses

from hubnmt.attention.maps import Span, TokenSpans
from hubnmt.attention.replay import locate
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import normalize_casing
from hubnmt.text.graphemes import number_words
from hubnmt.text.tokenizer import single_spaced
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
    falls: tuple[tuple[float, ...], ...]
    """(S, T) drop in log-probability of token t without word s, in nats; negative if it rises."""


def occlude(translator: Translator, src: str, tgt: str | Candidate) -> Occlusion:
    """Score a translation once for each source word, with that word removed.

    Args:
        translator: translator to score with.
        src: one sentence of at least two words.
        tgt: its translation; a `Candidate` is scored with the tokens found by the search.

    Raises:
        InputError: if the source has fewer than two words.
    """
    spans = find_words(translator, src)
    if len(spans.chars) < 2:
        raise InputError("occlusion needs a source of at least two words; give a longer source")
    shorter = [single_spaced(spans.text[:a] + spans.text[b:]) for a, b in spans.chars]
    whole, *without = translator.score([src, *shorter], [tgt] * (len(shorter) + 1), split=False)
    return Occlusion(
        src_words=tuple(token.strip() for token in spans.tokens),
        spans=spans.chars,
        tgt_tokens=whole.tgt_tokens,
        falls=tuple(
            tuple(
                before - after
                for before, after in zip(whole.tgt_log_probs, each.tgt_log_probs, strict=True)
            )
            for each in without
        ),
    )


def find_words(translator: Translator, src: str) -> TokenSpans:
    """Split a sentence into words, without `<eos>`."""
    tokenizer = translator.tokenizers.src
    words, _ = locate(tokenizer.encode(normalize_casing(src, tokenizer)), tokenizer).group(
        number_words
    )
    kept = [index for index in range(len(words.tokens)) if not words.is_special(index)]
    return TokenSpans(
        words.text,
        tuple(words.tokens[index] for index in kept),
        tuple(words.chars[index] for index in kept),
        tuple(words.utf8[index] for index in kept),
    )
