"""Distribute a forced prefix over the sentences of a text.

Sentences that end within the prefix are taken unchanged as translations of the first source
sentences, so that a user can correct a later sentence. The last sentence of the prefix is open: the
model continues it. A prefix is one line and therefore applies to the first source line only.
"""

import dataclasses
from typing import Any

from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import Plan
from hubnmt.text.normalization import normalize
from hubnmt.text.sentences import Segment, split_sentences


@dataclasses.dataclass(frozen=True, slots=True)
class DistributedPrefix:
    """A prefix distributed over the parts of a plan."""

    complete: tuple[Segment, ...] = ()
    """Complete sentences with their white space: the translations of the first parts."""
    open: str = ""
    """Forced prefix of the next part; empty for none."""


def check_prefix(prefix: Any) -> None:
    """Validate a prefix.

    Raises:
        InputError: if it is not a string or has several lines.
    """
    if not isinstance(prefix, str):
        raise InputError(f"prefix must be a string, not {type(prefix).__name__}")
    if prefix.splitlines() not in ([], [prefix]):
        raise InputError("prefix must be one line; remove the line breaks")


def distribute_prefix(prefix: str, plan: Plan, *, language: str) -> DistributedPrefix:
    """Distribute a prefix of one line over a plan; the language is a BCP 47 tag."""
    text = normalize(prefix)
    sentences = split_sentences(text, language)
    if len(sentences) > 1 and not sentences[0].text:  # leading white space joins the first sentence
        lead, first = sentences[:2]
        sentences[:2] = [Segment(lead.space + first.text, first.space)]
    ended = [sentence for sentence in sentences if sentence.text.strip() and sentence.space]
    complete = ended[: max(plan.n_in_first_line - 1, 0)]
    n_chars = sum(len(sentence.text) + len(sentence.space) for sentence in complete)
    return DistributedPrefix(tuple(complete), text[n_chars:])
