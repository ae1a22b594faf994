"""The check beside attention: leave out one word of the source, and see which words miss it.

Takes a `Translator` and one sentence pair, gives for each word of the source by how much the
log-probability of each target token falls without it. Attention says where a model looked; this
says what it could not do without, at the price of one replay per word. Must not know Gradio.
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
class LeftOut:
    """What each word of a source is worth to each token of its translation."""

    src_words: tuple[str, ...]
    """S words in order; punctuation marks are words of their own."""
    spans: tuple[Span, ...]
    """Where each stands in the source as the model sees it, characters."""
    tgt_tokens: tuple[str, ...]
    """T readable pieces, `<eos>` last."""
    falls: tuple[tuple[float, ...], ...]
    """(S, T) nats that the log-probability of token t falls by without word s; below 0 it rises."""


def leave_out(translator: Translator, src: str, tgt: str | Candidate) -> LeftOut:
    """Replay a translation once for each word that its source can do without.

    Args:
        translator: scores.
        src: one sentence of at least two words.
        tgt: its translation; of a `Candidate` exactly the tokens that were searched.

    Raises:
        InputError: if there are no two words.
    """
    spans = find_words(translator, src)
    if len(spans.chars) < 2:
        raise InputError("a word is left out of at least two; give a longer source")
    shorter = [single_spaced(spans.text[:a] + spans.text[b:]) for a, b in spans.chars]
    whole, *without = translator.score([src, *shorter], [tgt] * (len(shorter) + 1), split=False)
    return LeftOut(
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
    """Cut a sentence into the words that can be left out; the end is none of them."""
    tokenizer = translator.src_tokenizer
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
