"""How much memory and time the data side takes: first start, second start, one epoch's batches.

    python tests/benchmarks/prepare.py [N ...] [--text train.de train.en]

For each number of pairs (default 100,000 and 1,000,000) it writes a corpus, then starts two
processes that prepare it, one after the other, and go through one epoch. Without `--text` it
has short sentences of made-up words; with it, each pair is two random pairs of that text in a row,
so that words and letters are those of a language and hardly a pair comes twice.
`anonymous` is memory that only the process has; `peak` also counts pages of mapped files, which the
system takes back when it needs them. `cpu` is the time of the processor, which other work on the
machine does not lengthen by much.
"""

import argparse
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[2]


def write_corpus(folder: Path, pairs: Iterator[tuple[str, str]], n_pairs: int) -> None:
    """Write the pairs to train on, and ten more to validate with."""
    for split, count in (("train", n_pairs), ("valid", 10)):
        with (folder / f"{split}.de").open("w") as src, (folder / f"{split}.en").open("w") as tgt:
            for src_text, tgt_text in itertools.islice(pairs, count):
                src.write(src_text + "\n")
                tgt.write(tgt_text + "\n")


def make_up_pairs() -> Iterator[tuple[str, str]]:
    """Yield sentences of 3 to 8 made-up words; almost none of them twice."""
    rng = random.Random(1)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyzäöü", k=rng.randrange(2, 10)))
        for _ in range(5_000)
    ]
    while True:
        chosen = rng.choices(words, k=rng.randrange(3, 9))
        yield " ".join(chosen), " ".join(reversed(chosen))


def vary_pairs(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield two pairs of a text in a row; n pairs make n squared of these."""
    rng = random.Random(1)
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    pairs = list(zip(*sides, strict=True))
    while True:
        one, other = rng.choices(pairs, k=2)
        yield f"{one[0]} {other[0]}", f"{one[1]} {other[1]}"


def measure(folder: Path) -> dict[str, Any]:
    """Prepare the corpus in this process, as a run does, and walk through an epoch."""
    import torch

    from training.config.recipe import parse_recipe
    from training.data.loader import Loader
    from training.data.prepare import prepare_corpus
    from training.distributed import ProcessGroup

    files = {
        split: [f"{folder}/{split}.{lang}" for lang in ("de", "en")] for split in ("train", "valid")
    }
    data = {"src_lang": "de", "tgt_lang": "en", **files}
    config = parse_recipe({"run": {"name": "x", "folder": str(folder)}, "data": data}, where="")
    idle = anonymous_mib()
    started, cpu_started = time.perf_counter(), time.process_time()
    corpus = prepare_corpus(config, None)
    prepared, cpu_prepared = time.perf_counter(), time.process_time()
    prepared_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    loader = Loader(config, corpus, ProcessGroup(torch.device("cpu")))
    n_planned = len(loader.plan(1))
    planned = time.perf_counter()
    n_batches = sum(1 for _ in loader.epoch(1))
    assert n_batches == n_planned
    return {
        "kept": len(corpus.train),
        "prepare_s": prepared - started,
        "cpu_s": cpu_prepared - cpu_started,
        "plan_s": planned - prepared,
        "epoch_s": time.perf_counter() - planned,
        "batches": n_batches,
        "imports_mib": idle,
        "prepared_peak_mib": prepared_peak,
        "anonymous_mib": anonymous_mib(),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def anonymous_mib() -> float:
    """Read this process's own memory from Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--text", nargs=2, type=Path, metavar=("SRC", "TGT"))
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    header: list[str] = []
    for n_pairs in options.numbers:
        with tempfile.TemporaryDirectory() as name:
            pairs = vary_pairs(options.text) if options.text else make_up_pairs()
            write_corpus(Path(name), pairs, n_pairs)
            for start in ("first", "second"):
                row = {"pairs": n_pairs, "start": start, **measure_elsewhere(Path(name))}
                if not header:
                    header = list(row)
                    print("  ".join(header))
                cells = [f"{v:,.1f}" if isinstance(v, float) else f"{v}" for v in row.values()]
                print(
                    "  ".join(c.rjust(len(h)) for c, h in zip(cells, header, strict=True)),
                    flush=True,
                )


def measure_elsewhere(folder: Path) -> dict[str, Any]:
    """Measure in a process that has done nothing before."""
    command = [sys.executable, __file__, "--measure", str(folder)]
    variables = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


if __name__ == "__main__":
    main()
