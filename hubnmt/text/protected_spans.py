"""Spans that a translation keeps as they stand: URLs, code, numbers, times and others.

A model that has learned to copy placeholders reads each span as one of them. The placeholders are
characters of the private use area of Unicode, which hardly any text contains.
"""

import re
from collections.abc import Sequence
from typing import Final

from hubnmt.text.sentences import EMOJI

PLACEHOLDERS: Final = tuple(chr(0xE000 + number) for number in range(8))
"""U+E000 to U+E007; a sentence can have no more protected spans than these."""

PROTECTED: Final = re.compile(
    rf"""
    `[^`\n]+`                                               # code
    | (?:https?://|www\.)[^\s<>"„“”«»]+[^\s<>"„“”«».,;:!?)\]]   # URL
    | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+             # e-mail address
    | (?<![\w@])[@\#]\w[\w.]*\w(?:@[\w-]+(?:\.[\w-]+)+)?    # handle, tag
    | (?:{EMOJI})+                                          # emoji, joined or in sequence
    | \b\d{{1,2}}:\d{{2}}(?::\d{{2}})?\b                    # time
    | \b\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}\b             # date
    | \b[A-Z]{{1,4}}-?\d{{2}}[A-Z\d]*(?:-[A-Z\d]+)*\b       # code, such as LH456
    | \b\d{{1,3}}(?:[\u00a0\u202f]\d{{3}})+(?:,\d+)?\b      # no-break spaces between thousands
    | \b(?!\d{{3}}\.\s\w)\d(?:[.,]?\d){{2,}}\b              # three digits or more; no "100. Mal"
    """,
    re.VERBOSE,
)
"""Spans that are usually the same in every language."""


_MARKED_TIME: Final = re.compile(
    r"(?<![\w:.])(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)\s?(?:(?P<half>[ap])\.?m\b\.?|uhr\b)",
    re.IGNORECASE,
)
"""A time of day with its mark: "2:30 p.m.", "14:30 Uhr"."""

_HOURS: Final = "eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
_HALF_HOUR: Final = re.compile(rf"\bhalb (?P<hour>{_HOURS})\b", re.IGNORECASE)
"""German half hours, which count to the next hour: "halb acht" is 7:30."""


def unmark_times(text: str) -> str:
    """Replace marked times by those of 24 hours: "2:30 p.m." by "14:30", "halb acht" by "7:30".

    Translations then contain these, and never the time of one language with the mark of another.
    """

    def unmark(match: re.Match[str]) -> str:
        hour, half = int(match["hour"]), (match["half"] or "").lower()
        if half and hour <= 12:
            hour = hour % 12 + 12 * (half == "p")
        is_end = match.end() == len(text) and match.group().endswith(".")
        return f"{hour}:{match['minute']}" + "." * is_end

    hours = _HOURS.split("|")
    text = _HALF_HOUR.sub(lambda half: f"{hours.index(half['hour'].lower()) or 12}:30", text)
    return _MARKED_TIME.sub(unmark, text)


def find_spans(text: str) -> list[str]:
    """Return the protected spans of a text in order, with repetitions."""
    return PROTECTED.findall(text)


def choose_spans(text: str) -> tuple[str, ...]:
    """Return the different spans of a sentence, the first of which becomes U+E000, and so on.

    Spans for which no placeholder is left stay as text. In a sentence that contains placeholders
    itself these stand for themselves, and an empty string marks the others as unused.
    """
    if any(mark in text for mark in PLACEHOLDERS):
        return tuple(mark if mark in text else "" for mark in PLACEHOLDERS)
    return tuple(dict.fromkeys(find_spans(text)))[: len(PLACEHOLDERS)]


def protect(text: str, spans: Sequence[str]) -> str:
    """Replace the given spans of a text by placeholders; protecting it again changes nothing."""
    if not spans:
        return text
    marks = dict(zip(spans, PLACEHOLDERS, strict=False))
    return PROTECTED.sub(lambda match: marks.get(match.group(), match.group()), text)


def is_only_spans(text: str) -> bool:
    """Return whether a text has spans to protect, and besides them no letters or digits."""
    spans = choose_spans(text)
    return bool(spans) and not re.search(r"\w", protect(text, spans))
