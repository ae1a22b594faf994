"""Several searches at the same time on a CPU.

The operations of a decoding step are too short for several cores to share, whole batches are not:
see tests/benchmarks/RESULTS.md.
"""

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from hubnmt.decoding import Hypothesis, Search

MAX_SEARCHES = 4
"""Maximum number at the same time: about a quarter of a search is Python, which runs in one thread
of the process at a time."""
YIELD_S = 0.02
"""Seconds after which a caller may stop the searches."""


def search_in_parallel(
    searches: Sequence[Search],
) -> Generator[list[int], None, list[list[list[Hypothesis]]]]:
    """Run searches in threads that divide PyTorch's threads among them.

    Closing the generator stops each search after its current step.

    Returns:
        a generator that yields no tokens, and returns the result of each search.
    """
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(searches), MAX_SEARCHES)
    started = threading.Barrier(n_workers + 1)
    is_stopped = threading.Event()

    def start() -> None:
        torch.get_num_threads()  # the first call in a thread resets the number to the process's
        torch.set_num_threads(n_threads // n_workers)
        started.wait()

    def run(search: Search) -> list[list[Hypothesis]]:
        while not is_stopped.is_set():
            try:
                next(search)
            except StopIteration as end:
                found: list[list[Hypothesis]] = end.value
                return found
        search.close()
        return []

    with ThreadPoolExecutor(n_workers, initializer=start) as pool:
        jobs = [pool.submit(run, search) for search in searches]
        started.wait()
        # `set_num_threads` applies to the thread that calls it and to those started later.
        torch.set_num_threads(n_threads)
        try:
            for job in jobs:
                while not wait([job], YIELD_S).done:
                    yield []
                job.result()
        finally:
            is_stopped.set()
            pool.shutdown(cancel_futures=True)
    return [job.result() for job in jobs]
