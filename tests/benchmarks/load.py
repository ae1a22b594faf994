"""Many visitors at once: errors, waiting time, and memory of the page.

    python tests/benchmarks/load.py [--users 50] [--seconds 120] [--url URL]

Every user translates one sentence after the other through the named endpoint, with a pause to read
in between; some stop and look at the attention, a few give a text of 10,000 characters, and some
leave without waiting. Without `--url` the page is served by a process of its own, whose memory is
read once it is warm and at the end. Prints one table, asserts nothing.
"""

import argparse
import concurrent.futures
import contextlib
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gradio_client import Client

ROOT = Path(__file__).parents[2]
SENTENCES = (ROOT / "tests" / "fixtures" / "captions.de").read_text("utf-8").splitlines()
LONG = " ".join(SENTENCES * 3)[:10_000]
READING_S = (1.0, 4.0)
"""Between an answer and the next question of the same visitor."""
WARM_UP = 0.25
"""Share of the time after which memory is first read."""


@contextlib.contextmanager
def serve() -> Iterator[tuple[str, int]]:
    """Start the app; give its address and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(ROOT / "app.py"), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_until_open(port, process)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(20)


def wait_until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit("the app did not open its port")


def resident_mib(pid: int) -> float:
    """Read the memory of a process, of Linux."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


class User:
    """One visitor: what they did, how long each answer took, and what went wrong."""

    def __init__(self, url: str, number: int) -> None:
        self.client = Client(url, verbose=False)
        self.random = random.Random(number)
        self.waits: dict[str, list[float]] = {}
        self.errors: Counter[str] = Counter()

    def visit(self, until: float) -> None:
        while time.monotonic() < until:
            kinds = [self.translate, self.attend, self.translate_much, self.leave]
            (act,) = self.random.choices(kinds, weights=[85, 10, 2, 3])
            started = time.monotonic()
            try:
                act()
            except Exception as error:  # whatever it is, it is what this script is looking for
                self.errors[f"{type(error).__name__}: {error}"[:100]] += 1
            self.waits.setdefault(act.__name__, []).append(time.monotonic() - started)
            time.sleep(self.random.uniform(*READING_S))

    def translate(self) -> None:
        self.client.predict(self.random.choice(SENTENCES), api_name="/translate")

    def attend(self) -> None:
        self.client.predict(self.random.choice(SENTENCES), api_name="/attention")

    def translate_much(self) -> None:
        self.client.predict(LONG, api_name="/translate")

    def leave(self) -> None:
        job = self.client.submit(LONG[:2000], api_name="/translate")
        time.sleep(0.1)
        job.cancel()


def show(users: list[User], seconds: float, memory: tuple[float, float] | None) -> None:
    print("| what | answers | median wait | 95th percentile | longest |\n|---|---|---|---|---|")
    for kind in ("translate", "attend", "translate_much", "leave"):
        waits = sorted(wait for user in users for wait in user.waits.get(kind, []))
        if waits:
            high = waits[int(0.95 * (len(waits) - 1))]
            print(
                f"| {kind} | {len(waits)} | {statistics.median(waits):.2f} s | {high:.2f} s | "
                f"{waits[-1]:.2f} s |"
            )
    errors = sum((user.errors for user in users), Counter())
    print(f"{len(users)} users, {seconds:.0f} s, {errors.total()} errors {dict(errors) or ''}")
    if memory:
        print(f"memory {memory[0]:.0f} MiB when warm, {memory[1]:.0f} MiB at the end")


def run(url: str, pid: int | None, n_users: int, seconds: float) -> None:
    with concurrent.futures.ThreadPoolExecutor(n_users) as pool:
        users = list(pool.map(lambda number: User(url, number), range(n_users)))
        started = time.monotonic()
        visits = [pool.submit(user.visit, started + seconds) for user in users]
        time.sleep(WARM_UP * seconds)
        warm = resident_mib(pid) if pid else 0.0
        concurrent.futures.wait(visits)
        end = resident_mib(pid) if pid else 0.0
    show(users, time.monotonic() - started, (warm, end) if pid else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--url", help="a page that is open already")
    options = parser.parse_args()
    if options.url:
        run(options.url, None, options.users, options.seconds)
        return
    with serve() as (url, pid):
        run(url, pid, options.users, options.seconds)


if __name__ == "__main__":
    main()
