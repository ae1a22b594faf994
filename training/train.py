"""Train a model from a recipe, or resume a run.

    python -m training.train RECIPE.toml [--set section.key=value ...]
    python -m training.train --resume RUN_DIR [--set section.key=value ...]
    torchrun --nproc-per-node N -m training.train RECIPE.toml

The run folder holds the models `best/` and `last/`, the state, metrics, samples and the recipe.
"""

import argparse
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import torch

from training.command import add_overrides, make_parser, run_command
from training.config.recipe import Recipe, load_recipe
from training.data.prepare import RunData, prepare_data
from training.distributed import ProcessGroup, join_group
from training.run.checkpoint import put_weights
from training.run.final_evaluation import evaluate_best
from training.run.finetune import Pretrained, describe_pretrained, load_pretrained
from training.run.run_dir import (
    check_unused,
    lock_folder,
    lock_turn,
    make_folder,
    record_start,
    resolve_recipe,
    write_status,
)
from training.run.trainer import Trainer

log = logging.getLogger("training")

SHAPE_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
GRACE_S = 2.0
"""A signal repeated within this many seconds counts once: `torchrun` forwards the Ctrl-C that the
terminal has already sent to all processes."""


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = make_parser("train", __doc__)
    parser.add_argument(
        "recipe",
        type=Path,
        nargs="?",
        help="TOML file, see training/recipes; optional with --resume, which uses that of the run",
    )
    add_overrides(parser)
    parser.add_argument("--resume", type=Path, metavar="RUN_DIR", help="resume a stopped run")
    parser.add_argument(
        "--wait", type=Path, metavar="FILE", help="start when no other run holds this lock file"
    )
    options = parser.parse_args(arguments)
    if options.recipe is None and options.resume is None:
        parser.error("name a recipe, or with --resume a run that has one")
    return options


def run(
    recipe: Path | None = None, *, overrides: Sequence[str] = (), resume: Path | None = None
) -> Trainer:
    """Prepare the data, train, and evaluate the result.

    Raises:
        HubNMTError: if the settings, the data or the run folder cannot be used.
        FloatingPointError: if the loss or the gradient is not finite.
    """
    resolved, all_overrides = resolve_recipe(recipe, overrides=overrides, resume=resume)
    folder = resume or Path(resolved.run.folder, resolved.run.name)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(resolved.run.n_threads or n_threads)
    group = join_group(resolved.run.device)
    try:
        with ExitStack() as locks:
            # 1. Prepare the data, build the model, and set or restore its state.
            if resume:
                trainer = _resume(resolved, folder, group, locks)
                command = _resume_command(folder, recipe, overrides)
            else:
                trainer = _begin(resolved, recipe or Path(), all_overrides, folder, group, locks)
                command = _resume_command(folder, None, ())  # the folder has the arguments
            # 2. Train.
            group.run_on_rank0(lambda: write_status(folder, "training"))
            with _stop_gracefully(trainer, command):
                trainer.train()
                # A signal during the last validation may reach one process only.
                trainer.is_interrupted = any(group.gather(trainer.is_interrupted))
            # 3. Evaluate the best model.
            if not trainer.is_interrupted:
                group.run_on_rank0(lambda: evaluate_best(trainer))
            state = "paused" if trainer.is_interrupted else "finished"
            group.run_on_rank0(lambda: write_status(folder, state))
    finally:
        group.leave()
        torch.set_num_threads(n_threads)  # the setting is global to the process
    return trainer


def _resume(recipe: Recipe, folder: Path, group: ProcessGroup, locks: ExitStack) -> Trainer:
    """Lock the folder of a run, prepare its data and restore its state."""

    def prepare() -> RunData:
        locks.enter_context(lock_folder(folder))
        write_status(folder, "preparing")
        return prepare_data(recipe, folder)

    run_data = group.run_rank0_first(prepare, lambda: prepare_data(recipe, folder))
    return Trainer(recipe, folder, run_data, group, resume=True)


def _begin(
    recipe: Recipe,
    path: Path,
    overrides: Sequence[str],
    folder: Path,
    group: ProcessGroup,
    locks: ExitStack,
) -> Trainer:
    """Prepare the data of a new run, make and lock its folder, and plan it."""
    # 1. Load the pretrained model, whose settings complete the recipe.
    group.run_on_rank0(lambda: check_unused(folder))
    group.run_on_rank0(lambda: write_status(folder, "preparing"))
    start: Pretrained | None = None
    if recipe.run.pretrained:
        start = group.run_on_rank0(
            lambda: load_pretrained(recipe.run.pretrained, recipe.run.pretrained_part)
        )
        log.info("starting from %s", describe_pretrained(start.record()))
        recipe = load_recipe(path, overrides, inherited=start.settings(recipe))

    # 2. Prepare the data. The folder is made late, so that a mistake in the recipe leaves none.
    def prepare() -> RunData:
        run_data = prepare_data(recipe, None, start.tokenizers if start else None)
        make_folder(folder)
        locks.enter_context(lock_folder(folder))
        check_unused(folder)  # again: another process may have been faster
        run_data.save(folder)
        return run_data

    run_data = group.run_rank0_first(prepare, lambda: prepare_data(recipe, folder))
    # 3. Build the model, choose what the recipe leaves open, and record the run.
    trainer = Trainer(recipe, folder, run_data, group)
    if start:
        put_weights(trainer.model, {**trainer.model.state_dict(), **start.weights})
    origin = start.record() if start else None
    group.run_on_rank0(
        lambda: record_start(
            folder, trainer.recipe, overrides=overrides, device=group.device, pretrained=origin
        )
    )
    return trainer


def _resume_command(folder: Path, path: Path | None, overrides: Sequence[str]) -> str:
    """Return the command that resumes a run with the arguments of this session."""
    named = [] if path is None else [str(path)]
    words = ["python", "-m", "training.train", *named, "--resume", str(folder)]
    words += [word for override in overrides for word in ("--set", override)]
    return shlex.join(words)


@contextmanager
def _stop_gracefully(trainer: Trainer, command: str) -> Iterator[None]:
    """Stop after the current step on the first Ctrl-C or SIGTERM, at once on the second."""
    first: list[float] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if first and time.monotonic() - first[0] > GRACE_S:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
        elif not first:
            first.append(time.monotonic())
            log.warning("stopping after this step; resume with: %s", command)
            trainer.is_interrupted = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def bound_shape_caches() -> None:
    """Limit the primitive caches of oneDNN and PyTorch to 64 shapes instead of 1,024.

    Each bfloat16 product of a new shape is cached with its buffers. On a CPU memory grew by
    gigabytes in a long run, while a step uses some dozens of shapes.
    """
    for name in SHAPE_CACHES:
        os.environ.setdefault(name, "64")


def set_up_log(*, is_rank0: bool) -> None:
    """Log on rank 0 only: all messages of the run, warnings and errors of libraries."""
    logging.basicConfig(
        level=logging.WARNING if is_rank0 else logging.CRITICAL,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    log.setLevel(logging.INFO if is_rank0 else logging.CRITICAL)
    logging.getLogger("huggingface_hub").propagate = False  # has a handler of its own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    is_rank0 = os.environ.get("RANK", "0") == "0"
    set_up_log(is_rank0=is_rank0)
    bound_shape_caches()
    options = vars(parse_arguments(arguments))
    turn = options.pop("wait")

    def work() -> None:
        with lock_turn(turn if is_rank0 else None):  # once for all processes
            run(**options)

    def report(message: str) -> None:
        if is_rank0:
            sys.stderr.write(f"{message}\n")  # in one piece, beside other processes

    return run_command(work, interrupted="the last saved state is valid", report=report)


if __name__ == "__main__":
    sys.exit(main())
