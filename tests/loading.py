"""Loads model folders in a process with little memory; a test that takes too much ends only it.

Reads the path of a folder from each line of standard input, answers with a line of JSON.
"""

import json
import re
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from hubnmt.checkpoint.folder import load_model
from hubnmt.checkpoint.metadata import read_languages, read_metadata, read_scores
from hubnmt.text.tokenizer import ROUND_TRIP


def load(folder: Path) -> None:
    """Do with a folder what opening and listing a model does."""
    stored = load_model(folder)
    stored.tokenizers.src.decode(stored.tokenizers.src.encode(ROUND_TRIP))
    metadata = read_metadata(stored.card)
    str((read_languages(metadata), read_scores(metadata))).encode()


def read_status(name: str) -> int:
    """Return a fact about this process in MiB: `VmHWM` is the most memory it had."""
    (line,) = re.findall(rf"^{name}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return int(line) // 1024


def answer(folder: Path) -> dict[str, Any]:
    """Return what was raised, if anything, and the most memory in MiB."""
    said = {"kinds": "", "message": ""}
    try:
        load(folder)
    except BaseException as error:  # a panic of a Rust library is no Exception
        kinds = [kind.__name__ for kind in type(error).__mro__]
        said = {"kinds": " ".join(kinds), "message": str(error)}
    return said | {"peak_mib": read_status("VmHWM")}


def main() -> None:
    """Answer until standard input ends."""
    torch.set_num_threads(1)
    load(Path(sys.argv[1]))  # what libraries take once is not counted
    limit = (read_status("VmSize") + int(sys.argv[2])) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print(json.dumps(answer(Path(sys.argv[1]))), flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(answer(Path(line.rstrip("\n")))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
