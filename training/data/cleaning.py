"""Which pairs are fit to learn from, and a count of those that are not.

Takes raw pairs, gives clean ones or a reason. Must not know where pairs come from.
"""

import collections
import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Self

from hubnmt.errors import InputError
from hubnmt.text.sentences import base_language
from hubnmt.text.tokenizer import normalize, single_spaced
from training.config.data import DataConfig

_LATIN = (
    "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms mt nb nl nn no pl pt ro sk "
    "sl sq sv sw tl tr vi"
)
_CYRILLIC = "be bg kk ky mk mn ru tg uk"
_DEVANAGARI = "hi mr ne sa"
_ARABIC = "ar fa ps ur"

SCRIPTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_LATIN.split(), frozenset({"LATIN"})),
    **dict.fromkeys(_CYRILLIC.split(), frozenset({"CYRILLIC"})),
    **dict.fromkeys(_DEVANAGARI.split(), frozenset({"DEVANAGARI"})),
    **dict.fromkeys(_ARABIC.split(), frozenset({"ARABIC"})),
    "am": frozenset({"ETHIOPIC"}),
    "as": frozenset({"BENGALI"}),
    "bn": frozenset({"BENGALI"}),
    "el": frozenset({"GREEK"}),
    "gu": frozenset({"GUJARATI"}),
    "he": frozenset({"HEBREW"}),
    "hy": frozenset({"ARMENIAN"}),
    "ja": frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    "ka": frozenset({"GEORGIAN"}),
    "km": frozenset({"KHMER"}),
    "kn": frozenset({"KANNADA"}),
    "ko": frozenset({"HANGUL", "CJK"}),
    "lo": frozenset({"LAO"}),
    "ml": frozenset({"MALAYALAM"}),
    "my": frozenset({"MYANMAR"}),
    "or": frozenset({"ORIYA"}),
    "pa": frozenset({"GURMUKHI"}),
    "si": frozenset({"SINHALA"}),
    "ta": frozenset({"TAMIL"}),
    "te": frozenset({"TELUGU"}),
    "th": frozenset({"THAI"}),
    "yi": frozenset({"HEBREW"}),
    "zh": frozenset({"CJK"}),
}
"""Languages written in one way only; of any other every script is right."""

SUBTAGS = {"latn": "LATIN", "cyrl": "CYRILLIC", "deva": "DEVANAGARI", "arab": "ARABIC"}
"""Script subtags of BCP 47, which overrule the language: `sr-Latn`."""


def scripts_of(language: str) -> frozenset[str]:
    """Return the scripts of a language; empty means any.

    Args:
        language: BCP 47 tag, or as FLORES spells it (`mal_Mlym`).
    """
    for subtag in language.lower().replace("_", "-").split("-")[1:]:
        if subtag in SUBTAGS:
            return frozenset({SUBTAGS[subtag]})
    return SCRIPTS.get(base_language(language), frozenset())


def script_share(text: str, scripts: frozenset[str]) -> float:
    """Return the share of letters that are of these scripts; 1 for a text without letters.

    Combining marks count for nothing, so that a vowel sign is no vote of its own.
    """
    n_letters = n_right = 0
    for char, count in collections.Counter(text).items():
        script = _script(char)
        if script:
            n_letters += count
            n_right += count if script in scripts else 0
    return n_right / n_letters if n_letters else 1.0


@functools.lru_cache(maxsize=65_536)
def _script(char: str) -> str:
    """Return the script of a letter; empty for anything else."""
    if not unicodedata.category(char).startswith("L"):
        return ""
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]


INVALID = "\ufffd"
"""Stands for bytes that were not valid UTF-8: a pair with it is dropped."""
NOT_TEXT = "not valid UTF-8"
"""The reason; a zero byte, which UTF-16 read as UTF-8 is full of, is one too."""
DUPLICATE = "duplicate"
_MARGIN_CHARS = 20
"""Short pairs may differ by this much, whatever the ratio."""


@dataclasses.dataclass(slots=True)
class CleaningReport:
    """How many pairs came in, and why some did not stay, corpus by corpus."""

    read: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Pairs read from each corpus."""
    drops: dict[str, collections.Counter[str]] = dataclasses.field(default_factory=dict)
    """Corpus to reason to pairs."""

    def drop(self, corpus: str, reason: str, n: int = 1) -> None:
        """Count pairs that do not stay."""
        if n:
            self.drops.setdefault(corpus, collections.Counter())[reason] += n

    @property
    def n_read(self) -> int:
        """Pairs that came in."""
        return self.read.total()

    @property
    def dropped(self) -> collections.Counter[str]:
        """Pairs dropped for each reason."""
        return sum(self.drops.values(), collections.Counter())

    def kept(self, corpus: str) -> int:
        """Count the pairs of one corpus that stay."""
        return self.read[corpus] - self.drops.get(corpus, collections.Counter()).total()

    @property
    def n_kept(self) -> int:
        """Pairs that stay."""
        return self.n_read - self.dropped.total()

    def __str__(self) -> str:
        """Say it in one line."""
        return _describe(self.n_read, self.dropped)

    def lines(self) -> list[str]:
        """Say it of each corpus."""
        empty: collections.Counter[str] = collections.Counter()
        return [
            f"{name}: {_describe(n, self.drops.get(name, empty))}" for name, n in self.read.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """For the run's records; the corpora stand apart if there are several."""
        whole = {"n_read": self.n_read, "n_kept": self.n_kept, "dropped": dict(self.dropped)}
        if len(self.read) == 1:
            return whole
        parts = {
            name: {"n_read": n, "dropped": dict(self.drops.get(name, {}))}
            for name, n in self.read.items()
        }
        return whole | {"corpora": parts}

    @classmethod
    def from_counts(cls, read: Mapping[str, int], drops: Mapping[str, Mapping[str, int]]) -> Self:
        """Take up counts that were stored."""
        return cls(
            collections.Counter(read),
            {name: collections.Counter(counts) for name, counts in drops.items()},
        )


def _describe(n_read: int, dropped: collections.Counter[str]) -> str:
    reasons = ", ".join(f"{count:,} {why}" for why, count in dropped.most_common())
    return f"{n_read - dropped.total():,} of {n_read:,} pairs kept; dropped: {reasons or 'none'}"


class HeldOut:
    """Sentences that training must not see, compared without case, spaces and punctuation."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Remember both sides of the validation and test pairs."""
        self._sides: tuple[set[str], set[str]] = (set(), set())
        for pair in pairs:
            for texts, text in zip(self._sides, pair, strict=True):
                texts.add(comparable(tidy(text)))
        for texts in self._sides:
            texts.discard("")

    def shares_a_side(self, src: str, tgt: str) -> bool:
        """Tell whether either side stands there; with one side known, the other is half given."""
        return any(
            comparable(text) in texts
            for texts, text in zip(self._sides, (src, tgt), strict=True)
            if texts
        )


class _Essence(dict[int, str | None]):
    """A table for `str.translate` that keeps letters, marks, digits and symbols."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        kept = None if unicodedata.category(char)[0] in "PZC" else char
        self[code] = kept
        return kept


_ESSENCE = _Essence()


def comparable(text: str) -> str:
    """Reduce a tidy text to what makes it the same sentence.

    Joiners go too (`C`), so that spellings of Malayalam that differ only in them are one. A text of
    nothing but punctuation stays as it is.
    """
    return text.casefold().translate(_ESSENCE) or text


def tidy(text: str) -> str:
    """Return text as the model shall see it: normalised, every run of white space one space.

    That also makes the no-break spaces before French punctuation plain ones.
    """
    line = single_spaced(text)
    if line.isascii():
        return line
    try:
        return normalize(line)
    except InputError:  # half a surrogate pair, which JSON can spell
        return INVALID


def is_broken(text: str) -> bool:
    """Tell whether something in it was no text."""
    return INVALID in text or "\0" in text


def fingerprint_pair(src: str, tgt: str) -> int:
    """Return 64 bits that equal pairs share, whatever their spaces."""
    text = "\n".join("".join(side.split()) for side in (src, tgt))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


class Cleaner:
    """Judges pairs one by one; duplicates need a look at all of them and are found elsewhere."""

    def __init__(self, config: DataConfig, held_out: HeldOut) -> None:
        """Look up what to demand of each side."""
        self._config = config
        self._held_out = held_out
        self._scripts = (scripts_of(config.src_lang), scripts_of(config.tgt_lang))

    def why_drop(self, src: str, tgt: str) -> str | None:
        """Name the reason to drop a tidy pair, or None to keep it."""
        config = self._config
        if is_broken(src) or is_broken(tgt):
            return NOT_TEXT
        if not src or not tgt:
            return "empty"
        shorter, longer = sorted((len(src), len(tgt)))
        if longer > config.max_length_ratio * shorter and longer - shorter >= _MARGIN_CHARS:
            return "absurdly unequal"
        if config.drop_copies and src == tgt:
            return "source = target"
        if self._is_foreign(src, 0) or self._is_foreign(tgt, 1):
            return "wrong script"
        if config.drop_held_out and self._held_out.shares_a_side(src, tgt):
            return "in validation or test set"
        return None

    def _is_foreign(self, text: str, side: int) -> bool:
        scripts = self._scripts[side]
        if not scripts or (text.isascii() and "LATIN" in scripts):
            return False
        return script_share(text, scripts) < self._config.min_script_share
