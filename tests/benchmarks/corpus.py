"""A corpus in one process and on two actors of Ray: sentences per second, and memory.

    python tests/benchmarks/corpus.py FILE [--lines 20000] [--actors 2] [--model MODEL]

Repeats FILE up to the number of lines, in eight shards. The time of starting, measured on eight
lines, is subtracted. Every process has one thread. The seconds of a core are those of all processes
together, so other work on the machine hardly changes them. Prints one table, asserts nothing.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

N_SHARDS = 8
HUNDRED_MILLION = 100_000_000


class Cost(NamedTuple):
    """What a command needed."""

    seconds: float
    processor_s: float
    """Of all its processes."""
    peak_mib: float
    """Memory of a translating process."""


def measure(command: list[str], *, actors: bool) -> Cost:
    """Run a command, and look at its processes while it runs."""
    started, peak = time.perf_counter(), 0
    used: dict[int, float] = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    with subprocess.Popen(command, env=environment) as process:
        main = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                for each in [main, *main.children(recursive=True)]:
                    used[each.pid] = sum(each.cpu_times()[:2])
                    is_actor = "TranslateBatch" in " ".join(each.cmdline())
                    if is_actor if actors else each == main:
                        peak = max(peak, each.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.2)
    assert process.returncode == 0
    return Cost(time.perf_counter() - started, sum(used.values()), peak / 2**20)


def write_corpus(folder: Path, lines: list[str], n_lines: int) -> Path:
    """Write shards, and all their lines in `all`."""
    folder.mkdir()
    repeated = list(itertools.islice(itertools.cycle(lines), n_lines))
    (folder / "all").write_text("".join(f"{line}\n" for line in repeated), encoding="utf-8")
    size = -(-n_lines // N_SHARDS)
    for shard in range(N_SHARDS):
        part = repeated[shard * size : (shard + 1) * size]
        (folder / f"{shard}.txt").write_text("".join(f"{x}\n" for x in part), encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--model", default="de-en-multi30k")
    parser.add_argument("--beam-size", default="5")
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8").splitlines()
    translate = [sys.executable, "-m", "hubnmt", "translate", "--model", options.model]
    translate += ["--beam-size", options.beam_size]
    on_ray = ["--ray", "local", "--ray-actors", str(options.actors)]
    print(
        "| translated by | sentences/s | sentences per second of a core | starting, s "
        "| memory of each, MiB | 100 M lines, days |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = write_corpus(folder / "few", lines, N_SHARDS)
        many = write_corpus(folder / "many", lines, options.lines)
        for title, actors in (("one process", False), (f"{options.actors} actors", True)):
            costs = []
            for corpus in (few, many):
                source = f"{corpus}/*.txt" if actors else f"{corpus}/all"
                target = folder / f"{corpus.name}-{'ray' if actors else 'one'}"
                command = [*translate, "--input", source, "--output", str(target)]
                costs.append(measure([*command, *(on_ray if actors else [])], actors=actors))
            start, whole = costs
            n_new = options.lines - N_SHARDS
            speed = n_new / max(whole.seconds - start.seconds, 1e-3)
            of_core = n_new / max(whole.processor_s - start.processor_s, 1e-3)
            days = HUNDRED_MILLION / speed / 86_400
            print(
                f"| {title} | {speed:,.0f} | {of_core:,.0f} | {start.seconds:.1f} "
                f"| {whole.peak_mib:,.0f} | {days:,.1f} |",
                flush=True,
            )
        shards = [(folder / "many-ray" / f"{n}.txt").read_text("utf-8") for n in range(N_SHARDS)]
        is_same = "".join(shards) == (folder / "many-one").read_text("utf-8")
    print(
        f"\n{options.lines:,} lines; the translations are {'the same' if is_same else 'DIFFERENT'}"
    )


if __name__ == "__main__":
    main()
