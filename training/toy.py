"""A toy corpus for a first run: random strings of letters whose translation is the same string.

    python -m training.toy FOLDER

Takes a folder, gives `train.src`, `train.tgt`, `valid.src`, `valid.tgt` in it, the same for every
run. Must not know recipes or the model. Copying is the least a translation model must learn, and a
broken mask, shift or cache shows at once (so Sockeye's system tests, test_seq_copy_sys.py,
https://github.com/awslabs/sockeye).
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
"""Pairs in each split."""
LENGTHS = range(4, 13)
"""Letters in a string; four make a BLEU score possible."""
SEED = 1


def make_lines() -> dict[str, list[str]]:
    """Draw the strings of each split: letters set apart by spaces, no string twice."""
    rng = random.Random(SEED)
    lines: dict[str, None] = {}
    while len(lines) < sum(SPLITS.values()):
        lines[" ".join(rng.choices(string.ascii_lowercase, k=rng.choice(LENGTHS)))] = None
    rest = iter(lines)
    return {split: [next(rest) for _ in range(n)] for split, n in SPLITS.items()}


def write_corpus(folder: Path) -> None:
    """Write both sides of both splits, which are equal.

    Raises:
        InputError: if the folder cannot be written, or holds files of these names and other text.
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
                raise InputError(f"{path} is another text, which stays; name another folder")
        for path, text in texts.items():
            path.write_bytes(text)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); try another") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit status is 0, or 2 if the folder cannot be written."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="python -m training.toy", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the four files")
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
