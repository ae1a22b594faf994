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
    if sys.stderr.isatty():
        return tqdm(desc=phase, **options)
    sink = io.StringIO()  # for the control characters that tqdm writes when it closes
    timing = {"mininterval": INTERVAL_S, "delay": INTERVAL_S, "miniters": 1}
    return _LoggedBar(desc=phase, file=sink, **timing, **options)


class _LoggedBar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    """A bar that logs its state instead of drawing it."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Log the state; the empty message of `close` is ignored."""
        if msg is None:
            log.info("%s", self)
        return True
