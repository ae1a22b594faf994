"""What a forced beginning means for a text of several sentences.

Takes the prefix of a translation and the plan of its source, gives which sentences the prefix says
in full and with what the next one begins. Must not know the model. Whoever corrects the second
sentence of a translation sends the first one along, so sentences that end inside the prefix are
taken as they stand, one for each sentence of the source's first line; a prefix is one line, so it
never reaches a second. The last sentence of the prefix is open: the model goes on behind it.
"""

import dataclasses
from typing import Any

from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import Plan
from hubnmt.text.sentences import Segment, split_sentences
from hubnmt.text.tokenizer import normalize


@dataclasses.dataclass(frozen=True, slots=True)
class BoundPrefix:
    """A prefix, shared out among the parts of a plan."""

    said: tuple[Segment, ...] = ()
    """Sentences in full, each with the white space behind it: what the first parts become."""
    open: str = ""
    """What the next part begins with; empty binds nothing."""


def check_prefix(prefix: Any) -> None:
    """Refuse what no translation can begin with.

    Raises:
        InputError: if it is no text, or has several lines.
    """
    if not isinstance(prefix, str):
        raise InputError(f"prefix must be a string, not {type(prefix).__name__}")
    if prefix.splitlines() not in ([], [prefix]):
        raise InputError("prefix must be one line; take the line breaks out")


def bind_prefix(prefix: str, plan: Plan, *, language: str) -> BoundPrefix:
    """Share a prefix out.

    Args:
        prefix: one line.
        plan: of the source.
        language: of the translation, BCP 47 tag, for sentence borders.
    """
    text = normalize(prefix)
    said = split_sentences(text, language)
    if len(said) > 1 and not said[0].text:  # white space in front is said with the first sentence
        said[:2] = [Segment(said[0].space + said[1].text, said[1].space)]
    ended = [each for each in said if each.text.strip() and each.space]
    said = ended[: max(plan.n_in_first_line - 1, 0)]
    n_generated = sum(len(each.text) + len(each.space) for each in said)
    return BoundPrefix(tuple(said), text[n_generated:])
