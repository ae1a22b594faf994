"""A text to the parts that a model translates in one go, and the white space between them.

Takes a text and a tokenizer, gives parts. Must not know the model. Lines are translated apart; a
line longer than the model was trained on is cut into sentences, and those into clauses if need be.
Nothing is dropped, and every cut is reported.
"""

import dataclasses
from typing import NamedTuple

from hubnmt.errors import InputError
from hubnmt.segment import halve, split_sentences
from hubnmt.tokenizer import Tokenizer, normalize

MAX_TEXT_CHARS = 1_000_000
"""A single text longer than this is refused; translate a file line by line instead."""


class Part(NamedTuple):
    """A stretch of source that is translated in one go; without ids it is white space only."""

    ids: list[int]
    space: str
    """White space that follows it in the text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A text, cut."""

    parts: tuple[Part, ...]
    warnings: tuple[str, ...] = ()

    @property
    def spoken(self) -> list[Part]:
        """The parts that need translating."""
        return [part for part in self.parts if part.ids]


def make_plan(text: str, tokenizer: Tokenizer, *, language: str, max_src_tokens: int) -> Plan:
    """Cut a text into parts that the model can take.

    Args:
        text: any text; line breaks and white space around lines are kept as they are.
        tokenizer: of the source language.
        language: BCP 47 tag, for sentence borders.
        max_src_tokens: longest part, eos counted.

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
    parts: list[Part] = []
    n_cut = n_cut_parts = 0
    for line in normalize(text).splitlines(keepends=True):
        body = line.strip()
        if not body:
            parts.append(Part([], line))
            continue
        lead, tail = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]
        if lead:
            parts.append(Part([], lead))
        ids = tokenizer.encode(body)
        if len(ids) < max_src_tokens:
            parts.append(Part(ids, tail))
            continue
        pieces = _cut(body, tail, tokenizer, language=language, max_src_tokens=max_src_tokens)
        n_cut, n_cut_parts = n_cut + 1, n_cut_parts + len(pieces)
        parts += pieces
    if not n_cut:
        return Plan(tuple(parts))
    warning = (
        f"{n_cut} line(s) longer than the {max_src_tokens} tokens this model was trained on: "
        f"translated in {n_cut_parts} parts"
    )
    return Plan(tuple(parts), (warning,))


def _cut(
    body: str, tail: str, tokenizer: Tokenizer, *, language: str, max_src_tokens: int
) -> list[Part]:
    """Cut an over-long line into sentences, and those into clauses where needed."""
    stack = [(each.text, each.space) for each in reversed(split_sentences(body, language))]
    parts = []
    while stack:
        text, space = stack.pop()
        ids = tokenizer.encode(text)
        halves = halve(text) if len(ids) >= max_src_tokens else None
        if halves is None:
            parts.append(Part(ids, space))
        else:
            left, between, right = halves
            stack += [(right, space), (left, between)]
    parts[-1] = Part(parts[-1].ids, parts[-1].space + tail)
    return parts
