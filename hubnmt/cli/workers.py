"""Translation of chunks of lines in several processes, each with its own copy of the model."""

import argparse
import functools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeAlias

import torch

from hubnmt.cli.options import load_translator, translate_with
from hubnmt.errors import ConfigError
from hubnmt.hub.pull import find_model
from hubnmt.types import Translation

MIN_LINES = 1000
"""Fewer lines are translated faster without other processes, which take seconds to start."""
MAX_DEFAULT = 8
"""Maximum number of processes by default: each holds a copy of the model."""

Results: TypeAlias = Generator[list[Translation], None, None]

_translate: Callable[[Sequence[str]], list[Translation]]
"""Set in each worker by `_start`."""


def count_workers(options: argparse.Namespace, n_lines: int | None) -> int:
    """Return the number of processes: `--workers`, or one per core for a long file on a CPU.

    Args:
        options: of the command.
        n_lines: lines to translate; None if unknown.

    Raises:
        ConfigError: if `--workers` is not positive.
    """
    if options.workers is not None:
        if options.workers < 1:
            raise ConfigError(f"--workers = {options.workers} must be at least 1")
        return int(options.workers)
    if options.device != "cpu" or n_lines is None or n_lines < MIN_LINES:
        return 1
    return min(torch.get_num_threads(), MAX_DEFAULT)


def open_translation(
    options: argparse.Namespace, n_workers: int
) -> Callable[[Iterable[Sequence[str]]], Results]:
    """Load the model and return a function from chunks of lines to their translations, in order.

    Closing its generator ends the processes.

    Args:
        options: of the command.
        n_workers: number of processes, which share the threads of this one; 1 starts none.

    Raises:
        HubNMTError: as `load_translator` and `translate_with`.
    """
    translate = translate_with(load_translator(options), options)
    if n_workers == 1:
        return lambda chunks: (translate(chunk) for chunk in chunks)
    local = argparse.Namespace(**{**vars(options), "model": str(find_model(options.model))})
    return functools.partial(_translate_in_processes, options=local, n_workers=n_workers)


def _translate_in_processes(
    chunks: Iterable[Sequence[str]], options: argparse.Namespace, n_workers: int
) -> Results:
    """Read at most two chunks per process ahead, so that memory is bounded."""
    n_threads = max(1, torch.get_num_threads() // n_workers)
    pool = ProcessPoolExecutor(
        n_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(options, n_threads),
    )
    pending: deque[Future[list[Translation]]] = deque()
    try:
        with _ignored_interrupts():
            pool.submit(int)  # starts all processes
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


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in processes started here: the terminal sends it to them too."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _start(options: argparse.Namespace, n_threads: int) -> None:
    """Load the model in a worker."""
    global _translate
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    _translate = translate_with(load_translator(options), options)


def _exit_with_parent() -> None:
    """End this worker when its parent was killed, which otherwise leaves it waiting forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _translate_chunk(chunk: Sequence[str]) -> list[Translation]:
    return _translate(chunk)
