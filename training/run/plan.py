"""Threads and batch size by the machine and the budget of a run, where its recipe has none."""

import dataclasses
import logging
import statistics
import time

import torch

from training.config.recipe import RunConfig
from training.data.loader import Loader
from training.distributed import ProcessGroup
from training.run.trainer import Run

log = logging.getLogger("training")

LARGEST_BATCH, SMALLEST_BATCH = 4096, 512
"""Limits of `optimizer.batch_tokens` if the recipe leaves it open."""
MIN_STEPS = 1000
"""Optimizer steps that a model needs; smaller batches are preferred to fewer steps."""
TRIAL_S, TRIAL_SHARE = 10.0, 1 / 60
"""Longest measurement of the speed, in seconds and as a share of the time limit."""
THREADS_TRIAL_S = 2.0
"""The same for each number of threads."""
FEW_PASSES = 10
"""Passes over the data with which the bundled models of small data came near their best score."""


def plan_run(run: Run) -> None:
    """Choose threads and batch size where the recipe leaves them open; log what fits the budget.

    The speed is measured on rank 0; random generators are left as they were.
    """
    devices = [run.group.device] if run.group.device.type == "cuda" else []

    def choose() -> tuple[int, int, str]:
        with torch.random.fork_rng(devices):
            return choose_threads(run), *_fit_batches(run)

    n_threads, batch_tokens, plan = run.group.run_on_rank0(choose)
    torch.set_num_threads(n_threads)
    log.info("plan: %s", plan)
    settings = dataclasses.replace(run.config.run, n_threads=n_threads)
    run.replan(dataclasses.replace(_with_batch(run.config, batch_tokens), run=settings))


def choose_threads(run: Run) -> int:
    """Set and return 1 thread if that is faster on this machine, unless the number is given."""
    n_threads = torch.get_num_threads()
    if run.config.run.n_threads or run.group.device.type != "cpu" or n_threads == 1:
        return n_threads
    batch_tokens = run.config.optimizer.batch_tokens or SMALLEST_BATCH
    seconds = {}
    for n in (n_threads, 1):
        torch.set_num_threads(n)
        seconds[n] = measure_pass(run, batch_tokens=batch_tokens, limit_s=THREADS_TRIAL_S)
    fastest = min(seconds, key=seconds.__getitem__)
    torch.set_num_threads(fastest)
    measured = ", ".join(f"{n} in {s:.2f} s" for n, s in seconds.items())
    log.info("threads: %d, by the time of a batch (%s); run.n_threads sets them", fastest, measured)
    return fastest


def _fit_batches(run: Run) -> tuple[int, str]:
    """Return the batch size, and the steps and passes over the data that the budget allows."""
    optimizer, minutes = run.config.optimizer, run.config.run.max_minutes
    batch_tokens, n_steps = optimizer.batch_tokens or LARGEST_BATCH, run.config.run.max_steps
    if minutes is not None:
        on_gpu = run.group.device.type == "cuda"
        trial = optimizer.batch_tokens or (LARGEST_BATCH if on_gpu else 2 * SMALLEST_BATCH)
        limit_s = min(TRIAL_S, TRIAL_SHARE * 60 * minutes)
        token_s = measure_pass(run, batch_tokens=trial, limit_s=limit_s) / trial
        fitting = 60 * minutes / (token_s * optimizer.accumulate)  # tokens
        batch_tokens = optimizer.batch_tokens or choose_batch(fitting)
        n_steps = min(n_steps, max(1, int(fitting / batch_tokens)))
    loader = Loader(_with_batch(run.config, batch_tokens), run.corpus, run.group)
    n_passes = n_steps * run.group.size * optimizer.accumulate / len(loader.plan(1))
    return batch_tokens, (
        f"about {n_steps:,} steps of up to {batch_tokens:,} tokens, {n_passes:.1f} passes over the "
        f"data{f', in {minutes:g} minutes' if minutes else ''}; small data needs {FEW_PASSES}"
    )


def measure_pass(run: Run, *, batch_tokens: int, limit_s: float) -> float:
    """Return the mean seconds of a forward and backward pass, without the first."""
    sized = _with_batch(run.config, batch_tokens)
    run.stepper.settings = sized.optimizer  # named if memory runs out
    loader = Loader(sized, run.corpus, ProcessGroup(run.group.device))
    seconds: list[float] = []
    while len(seconds) < 2 or sum(seconds[1:]) < limit_s:
        (batch,) = loader.take(1).batches
        began = time.monotonic()
        run.stepper.rehearse(batch)
        seconds.append(time.monotonic() - began)
    return statistics.mean(seconds[1:])


def choose_batch(n_tokens: float) -> int:
    """Return the largest batch with which enough steps fit into the tokens that time allows."""
    sizes = (LARGEST_BATCH // 2**n for n in range(4))
    return next((size for size in sizes if n_tokens / size >= MIN_STEPS), SMALLEST_BATCH)


def _with_batch(config: RunConfig, batch_tokens: int) -> RunConfig:
    optimizer = dataclasses.replace(config.optimizer, batch_tokens=batch_tokens)
    return dataclasses.replace(config, optimizer=optimizer)
