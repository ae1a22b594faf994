"""One training run, from raw text to a finished model folder.

    python -m training.train RECIPE.toml [--set section.key=value ...]
    python -m training.train --resume RUN_DIR [--set section.key=value ...]
    torchrun --nproc-per-node N -m training.train RECIPE.toml

Takes a recipe, gives a run folder: `best/` and `last/` model folders, resumable state,
`metrics.jsonl`, `samples.md`, TensorBoard events, the resolved recipe. Must not know the app.
"""

import argparse
import contextlib
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import torch

from hubnmt.errors import ConfigError, HubNMTError
from training.config.recipe import RunConfig, Tables, load_recipe
from training.data.prepare import Corpus, prepare_corpus
from training.distributed import Team, join_team
from training.release.publish import hand_over
from training.run.finetune import Pretrained, describe_pretrained, load_pretrained
from training.run.hub_upload import Publisher
from training.run.run_dir import (
    check_unused,
    choose_folder,
    claim_folder,
    has_state,
    hold_folder,
    load_settings,
    make_folder,
    stored_recipe,
)
from training.run.trainer import Run

log = logging.getLogger("training")

SHAPE_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
GRACE_S = 2.0
"""A signal that comes again this soon is the same wish: `torchrun` passes on the Ctrl-C that the
terminal has sent to all processes itself."""


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument(
        "recipe",
        type=Path,
        nargs="?",
        help="a TOML file, see training/recipes; with --resume, the run has its own",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a setting"
    )
    parser.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with a stopped run")
    parser.add_argument(
        "--push", metavar="USER/NAME", help="push best/ to the Hub at the end (private if new)"
    )
    parser.add_argument(
        "--hub-checkpoints", action="store_true", help="push last/ at every validation, too"
    )
    options = parser.parse_args(arguments)
    if options.recipe is None and options.resume is None:
        parser.error("name a recipe, or with --resume a run that has one")
    return options


def run(
    recipe: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: Path | None = None,
    push: str | None = None,
    hub_checkpoints: bool = False,
) -> Run:
    """Carry out one run: settings, data, model, loop, and the way to the Hub if asked for.

    Args:
        recipe: may be left out of a run that is resumed, which has its own.
        overrides: `section.key=value` each.
        resume: folder of the run to go on with.
        push: `user/name` on the Hub.
        hub_checkpoints: push at every validation, too.

    Raises:
        HubNMTError: if something asked for cannot be had.
        FloatingPointError: if the numbers break.
    """
    source = recipe or (stored_recipe(resume) if resume else None)
    if source is None:
        raise ConfigError("name a recipe, or with --resume a run that has one")
    config, every = load_settings(source, overrides=overrides, resume=resume)
    publisher = Publisher(push, checkpoints=hub_checkpoints)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(_bound_threads(config.run.n_threads) or n_threads)
    team = join_team(config.run.device)
    try:
        folder = resume or team.run_on_rank0(lambda: choose_folder(config))
        is_new = resume is None or not team.run_on_rank0(lambda: has_state(folder))
        team.run_on_rank0(publisher.prepare)
        with contextlib.ExitStack() as held:
            start = None  # the leader's: the others get what they need of it from there
            if is_new and config.run.pretrained:
                config, start = _start_from(config, source, every, team)
            check = check_unused if resume is None else None
            corpus = _prepare_together(
                config, folder, team, held, is_new=is_new, check=check, start=start
            )
            current = Run(config, folder, corpus, team, publisher=publisher)
            if is_new:
                _begin(current, every, start)
            else:
                current.resume()
            # What it was started with is remembered; what this sitting was given is not.
            sitting = (None, ()) if is_new else (recipe, overrides)
            with _stop_politely(current, _go_on(folder, *sitting, publisher)):
                current.train()
            if not current.must_stop:
                team.run_on_rank0(lambda: _hand_over(current))
    finally:
        team.leave()
        torch.set_num_threads(n_threads)  # it holds for the whole process, also after the run
    return current


def _bound_threads(n_threads: int) -> int:
    """Take no more threads than there are cores: the system may not even have them."""
    n_cores = os.cpu_count() or 1
    if n_threads > n_cores:
        log.warning("run.n_threads = %d, but this machine has %d cores", n_threads, n_cores)
    return min(n_threads, n_cores)


def _start_from(
    config: RunConfig, recipe: Path | Tables, every: Sequence[str], team: Team
) -> tuple[RunConfig, Pretrained | None]:
    """Let the leader find the model to start from; all get the recipe with what it brings.

    Raises:
        HubNMTError: if it cannot be had, or the recipe wants another shape.
    """
    found: list[Pretrained] = []

    def find() -> Tables:
        found.append(load_pretrained(config.run.pretrained))
        log.info("starting from %s", describe_pretrained(found[0].record()))
        return found[0].settings(config)

    config = load_recipe(recipe, every, inherited=team.run_on_rank0(find))
    return config, found[0] if found else None


def _begin(current: Run, every: Sequence[str], start: Pretrained | None) -> None:
    """Write down how a run began, and give it the weights that it starts from, if there are any."""
    if current.config.run.pretrained:
        current.begin_with(start.weights if start else None)
    record = start.record() if start else None
    current.team.run_on_rank0(
        lambda: claim_folder(
            current.folder,
            current.config,
            overrides=every,
            device=current.team.device,
            pretrained=record,
        )
    )


def _prepare_together(
    config: RunConfig,
    folder: Path,
    team: Team,
    held: contextlib.ExitStack,
    *,
    is_new: bool,
    check: Callable[[Path], None] | None,
    start: Pretrained | None,
) -> Corpus:
    """Let the leader learn the vocabulary and keep it; the others read what it has left.

    Args:
        config: the recipe.
        folder: the run's; the leader holds it from here on.
        team: all processes.
        held: gives the folder free again.
        is_new: whether to learn a vocabulary in place of loading the run's own.
        check: refuses the folder if another process has been there since it was chosen.
        start: the model whose vocabulary to use, if there is one.
    """
    corpora: list[Corpus] = []

    def prepare() -> None:
        if is_new:  # the folder is made late: a mistake in the recipe leaves none
            tokenizers = start.tokenizers if start else None
            corpora.append(prepare_corpus(config, None, tokenizers=tokenizers))
            make_folder(folder)
            held.enter_context(hold_folder(folder))
            if check is not None:
                check(folder)
            corpora[0].save(folder)
        else:
            held.enter_context(hold_folder(folder))
            corpora.append(prepare_corpus(config, folder))

    team.run_on_rank0(prepare)
    if not team.is_leader:
        corpora.append(prepare_corpus(config, folder))
    return corpora[0]


def _hand_over(current: Run) -> None:
    hand_over(
        current.config,
        current.folder,
        valid=current.corpus.valid,
        device=current.team.device,
        kept=current.best,
        publisher=current.publisher,
    )


def _go_on(
    folder: Path, recipe: Path | None, overrides: Sequence[str], publisher: Publisher
) -> str:
    """Write the command that goes on with a run as this sitting began."""
    named = [] if recipe is None else [str(recipe)]
    words = ["python", "-m", "training.train", *named, "--resume", str(folder)]
    words += [word for override in overrides for word in ("--set", override)]
    return shlex.join([*words, *publisher.options()])


@contextlib.contextmanager
def _stop_politely(current: Run, command: str) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the run after its step; the next ends it at once."""
    first: list[float] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if first and time.monotonic() - first[0] > GRACE_S:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
        elif not first:
            first.append(time.monotonic())
            log.warning("stopping after this step; go on with: %s", command)
            current.must_stop = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def bound_shape_caches() -> None:
    """Let oneDNN, and PyTorch's layer over it, remember fewer shapes than the 1,024 they would.

    Each bfloat16 product of a shape not seen before is kept with its buffers. Batches have ever
    other shapes, so on a CPU a long run grew by gigabytes; a step meets some dozens of them. Both
    libraries look at the environment when they multiply first; whoever set it before decides.
    """
    for name in SHAPE_CACHES:
        os.environ.setdefault(name, "64")


def set_up_log(*, is_leader: bool) -> None:
    """Let one process speak: of the run whatever it has to say, of libraries only trouble."""
    logging.basicConfig(
        level=logging.WARNING if is_leader else logging.CRITICAL,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    log.setLevel(logging.INFO if is_leader else logging.CRITICAL)
    logging.getLogger("huggingface_hub").propagate = False  # it writes to the terminal itself


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        the exit status: 0 done, 1 the numbers broke, 2 the request was wrong, 130 interrupted.
    """
    is_leader = os.environ.get("RANK", "0") == "0"
    set_up_log(is_leader=is_leader)
    bound_shape_caches()
    options = parse_arguments(arguments)
    status, message = 0, ""
    try:
        run(
            options.recipe,
            overrides=options.set,
            resume=options.resume,
            push=options.push,
            hub_checkpoints=options.hub_checkpoints,
        )
    except HubNMTError as error:
        status, message = 2, f"error: {' '.join(str(error).split())}"
    except FloatingPointError as error:
        status, message = 1, f"error: training stopped: {error}"
    except KeyboardInterrupt:
        status, message = 130, "interrupted; the last saved state is whole"
    if message and is_leader:
        print(message, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
