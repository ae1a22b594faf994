"""How much memory and time the data side takes: first start, second start, one epoch's batches.

    python tests/benchmarks/prepare.py [N ...]

For each number of pairs (default 100,000 and 1,000,000) it writes a synthetic corpus of short
sentences, then starts two processes that prepare it, one after the other, and go through one epoch.
`anonymous` is memory that only the process has; `peak` also counts pages of mapped files, which the
system takes back when it needs them.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[2]


def write_corpus(folder: Path, n_pairs: int) -> None:
    """Write sentences of 3 to 8 made-up words; almost none of them twice."""
    rng = random.Random(1)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyzäöü", k=rng.randrange(2, 10)))
        for _ in range(5_000)
    ]
    for split, count in (("train", n_pairs), ("valid", 10)):
        with (folder / f"{split}.de").open("w") as src, (folder / f"{split}.en").open("w") as tgt:
            for _ in range(count):
                chosen = rng.choices(words, k=rng.randrange(3, 9))
                src.write(" ".join(chosen) + "\n")
                tgt.write(" ".join(reversed(chosen)) + "\n")


def measure(folder: Path) -> dict[str, Any]:
    """Prepare the corpus in this process, as a run does, and walk through an epoch."""
    from training.config import parse_recipe
    from training.prepare import prepare_corpus
    from training.stream import BatchStream

    files = {
        split: [f"{folder}/{split}.{lang}" for lang in ("de", "en")] for split in ("train", "valid")
    }
    data = {"src_lang": "de", "tgt_lang": "en", **files}
    config = parse_recipe({"run": {"name": "x", "folder": str(folder)}, "data": data}, where="")
    idle = anonymous_mib()
    started = time.perf_counter()
    corpus = prepare_corpus(config, None)
    prepared = time.perf_counter()
    prepared_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    stream = BatchStream(config, corpus)
    n_planned = len(stream.plan(1))
    planned = time.perf_counter()
    n_batches = sum(1 for _ in stream.epoch(1))
    assert n_batches == n_planned
    return {
        "kept": len(corpus.train),
        "prepare_s": prepared - started,
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


def main(numbers: list[int]) -> None:
    """Print one table."""
    header: list[str] = []
    for n_pairs in numbers:
        with tempfile.TemporaryDirectory() as name:
            write_corpus(Path(name), n_pairs)
            for start in ("first", "second"):
                command = [sys.executable, __file__, "--measure", name]
                variables = {**os.environ, "PYTHONPATH": str(REPO)}
                done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True)
                row = {"pairs": n_pairs, "start": start, **json.loads(done.stdout)}
                if not header:
                    header = list(row)
                    print("  ".join(header))
                cells = [f"{v:,.1f}" if isinstance(v, float) else f"{v}" for v in row.values()]
                print(
                    "  ".join(c.rjust(len(h)) for c, h in zip(cells, header, strict=True)),
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main([int(word) for word in sys.argv[1:]] or [100_000, 1_000_000])
