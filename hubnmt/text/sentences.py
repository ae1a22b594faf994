"""Split text into sentences, preserving all white space and line breaks.

Sentence boundaries come from `sentencex`, which supports about 250 languages without downloads.
"""

import functools
import re
from typing import NamedTuple

import sentencex

from hubnmt.text.characters import CLUSTER
from hubnmt.text.languages import main_tag

PIECE_BORDER = re.compile(r"(?<=[,;:.!?\u0964\u3001\u3002])\s+|\s+")
CLAUSE_BORDER = re.compile(r"(?<=[,;:.!?\u0964\u3001\u3002])\s+")

ORDINAL_LANGUAGES = frozenset(
    [
        "bs",
        "cs",
        "da",
        "de",
        "et",
        "fi",
        "fo",
        "hr",
        "hu",
        "is",
        "lb",
        "lt",
        "lv",
        "nb",
        "nn",
        "no",
        "sk",
        "sl",
        "sr",
        "tr",
    ]
)
"""Languages that write "3." for "third"."""
ORDINAL_END = re.compile(r"(?:^|\s)\d{1,3}\.$")
IN_LINE_SPACES = (" ", "\u00a0", "\u2009", "\u202f")
"""Spaces that may follow "3." within a line: normal, no-break and thin ones."""

_SYMBOL = "[\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_VARIANT = "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
EMOJI = rf"{_SYMBOL}{_VARIANT}*(?:\u200d{_SYMBOL}{_VARIANT}*)*"
"""Pattern of one emoji, which may be joined of several."""
EMOJI_RUN = re.compile(rf"(?:\s*{EMOJI})+")
"""Emoji and dingbats with the spaces between them. Joiners and variation selectors match only after
one, because a Malayalam word may end with a joiner."""

MAX_CHARACTER = 32
"""Most code points considered part of one grapheme cluster; real ones have at most a dozen."""


class Segment(NamedTuple):
    """One sentence and the white space that follows it."""

    text: str
    space: str


def split_sentences(text: str, language: str) -> list[Segment]:
    """Split a text into sentences, which concatenate to the original text.

    Leading white space becomes a segment with an empty text. A language, given by its BCP 47 tag,
    of which no rules are known is split by general ones.
    """
    segments: list[Segment] = []
    for line in text.splitlines(keepends=True):
        if not line.strip():
            segments.append(Segment("", line))
            continue
        for piece in _split_line(line, main_tag(language)):
            sentence = piece.strip()
            start = piece.index(sentence) if sentence else len(piece)
            if segments:
                segments[-1] = Segment(segments[-1].text, segments[-1].space + piece[:start])
            elif start:
                segments.append(Segment("", piece[:start]))
            if sentence:
                segments.append(Segment(sentence, piece[start + len(sentence) :]))
    return _join_ordinals(segments) if main_tag(language) in ORDINAL_LANGUAGES else segments


@functools.lru_cache(maxsize=256)
def _split_line(line: str, language: str) -> tuple[str, ...]:
    content = line.rstrip("\r\n")
    pieces = (*sentencex.segment(language, content), line[len(content) :])
    return pieces if "".join(pieces) == line else (line,)  # the library may change characters


def _join_ordinals(segments: list[Segment]) -> list[Segment]:
    # "der 3. Stock" is no end of a sentence.
    joined: list[Segment] = []
    for segment in segments:
        before = joined[-1] if joined else None
        if before and before.space in IN_LINE_SPACES and ORDINAL_END.search(before.text):
            joined[-1] = Segment(before.text + before.space + segment.text, segment.space)
        else:
            joined.append(segment)
    return joined


def split_off_emoji(words: str) -> tuple[str, str, str]:
    """Return leading emoji, the sentence, trailing emoji; they concatenate to the text."""
    runs = list(EMOJI_RUN.finditer(words))
    if not runs:
        return "", words, ""
    start = runs[0].end() if runs[0].start() == 0 else 0
    end = runs[-1].start() if runs[-1].end() == len(words) else len(words)
    core = words[start:end].strip() if start < end else ""
    start = words.index(core, start) if core else len(words)
    return words[:start], core, words[start + len(core) :]


def halve(text: str) -> tuple[str, str, str] | None:
    """Split a sentence near its middle, after a clause if possible, else between words.

    Returns:
        left, the white space between, right; None if it cannot be split.
    """
    for border in (CLAUSE_BORDER, PIECE_BORDER):
        cuts = [m for m in border.finditer(text) if m.start() > 0 and m.end() < len(text)]
        near = [cut for cut in cuts if 0.2 < cut.start() / len(text) < 0.8]
        if near:
            best = min(near, key=lambda cut: abs(cut.start() - len(text) / 2))
            return text[: best.start()], best.group(), text[best.end() :]
    if len(text) < 2:
        return None
    # Not within a grapheme cluster, unless it is longer than any real one.
    half = len(text) // 2
    starts = [cluster.start() for cluster in CLUSTER.finditer(text, endpos=half + MAX_CHARACTER)]
    middle = max((start for start in starts if half - MAX_CHARACTER < start <= half), default=half)
    middle = middle or half
    left, right = text[:middle], text[middle:]
    left, right = left.rstrip() or left, right.lstrip() or right
    return left, text[len(left) : len(text) - len(right)], right
