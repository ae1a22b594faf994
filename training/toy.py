"""Write a toy copy-task corpus: random letter strings whose translation is the same string.

    python -m training.toy FOLDER

Writes `train.src`, `train.tgt`, `valid.src` and `valid.tgt`, always with the same content. Copying
is the simplest translation task, and a wrong mask, shift or cache shows at once (as in Sockeye's
system tests, test_seq_copy_sys.py, https://github.com/awslabs/sockeye).
"""

import argparse
import logging
import random
import string
import sys
from collections.abc import Sequence
from pathlib import Path

from hubnmt.errors import HubNMTError, InputError

log = logging.getLogger("training.toy")

SPLITS = {"train": 10_000, "valid": 200}
"""Pairs per split."""
LENGTHS = range(4, 13)
"""Letters per string; BLEU needs at least four."""
SEED = 1


def make_lines() -> dict[str, list[str]]:
    """Draw distinct strings for each split, as letters separated by spaces."""
    rng = random.Random(SEED)
    lines: dict[str, None] = {}
    while len(lines) < sum(SPLITS.values()):
        lines[" ".join(rng.choices(string.ascii_lowercase, k=rng.choice(LENGTHS)))] = None
    rest = iter(lines)
    return {split: [next(rest) for _ in range(n)] for split, n in SPLITS.items()}


def write_corpus(folder: Path) -> None:
    """Write source and target files of both splits.

    Raises:
        InputError: if the folder cannot be written, or holds different files of these names.
    """
    texts = {
        folder / f"{split}.{side}": ("\n".join(lines) + "\n").encode()
        for split, lines in make_lines().items()
        for side in ("src", "tgt")
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            if path.exists() and path.read_bytes() != text:
                raise InputError(f"{path} already exists with other content; choose another folder")
        for path, text in texts.items():
            path.write_bytes(text)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}); choose another"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, or 2 if the folder cannot be written."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="python -m training.toy", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the four files")
    folder = parser.parse_args(arguments).folder
    try:
        write_corpus(folder)
    except HubNMTError as error:
        log.error("error: %s", error)
        return 2
    log.info("%s: %s", folder, ", ".join(f"{n:,} pairs to {s}" for s, n in SPLITS.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
