"""Progress bars: drawn on a terminal, else one log line every 30 seconds."""

import io
import logging
import sys
from typing import Any

from tqdm import tqdm

log = logging.getLogger("training")

INTERVAL_S = 30.0
"""Seconds between two lines without a terminal."""


def progress_bar(phase: str, **options: Any) -> "tqdm[Any]":
    """Log the name of a phase, such as `encoding`, and return its bar; options as for `tqdm`."""
    log.info("%s", phase)
    kind: type[tqdm[Any]] = tqdm
    if not sys.stderr.isatty():
        kind = _LoggedBar
        options |= {"mininterval": INTERVAL_S, "delay": INTERVAL_S, "miniters": 1}
        options["file"] = io.StringIO()  # for the control characters that tqdm writes at the end
    return kind(desc=phase, **options)


class _LoggedBar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    """A bar that logs its state instead of drawing it."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Log the state; the empty message of `close` is ignored."""
        if msg is None:
            log.info("%s", self)
