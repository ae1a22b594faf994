"""The folder of a run: naming, locking, resuming, and records of how the run was started.

A folder counts as used once it holds metrics, a state or a model, so that a mistake on the command
line or a first step that runs out of memory does not use up a name. While a process trains, the
folder is locked against other processes.
"""

import contextlib
import dataclasses
import json
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock, Timeout

import hubnmt
from hubnmt.checkpoint.files import METRICS, SAMPLES, read_json
from hubnmt.errors import ConfigError, ModelFolderError
from hubnmt.inference.dtypes import resolve_training_dtype
from training.config.recipe import Recipe, load_recipe
from training.files import replace_text, reporting_write_errors
from training.run.checkpoint import STATE_FILE

log = logging.getLogger("training")

LOCK_FILE = ".lock"
STATUS_FILE = "status.json"
KeptModel = Literal["best", "last"]
MAY_CHANGE_ON_RESUME = {
    "run": {
        "folder",
        "max_steps",
        "max_minutes",
        "patience",
        "device",
        "dtype",
        "n_threads",
        "log_every",
        "save_every",
    },
    "data": {"cache"},
}
"""Settings that may change when a run is resumed: they affect where and how long it runs, not
what it learns."""


def resolve_recipe(
    path: Path | None, *, overrides: Sequence[str], resume: Path | None
) -> tuple[Recipe, list[str]]:
    """Read the recipe and apply the overrides, including those a resumed run was started with.

    A resumed run needs no recipe. Overrides given on resuming apply to that session only.

    Returns:
        the settings, and all overrides that were applied.

    Raises:
        ConfigError: if the recipe is wrong, or the folder to resume was made with another one.
    """
    if resume is None:
        return load_recipe(path or {}, overrides), [*overrides]
    # 1. Read the recipe of now and that of the start.
    stored, earlier = _read_record(resume)
    all_overrides = [*earlier, *overrides]
    # The pretrained model, whose settings are part of the recipe, may no longer be available.
    is_tuned = bool(stored.get("run", {}).get("pretrained"))
    inherited = (
        {name: stored.get(name, {}) for name in ("model", "tokenizer")} if is_tuned else None
    )
    recipe = load_recipe(path or stored, all_overrides, inherited=inherited)
    before = load_recipe(stored, inherited=inherited)
    # 2. Keep what was chosen when the run was started, unless it is given.
    batch_tokens = recipe.optimizer.batch_tokens or before.optimizer.batch_tokens
    n_threads = recipe.run.n_threads or before.run.n_threads
    recipe = dataclasses.replace(
        recipe,
        optimizer=dataclasses.replace(recipe.optimizer, batch_tokens=batch_tokens),
        run=dataclasses.replace(recipe.run, n_threads=n_threads),
    )
    # 3. Compare them.
    old, new = (json.loads(json.dumps(values.to_dict())) for values in (before, recipe))
    differences = [
        f"{section}.{key} was {old[section].get(key)!r}, is {new[section].get(key)!r}"
        for section in new
        for key in sorted({*new[section], *old[section]} - MAY_CHANGE_ON_RESUME.get(section, set()))
        if new[section].get(key) != old[section].get(key)
    ]
    if differences:
        raise ConfigError(f"{resume} was started with another recipe: {'; '.join(differences)}")
    return recipe, all_overrides


def _read_record(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the resolved recipe and the overrides that a run was started with."""
    try:
        recipe, machine = (read_json(folder / name) for name in ("recipe.json", "machine.json"))
    except ModelFolderError as error:
        raise ConfigError(f"{folder}: no run to resume ({error})") from None
    return recipe, machine["overrides"]


def remove_results(folder: Path) -> None:
    """Remove the state, reports and models of a run that has not made a step."""
    for name in (STATE_FILE, METRICS, SAMPLES):
        (folder / name).unlink(missing_ok=True)
    for name in ("best", "last"):
        shutil.rmtree(folder / name, ignore_errors=True)


def check_unused(folder: Path) -> None:
    """Refuse a folder in which a run has started: resume it or choose another name."""
    if any((folder / name).exists() for name in (STATE_FILE, METRICS, "best", "last")):
        raise ConfigError(
            f"{folder} already holds a run: resume it with --resume {shlex.quote(str(folder))}, "
            "or choose another --set run.name=NAME"
        )


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run's folder against other processes until the block ends or the process exits.

    On a file system without locks, such as some mounted buckets, this does nothing.
    """
    lock = FileLock(folder / LOCK_FILE, blocking=False)
    with reporting_write_errors(folder):
        try:
            lock.acquire()
        except Timeout:
            raise ConfigError(
                f"{folder}: another process is training there; wait for it to end, or use "
                "another name: --set run.name=NAME"
            ) from None
        except NotImplementedError:
            log.debug("%s: no locks on this file system", folder)
    try:
        yield
    finally:
        lock.release()


def make_folder(folder: Path) -> None:
    """Create a run's folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"run.folder: cannot create {folder} ({error.strerror}); choose another folder"
        ) from None


@contextlib.contextmanager
def lock_turn(path: Path | None) -> Iterator[None]:
    """Wait for a lock file that one run at a time holds, and hold it until the block ends."""
    if path is None:
        yield
        return
    make_folder(path.parent)
    with FileLock(path):
        yield


def write_status(folder: Path, state: str) -> None:
    """Record what the process of a run does, for whoever watches the folder, as the page does."""
    if folder.is_dir():  # a new run makes it when its data are ready
        record = {"pid": os.getpid(), "state": state}
        replace_text(folder / STATUS_FILE, json.dumps(record))


def record_start(
    folder: Path,
    recipe: Recipe,
    *,
    overrides: Sequence[str],
    device: torch.device,
    pretrained: dict[str, Any] | None = None,
) -> None:
    """Record the recipe and the machine in a run's folder."""
    machine = {
        "hubnmt": hubnmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": _describe_device(device),
        "git_commit": _git_commit(),
        "command": " ".join(["python -m training.train", *sys.argv[1:]]),
        "dtype": resolve_training_dtype(recipe.run.dtype, device),
        "overrides": list(overrides),
        "pretrained": pretrained,
    }
    # Atomic: with a truncated file the run could not be resumed, and its name would be used up.
    for name, values in (("machine.json", machine), ("recipe.json", recipe.to_dict())):
        replace_text(folder / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def _describe_device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    n_threads = torch.get_num_threads()
    threads = "1 thread" if n_threads == 1 else f"{n_threads} threads"
    return f"{platform.machine()} CPU, {threads}"


def _git_commit() -> str | None:
    """Return the commit of this checkout; None without git or outside a checkout."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return answer.stdout.strip() or None
