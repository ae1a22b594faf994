"""Write a toy copy-task corpus: random letter strings whose translation is the same string.

    python -m training.toy FOLDER

Copying is the simplest translation task, and a wrong mask, shift or cache shows at once (as in
Sockeye's system tests, test_seq_copy_sys.py, https://github.com/awslabs/sockeye).
"""

import itertools
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


def write_corpus(folder: Path) -> None:
    """Write source and target files of both splits; different files are not overwritten.

    The strings are letters separated by spaces, all distinct.
    """
    rng = random.Random(SEED)
    distinct: dict[str, None] = {}
    while len(distinct) < sum(SPLITS.values()):
        distinct[" ".join(rng.choices(string.ascii_lowercase, k=rng.choice(LENGTHS)))] = None
    rest = iter(distinct)
    folder.mkdir(parents=True, exist_ok=True)
    for split, n_lines in SPLITS.items():
        text = "".join(f"{line}\n" for line in itertools.islice(rest, n_lines))
        for path in (folder / f"{split}.src", folder / f"{split}.tgt"):
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
