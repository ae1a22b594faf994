"""Translation of chunks of lines in several processes, each with its own copy of the model."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeAlias

import torch

from hubnmt.errors import ConfigError
from hubnmt.types import Translation

MIN_LINES = 1000
"""Fewer lines are translated faster without other processes, which take seconds to start."""
MAX_DEFAULT = 8
"""Maximum number of processes by default: each holds a copy of the model."""

Translate: TypeAlias = Callable[[Sequence[str]], list[Translation]]

_translate: Translate
"""Set in each worker by `_start`."""


def default_workers(device: str, n_lines: int | None) -> int:
    """Return the number of processes: one per core for a long file on a CPU, else one."""
    if device != "cpu" or n_lines is None or n_lines < MIN_LINES:
        return 1
    return min(torch.get_num_threads(), MAX_DEFAULT)


def translate_chunks(
    translate: Translate, chunks: Iterable[Sequence[str]], *, n_workers: int
) -> Generator[list[Translation], None, None]:
    """Yield the translations of each chunk, in order; closing the generator ends the processes.

    The `n_workers` processes share the threads of this one. At most two chunks per process are read
    ahead, so that memory is bounded.

    Raises:
        ConfigError: if a process ends unexpectedly.
    """
    if n_workers == 1:
        yield from map(translate, chunks)
        return
    pool = ProcessPoolExecutor(
        n_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(translate, max(1, torch.get_num_threads() // n_workers)),
    )
    pending: deque[Future[list[Translation]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_translate_chunk, chunk))
            if len(pending) == 2 * n_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise ConfigError(
            "a worker process ended unexpectedly, perhaps for lack of memory: use fewer --workers"
        ) from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start(translate: Translate, n_threads: int) -> None:
    global _translate
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends Ctrl-C to workers too
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    _translate = translate


def _exit_with_parent() -> None:
    # A worker whose parent was killed would wait forever.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _translate_chunk(chunk: Sequence[str]) -> list[Translation]:
    return _translate(chunk)
