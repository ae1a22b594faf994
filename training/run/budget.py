"""The steps and the time that a run may use, and how much of them it has used."""

import time

from training.config.run import RunSettings
from training.run.checkpoint import Progress

FIRST_VALIDATION = 0.1
"""Share of the time limit that is reserved for the final validation before one was measured."""


class Budget:
    """Adds the time of a session to the progress of its run, and compares it with the limits."""

    def __init__(self, settings: RunSettings, progress: Progress) -> None:
        """Start the clock."""
        self._settings = settings
        self._progress = progress
        self._began = time.monotonic() - progress.seconds
        self.time_share = self.time_used()
        """Share of the time limit that the next step will have used; equal on all processes."""

    def count_time(self) -> None:
        """Update the seconds of the progress."""
        self._progress.seconds = time.monotonic() - self._began

    def time_used(self) -> float:
        """Return the share of the time limit, less a last validation, that is used; 0 without."""
        if self._settings.max_minutes is None:
            return 0.0
        limit = 60 * self._settings.max_minutes
        reserved = self._progress.validation_s or FIRST_VALIDATION * limit
        return self._progress.seconds / max(limit - reserved, limit / 2)

    def time_expected(self) -> float:
        """Return the same for the middle of the next step, which takes as long as the others."""
        return self.time_used() * (1 + 1.5 / max(self._progress.step, 1))

    def used(self, step: float) -> float:
        """Return the larger of the shares of steps and time that are used, at most 1."""
        return min(1.0, max(step / self._settings.max_steps, self.time_share))

    def seconds_left(self) -> float:
        """Return an estimate of the time until the end, from the first step on."""
        used = max(self._progress.step / self._settings.max_steps, min(1.0, self.time_used()))
        return self._progress.seconds * (1 / used - 1)
