"""Segment a text into the parts that the model translates, and the white space between them.

Each line, and each sentence of a line, is translated separately, as most models are trained on
single sentences; sentences beyond the training length are split into clauses and reported. Emoji
around a sentence are copied, because few corpora contain them. All-caps sentences that the
vocabulary does not cover are lower-cased.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hubnmt.errors import InputError
from hubnmt.text.sentences import Segment, halve, split_off_emoji, split_sentences
from hubnmt.text.tokenizer import Tokenizer, normalize, single_spaced

MAX_TEXT_CHARS = 1_000_000
"""Longest accepted text; longer input should be translated as a file, line by line."""
CAPITALS_RATIO = 2
"""An all-caps text with at least this many times the tokens of its lower-cased form is unlike the
training data: ordinary sentences have about three times as many, acronyms such as "USA" no more."""


class Part(NamedTuple):
    """A unit of translation; without ids it has no words."""

    ids: list[int]
    space: str
    """White space and emoji that follow it in the text."""
    span: tuple[int, int]
    """(start, end) in the source text, characters, without its white space."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A segmented text."""

    parts: tuple[Part, ...]
    warnings: tuple[str, ...] = ()

    @property
    def translatable(self) -> list[Part]:
        """The parts that contain words."""
        return [part for part in self.parts if part.ids]

    @property
    def n_in_first_line(self) -> int:
        """Number of translatable parts before the first line break that follows words."""
        parts = self.translatable
        has_break = ["".join(part.space.splitlines()) != part.space for part in parts]
        return has_break.index(True) + 1 if True in has_break else len(parts)


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
    """Segment a text into parts that fit the model, with their casing normalised.

    Args:
        text: any text; line breaks, white space and emoji between parts are preserved, white space
            inside a part becomes single spaces.
        tokenizer: source tokenizer.
        language: BCP 47 tag, for sentence splitting.
        max_src_tokens: longest part, including eos.
        split: translate each sentence of a line separately; otherwise a line is cut only if it is
            too long for the model.
        emoji_apart: treat emoji around a sentence as white space; not with a prefix, which may
            contain or omit them.
        lower_capitals: lower-case all-caps sentences, see `normalize_casing`; not for targets.

    Raises:
        InputError: if the text is not a string, is not valid Unicode, or is too long.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"a text of {len(text):,} characters is over the limit of {MAX_TEXT_CHARS:,}; "
            "give it as a file, one sentence or paragraph per line"
        )
    normalize(text)  # raises on invalid Unicode
    parts: list[Part] = []
    n_cut = n_cut_parts = n_lowered = position = 0
    segments = _pieces(text, language, split=split)
    for words, space in _without_emoji(segments) if emoji_apart else segments:
        is_lowered = lower_capitals and is_all_caps(words, tokenizer)
        encode = functools.partial(_encode, tokenizer=tokenizer, lowercase=is_lowered)
        n_lowered += is_lowered
        pieces = [(words, space, encode(words))]
        if len(pieces[0][2]) >= max_src_tokens:
            pieces = _cut(words, space, encode, language=language, max_src_tokens=max_src_tokens)
            n_cut, n_cut_parts = n_cut + 1, n_cut_parts + len(pieces)
        for stretch, space_after, ids in pieces:
            end = position + len(stretch)
            parts.append(Part(ids, space_after, (position, end)))
            position = end + len(space_after)
    what = "sentence(s)" if split else "line(s)"
    warnings = {
        f"{n_cut} {what} longer than the {max_src_tokens} tokens this model was trained on: "
        f"translated in {n_cut_parts} parts": n_cut,
        f"{n_lowered} {what} in capitals, which this model's vocabulary hardly covers: "
        "translated in lower case": n_lowered,
        "most characters of this text are not in the model's vocabulary (the source language is "
        f"{language!r}): the translation is likely to be wrong": _is_mostly_unknown(
            (token_id for part in parts for token_id in part.ids), tokenizer
        ),
    }
    return Plan(tuple(parts), tuple(warning for warning, applies in warnings.items() if applies))


def normalize_casing(text: str, tokenizer: Tokenizer) -> str:
    """Return the source with single spaces, lower-cased if it is all caps and not in vocabulary.

    Corpora contain few all-caps sentences: "WO BIST DU" becomes single letters, which the model
    mistranslates, whereas lower-case text is common.
    """
    return _read(text, lowercase=is_all_caps(text, tokenizer))


def is_all_caps(text: str, tokenizer: Tokenizer) -> bool:
    """Return whether a text is all caps and the vocabulary does not cover it in that form."""
    if not text.replace("ß", "").isupper():  # "GROß": few keyboards have a capital ß
        return False
    n_capital, n_small = (len(tokenizer.encode(each)) for each in (text, text.lower()))
    return n_capital >= CAPITALS_RATIO * n_small


def _read(text: str, *, lowercase: bool) -> str:
    return single_spaced(text.lower() if lowercase else text)


def _encode(text: str, *, tokenizer: Tokenizer, lowercase: bool) -> list[int]:
    return tokenizer.encode(_read(text, lowercase=lowercase))


def _is_mostly_unknown(ids: Iterable[int], tokenizer: Tokenizer) -> bool:
    """Return whether most characters, except white space, are split into single bytes."""
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
    """Split into lines or sentences; leading white space is a segment with an empty text."""
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
    """Move emoji at the ends of a segment into its white space."""
    for words, space in segments:
        front, core, after = split_off_emoji(words)
        if front:
            yield Segment("", front)
        if core or not front:
            yield Segment(core, after + space)
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
    """Split an over-long segment into sentences, and those into clauses where needed."""
    stack = list(reversed(split_sentences(words, language)))
    stack[0] = Segment(stack[0].text, stack[0].space + space)
    pieces = []
    while stack:
        stretch, after = stack.pop()
        ids = encode(stretch)
        halves = halve(stretch) if len(ids) >= max_src_tokens else None
        if halves is None:
            pieces.append((stretch, after, ids))
        else:
            left, between, right = halves
            stack += [Segment(right, after), Segment(left, between)]
    return pieces
