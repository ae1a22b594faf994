"""Filtering of training pairs, and statistics of the dropped ones."""

import dataclasses
import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import regex

from hubnmt.errors import InputError
from hubnmt.text.characters import normalize, script_of_letter, single_spaced
from hubnmt.text.languages import main_tag
from training.config.data import DataConfig

_LANGUAGES = {
    "LATIN": "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms mt nb nl nn no pl "
    "pt ro sk sl sq sv sw tl tr vi",
    "CYRILLIC": "be bg kk ky mk mn ru tg uk",
    "DEVANAGARI": "hi mr ne sa",
    "ARABIC": "ar fa ps ur",
    "BENGALI": "as bn",
    "HEBREW": "he yi",
    **{"ARMENIAN": "hy", "ETHIOPIC": "am", "GEORGIAN": "ka", "GREEK": "el", "GUJARATI": "gu"},
    **{"GURMUKHI": "pa", "KANNADA": "kn", "KHMER": "km", "LAO": "lo", "MALAYALAM": "ml"},
    **{"MYANMAR": "my", "ORIYA": "or", "SINHALA": "si", "TAMIL": "ta", "TELUGU": "te"},
    **{"CJK": "zh", "THAI": "th"},
}
SCRIPTS: dict[str, frozenset[str]] = {
    **{tag: frozenset({script}) for script, tags in _LANGUAGES.items() for tag in tags.split()},
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "ko": frozenset({"HANGUL", "CJK"}),
}
"""Scripts of languages with a single writing system; other languages may use any script."""

SUBTAGS = {"latn": "LATIN", "cyrl": "CYRILLIC", "deva": "DEVANAGARI", "arab": "ARABIC"}
"""Script subtags of BCP 47, which override the language: `sr-Latn`."""


@functools.cache
def scripts_of(language: str) -> frozenset[str]:
    """Return the scripts of a language, a BCP 47 tag; empty means any."""
    for subtag in language.lower().replace("_", "-").split("-")[1:]:
        if subtag in SUBTAGS:
            return frozenset({SUBTAGS[subtag]})
    return SCRIPTS.get(main_tag(language), frozenset())


def script_share(text: str, scripts: frozenset[str]) -> float:
    """Return the share of letters in these scripts; 1 for a text without letters."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text).items():
        counts[script_of_letter(char)] += count
    del counts[""]  # marks, digits, punctuation
    return sum(counts[script] for script in scripts) / counts.total() if counts else 1.0


INVALID = "\ufffd"
"""Replacement character of invalid UTF-8; pairs that contain it are dropped."""
NOT_TEXT = "not valid UTF-8"
"""Reason to drop a pair; also given for zero bytes, a sign of UTF-16 read as UTF-8."""
DUPLICATE = "duplicate"
N_EXAMPLES, MAX_EXAMPLE_CHARS = 3, 200
_NOT_COMPARED = regex.compile(r"[\p{P}\p{Z}\p{C}]+")
_MARGIN_CHARS = 20
"""Difference in length that is always accepted."""


@dataclasses.dataclass(slots=True)
class CleaningReport:
    """Numbers of pairs read and dropped, by corpus and reason."""

    read: Counter[str] = dataclasses.field(default_factory=Counter)
    """Pairs read from each corpus."""
    drops: dict[str, Counter[str]] = dataclasses.field(default_factory=lambda: defaultdict(Counter))
    """Dropped pairs by corpus and reason."""
    examples: dict[str, list[tuple[str, ...]]] = dataclasses.field(default_factory=dict)
    """The first dropped pairs by reason, their texts cut to `MAX_EXAMPLE_CHARS`."""

    def drop(self, corpus: str, reason: str, pair: tuple[str, str]) -> None:
        """Count a dropped pair."""
        self.drops[corpus][reason] += 1
        shown = tuple(text[:MAX_EXAMPLE_CHARS] for text in pair)
        self.examples[reason] = [*self.examples.get(reason, ()), shown][:N_EXAMPLES]

    @property
    def dropped(self) -> Counter[str]:
        """Dropped pairs by reason."""
        return sum(self.drops.values(), Counter[str]())

    @property
    def n_kept(self) -> int:
        """Kept pairs."""
        return self.read.total() - self.dropped.total()

    def describe(self, corpus: str | None = None) -> str:
        """Return the counts of a corpus, or of all, in one line."""
        n_read = self.read.total() if corpus is None else self.read[corpus]
        dropped = self.dropped if corpus is None else self.drops[corpus]
        reasons = ", ".join(f"{count:,} {why}" for why, count in dropped.most_common())
        return (
            f"{n_read - dropped.total():,} of {n_read:,} pairs kept; dropped: {reasons or 'none'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, in all and by corpus."""
        corpora = {
            name: {"n_read": n, "dropped": dict(self.drops[name])} for name, n in self.read.items()
        }
        return {
            "n_read": self.read.total(),
            "n_kept": self.n_kept,
            "dropped": dict(self.dropped),
            "corpora": corpora,
        }


class HeldOutSentences:
    """Held-out sentences, compared ignoring case, spaces and punctuation."""

    def __init__(self) -> None:
        """Begin without sentences."""
        self._sides: tuple[set[str], set[str]] = (set(), set())

    def update(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add both sides of validation or test pairs."""
        for pair in pairs:
            for texts, text in zip(self._sides, pair, strict=True):
                texts.update(filter(None, [comparable(tidy(text))]))

    def shares_a_side(self, src: str, tgt: str) -> bool:
        """Return whether either side is held out: one side is enough to leak the pair."""
        sides = zip(self._sides, (src, tgt), strict=True)
        return any(texts and comparable(text) in texts for texts, text in sides)


def comparable(text: str) -> str:
    """Return the key by which normalised sentences are compared: case-folded letters and digits.

    Joiners (category `C`) are removed, so Malayalam spellings that differ only in them are equal.
    """
    return _NOT_COMPARED.sub("", text.casefold()) or text


def tidy(text: str) -> str:
    """Return normalised text in which each sequence of white space, also no-break, is one space."""
    line = single_spaced(text)
    if line.isascii():
        return line
    try:
        return normalize(line)
    except InputError:  # a lone surrogate, which JSON can contain
        return INVALID


def is_broken(text: str) -> bool:
    """Return whether a text contains invalid characters."""
    return INVALID in text or "\0" in text


def fingerprint_pair(src: str, tgt: str) -> int:
    """Return a 64-bit hash of a pair, ignoring white space."""
    text = "\n".join("".join(side.split()) for side in (src, tgt))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


def why_drop(src: str, tgt: str, config: DataConfig) -> str | None:
    """Return the reason to drop a normalised pair, or None to keep it.

    `read_clean` finds duplicates and held-out sentences.
    """
    if is_broken(src) or is_broken(tgt):
        return NOT_TEXT
    if not src or not tgt:
        return "empty"
    shorter, longer = sorted((len(src), len(tgt)))
    if longer > config.max_length_ratio * shorter and longer - shorter >= _MARGIN_CHARS:
        return "absurdly unequal"
    if config.drop_copies and src == tgt:
        return "source = target"
    for text, language in ((src, config.src_lang), (tgt, config.tgt_lang)):
        scripts = scripts_of(language)
        is_plain = text.isascii() and "LATIN" in scripts
        if scripts and not is_plain and script_share(text, scripts) < config.min_script_share:
            return "wrong script"
    return None
