"""Most memory that translating a large file takes.

    python tests/benchmarks/memory.py FILE [--lines 100000] [--model MODEL]

Repeats FILE up to the number of lines, translates that with the command, and prints lines, seconds
and the peak resident memory of the command's process. Asserts nothing.
"""

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--model", default="de-en-multi30k")
    parser.add_argument("--beam-size", default="5")
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "source.txt", Path(name) / "target.txt"
        repeated = itertools.islice(itertools.cycle(lines), options.lines)
        source.write_text("".join(f"{line}\n" for line in repeated), encoding="utf-8")
        command = [sys.executable, "-m", "hubnmt", "translate", "--model", options.model]
        command += ["--beam-size", options.beam_size, "--input", str(source)]
        started = time.perf_counter()
        subprocess.run([*command, "--output", str(target)], check=True)
        seconds = time.perf_counter() - started
        n_lines = len(target.read_text(encoding="utf-8").splitlines())
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{n_lines:,} lines, {seconds:.0f} s, at most {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
