"""Segment a text into the parts that the model translates, and the white space between them.

Each line, and each sentence of a line, is translated separately, as most models are trained on
single sentences; sentences beyond the training length are split into clauses and reported. Emoji
around a sentence are copied, because few corpora contain them. All-caps sentences that the
vocabulary does not cover are lower-cased. If the vocabulary has placeholders, protected spans of a
sentence are encoded as these, see `hubnmt.text.protected_spans`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hubnmt.decoding.search import Hypothesis
from hubnmt.errors import InputError
from hubnmt.text.characters import normalize, single_spaced
from hubnmt.text.protected_spans import (
    PROTECTED,
    choose_spans,
    is_only_spans,
    protect,
    unmark_times,
)
from hubnmt.text.sentences import Segment, halve, split_off_emoji, split_sentences
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

MAX_TEXT_CHARS = 1_000_000
"""Longest accepted text; longer input should be translated as a file, line by line."""
CAPITALS_RATIO = 2
"""An all-caps text with at least this many times the tokens of its lower-cased form is unlike the
training data: ordinary sentences have about three times as many, acronyms such as "USA" no more."""

IN_CAPITALS = "in capitals, which this model's vocabulary hardly covers: translated in lower case"
UNKNOWN = (
    "most characters of this text are not in the model's vocabulary (the source language is {!r}): "
    "the translation is likely to be wrong"
)


class Part(NamedTuple):
    """A unit of translation; without ids it has no words."""

    ids: list[int]
    space: str
    """White space, emoji and other copied text that follow it in the text."""
    span: tuple[int, int]
    """(start, end) in the source text, characters, without its white space."""
    protected: tuple[str, ...] = ()
    """Spans that are encoded as placeholders, for `Tokenizer.with_spans`."""


@dataclasses.dataclass(kw_only=True, slots=True)
class Sentence:
    """A translatable part of a text, and its translations."""

    part: Part
    tokenizers: Tokenizers
    """Tokenizers that restore the protected spans of the part."""
    prefix: str = ""
    """Beginning of the translation that is given; empty for none."""
    hypotheses: list[Hypothesis] = dataclasses.field(default_factory=list)
    """Best first; empty before the search, unless the whole translation is given."""
    is_cut: bool = False
    """Whether the best hypothesis reached the length limit."""
    warning: str = ""
    is_replaced: bool = False
    """Whether a second search replaced the hypotheses, as the first were degenerate."""

    @property
    def src(self) -> str:
        """The source as the model reads it."""
        return self.tokenizers.src.decode(self.part.ids)

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.decode(self.hypotheses[0])

    def decode(self, hypothesis: Hypothesis) -> str:
        """Return the text of a hypothesis."""
        return self.tokenizers.tgt.decode_line(hypothesis.ids)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentedText:
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


def check_text(text: str) -> None:
    """Check that a value can be translated.

    Raises:
        InputError: if it is not a string, is not valid Unicode, or is too long.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string, not {type(text).__name__}")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(
            f"a text of {len(text):,} characters is over the limit of {MAX_TEXT_CHARS:,}; "
            "give it as a file, one sentence or paragraph per line"
        )
    normalize(text)  # raises on invalid Unicode


def check_prefix(prefix: Any) -> None:
    """Validate a prefix.

    Raises:
        InputError: if it is not a string or has several lines.
    """
    if not isinstance(prefix, str):
        raise InputError(f"prefix must be a string, not {type(prefix).__name__}")
    if prefix.splitlines() not in ([], [prefix]):
        raise InputError("prefix must be one line; remove the line breaks")


def segment_text(
    text: str,
    tokenizer: Tokenizer,
    *,
    language: str,
    max_src_tokens: int,
    split: bool = True,
    separate_copied: bool = True,
    is_lowered: bool | None = None,
) -> SegmentedText:
    """Segment a text into parts that fit the model, with their casing normalised.

    Line breaks, white space and emoji between parts are preserved; white space inside a part
    becomes single spaces.

    Args:
        text: any text.
        tokenizer: source tokenizer.
        language: BCP 47 tag, for sentence splitting.
        max_src_tokens: longest part, including eos.
        split: translate each sentence of a line separately; otherwise a line is cut only if it is
            too long for the model.
        separate_copied: treat emoji around a sentence, and sentences that consist of protected
            spans, as white space; not with a prefix, which may contain or omit them.
        is_lowered: whether sentences are lower-cased, False for targets; None decides for each.

    Raises:
        InputError: if the text is not a string, is not valid Unicode, or is too long.
    """
    check_text(text)
    parts: list[Part] = []
    n_long = n_clauses = n_lowered = position = 0
    # 1. Split into lines or sentences.
    segments = _split_lines(text, language, split=split, protected=tokenizer.has_placeholders)
    for sentence, space in _copied_as_space(segments, tokenizer) if separate_copied else segments:
        # 2. Encode each, in clauses if it is too long.
        encoded = _encode(sentence, tokenizer, is_lowered=is_lowered)
        n_lowered += encoded.is_lowered
        clauses = [(sentence, space, encoded)]
        if len(encoded.ids) >= max_src_tokens:
            encode = functools.partial(_encode, tokenizer=tokenizer, is_lowered=encoded.is_lowered)
            clauses = _split_long(
                sentence, space, encode, language=language, max_src_tokens=max_src_tokens
            )
            n_long, n_clauses = n_long + 1, n_clauses + len(clauses)
        for clause, space_after, (ids, protected, _) in clauses:
            end = position + len(clause)
            parts.append(Part(ids, space_after, (position, end), protected))
            position = end + len(space_after)
    # 3. Collect the warnings.
    what, warnings = "sentence(s)" if split else "line(s)", []
    if n_long:
        warnings.append(
            f"{n_long} {what} longer than the {max_src_tokens} tokens this model was trained on: "
            f"translated in {n_clauses} parts"
        )
    if n_lowered:
        warnings.append(f"{n_lowered} {what} {IN_CAPITALS}")
    if _is_mostly_unknown((token_id for part in parts for token_id in part.ids), tokenizer):
        warnings.append(UNKNOWN.format(language))
    return SegmentedText(tuple(parts), tuple(warnings))


def _split_lines(text: str, language: str, *, split: bool, protected: bool) -> Iterator[Segment]:
    """Split into lines or sentences; leading white space is a segment with an empty text."""
    for full_line in text.splitlines(keepends=True):
        lead = full_line[: len(full_line) - len(full_line.lstrip())]
        if lead:
            yield Segment("", lead)
        line = full_line[len(lead) :].rstrip()
        tail = full_line[len(lead) + len(line) :]
        sentences = split_sentences(line, language) if split else [Segment(line, "")]
        if protected:
            sentences = _rejoin(line, sentences)
        if line:
            yield from sentences[:-1]
            yield Segment(sentences[-1].text, sentences[-1].space + tail)


def _rejoin(line: str, sentences: Sequence[Segment]) -> list[Segment]:
    """Undo splits within a protected span, such as code with white space."""
    spans = [match.span() for match in PROTECTED.finditer(line)]
    inside = {position for start, end in spans for position in range(start + 1, end)}
    joined: list[Segment] = []
    position = 0
    for sentence in sentences:
        if position in inside:
            before = joined.pop()
            joined.append(Segment(before.text + before.space + sentence.text, sentence.space))
        else:
            joined.append(sentence)
        position += len(sentence.text) + len(sentence.space)
    return joined


def _copied_as_space(segments: Iterable[Segment], tokenizer: Tokenizer) -> Iterator[Segment]:
    """Move emoji at the ends of a segment, and segments of protected spans, into white space."""
    for sentence, space in segments:
        if tokenizer.has_placeholders and is_only_spans(sentence):
            yield Segment("", sentence + space)
            continue
        front, rest, after = split_off_emoji(sentence)
        if front:
            yield Segment("", front)
        if rest or not front:
            yield Segment(rest, after + space)
        elif space:
            yield Segment("", space)


class _Encoded(NamedTuple):
    ids: list[int]
    protected: tuple[str, ...]
    is_lowered: bool


def _encode(text: str, tokenizer: Tokenizer, *, is_lowered: bool | None = None) -> _Encoded:
    """Encode a segment with placeholders for its spans, in lower case if `is_lowered`.

    None decides by the text, see `_is_all_caps`.
    """
    protected: tuple[str, ...] = ()
    if tokenizer.has_placeholders:
        text = unmark_times(text)
        protected = choose_spans(text)
        text = protect(text, protected)
    if is_lowered is None:
        is_lowered = _is_all_caps(text, tokenizer)
    ids = tokenizer.encode(single_spaced(text.lower() if is_lowered else text))
    return _Encoded(ids, protected, is_lowered)


def _is_all_caps(text: str, tokenizer: Tokenizer) -> bool:
    """Return whether a protected text is all caps and the vocabulary does not cover that form.

    Corpora contain few all-caps sentences: "WO BIST DU" becomes single letters, which the model
    mistranslates, whereas lower-case text is common.
    """
    if not text.replace("ß", "").isupper():  # "GROß": few keyboards have a capital ß
        return False
    n_capital, n_small = (len(tokenizer.encode(each)) for each in (text, text.lower()))
    return n_capital >= CAPITALS_RATIO * n_small


def _split_long(
    sentence: str,
    space: str,
    encode: Callable[[str], _Encoded],
    *,
    language: str,
    max_src_tokens: int,
) -> list[tuple[str, str, _Encoded]]:
    """Split an over-long segment into sentences, and those into clauses where needed."""
    stack = list(reversed(split_sentences(sentence, language)))
    stack[0] = Segment(stack[0].text, stack[0].space + space)
    clauses = []
    while stack:
        clause, after = stack.pop()
        encoded = encode(clause)
        halves = halve(clause) if len(encoded.ids) >= max_src_tokens else None
        if halves is None:
            clauses.append((clause, after, encoded))
        else:
            left, between, right = halves
            stack += [Segment(right, after), Segment(left, between)]
    return clauses


def _is_mostly_unknown(ids: Iterable[int], tokenizer: Tokenizer) -> bool:
    """Return whether most characters, except white space, are split into single bytes."""
    n_known = n_unknown = 0
    for raw in map(tokenizer.piece_bytes, ids):
        try:
            n_known += len(raw.decode().replace(" ", ""))
        except UnicodeDecodeError:
            n_unknown += sum(byte & 0xC0 != 0x80 and byte != 0x20 for byte in raw)  # begun in it
    return n_unknown > n_known


def encode_whole(text: str, tokenizer: Tokenizer) -> Part:
    """Encode a source as one part, with its casing normalised."""
    ids, protected, _ = _encode(text, tokenizer)
    return Part(ids, "", (0, len(text)), protected)
