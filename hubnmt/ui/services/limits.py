"""Limits of the page on texts and searches.

What exceeds one is an `InputError` with the size, the limit and the remedy.
"""

from collections.abc import Sequence
from typing import Any

from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import check_prefix

MAX_TEXT_CHARS = 10_000
"""Maximum length of a text, about four printed pages."""

MAX_WORK = 160_000
"""Maximum characters times hypotheses of a search: `MAX_TEXT_CHARS` with a beam of 16."""

MAX_NEW_TOKENS = 512
"""Maximum `max_new_tokens` per sentence."""

MAX_PREFIX_CHARS = 300
"""Maximum length of a forced prefix: a rare word may take one decoding step per character."""

MAX_FILE_CHARS = 1_000_000
"""Maximum length of the translated column of a file."""

MAX_ROW_CHARS, MAX_ROW_WORK = 2_000, 20_000
"""Maximum characters, and characters times hypotheses, of a row, which is translated in one
turn."""


def check_text(text: Any) -> None:
    """Refuse what is not a string, or is empty or too long."""
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise InputError("there is nothing to translate yet: enter some text first")
    _check_size("the text", len(text), MAX_TEXT_CHARS, "translate it as a file in the tab Files")
    check_characters(text, "the text")


def _check_size(what: str, n_chars: int, most: int, remedy: str) -> None:
    if n_chars > most:
        raise InputError(f"{what} has {n_chars:,} characters; the limit is {most:,}; {remedy}")


def check_characters(text: str, name: str) -> None:
    """Refuse unpaired surrogates, which JSON can express and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} contains an unpaired surrogate, which is not a valid character; remove it"
        ) from None


def check_search(text: str, decoding: DecodingConfig, prefix: str = "") -> None:
    """Refuse options and a forced prefix that exceed a limit."""
    if (decoding.max_new_tokens or 0) > MAX_NEW_TOKENS:
        raise InputError(
            f"max_new_tokens = {decoding.max_new_tokens} exceeds this page's limit of "
            f"{MAX_NEW_TOKENS} tokens per sentence"
        )
    check_prefix(prefix)
    _check_size("the forced prefix", len(prefix), MAX_PREFIX_CHARS, "shorten it")
    check_characters(prefix, "the forced prefix")
    most = MAX_WORK // count_hypotheses(decoding)
    _check_size("the text", len(text), most, "split it, or reduce beam_size")


def count_hypotheses(decoding: DecodingConfig) -> int:
    """Return the number of hypotheses of a search."""
    return decoding.n_best if decoding.sample else decoding.beam_size


def check_rows(rows: Sequence[str], decoding: DecodingConfig) -> None:
    """Refuse a column of a file that exceeds a limit, naming the row."""
    _check_size("the column", sum(map(len, rows)), MAX_FILE_CHARS, "split the file")
    check_search("", decoding)
    most = min(MAX_ROW_CHARS, MAX_ROW_WORK // count_hypotheses(decoding))
    remedy = "put one sentence or paragraph on each line, or reduce beam_size"
    for number, row in enumerate(rows, 1):
        _check_size(f"row {number:,}", len(row), most, remedy)
