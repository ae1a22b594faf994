"""The folder of one run: whose it is, and where and how the run was started.

Takes a recipe, gives a folder that belongs to it, or refuses. Must not know model or data. A folder
belongs to a run from the moment its `recipe.json` stands, which is written when all is checked,
so a mistake on the command line does not use up a name.
"""

import contextlib
import dataclasses
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import hubnmt
from hubnmt.checkpoint import write_json
from hubnmt.errors import ConfigError, ModelFolderError
from training.config import SECTIONS, RunConfig, load_recipe

FREE_ON_RESUME = {
    "run": {
        "folder",
        "max_steps",
        "max_minutes",
        "patience",
        "device",
        "n_threads",
        "log_every",
        "save_every",
        "compile",
    },
    "data": {"cache"},
    "log": {"hook", "project"},
}
"""Settings that may change when a run goes on: they decide when it stops, not what it learns."""


def load_settings(
    recipe: Path, *, overrides: Sequence[str], resume: Path | None
) -> tuple[RunConfig, list[str]]:
    """Read the recipe with the overrides; a resumed run remembers those it was started with.

    Returns:
        the settings, and all overrides that made them.

    Raises:
        ConfigError: if the recipe is wrong, or the folder to resume belongs to another one.
    """
    stored = None if resume is None else _read_record(resume)
    every = [*(_binding(stored["overrides"]) if stored else []), *overrides]
    config = load_recipe(recipe, every)
    if stored is not None:
        now = json.loads(json.dumps(config.to_dict()))
        differences = list(_differences(_with_defaults(stored["recipe"]), now))
        if differences:
            raise ConfigError(f"{resume} belongs to another recipe: {'; '.join(differences)}")
    return config, every


def _binding(overrides: Sequence[str]) -> list[str]:
    """Keep the overrides that decide what is learned; how long a sitting lasts is asked anew."""
    free = tuple(f"{section}.{key}=" for section, keys in FREE_ON_RESUME.items() for key in keys)
    return [text for text in overrides if not text.replace(" ", "").startswith(free)]


def choose_folder(config: RunConfig) -> Path:
    """Name the folder of a new run.

    Raises:
        ConfigError: if a run lives there already.
    """
    folder = Path(config.run.folder) / config.run.name
    if (folder / "recipe.json").exists():
        raise ConfigError(
            f"{folder} holds a run already: go on with --resume {folder}, "
            "or choose another --set run.name=NAME"
        )
    return folder


def claim_folder(
    folder: Path, config: RunConfig, *, overrides: Sequence[str], device: torch.device
) -> None:
    """Make the folder and write down what runs in it.

    Raises:
        ConfigError: if it cannot be made.
        ModelFolderError: if the disk is full.
    """
    make_folder(folder)
    machine = describe_machine(device) | {"overrides": list(overrides)}
    with telling_full_disk(folder):
        write_json(folder / "machine.json", machine)
    # Whole or not at all: a torn one would keep the name and could not be resumed either.
    text = json.dumps(config.to_dict(), indent=2, ensure_ascii=False)
    replace_text(folder / "recipe.json", f"{text}\n")


def explain_failed_save(path: Path, error: Exception) -> ModelFolderError:
    """Put a full or vanished disk into one line; libraries tell it in many ways."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    lines = str(error).splitlines() or [type(error).__name__]
    reason = (cause.strerror if isinstance(cause, OSError) else None) or lines[0]
    return ModelFolderError(
        f"{path}: cannot be saved ({reason}); what was saved before is whole: make room, then go "
        "on with --resume"
    )


@contextlib.contextmanager
def telling_full_disk(path: Path) -> Iterator[None]:
    """Let a write that fails within end as `explain_failed_save` says.

    Raises:
        ModelFolderError: in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        raise explain_failed_save(path, error) from error


def replace_text(path: Path, text: str) -> None:
    """Write a file anew, whole or not at all.

    Raises:
        ModelFolderError: if the disk is full.
    """
    draft = path.with_name(f".{path.name}.draft")
    with telling_full_disk(path):
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


def make_folder(folder: Path) -> None:
    """Make a run's folder.

    Raises:
        ConfigError: if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"run.folder: {folder} cannot be made ({error.strerror}); choose another"
        ) from None


def _with_defaults(stored: dict[str, Any]) -> dict[str, Any]:
    """Add the settings that came later: a run older than one was made with its default."""
    full = dict(stored)
    for section, cls in SECTIONS.items():
        defaults: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if field.default_factory is not dataclasses.MISSING:
                defaults[field.name] = field.default_factory()
            elif field.default is not dataclasses.MISSING:
                defaults[field.name] = field.default
        full[section] = json.loads(json.dumps(defaults)) | stored.get(section, {})
    return full


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / "recipe.json"
    try:
        recipe = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigError(f"{folder}: no run to resume (recipe.json cannot be read)") from None
    is_table = isinstance(recipe, dict) and all(isinstance(v, dict) for v in recipe.values())
    if not is_table or not recipe:
        raise ConfigError(f"{folder}: no run to resume (recipe.json is no recipe)")
    return {"recipe": recipe, "overrides": _read_overrides(folder / "machine.json")}


def _read_overrides(path: Path) -> list[str]:
    try:
        overrides = json.loads(path.read_text(encoding="utf-8"))["overrides"]
    except (OSError, ValueError, LookupError, TypeError):
        return []  # then the command line must repeat them, or the recipes differ
    return [text for text in overrides if isinstance(text, str)]


def _differences(stored: dict[str, Any], recipe: dict[str, Any]) -> Iterator[str]:
    for section, values in recipe.items():
        old = stored.get(section, {})
        for key in sorted({*values, *old} - FREE_ON_RESUME.get(section, set())):
            if values.get(key) != old.get(key):
                yield f"{section}.{key} was {old.get(key)!r}, is {values.get(key)!r}"


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Record what ran where, for the card and for whoever repeats it."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "hubnmt": hubnmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "git_commit": _git_commit(),
        "command": " ".join(["python -m training.train", *sys.argv[1:]]),
    }


def _git_commit() -> str | None:
    """Return the commit of this checkout, if it is one and git is there."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() or None
