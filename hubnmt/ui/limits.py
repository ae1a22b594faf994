"""How much one visitor may ask for at once: others are waiting, and memory is bounded.

Takes texts and a `Translator`; gives what it answers, or refuses with a sentence that says what to
do instead. Must not know Gradio.
"""

from typing import Any

from hubnmt.attention_map import Attention
from hubnmt.errors import InputError
from hubnmt.translation import PairScore
from hubnmt.translator import Translator
from hubnmt.ui.figures import check_drawable

MAX_TEXT_CHARS = 10_000
"""Longest text translated in one go, about four printed pages."""

MAX_SCORED_TOKENS = 1_000
"""Longest side of a pair that is scored: far beyond a sentence, and its logits stay small."""


def check_text(text: Any) -> None:
    """Refuse what is no text to translate.

    Raises:
        InputError: saying what to do instead.
    """
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise InputError("there is nothing to translate yet: type or paste some text first")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"this text has {len(text):,} characters, the page takes {MAX_TEXT_CHARS:,} at a time; "
            "translate it in parts, or use the command: hubnmt translate --input FILE"
        )


def attend(translator: Translator, text: str, translation: str) -> Attention:
    """Look inside one translation, by default the model's own, if it is short enough.

    Raises:
        InputError: if there is no text, or too much.
    """
    check_text(text)
    if not isinstance(translation, str):
        raise InputError(f"the translation must be a string, not {type(translation).__name__}")
    translation = translation or translator.translate(text).text
    n_src_tokens, n_tgt_tokens = _count_tokens(translator, text, translation)
    check_drawable(n_src_tokens, n_tgt_tokens, translator.config)
    return translator.attend(text, translation)


def score(translator: Translator, src: str, tgt: str) -> PairScore:
    """Score a given translation, if it is short enough.

    Raises:
        InputError: if there is no text, or too much.
    """
    check_text(src)
    check_text(tgt)
    n_tokens = max(_count_tokens(translator, src, tgt))
    if n_tokens > MAX_SCORED_TOKENS:
        raise InputError(
            f"too long to score: {n_tokens:,} tokens, at most {MAX_SCORED_TOKENS:,} are taken; "
            "score sentence by sentence"
        )
    return translator.score(src, tgt)


def _count_tokens(translator: Translator, src: str, tgt: str) -> tuple[int, int]:
    """Count the tokens of a pair, the eos of each included."""
    n_src_tokens = len(translator.src_tokenizer.encode(src)) + 1
    return n_src_tokens, len(translator.tgt_tokenizer.encode(tgt)) + 1
