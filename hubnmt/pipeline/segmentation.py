"""A text to the parts that a model translates in one go, and the white space between them.

Takes a text and a tokenizer, gives parts. Must not know the model. Lines are translated apart, and
so are the sentences of a line, as most models learned to translate; a sentence longer than any the
model was trained on is cut into clauses. Nothing is dropped, and every such cut is reported. Emoji
around a sentence go with the white space: few corpora have any, and they need no translation. A
sentence in capitals that the vocabulary does not know is read in small letters.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hubnmt.errors import InputError
from hubnmt.text.sentences import Segment, halve, split_off_emoji, split_sentences
from hubnmt.text.tokenizer import Tokenizer, normalize, single_spaced

MAX_TEXT_CHARS = 1_000_000
"""A single text longer than this is refused; translate a file line by line instead."""
CAPITALS_RATIO = 2
"""Capitals that make so many times as many pieces as small letters are none that a model learned
from: ordinary sentences make about three times as many, what is always written so, such as "USA",
no more."""


class Part(NamedTuple):
    """A stretch of source that is translated in one go; without ids there are no words in it."""

    ids: list[int]
    space: str
    """White space that follows it in the text, and emoji."""
    span: tuple[int, int]
    """Where it stands in the text as it was given, characters, its white space not counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A text, cut."""

    parts: tuple[Part, ...]
    warnings: tuple[str, ...] = ()

    @property
    def translatable(self) -> list[Part]:
        """The parts that need translating."""
        return [part for part in self.parts if part.ids]

    @property
    def n_in_first_line(self) -> int:
        """How many spoken parts there are up to the first line break behind words."""
        spoken = self.translatable
        has_break = ["".join(part.space.splitlines()) != part.space for part in spoken]
        return has_break.index(True) + 1 if True in has_break else len(spoken)


def make_plan(
    text: str,
    tokenizer: Tokenizer,
    *,
    language: str,
    max_src_tokens: int,
    split: bool = True,
    emoji_apart: bool = True,
    lower_capitals: bool = True,
) -> Plan:
    """Cut a text into parts that the model can take.

    How a part reads to the model is `normalize_casing`'s to say.

    Args:
        text: any text; line breaks, white space and emoji between the parts are kept as they are,
            white space inside a part becomes single spaces for the model.
        tokenizer: of the source language.
        language: BCP 47 tag, for sentence borders.
        max_src_tokens: longest part, eos counted.
        split: translate the sentences of a line apart; if not, a line is cut only if it is longer
            than the model can take.
        emoji_apart: keep those around a sentence from the model, as if they were white space; not
            where a prefix has to say them or leave them out.
        lower_capitals: see `normalize_casing`; not for a target, which is taken as it stands.

    Raises:
        InputError: if the text is no string, no valid Unicode, or too long.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"a text of {len(text):,} characters is over the limit of {MAX_TEXT_CHARS:,}; "
            "give it as a file, one sentence or paragraph a line"
        )
    normalize(text)  # refuses what is no valid Unicode, wherever it stands
    parts: list[Part] = []
    n_cut = n_cut_parts = n_lowered = position = 0
    segments = _pieces(text, language, split=split)
    for words, space in _without_emoji(segments) if emoji_apart else segments:
        is_lowered = lower_capitals and is_all_caps(words, tokenizer)
        encode = functools.partial(_encode, tokenizer=tokenizer, in_small=is_lowered)
        n_lowered += is_lowered
        pieces = [(words, space, encode(words))]
        if len(pieces[0][2]) >= max_src_tokens:
            pieces = _cut(words, space, encode, language=language, max_src_tokens=max_src_tokens)
            n_cut, n_cut_parts = n_cut + 1, n_cut_parts + len(pieces)
        for stretch, space_behind, ids in pieces:
            end = position + len(stretch)
            parts.append(Part(ids, space_behind, (position, end)))
            position = end + len(space_behind)
    what = "sentence(s)" if split else "line(s)"
    warnings = {
        f"{n_cut} {what} longer than the {max_src_tokens} tokens this model was trained on: "
        f"translated in {n_cut_parts} parts": n_cut,
        f"{n_lowered} {what} in capitals, which this model's vocabulary hardly knows: translated "
        "as if in small letters": n_lowered,
        "most of this text is in characters that the model's vocabulary does not know (it was made "
        f"for {language!r}): the translation is likely to be wrong": _is_mostly_unknown(
            (token_id for part in parts for token_id in part.ids), tokenizer
        ),
    }
    return Plan(tuple(parts), tuple(said for said, holds in warnings.items() if holds))


def normalize_casing(text: str, tokenizer: Tokenizer) -> str:
    """Return a source as models learn it: single spaces, and no capitals that fall to pieces.

    Corpora hardly shout. "WO BIST DU" becomes a row of single letters, and these nonsense; in small
    letters people type all the time.
    """
    return _read(text, in_small=is_all_caps(text, tokenizer))


def is_all_caps(text: str, tokenizer: Tokenizer) -> bool:
    """Tell whether a text is in capitals, and the vocabulary was not learned from such."""
    if not text.replace("ß", "").isupper():  # "GROß": few keyboards have the capital
        return False
    n_capital, n_small = (len(tokenizer.encode(each)) for each in (text, text.lower()))
    return n_capital >= CAPITALS_RATIO * n_small


def _read(text: str, *, in_small: bool) -> str:
    return single_spaced(text.lower() if in_small else text)


def _encode(text: str, *, tokenizer: Tokenizer, in_small: bool) -> list[int]:
    return tokenizer.encode(_read(text, in_small=in_small))


def _is_mostly_unknown(ids: Iterable[int], tokenizer: Tokenizer) -> bool:
    """Tell whether most characters, white space left out, come as bytes that say nothing alone."""
    n_known = n_unknown = 0
    for raw in map(tokenizer.piece_bytes, ids):
        n_begun = sum(byte & 0xC0 != 0x80 and byte != 0x20 for byte in raw)  # in UTF-8
        try:
            raw.decode()
        except UnicodeDecodeError:
            n_unknown += n_begun
        else:
            n_known += n_begun
    return n_unknown > n_known


def _pieces(text: str, language: str, *, split: bool) -> Iterator[Segment]:
    """Cut into lines, or into sentences; white space in front is a piece without words."""
    for line in text.splitlines(keepends=True):
        lead = line[: len(line) - len(line.lstrip())]
        if lead:
            yield Segment("", lead)
        body = line[len(lead) :].rstrip()
        tail = line[len(lead) + len(body) :]
        sentences = split_sentences(body, language) if split else [Segment(body, "")]
        if body:
            yield from sentences[:-1]
            yield Segment(sentences[-1].text, sentences[-1].space + tail)


def _without_emoji(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Count emoji at the ends of what is translated as space."""
    for words, space in segments:
        front, core, behind = split_off_emoji(words)
        if front:
            yield Segment("", front)
        if core or not front:
            yield Segment(core, behind + space)
        elif space:
            yield Segment("", space)


def _cut(
    words: str,
    space: str,
    encode: Callable[[str], list[int]],
    *,
    language: str,
    max_src_tokens: int,
) -> list[tuple[str, str, list[int]]]:
    """Cut what is over-long into sentences, and those into clauses where needed."""
    stack = list(reversed(split_sentences(words, language)))
    stack[0] = Segment(stack[0].text, stack[0].space + space)
    pieces = []
    while stack:
        stretch, behind = stack.pop()
        ids = encode(stretch)
        halves = halve(stretch) if len(ids) >= max_src_tokens else None
        if halves is None:
            pieces.append((stretch, behind, ids))
        else:
            left, between, right = halves
            stack += [Segment(right, behind), Segment(left, between)]
    return pieces
