"""Python environments that borrow the installed dependencies, and programs started in them."""

import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from pathlib import Path


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


def wait_until_served(
    url: str, process: "subprocess.Popen[bytes]", log: Path | None = None
) -> None:
    """Wait until a page answers; fails, with the log, if its process ends before."""
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, log and log.read_text()
        assert time.monotonic() < deadline
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
