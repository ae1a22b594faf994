"""Whether the first line of a table names its columns, and which of them hold source and target.

Takes the fields of that line and the names that are looked for, gives names for all columns. Must
not know files. A header that is taken for a pair swaps the sides of a whole corpus unseen, so a
first line that looks like one without naming what is looked for is refused.
"""

import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

from hubnmt.errors import InputError
from training.data.cleaning import SCRIPTS

log = logging.getLogger("training")

_WORDS = """
id lang language line original reference segment sentence source src text target tgt translation trg
arabic basque bengali bulgarian catalan chinese croatian czech danish dutch english estonian finnish
french galician german greek gujarati hebrew hindi hungarian icelandic indonesian irish italian
japanese kannada korean latvian lithuanian malay malayalam marathi nepali norwegian persian polish
portuguese punjabi romanian russian serbian slovak slovenian spanish swahili swedish tamil telugu
thai turkish ukrainian urdu vietnamese welsh
"""
_HEADERS = frozenset(_WORDS.split()) | SCRIPTS.keys()


class Columns(NamedTuple):
    """The columns of a table."""

    names: list[str]
    """One for each; those that are looked for are spelled as they were asked for."""
    src: str
    tgt: str
    is_header: bool
    """Whether the first line holds names, and is no row."""


def find_columns(
    first: Sequence[str], wanted: Sequence[str], *, where: str, is_told: bool
) -> Columns:
    """Look for names in the first line, whatever their case; without names there are numbers.

    Args:
        first: the fields of the first line.
        wanted: columns of source and target, and that of a filter if there is one.
        where: the file, for messages.
        is_told: whether the columns were named by a setting; else they are languages.

    Raises:
        InputError: if they are not there, or the line looks like names of other columns.
    """
    folded = [field.strip().casefold() for field in first]
    if set(wanted) <= set(first):
        return Columns([*first], wanted[0], wanted[1], True)
    if all(folded.count(name.casefold()) == 1 for name in wanted):
        asked = {name.casefold(): name for name in wanted}
        names = [asked.get(fold, field) for fold, field in zip(folded, first, strict=True)]
        return Columns(names, wanted[0], wanted[1], True)
    numbers = [str(number) for number in range(1, len(first) + 1)]
    said = ", ".join(first)[:200]
    if not is_told and len(first) == len(wanted) == 2:
        if all(map(_looks_like_a_name, folded)) or set(folded) & {w.casefold() for w in wanted}:
            raise InputError(
                f"{where}: its first line, {said}, reads like names of columns, but not like "
                f"{wanted[0]} and {wanted[1]}; set src_column and tgt_column to those names, or to "
                "1 and 2 if it is a pair to learn from"
            )
        log.info(
            "%s: no names in its first line, so column 1 is %s and 2 is %s", where, *wanted[:2]
        )
        return Columns(numbers, "1", "2", False)
    if first and not set(wanted) <= set(numbers):
        missing = " or ".join(repr(name) for name in wanted if name not in first)
        raise InputError(
            f"{where}: no column {missing}; its first line reads: {said}; set src_column and "
            "tgt_column to names that stand there, or to numbers counted from 1 if it names none"
        )
    return Columns(numbers, wanted[0], wanted[1], False)


def _looks_like_a_name(field: str) -> bool:
    """Tell `german`, `source_text` and `de-AT` from words of a text."""
    return re.split(r"[-_. ]", field)[0] in _HEADERS and len(field.split()) <= 2
