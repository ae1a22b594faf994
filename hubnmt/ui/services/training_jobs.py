"""Training runs of the page: processes of their own, whose state is read from their folders.

`training` writes `status.json` in the folder of a run, also of one that a terminal has started.
"""

import dataclasses
import filecmp
import importlib.util
import itertools
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

from hubnmt.checkpoint.files import METRICS
from hubnmt.errors import ConfigError, InputError
from hubnmt.ui.services.training_runs import read_json, read_records, read_text

SAMPLE = Path(__file__).parents[1] / "assets" / "tatoeba-de-en.tsv"
HAS_TRAINING = importlib.util.find_spec("training") is not None
DATA, TURN = ".data", ".turn"
"""In the folder of runs: imported pairs, and the lock file of the run whose turn it is."""
LOG, STATUS, RECIPE = "log.txt", "status.json", "recipe.toml"
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
    message: str
    """The error or the last line of the log, of a run that failed or is alive."""

    def scores(self) -> list[tuple[str, float, float]]:
        """Return name, BLEU and chrF of the best model, and of what it should beat."""
        start = next(iter(read_records(self.folder / METRICS)), {})
        data = re.search(r'valid = \["(.+)/valid.tsv"\]', read_text(self.folder / RECIPE))
        report = read_json(Path(data[1], "report.json")) if data else {}
        records = {
            "this model, at its best": read_json(self.folder / "best" / "validation.json"),
            "the model it started from": start if start.get("step") == 0 else {},
            "copying the source": report.get("copying", {}),
        }
        scores = [(name, each["bleu"], each["chrf"]) for name, each in records.items() if each]
        return [(name, round(bleu, 1), round(chrf, 1)) for name, bleu, chrf in scores]


NO_JOB = Job("", Path(os.devnull), "", "")


class TrainingJobs:
    """The runs of one folder. Methods raise `HubNMTError` with a line for the user."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, which is created on first use."""
        self.folder = folder

    def prepare(
        self, *files: str, data: str = "", **options: Any
    ) -> tuple[str, dict[str, Any], str]:
        """Run `training.import_pairs`; return the folder of the pairs, the report and the recipe.

        With `data`, the folder of pairs that are there, only the recipe is new.
        """
        folder = Path(data or self.folder / DATA / time.strftime("%Y%m%d-%H%M%S"))
        if data and not folder.is_dir():
            raise InputError("the imported pairs are not there any more: import them again")
        if files and filecmp.cmp(files[0], SAMPLE, shallow=False):
            options["note"] = read_text(SAMPLE.with_suffix(".LICENSE.md")).strip()
        _import_pairs(str(folder), *files, **options)
        return str(folder), read_json(folder / "report.json"), read_text(folder / RECIPE)

    def describe(self, dataset: str) -> dict[str, Any]:
        """Return `NAME:CONFIG` of a Hub dataset as `names`, and the `columns` of the first."""
        return dict(json.loads(_import_pairs("--describe", dataset=dataset)))

    def list(self) -> "list[Job]":
        """Return all runs, the newest first."""
        found = sorted(self.folder.glob(f"*/{STATUS}"), key=lambda file: -file.stat().st_mtime)
        return [self.read(file.parent.name) for file in found]

    def read(self, name: str) -> Job:
        """Return a run."""
        folder = self._run_folder(name)
        status, log = read_json(folder / STATUS), read_text(folder / LOG)
        state = status.get("state", "waiting")
        errors = ERROR.findall(log)
        if state in ALIVE and _process(folder) is None:
            state = "failed" if errors else "paused"
        message = (errors or log.strip().split("\n"))[-1]
        return Job(name, folder, state, "" if state in ("paused", "finished") else message)

    def start(self, recipe: str) -> str:
        """Start a run or let it wait for its turn; return its name, with a number if taken."""
        try:
            name = str(tomllib.loads(recipe).get("run", {}).get("name", ""))
        except (tomllib.TOMLDecodeError, AttributeError) as error:
            raise ConfigError(f"the recipe is not valid TOML ({error})") from None
        if not re.fullmatch(r"\w[\w.-]{0,80}", name):
            raise ConfigError(f"run.name = {name[:80]!r} must be a word")
        self._check_room()
        names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
        folder = next(path for path in map(self.folder.joinpath, names) if not path.exists())
        folder.mkdir()
        (folder / RECIPE).write_text(recipe, "utf-8")
        (folder / STATUS).touch()
        self.resume(folder.name)
        return folder.name

    def resume(self, name: str, *more: str) -> None:
        """Continue a stopped run from its last saved state, with `more` options."""
        folder = self._run_folder(name)
        has_state = (folder / "state.pt").is_file()
        words = ["--resume", str(folder)] if has_state else [str(folder / RECIPE)]
        words += ["--set", f"run.folder={self.folder}", "--set", f"run.name={name}"]
        words += ["--wait", str(self.folder / TURN), *more]
        if _process(folder):
            raise InputError(f"{name} is running already")
        with (folder / LOG).open("wb") as log:
            child = subprocess.Popen(
                **_python("training.train", *words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ignored on Windows, where the flag does it
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        (folder / STATUS).write_text(json.dumps({"pid": child.pid, "state": "waiting"}), "utf-8")
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
        recipe = read_text(folder / RECIPE)
        shutil.rmtree(folder)
        others = "".join(map(read_text, self.folder.glob(f"*/{RECIPE}")))
        for data in (self.folder / DATA).glob("*/"):
            if data.as_posix() in recipe and data.as_posix() not in others:
                shutil.rmtree(data)

    def _run_folder(self, name: str) -> Path:
        folder = self.folder / str(name)
        if folder.parent != self.folder or not (folder / STATUS).is_file():
            raise InputError(f"there is no run {str(name)[:80]!r}")
        return folder

    def _check_room(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        disk, memory = shutil.disk_usage(self.folder).free, psutil.virtual_memory().available
        for kind, free in (("disk", disk), ("memory", memory)):
            if free < MIN_FREE_MIB * 2**20:
                raise ConfigError(f"only {free >> 20} MiB of {kind} are free, not {MIN_FREE_MIB}")


def _process(folder: Path) -> psutil.Process | None:
    """Return the process of a run; None if it has ended, even if its number is another's now."""
    status = read_json(folder / STATUS)
    if status.get("state") not in ALIVE:
        return None
    try:
        process = psutil.Process(status["pid"])
        is_older = process.create_time() < (folder / STATUS).stat().st_mtime + CLOCK_S
        words = process.cmdline()  # empty while the process begins, and of one that has ended
        is_run = "training.train" in words if words else process.status() != psutil.STATUS_ZOMBIE
        return process if is_older and is_run else None
    except (OSError, psutil.Error):
        return None


def _python(*words: str) -> dict[str, Any]:
    """Return the command of a module, and an environment in which `training` can be found."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return {"args": [sys.executable, "-m", *words], "env": environment}


def _import_pairs(*words: str, **options: Any) -> str:
    """Run `python -m training.import_pairs` and return its output; empty options are left out."""
    given = [*words]
    for option, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        given += [f"--{option}", *map(str, values)] if value else []
    command = _python("training.import_pairs", *given)
    done = subprocess.run(**command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["the command failed"])[-1]
        raise InputError(last.removeprefix("error: "))
    return str(done.stdout)
