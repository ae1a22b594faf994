"""Training runs of the page: processes of their own, whose state is read from their folders.

A process holds the lock file of its run until it ends. So a restarted page finds it again, and no
other process is ever mistaken for it.
"""

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not available on Windows, where the page does not train
    fcntl = None  # type: ignore[assignment]  # checked by `can_train`

from hubnmt.errors import ConfigError, InputError

SAMPLE = Path(__file__).parents[1] / "assets" / "tatoeba-de-en.tsv"
"""2,000 pairs of Tatoeba, CC BY 2.0 FR."""
DATA, TURN = ".data", ".turn"
"""In the folder of runs: imported pairs, and the lock file of the run whose turn it is."""
LOG, LOCK, RECIPE, METRICS = "log.txt", "process.lock", "recipe.toml", "metrics.jsonl"
MIN_FREE_MIB = 1024
"""Disk and memory that must be free before a run starts."""
ERROR = re.compile(r"^(error: .*|\w+Error\b.*)$", re.MULTILINE)
ALIVE = ("waiting", "preparing", "training")

_CHILDREN: list["subprocess.Popen[bytes]"] = []
"""Processes started here that have not ended yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A run: one of the states `ALIVE`, or paused, finished or failed."""

    name: str
    folder: Path
    state: str
    minutes: float
    """Time used until the last validation."""
    max_minutes: float | None
    message: str
    """Last line of the log; of a failed run the error that the command prints."""


def can_train() -> bool:
    """Return whether the package `training` and the locks of POSIX are there."""
    return fcntl is not None and importlib.util.find_spec("training") is not None


class TrainingJobs:
    """The runs of one folder. Methods raise `HubNMTError` with a line for the user."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, which is created on first use."""
        self.folder = folder
        self._lock = threading.RLock()

    def import_pairs(
        self, source: Sequence[str], languages: Sequence[str], columns: Sequence[str]
    ) -> tuple[Path, dict[str, Any]]:
        """Import files, or `--dataset NAME`; return their new folder and the report."""
        dest = self.folder / DATA / time.strftime("%Y%m%d-%H%M%S")
        words = ["training.import_pairs", str(dest), *source]
        words += ["--languages", *languages] if languages else []
        words += ["--columns", *columns] if columns else []
        _run_command(words)
        return dest, _read_json(dest / "report.json")

    def suggest(self, data: Path, minutes: float, **starts: str) -> str:
        """Return a recipe for imported data; `starts` are options of `training.suggest`."""
        stem, n = "-".join(_read_json(data / "report.json")["languages"]), 1
        while (self.folder / f"{stem}-{n}").exists():
            n += 1
        words = ["training.suggest", str(data), "--name", f"{stem}-{n}", "--minutes", f"{minutes}"]
        return _run_command([*words, *(f"--{key}={name}" for key, name in starts.items())])

    def list(self) -> "list[Job]":
        """Return all runs, the newest first."""
        recipes = sorted(self.folder.glob(f"*/{RECIPE}"), key=lambda path: -path.stat().st_mtime)
        return [self.read(path.parent.name) for path in recipes]

    def read(self, name: str) -> Job:
        """Return a run."""
        folder = self._run_folder(name)
        is_alive, metrics = self._is_alive(folder), _read(folder / METRICS)
        session = _read(folder / LOG).rpartition("\n$ ")[2]  # since the last command
        lines = [line for line in session.splitlines()[1:] if line.strip()]
        message = re.sub(r"^\d\d:\d\d:\d\d ", "", lines[-1]) if lines else ""
        if is_alive:
            state = "training" if metrics else "preparing" if lines else "waiting"
        elif error := ERROR.search(session):
            state, message = "failed", error[1]
        else:
            state = "finished" if "model card: " in session else "paused"
        times = re.findall(r'"minutes": ([\d.]+)', metrics) or ["0"]
        limit = re.search(r"(?m)^max_minutes = ([\d.]+)", _read(folder / RECIPE))
        max_minutes = float(limit[1]) if limit else None
        return Job(name, folder, state, float(times[-1]), max_minutes, message)

    def start(self, recipe: str, card: Mapping[str, str]) -> str:
        """Start a run with the texts of its card, or let it wait for its turn; return its name."""
        try:
            tables = tomllib.loads(recipe)
            name = str(tables.get("run", {}).get("name", ""))
        except (tomllib.TOMLDecodeError, AttributeError) as error:
            raise ConfigError(f"the recipe is not valid TOML ({error})") from None
        if not re.fullmatch(r"\w[\w.-]{0,80}", name) or (self.folder / name).exists():
            raise ConfigError(f"run.name = {name[:80]!r} must be a word that no other run has")
        self._check_room()
        if "card" not in tables:
            filled = {key: text.strip() for key, text in card.items() if text.strip()}
            lines = [f"{key} = {json.dumps(text)}\n" for key, text in filled.items()]
            recipe = f"{recipe.rstrip()}\n\n[card]\n{''.join(lines)}"
        (self.folder / name).mkdir()
        (self.folder / name / RECIPE).write_text(recipe, "utf-8")
        self.resume(name)
        return name

    def resume(self, name: str, *more: str) -> None:
        """Continue a stopped run from its last saved state, with `more` options."""
        folder = self._run_folder(name)
        has_state = (folder / "machine.json").is_file()
        words = ["--resume", str(folder)] if has_state else [str(folder / RECIPE)]
        words += ["--set", f"run.folder={self.folder}", "--wait", str(self.folder / TURN), *more]
        with self._lock, (folder / LOG).open("ab") as log:
            if self._is_alive(folder):
                raise InputError(f"{name} is running already")
            log.write(f"\n$ python -m training.train {' '.join(words)}\n".encode())
            log.flush()
            with (folder / LOCK).open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # inherited by the process
                child = subprocess.Popen(
                    [sys.executable, "-m", "training.train", *words],
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[lock.fileno()],
                    start_new_session=True,
                )
                lock.write(str(child.pid).encode())
                _CHILDREN.append(child)

    def pause(self, name: str) -> None:
        """Let a run save its state and stop; does nothing if it does not run."""
        folder = self._run_folder(name)
        with self._lock:
            if self._is_alive(folder):  # so the number is that of its process
                os.kill(int(_read(folder / LOCK)), signal.SIGTERM)

    def finish(self, name: str) -> None:
        """Stop training for good: measure what is learned so far, and write the card."""
        folder = self._run_folder(name)
        self.pause(name)
        while self._is_alive(folder):
            time.sleep(0.2)
        if (folder / "machine.json").is_file():
            self.resume(name, "--set", "run.max_minutes=0.001")

    def delete(self, name: str) -> None:
        """Delete a run that does not run, and its data unless another one uses them."""
        folder = self._run_folder(name)
        if self._is_alive(folder):
            raise InputError(f"{name} is running: pause it first")
        recipe = _read(folder / RECIPE)
        shutil.rmtree(folder)
        others = "".join(map(_read, self.folder.glob(f"*/{RECIPE}")))
        for data in (self.folder / DATA).glob("*/"):
            if str(data) in recipe and str(data) not in others:
                shutil.rmtree(data)

    def _run_folder(self, name: str) -> Path:
        folder = self.folder / str(name)
        if folder.parent != self.folder or not (folder / RECIPE).is_file():
            raise InputError(f"there is no run {str(name)[:80]!r}")
        return folder

    def _is_alive(self, folder: Path) -> bool:
        _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]  # ends zombies
        with self._lock:  # one check must not look like a process to another
            try:
                with (folder / LOCK).open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except FileNotFoundError:
                return False
            except BlockingIOError:
                return True
        return False

    def _check_room(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = re.search(r"MemAvailable:\s*(\d+) kB", _read(Path("/proc/meminfo")))
        free = {"disk": shutil.disk_usage(self.folder).free / 2**20}
        free |= {"memory": int(memory[1]) / 2**10} if memory else {}
        for kind, mib in free.items():
            if mib < MIN_FREE_MIB:
                raise ConfigError(f"only {mib:.0f} MiB of {kind} are free, not {MIN_FREE_MIB}")


def read_scores(folder: Path) -> list[tuple[str, float, float]]:
    """Return name, BLEU and chrF of the best model of a run, and of what it should beat."""
    records = {"this model, at its best": _read_json(folder / "best" / "validation.json")}
    first = json.loads(_read(folder / METRICS).partition("\n")[0] or "{}")
    records["the model it started from"] = first if first.get("kind") == "valid" else {}
    data = re.search(r'valid = \["(.+)/valid.tsv"\]', _read(folder / RECIPE))
    report = _read_json(Path(data[1], "report.json")) if data else {}
    records["copying the source"] = report.get("copying", {})
    return [(name, each["bleu"], each["chrf"]) for name, each in records.items() if each]


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
    return dict(json.loads(_read(path) or "{}"))


def _environment() -> dict[str, str]:
    """Return the environment of a command, in which `training` can be found."""
    spec = importlib.util.find_spec("training")
    places = [str(Path(place).parent) for place in (spec and spec.submodule_search_locations) or ()]
    path = os.pathsep.join(filter(None, [*places, os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _run_command(words: Sequence[str]) -> str:
    """Run `python -m WORDS` and return its standard output."""
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["the command failed"])[-1]
        raise InputError(last.removeprefix("error: "))
    return done.stdout
