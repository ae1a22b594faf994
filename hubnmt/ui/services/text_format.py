"""Formatting of messages, counts and durations as plain text."""

import re
from typing import Any

from hubnmt.errors import HubNMTError

CACHED_MODEL = re.compile(r"[^\s'\"]*models--([\w.-]+?)--([\w.-]+)/(?:snapshots|blobs)/[0-9a-f]+")
"""Path inside the Hub cache, which is internal to the server."""

FOLDERS = re.compile(r"(?<![\w:/.])/(?:[^\s/'\":,;]+/)+(?=[^\s/'\"])")
"""The folders of an absolute path; the last name tells a visitor enough."""

MAX_MESSAGE_CHARS = 600
"""Maximum length of an error message, which may contain client input."""


def public_message(error: HubNMTError) -> str:
    """Return an error's message, shortened, encodable in UTF-8, and without server paths."""
    message = str(error)
    if len(message) > MAX_MESSAGE_CHARS:  # before the search, whose time is quadratic
        message = f"{message[:MAX_MESSAGE_CHARS]} ..."
    message = FOLDERS.sub("", CACHED_MODEL.sub(r"\1/\2", message))
    return message.encode("utf-8", "backslashreplace").decode("utf-8")


def with_message(value: Any, error: HubNMTError) -> dict[str, Any]:
    """Return a panel's value with an error's sentence as its `message`."""
    return {
        **(value if isinstance(value, dict) else {}),
        "message": sentence(public_message(error)),
    }


def sentence(message: str) -> str:
    """Capitalize a message and end it with a full stop.

    A first word that is not purely alphabetic, such as an option or file name, is left unchanged.
    """
    message = message.strip()
    end = "" if message.endswith((".", "!", "?")) else "."
    if message.partition(" ")[0].rstrip(",:;.").isalpha():
        message = message[:1].upper() + message[1:]
    return message + end


def short_count(number: int) -> str:
    """Abbreviate a count: 950, 12 k, 2.6 M."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            digits = 1 if number < 10 * size else 0
            return f"{number / size:.{digits}f} {letter}"
    return str(number)


def short_duration(seconds: float) -> str:
    """Format a duration: 950 ms, 1.2 s, 75 s."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
