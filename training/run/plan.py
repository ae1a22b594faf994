"""What fits into the budget of a run on this machine, and the batch size that follows from it."""

import dataclasses
import logging
import math
import statistics
import time
from collections.abc import Iterator

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
TRIAL_PASSES, TRIAL_S = 20, 10.0
"""Passes of the speed measurement, fewer if they take longer than these seconds."""
TRIAL_SHARE = 1 / 60
"""Share of the time limit that the measurement may take."""
THREADS_TRIAL_S = 2.0
"""The same for each number of threads."""
FEW_PASSES, MANY_PASSES = 10, 60
"""Passes over the data between which the bundled models of small data reached their best score."""
DEFAULT_WIDTH, SMALL_WIDTH = 512, 128
"""Width of a model by default, and of those that learn most in minutes of one CPU core."""

MEASURED = (
    (0.8e6, "BLEU 18", "20,000 pairs of German and English from Tatoeba"),
    (7.3e6, "BLEU 37", "29,000 photo captions, German and English"),
    (45e6, "BLEU 43", "29,000 photo captions, German and English"),
)
"""Target tokens seen in training, BLEU on the validation set, and the data; training/RUNS.md."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run can do within its budget."""

    batch_tokens: int
    n_steps: int
    n_passes: float
    n_tokens: float
    minutes: float | None
    """Time limit; None if the number of steps is the limit."""


def plan_run(run: Run) -> None:
    """Choose threads and batch size where the recipe leaves them open; log what fits the budget.

    The speed is measured on rank 0; random generators are left as they were.
    """
    config = run.config
    devices = [run.group.device] if run.group.device.type == "cuda" else []

    def plan() -> tuple[int, Plan]:
        with torch.random.fork_rng(devices):
            return choose_threads(run), _make_plan(run)

    n_threads, budget = run.group.run_on_rank0(plan)
    torch.set_num_threads(n_threads)
    for line in describe_plan(budget, config):
        log.info("plan: %s", line)
    optimizer = dataclasses.replace(config.optimizer, batch_tokens=budget.batch_tokens)
    settings = dataclasses.replace(config.run, n_threads=n_threads)
    run.replan(dataclasses.replace(config, optimizer=optimizer, run=settings))


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


def _make_plan(run: Run) -> Plan:
    config, corpus, group = run.config, run.corpus, run.group
    optimizer, minutes = config.optimizer, config.run.max_minutes
    batch_tokens, n_steps = optimizer.batch_tokens or LARGEST_BATCH, config.run.max_steps
    if minutes is not None:
        on_gpu = group.device.type == "cuda"
        trial = optimizer.batch_tokens or (LARGEST_BATCH if on_gpu else 2 * SMALLEST_BATCH)
        limit_s = min(TRIAL_S, TRIAL_SHARE * 60 * minutes)
        token_s = measure_pass(run, batch_tokens=trial, limit_s=limit_s) / trial
        fitting = 60 * minutes / (token_s * optimizer.accumulate)  # tokens
        batch_tokens = optimizer.batch_tokens or choose_batch(fitting)
        n_steps = min(n_steps, max(1, int(fitting / batch_tokens)))
    n_batches = len(Loader(_with_batch(config, batch_tokens), corpus, group).plan(1))
    n_passes = n_steps * group.size * optimizer.accumulate / n_batches
    weights = [source.weight for source in config.data.training_corpora().values()]
    mean = float(corpus.train.lengths[:, 1].double().mean()) + 1  # eos included
    n_rows = sum(n * weight for n, weight in zip(corpus.train.counts, weights, strict=True))
    return Plan(
        batch_tokens=batch_tokens,
        n_steps=n_steps,
        n_passes=n_passes,
        n_tokens=n_passes * n_rows * mean,
        minutes=None if n_steps == config.run.max_steps else minutes,
    )


def measure_pass(run: Run, *, batch_tokens: int, limit_s: float) -> float:
    """Return the mean seconds of a forward and backward pass, without the first."""
    sized = _with_batch(run.config, batch_tokens)
    run.stepper.settings = sized.optimizer  # named if memory runs out
    loader = Loader(sized, run.corpus, ProcessGroup(run.group.device))
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) <= TRIAL_PASSES and sum(seconds[1:]) < limit_s):
        (batch,) = loader.take(1).batches
        began = time.monotonic()
        run.stepper.rehearse(batch)
        seconds.append(time.monotonic() - began)
    return statistics.mean(seconds[1:])


def choose_batch(n_tokens: float) -> int:
    """Return the largest batch with which enough steps fit into the tokens that time allows."""
    sizes = (LARGEST_BATCH // 2**n for n in range(4))
    fits = (size for size in sizes if n_tokens / size >= MIN_STEPS)
    return next(fits, SMALLEST_BATCH)


def describe_plan(plan: Plan, config: RunConfig) -> Iterator[str]:
    """Yield what the budget allows, what such a budget gave elsewhere, and what would help."""
    budget = "the run has" if plan.minutes is None else f"{plan.minutes:g} minutes are about"
    yield (
        f"{budget} {plan.n_steps:,} steps of up to {plan.batch_tokens:,} tokens, "
        f"{plan.n_passes:.1f} passes over the data"
    )
    n_tokens, score, data = min(
        MEASURED, key=lambda row: abs(math.log(row[0] / max(plan.n_tokens, 1)))
    )
    yield (
        f"{plan.n_tokens / 1e6:,.2f} million target tokens; elsewhere {n_tokens / 1e6:,.1f} "
        f"million gave {score} ({data})"
    )
    if advice := list(_advise(plan, config)):
        yield f"what would help: {'; '.join(advice)}"


def _advise(plan: Plan, config: RunConfig) -> Iterator[str]:
    is_short = plan.n_passes < FEW_PASSES
    if is_short and plan.minutes is not None:
        minutes = math.ceil(plan.minutes * FEW_PASSES / plan.n_passes)
        yield f"more time, --set run.max_minutes={minutes}"
    elif is_short:
        n_steps = math.ceil(plan.n_steps * FEW_PASSES / plan.n_passes)
        yield f"more steps, --set run.max_steps={n_steps}"
    width = config.model.get("d_model", DEFAULT_WIDTH)
    can_shrink = width > SMALL_WIDTH and not config.run.pretrained
    if is_short and plan.n_steps < 2 * MIN_STEPS and can_shrink:
        yield f"a smaller model, --set model.d_model={SMALL_WIDTH}"
    if plan.n_passes > MANY_PASSES and config.model.get("dropout", 0.1) < 0.3:
        yield "more data, or --set model.dropout=0.3"


def _with_batch(config: RunConfig, batch_tokens: int) -> RunConfig:
    optimizer = dataclasses.replace(config.optimizer, batch_tokens=batch_tokens)
    return dataclasses.replace(config, optimizer=optimizer)
