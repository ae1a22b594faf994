"""What the benchmarks of the page share: the page in a process of its own, what visitors type."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.environments import served

ROOT = Path(__file__).parents[2]
SENTENCES = (ROOT / "tests" / "fixtures" / "captions.de").read_text("utf-8").splitlines()


class Page(NamedTuple):
    url: str
    process: psutil.Process
    log: Path


@contextlib.contextmanager
def serve(*options: str) -> Iterator[Page]:
    """Start the app, which stores its files in a folder of its own and believes in proxies."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "log.txt")
        places = {"GRADIO_TEMP_DIR": f"{name}/files", "FORWARDED_ALLOW_IPS": "127.0.0.1"}
        command = [sys.executable, str(ROOT / "app.py"), *options]
        with served(command, ROOT, os.environ | places, log) as (url, number):
            yield Page(url, psutil.Process(number), log)


def share(values: Sequence[float], part: float) -> float:
    """Return the value below which so large a part of them lies."""
    return sorted(values)[int(part * (len(values) - 1))]
