"""What a run may use: steps, time, threads and batch size, and how much of them it has used."""

import dataclasses
import logging
import statistics
import time

import torch

from training.config.recipe import Recipe
from training.config.run import RunConfig
from training.data.loader import Loader
from training.data.prepare import RunData
from training.distributed import ProcessGroup
from training.optim.step import Stepper, reporting_out_of_memory
from training.run.checkpoint import Progress

log = logging.getLogger("training")

FIRST_VALIDATION = 0.1
"""Share of the time limit that is reserved for the final validation before one was measured."""
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


class Budget:
    """Adds the time of a session to the progress of its run, and compares it with the limits."""

    def __init__(self, run_config: RunConfig, progress: Progress) -> None:
        """Start the clock."""
        self._run_config = run_config
        self._progress = progress
        self._began = time.monotonic() - progress.seconds
        self.time_share = self.time_share_used()
        """Share of the time limit that the next step will have used; equal on all processes."""

    def count_time(self) -> None:
        """Update the seconds of the progress."""
        self._progress.seconds = time.monotonic() - self._began

    def time_share_used(self) -> float:
        """Return the share of the time limit, less a last validation, that is used; 0 without."""
        if self._run_config.max_minutes is None:
            return 0.0
        limit = 60 * self._run_config.max_minutes
        reserved = self._progress.validation_s or FIRST_VALIDATION * limit
        return self._progress.seconds / max(limit - reserved, limit / 2)

    def next_time_share(self) -> float:
        """Return the same for the middle of the next step, which takes as long as the others."""
        return self.time_share_used() * (1 + 1.5 / max(self._progress.step, 1))

    def share_used(self, step: float) -> float:
        """Return the larger of the shares of steps and time that are used, at most 1."""
        return min(1.0, max(step / self._run_config.max_steps, self.time_share))

    def seconds_left(self) -> float:
        """Return an estimate of the time until the end, from the first step on."""
        used = max(
            self._progress.step / self._run_config.max_steps, min(1.0, self.time_share_used())
        )
        return self._progress.seconds * (1 / used - 1)


def plan_run(recipe: Recipe, run_data: RunData, stepper: Stepper) -> Recipe:
    """Choose threads and batch size where the recipe leaves them open; log what fits the budget.

    The speed is measured on rank 0; random generators are left as they were.
    """
    group = stepper.group
    devices = [group.device] if group.device.type == "cuda" else []

    def choose() -> tuple[int, int]:
        with torch.random.fork_rng(devices):
            return choose_threads(recipe, run_data, stepper), fit_batches(recipe, run_data, stepper)

    n_threads, batch_tokens = group.run_on_rank0(choose)
    torch.set_num_threads(n_threads)
    run_config = dataclasses.replace(recipe.run, n_threads=n_threads)
    return dataclasses.replace(_with_batch(recipe, batch_tokens), run=run_config)


def choose_threads(recipe: Recipe, run_data: RunData, stepper: Stepper) -> int:
    """Set and return 1 thread if that is faster on this machine, unless the number is given."""
    n_threads = torch.get_num_threads()
    if recipe.run.n_threads or stepper.group.device.type != "cpu" or n_threads == 1:
        return n_threads
    sized = _with_batch(recipe, recipe.optimizer.batch_tokens or SMALLEST_BATCH)
    seconds = {}
    for n in (n_threads, 1):
        torch.set_num_threads(n)
        seconds[n] = measure_pass(sized, run_data, stepper, limit_s=THREADS_TRIAL_S)
    fastest = min(seconds, key=seconds.__getitem__)
    torch.set_num_threads(fastest)
    measured = ", ".join(f"{n} in {s:.2f} s" for n, s in seconds.items())
    log.info("threads: %d, by the time of a batch (%s); run.n_threads sets them", fastest, measured)
    return fastest


def fit_batches(recipe: Recipe, run_data: RunData, stepper: Stepper) -> int:
    """Return the batch size; log the steps and passes over the data that the budget allows."""
    optimizer, minutes, group = recipe.optimizer, recipe.run.max_minutes, stepper.group
    batch_tokens, n_steps = optimizer.batch_tokens or LARGEST_BATCH, recipe.run.max_steps
    if minutes is not None:
        on_gpu = group.device.type == "cuda"
        trial = optimizer.batch_tokens or (LARGEST_BATCH if on_gpu else 2 * SMALLEST_BATCH)
        limit_s = min(TRIAL_S, TRIAL_SHARE * 60 * minutes)
        pass_s = measure_pass(_with_batch(recipe, trial), run_data, stepper, limit_s=limit_s)
        fitting = 60 * minutes * trial / (pass_s * optimizer.accumulate)  # tokens
        batch_tokens = optimizer.batch_tokens or choose_batch(fitting)
        n_steps = min(n_steps, max(1, int(fitting / batch_tokens)))
    loader = Loader(_with_batch(recipe, batch_tokens), run_data, group)
    n_passes = n_steps * group.size * optimizer.accumulate / len(loader.plan(1))
    log.info(
        "plan: about %s steps of up to %s tokens, %.1f passes over the data%s; small data needs %d",
        f"{n_steps:,}",
        f"{batch_tokens:,}",
        n_passes,
        f", in {minutes:g} minutes" if minutes else "",
        FEW_PASSES,
    )
    return batch_tokens


def measure_pass(sized: Recipe, run_data: RunData, stepper: Stepper, *, limit_s: float) -> float:
    """Return the mean seconds of a forward and backward pass, without the first."""
    loader = Loader(sized, run_data, ProcessGroup(stepper.group.device))
    seconds: list[float] = []
    with reporting_out_of_memory(sized.optimizer, stepper.group):
        while len(seconds) < 2 or sum(seconds[1:]) < limit_s:
            (batch,) = loader.take(1).batches
            began = time.monotonic()
            stepper.rehearse(batch)
            seconds.append(time.monotonic() - began)
    return statistics.mean(seconds[1:])


def choose_batch(n_tokens: float) -> int:
    """Return the largest batch with which enough steps fit into the tokens that time allows."""
    sizes = (LARGEST_BATCH // 2**n for n in range(4))
    return next((size for size in sizes if n_tokens / size >= MIN_STEPS), SMALLEST_BATCH)


def _with_batch(recipe: Recipe, batch_tokens: int) -> Recipe:
    optimizer = dataclasses.replace(recipe.optimizer, batch_tokens=batch_tokens)
    return dataclasses.replace(recipe, optimizer=optimizer)
