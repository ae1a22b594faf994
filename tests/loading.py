"""Loads model folders in a process with little memory; a test that takes too much ends only it."""

import re
import resource
from pathlib import Path
from typing import Any

import torch

from hubnmt.checkpoint.folder import load_model
from hubnmt.checkpoint.metadata import read_languages, read_metadata, read_scores
from hubnmt.text.tokenizer import ROUND_TRIP


def read_status(name: str) -> int:
    """Return a fact about this process in MiB: `VmHWM` is the most memory it had."""
    (line,) = re.findall(rf"^{name}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return int(line) // 1024


def limit_memory(sound: Path, limit_mib: int) -> None:
    """Limit the memory of this process, beside what libraries take once, for a first folder."""
    torch.set_num_threads(1)
    try_to_load(sound)
    limit = (read_status("VmSize") + limit_mib) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def try_to_load(folder: Path) -> dict[str, Any]:
    """Do what opening and listing a model does; return what was raised, and the most memory."""
    said = {"kinds": [], "message": ""}
    try:
        stored = load_model(folder)
        stored.tokenizers.src.decode(stored.tokenizers.src.encode(ROUND_TRIP))
        metadata = read_metadata(stored.card)
        str((read_languages(metadata), read_scores(metadata))).encode()
    except BaseException as error:  # a panic of a Rust library is no Exception
        said = {"kinds": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}
    return said | {"peak_mib": read_status("VmHWM")}
