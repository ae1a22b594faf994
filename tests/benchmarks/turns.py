"""Systems that take turns, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable

Job = Callable[[], object]


def take_turns(
    jobs: dict[str, Job], n_rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Run the jobs once to warm up, then in turn; return the seconds of each by the clock."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(n_rounds):
        for name, job in jobs.items():
            started = clock()
            job()
            seconds[name].append(clock() - started)
    return seconds
