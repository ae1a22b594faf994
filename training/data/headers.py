"""Detect whether a table has a header, and which columns hold source and target.

A header taken for data would silently swap the sides of a corpus, so an ambiguous first line raises
an error.
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
    """Column names of a table."""

    names: list[str]
    """One name per column; requested columns are spelled as requested."""
    src: str
    tgt: str
    is_header: bool
    """Whether the first line is a header."""


def find_columns(
    first: Sequence[str], wanted: Sequence[str], *, where: str, is_explicit: bool
) -> Columns:
    """Find the requested columns in the first line, ignoring case; without a header, by number.

    Args:
        first: the fields of the first line.
        wanted: columns of source and target, and of the filter, if any.
        where: file name for messages.
        is_explicit: whether the columns were set explicitly; otherwise they are language codes.

    Raises:
        InputError: if a column is missing, or the line looks like a header with other names.
    """
    folded = [field.strip().casefold() for field in first]
    if set(wanted) <= set(first):
        return Columns([*first], wanted[0], wanted[1], True)
    if all(folded.count(name.casefold()) == 1 for name in wanted):
        asked = {name.casefold(): name for name in wanted}
        names = [asked.get(fold, field) for fold, field in zip(folded, first, strict=True)]
        return Columns(names, wanted[0], wanted[1], True)
    numbers = [str(number) for number in range(1, len(first) + 1)]
    shown = ", ".join(first)[:200]
    if not is_explicit and len(first) == len(wanted) == 2:
        if all(map(_looks_like_a_name, folded)) or set(folded) & {w.casefold() for w in wanted}:
            raise InputError(
                f"{where}: its first line, {shown}, looks like a header without the columns "
                f"{wanted[0]} and {wanted[1]}; set src_column and tgt_column to the names, or to "
                "1 and 2 if the line is data"
            )
        log.info("%s: no header, so column 1 is %s and column 2 is %s", where, *wanted[:2])
        return Columns(numbers, "1", "2", False)
    if first and not set(wanted) <= set(numbers):
        missing = " or ".join(repr(name) for name in wanted if name not in first)
        raise InputError(
            f"{where}: no column {missing}; its first line is: {shown}; set src_column and "
            "tgt_column to names in it, or to numbers counted from 1 if it is not a header"
        )
    return Columns(numbers, wanted[0], wanted[1], False)


def _looks_like_a_name(field: str) -> bool:
    """Return whether a field looks like a column name: `german`, `source_text`, `de-AT`."""
    return re.split(r"[-_. ]", field)[0] in _HEADERS and len(field.split()) <= 2
