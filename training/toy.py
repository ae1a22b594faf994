"""Write a toy copy-task corpus: random letter strings whose translation is the same string.

    python -m training.toy FOLDER

Copying is the simplest translation task, and a wrong mask, shift or cache shows at once (as in
Sockeye's system tests, test_seq_copy_sys.py, https://github.com/awslabs/sockeye).
"""

import random
import string
import sys
from collections.abc import Sequence
from pathlib import Path

from hubnmt.errors import InputError
from training.command import make_parser, run_command

SPLITS = {"train": 10_000, "valid": 200}
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
    """Write source and target files of both splits; different files are not overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, lines in make_lines().items():
        for path in (folder / f"{split}.src", folder / f"{split}.tgt"):
            text = "\n".join(lines) + "\n"
            if path.exists() and path.read_text(encoding="utf-8", errors="replace") != text:
                raise InputError(f"{path} has other content; choose another folder")
            path.write_text(text, encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("toy", __doc__)
    parser.add_argument("folder", type=Path, help="folder for the four files")
    options = parser.parse_args(arguments)
    return run_command(lambda: write_corpus(options.folder))


if __name__ == "__main__":
    sys.exit(main())
