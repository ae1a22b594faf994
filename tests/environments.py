"""Programs beside the tests: pages in processes of their own, Chromium, other environments."""

import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def borrow_environment(home: Path, wheel: Path | None = None) -> Path:
    """Make an environment without hubnmt, or with that of a wheel; nothing is downloaded.

    The borrowed folder comes in through a .pth file: its own .pth files are not read from there, so
    an editable install of the checkout stays out of sight.

    Returns:
        the folder of its programs.
    """
    venv.create(home, with_pip=False, symlinks=True)
    if wheel is not None:  # before the borrowed folder shows another hubnmt
        options = ["--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index"]
        pip = [sys.executable, "-m", "pip", *options, "--quiet", str(wheel)]
        subprocess.run(pip, check=True, stdin=subprocess.DEVNULL, timeout=120)
    variables = {"base": str(home), "platbase": str(home)}
    own = Path(sysconfig.get_path("purelib", scheme="venv", vars=variables))
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "lent.pth").write_text("\n".join(sorted(lent)) + "\n", encoding="utf-8")
    return home / "bin"


@contextmanager
def chromium() -> Iterator[Any]:
    """Open Chromium by playwright, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def served(
    command: list[str | Path], folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[tuple[str, int]]:
    """Start a page in a process of its own and wait until it answers.

    Returns:
        its address, and the number of the process; what it says goes to the log.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "GRADIO_SERVER_PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + 120
            while not _answers(url):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield url, process.pid
        finally:
            process.kill()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True
