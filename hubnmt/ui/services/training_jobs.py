"""Training runs of the page: processes of their own, whose state is read from their folders.

`training` writes `status.json` in the folder of a run, also of one that a terminal has started.
"""

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import psutil

from hubnmt.errors import ConfigError, InputError

SAMPLE = Path(__file__).parents[1] / "assets" / "tatoeba-de-en.tsv"
SAMPLE_NOTE = (
    "2,000 short sentences of [Tatoeba](https://tatoeba.org), by its contributors. "
    "CC BY 2.0 FR, with attribution to Tatoeba."
)
DATA, TURN = ".data", ".turn"
"""In the folder of runs: imported pairs, and the lock file of the run whose turn it is."""
LOG, STATUS, RECIPE, METRICS = "log.txt", "status.json", "recipe.toml", "metrics.jsonl"
RUN_FILES = (RECIPE, METRICS)
"""Files by which a run is known: one that the page has started, or one of a terminal."""
MIN_FREE_MIB = 1024
"""Disk and memory that must be free before a run starts."""
CLOCK_S = 5.0
"""Error of the time at which a process began."""
ERROR = re.compile(r"^(?:error: .*|\w+Error\b.*)$", re.MULTILINE)
ALIVE = ("waiting", "preparing", "training")


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A run: one of the states `ALIVE`, or paused, finished or failed."""

    name: str
    folder: Path
    state: str
    seconds_left: float | None
    message: str
    """Last line of the log, if the page started the run; of a failed one the command's error."""


def can_train() -> bool:
    """Return whether the package `training` is there."""
    return importlib.util.find_spec("training") is not None


class TrainingJobs:
    """The runs of one folder. Methods raise `HubNMTError` with a line for the user."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, which is created on first use."""
        self.folder = folder
        self._lock = threading.Lock()

    def import_pairs(self, *files: str, **options: Any) -> tuple[Path, dict[str, Any]]:
        """Run `training.import_pairs`; return the new folder and the report."""
        dest = self.folder / DATA / time.strftime("%Y%m%d-%H%M%S")
        run_command("import_pairs", str(dest), *files, **options)
        return dest, _read_json(dest / "report.json")

    def suggest(self, data: Path, **options: Any) -> str:
        """Run `training.suggest` for imported data, with a new name; return the recipe."""
        stem, n = "-".join(_read_json(data / "report.json")["languages"]), 1
        while (self.folder / f"{stem}-{n}").exists():
            n += 1
        return run_command("suggest", str(data), name=f"{stem}-{n}", **options)

    def list(self) -> "list[Job]":
        """Return all runs, the newest first."""
        folders = {file.parent for name in RUN_FILES for file in self.folder.glob(f"*/{name}")}
        newest = sorted(folders, key=lambda folder: -folder.stat().st_ctime)
        return [self.read(folder.name) for folder in newest]

    def read(self, name: str) -> Job:
        """Return a run."""
        folder = self._run_folder(name)
        status, log = _read_json(folder / STATUS), _read(folder / LOG)
        state = status.get("state", "finished")  # by an earlier version
        lines = [line for line in log.splitlines() if line.strip()][-1:]
        if state in ALIVE and _process(folder) is None:
            errors = ERROR.findall(log)
            state, lines = ("failed", errors[-1:]) if errors else ("paused", lines)
        message = re.sub(r"^\d\d:\d\d:\d\d ", "", "".join(lines))
        return Job(name, folder, state, status.get("seconds_left"), message)

    def start(self, recipe: str) -> str:
        """Start a run, or let it wait for its turn; return its name."""
        try:
            name = str(tomllib.loads(recipe).get("run", {}).get("name", ""))
        except (tomllib.TOMLDecodeError, AttributeError) as error:
            raise ConfigError(f"the recipe is not valid TOML ({error})") from None
        if not re.fullmatch(r"\w[\w.-]{0,80}", name) or (self.folder / name).exists():
            raise ConfigError(f"run.name = {name[:80]!r} must be a word that no other run has")
        self._check_room()
        (self.folder / name).mkdir()
        (self.folder / name / RECIPE).write_text(recipe, "utf-8")
        self.resume(name)
        return name

    def resume(self, name: str, *more: str) -> None:
        """Continue a stopped run from its last saved state, with `more` options."""
        folder = self._run_folder(name)
        has_state = (folder / "state.pt").is_file()
        words = ["--resume", str(folder)] if has_state else [str(folder / RECIPE)]
        words += ["--set", f"run.folder={self.folder}", "--wait", str(self.folder / TURN), *more]
        with self._lock:
            if _process(folder):
                raise InputError(f"{name} is running already")
            with (folder / LOG).open("wb") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", "training.train", *words],
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # ignored on Windows, where the flag does it
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
            status = {"pid": child.pid, "state": "waiting"}
            (folder / STATUS).write_text(json.dumps(status), "utf-8")
        threading.Thread(target=child.wait, daemon=True).start()  # or it stays as a zombie

    def pause(self, name: str) -> None:
        """Let a run save its state and stop; does nothing if it does not run.

        Windows ends it at once: it continues from the state that was saved last.
        """
        if process := _process(self._run_folder(name)):
            process.terminate()

    def finish(self, name: str) -> None:
        """Stop training for good: measure what is learned so far, and write the card."""
        folder = self._run_folder(name)
        self.pause(name)
        while _process(folder):
            time.sleep(0.2)
        if (folder / "state.pt").is_file():
            self.resume(name, "--set", "run.max_minutes=0.001")

    def delete(self, name: str) -> None:
        """Delete a run that does not run, and its data unless another one uses them."""
        folder = self._run_folder(name)
        if _process(folder):
            raise InputError(f"{name} is running: pause it first")
        recipe = _read(folder / RECIPE)
        shutil.rmtree(folder)
        others = "".join(map(_read, self.folder.glob(f"*/{RECIPE}")))
        for data in (self.folder / DATA).glob("*/"):
            if data.as_posix() in recipe and data.as_posix() not in others:
                shutil.rmtree(data)

    def _run_folder(self, name: str) -> Path:
        folder = self.folder / str(name)
        is_run = any((folder / file).is_file() for file in RUN_FILES)
        if folder.parent != self.folder or not is_run:
            raise InputError(f"there is no run {str(name)[:80]!r}")
        return folder

    def _check_room(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        disk, memory = shutil.disk_usage(self.folder).free, psutil.virtual_memory().available
        for kind, n_bytes in (("disk", disk), ("memory", memory)):
            if n_bytes < MIN_FREE_MIB * 2**20:
                raise ConfigError(
                    f"only {n_bytes >> 20} MiB of {kind} are free, not {MIN_FREE_MIB}"
                )


def _process(folder: Path) -> psutil.Process | None:
    """Return the process of a run; None if it has ended, even if its number is another's now."""
    status = _read_json(folder / STATUS)
    if status.get("state") not in ALIVE:
        return None
    try:
        process = psutil.Process(status["pid"])
        is_older = process.create_time() < (folder / STATUS).stat().st_mtime + CLOCK_S
        return process if is_older and "training.train" in process.cmdline() else None
    except (OSError, psutil.Error):
        return None


def read_scores(folder: Path) -> list[tuple[str, float, float]]:
    """Return name, BLEU and chrF of the best model of a run, and of what it should beat."""
    records = {"this model, at its best": _read_json(folder / "best" / "validation.json")}
    first = json.loads(_read(folder / METRICS).partition("\n")[0] or "{}")
    records["the model it started from"] = first if first.get("kind") == "valid" else {}
    data = re.search(r'valid = \["(.+)/valid.tsv"\]', _read(folder / RECIPE))
    report = _read_json(Path(data[1], "report.json")) if data else {}
    records["copying the source"] = report.get("copying", {})
    scores = [(name, each["bleu"], each["chrf"]) for name, each in records.items() if each]
    return [(name, round(bleu, 1), round(chrf, 1)) for name, bleu, chrf in scores]


def attention_maps(folder: Path) -> dict[str, Any] | None:
    """Return the attention of one sentence at every validation, as the page's slider shows it."""
    lines = _read(folder / "attention.jsonl").splitlines()
    return {"maps": [json.loads(line) for line in lines]} if lines else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(_read(path)))
    except ValueError:  # missing, or being written
        return {}


def _environment() -> dict[str, str]:
    """Return the environment of a command, in which `training` can be found."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}


def run_command(module: str, *words: str, **options: Any) -> str:
    """Run `python -m training.MODULE` and return its output; empty options are left out."""
    command = [sys.executable, "-m", f"training.{module}", *words]
    for option, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        command += [f"--{option}", *map(str, values)] if value else []
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["the command failed"])[-1]
        raise InputError(last.removeprefix("error: "))
    return done.stdout
