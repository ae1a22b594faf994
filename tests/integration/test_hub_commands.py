"""Whole commands against a Hub on loopback: interrupted, out of reach, with a token to keep.

Each starts a Python of its own, which takes seconds; what they prove in whole, the unit tests prove
in parts.
"""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest

from hubnmt.checkpoint.folder import load_model, save_model
from hubnmt.hub.pull import pull
from hubnmt.hub.push import push
from hubnmt.hub.reference import HubReference
from tests.hub import REPO, TOKEN, change_weights, read_folder
from tests.hub_server import Fault, HubServer

Start = Callable[..., "subprocess.Popen[str]"]

IS_ROOT = os.name == "posix" and os.geteuid() == 0
AS_A_USER = ["setpriv", "--bounding-set=-dac_override"] if IS_ROOT and which("setpriv") else []
"""Root may write everywhere; without this right it is stopped as any user is."""


@pytest.fixture
def start(hub: HubServer, environment: dict[str, str], repo: Path) -> Start:
    """Start a command as a shell would, with a cache and a login of its own."""
    environment |= {
        "PYTHONPATH": str(repo),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_OFFLINE": "0",
    }

    def start_command(
        *arguments: object, stderr: int = subprocess.PIPE, **changes: str
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*AS_A_USER, sys.executable, "-m", "hubnmt", *map(str, arguments)],
            env=environment | changes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    return start_command


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Wait for a command; no token of ours may be in what it said."""
    out, err = process.communicate(timeout=120)
    assert TOKEN not in out + err
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture
def cache(environment: dict[str, str]) -> Path:
    """The cache of the commands: what they left is met by calls from here, which start faster."""
    return Path(environment["HF_HOME"]) / "hub"


@pytest.fixture
def read_only_home(environment: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """A home that can be written until it is closed, and by no command after that."""
    home = tmp_path / "home"
    home.mkdir()
    environment |= {"HOME": str(home), "HF_HOME": str(home / "hf")}  # before `cache` is asked for
    yield home
    close_folder(home, mode=0o755)


def close_folder(folder: Path, *, mode: int = 0o555) -> None:
    for each in [folder, *folder.rglob("*")]:
        if each.is_dir() and not each.is_symlink():
            each.chmod(mode)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the command never came to it"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "step", "hint"),
    [
        ("pull", "GET /objects/", "pull again to continue"),
        ("push", "POST .*/commit/", "push again to make sure"),
    ],
)
def test_ctrl_c_is_one_line_and_the_next_try_works(
    command: str,
    step: str,
    hint: str,
    hub: HubServer,
    model_folder: Path,
    start: Start,
    cache: Path,
):
    files = read_folder(model_folder)
    if command == "pull":
        hub.store.put(REPO, files)
    hub.faults.add(Fault(step, pause_s=1.0))
    process = start(*(["pull", REPO] if command == "pull" else ["push", model_folder, REPO]))
    wait_for(lambda: hub.asked(step))
    time.sleep(0.2)  # into the body
    os.kill(process.pid, signal.SIGINT)
    status, out, err = finish(process)
    assert (status, out) == (130, "")
    last = err.splitlines()[-1]
    assert last.startswith("hubnmt: interrupted; ")
    assert last.endswith(hint)
    if command == "pull":
        assert list(cache.rglob("*.incomplete")) == []
        assert read_folder(pull(HubReference(REPO), cache_dir=cache).folder) == files
    else:
        push(model_folder, REPO)
        assert set(hub.repo(REPO).files()) == set(files)


@pytest.mark.slow
def test_a_terminal_shows_how_far_a_download_is(
    hub: HubServer, bundled_model: Path, start: Start, cache: Path
):
    hub.store.put(REPO, read_folder(bundled_model))
    hub.faults.add(Fault("GET /objects/", pause_s=0.001))
    terminal, other_end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 90, 0, 0))
    process = start("pull", REPO, HF_HUB_DISABLE_PROGRESS_BARS="0", stderr=other_end)
    os.close(other_end)
    shown = b""
    with contextlib.suppress(OSError):  # nobody writes any more
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    assert process.communicate(timeout=60)[0].endswith(f"{hub.repo(REPO).branches['main']}\n")
    between = {int(percent) for percent in re.findall(rb"(\d+)%\|", shown)} - {0, 100}
    assert between, shown


@pytest.mark.slow
def test_two_pushes_at_the_same_time_end_with_one_of_the_two(
    hub: HubServer, model_folder: Path, tmp_path: Path, start: Start
):
    hub.store.put(
        REPO, read_folder(model_folder) | {"README.md": b"---\nlibrary_name: hubnmt\n---\n"}
    )
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        stored = load_model(model_folder)
        change_weights(stored.model)
        if folder.name == "two":
            change_weights(stored.model)
        save_model(folder, stored)
    ended = [finish(process) for process in [start("push", f, REPO) for f in folders]]
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
    statuses = sorted(status for status, _, _ in ended)
    assert statuses in ([0, 0], [0, 2])  # one after the other, or truly at once
    history = hub.repo(REPO).history()
    assert len(history) == 2 + statuses.count(0)
    assert hub.repo(REPO).files()["model.safetensors"] in weights
    refused = [err for status, _, err in ended if status == 2]
    assert all("nothing was overwritten" in err for err in refused)


@pytest.mark.slow
def test_offline_after_a_pull(hub: HubServer, model_folder: Path, start: Start, cache: Path):
    hub.store.put(REPO, read_folder(model_folder))
    pull(HubReference(REPO), cache_dir=cache)
    hub.requests.clear()
    options = ("--model", REPO, "--max-new-tokens", 4)
    status, out, _ = finish(start("translate", "Ein Hund", *options, HF_HUB_OFFLINE="1"))
    assert status == 0
    assert out.endswith("\n")
    assert hub.requests == []


@pytest.mark.slow
def test_a_list_without_a_network_says_so_once(start: Start):
    """The client alone tries six times in 23 seconds, with two lines each time."""
    status, out, err = finish(start("list", HF_ENDPOINT="http://127.0.0.1:9"))
    assert status == 0
    assert "bundled" in out
    assert err.count("\n") == 1
    assert "the Hub's models are not listed: cannot reach http://127.0.0.1:9" in err


@pytest.mark.slow
def test_a_mirror_without_xet_is_told_how(hub: HubServer, model_folder: Path, start: Start):
    status, _, err = finish(start("push", model_folder, REPO, HF_HUB_DISABLE_XET="0"))
    assert status == 2
    assert "set HF_HUB_DISABLE_XET=1" in err
    assert hub.repo(REPO).files() == {}


# --- the token -----------------------------------------------------------------------------------

LEAKS = """
import logging, sys, traceback
logging.basicConfig(level=logging.DEBUG)
from hubnmt import Translator
from hubnmt.hub.push import push
token = sys.stdin.readline().strip()
for attempt in (
    lambda: Translator.from_pretrained("user/nothing", token=token),
    lambda: Translator.from_pretrained("user/nothing", token=token + "ü"),
    lambda: Translator.from_pretrained({model!r}).push_to_hub({repo!r}, token=token),
    lambda: push({model!r}, "other/model", token=token),
):
    try:
        attempt()
    except Exception:
        traceback.print_exc()
vars_of = vars(Translator.from_pretrained({repo!r}, token=token))
assert token not in repr(vars_of)
Translator.from_pretrained({repo!r}, token=token).save_pretrained({saved!r})
"""


@pytest.mark.slow
def test_a_token_is_nowhere_to_be_read(
    hub: HubServer,
    model_folder: Path,
    environment: dict[str, str],
    repo: Path,
    tmp_path: Path,
):
    hub.faults.add(Fault("PUT|commit", times=1, status=500))
    saved = tmp_path / "saved"
    code = LEAKS.format(model=str(model_folder), repo=REPO, saved=str(saved))
    environment |= {"PYTHONPATH": str(repo), "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        input=TOKEN,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.replace(TOKEN, "***")
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" in done.stderr  # it did fail where it should
    secret = TOKEN.encode()
    for folder in (saved, model_folder, Path(environment["HF_HOME"])):
        assert not any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    contents = [*hub.repo(REPO).files().values(), *hub.store.objects.values()]
    assert not any(secret in content for content in contents)
    assert any(TOKEN in value for r in hub.asked("api/models") for value in r.headers.values())
    assert not any(
        TOKEN in value for r in hub.asked(r"\w /objects/") for value in r.headers.values()
    )


# --- a home that cannot be written ---------------------------------------------------------------


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_serves_what_it_has_and_nothing_else(
    hub: HubServer, read_only_home: Path, start: Start, model_folder: Path, cache: Path
) -> None:
    for name in ("user/cached", "user/other"):
        push(model_folder, name)
    pull(HubReference("user/cached"), cache_dir=cache)
    close_folder(read_only_home)
    options = ("--max-new-tokens", 4)
    status, out, _ = finish(start("translate", "Hallo", "--model", "user/cached", *options))
    assert (status, out.count("\n")) == (0, 1)
    status, out, err = finish(start("translate", "Hallo", "--model", "user/other"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "permission denied" in err
    assert "HF_HOME" in err
    status, out, err = finish(start("list"))
    assert (status, err) == (0, "")
    assert "bundled" in out
    assert "cached" in out
