"""Whole commands against a Hub on loopback: interrupted, out of reach, with a token to keep.

Each starts a Python of its own, which takes seconds; what they prove in whole, the unit tests prove
in parts.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest

from hubnmt.hub.pull import pull
from hubnmt.hub.push import push
from hubnmt.hub.reference import HubReference
from tests.hub import REPO, TOKEN
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
