"""Progress of a job on standard error: a bar on a terminal, otherwise a line every 30 s."""

import sys
import time
from typing import Self

from tqdm import tqdm

LINE_EVERY_S = 30.0


class Progress:
    """Speed and remaining time of a job that counts lines; a context manager."""

    def __init__(self, total: int | None, n_before: int = 0, *, unit: str = "line") -> None:
        """Start the clock.

        Args:
            total: lines of the job, including those before; None if unknown. A single line has no
                progress.
            n_before: lines that an earlier job completed.
            unit: what the bar counts.
        """
        self._total, self._n_before, self.n_lines = total, n_before, 0
        is_shown = total != 1 or unit != "line"
        self._is_logged = is_shown and not sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            initial=n_before,
            unit=unit,
            file=sys.stderr,
            disable=not is_shown or self._is_logged,
        )
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the bar."""
        self._bar.close()

    def update(self, n_lines: int) -> None:
        """Count lines that are done."""
        self.n_lines += n_lines
        self._bar.update(n_lines)
        now = time.monotonic()
        if self._is_logged and now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            print(self._describe_state(now - self._started), file=sys.stderr, flush=True)

    def summarize(self) -> str:
        """Return the number of lines, the time and the speed of this job."""
        return _summarize(self.n_lines, time.monotonic() - self._started, "lines")

    def _describe_state(self, elapsed: float) -> str:
        speed = self.n_lines / elapsed
        n_done = self._n_before + self.n_lines
        if self._total is None:
            return f"{n_done:,} lines, {speed:.1f} lines/s"
        remaining = tqdm.format_interval((self._total - n_done) / speed)
        return f"{n_done:,} of {self._total:,} lines, {speed:.1f} lines/s, {remaining} left"


def _summarize(count: int, elapsed: float, unit: str) -> str:
    duration = tqdm.format_interval(elapsed)
    return f"{count:,} {unit} in {duration} ({count / elapsed:.1f} {unit}/s)"
