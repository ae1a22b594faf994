"""Honest and hostile visitors of one page: errors, waiting, memory and disk.

    python tests/benchmarks/soak.py [--minutes 10] [--visitors 30] [--hostile 10] [--one-address]

Honest visitors type a sentence in three parts, each of which the page translates when they pause,
wait for the translation of the whole, read and go on; the wait is that from the last pause. The
hostile ones, if any, take turns in: the longest texts without a listener, letters without a space,
the longest text that is admitted, answers that they leave, files of junk, bodies that trickle, and
requests of wrong types. Each visitor has an address of its own, as behind a proxy; with
`--one-address` all share one. Prints a table for RESULTS.md.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

ROOT = Path(__file__).parents[2]
SENTENCES = (ROOT / "tests" / "fixtures" / "captions.de").read_text("utf-8").splitlines()
TYPING_S = (0.7, 1.5)
"""Between the pauses of an honest visitor who types."""
READING_S = (1.0, 4.0)
"""Between an answer and the next question of an honest visitor."""
TIMEOUT_S = 120.0
LAST_ANSWERS_S = 30.0
"""How long answers are waited for that were asked for before the end."""
LONG = " ".join(SENTENCES * 3)[:10_000]
DENSE = "qwxzjkvb" * 1_250
JUNK: tuple[object, ...] = ("\ud800", 10**400, float("nan"), None, [], {"a": 1}, "x" * 10**6, -1)


def wait_until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit("the app did not open its port")


@contextlib.contextmanager
def serve(files: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start the app, which stores its files in a folder of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(ROOT / "app.py"), "--port", str(port)]
    environment = os.environ | {"GRADIO_TEMP_DIR": str(files), "FORWARDED_ALLOW_IPS": "127.0.0.1"}
    with (files.parent / "stderr.txt").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=log
        )
        try:
            wait_until_open(port, process)
            yield f"http://127.0.0.1:{port}/gradio_api/", psutil.Process(process.pid)
        finally:
            process.kill()  # connections of hostile visitors are still open
            process.wait(20)


def translate_event(url: str) -> tuple[int, list[object]]:
    """Return the number of the page's event that translates, and the values of its inputs."""
    config = httpx.get(f"{url.removesuffix('gradio_api/')}config").json()
    parts = {each["id"]: each["props"] for each in config["components"]}
    names = {part.get("elem_id"): number for number, part in parts.items()}
    (event,) = (
        each
        for each in config["dependencies"]
        if [names["typing"], "submit"] in each["targets"] and names["source"] in each["inputs"]
    )
    return event["id"], [parts[each].get("value") for each in event["inputs"]]


class Visitor:
    """Somebody at an address."""

    def __init__(
        self,
        url: str,
        number: int,
        event: tuple[int, list[object]],
        *,
        is_alone: bool,
        is_honest: bool,
    ) -> None:
        self.url = url
        self.event, self.values = event
        self.is_honest = is_honest
        self.session = uuid.uuid4().hex
        self.random = random.Random(number)
        address = f"10.0.{number // 250}.{number % 250 + 1}" if is_alone else "10.0.0.1"
        self.headers = {"X-Forwarded-For": address}
        self.http = httpx.Client(headers=self.headers, timeout=TIMEOUT_S)
        self.waits: list[float] = []
        self.errors: Counter[str] = Counter()

    def ask(self, name: str, data: list[object]) -> str:
        """Call an endpoint and wait for the answer; gives its event and data."""
        event = self.submit(name, data)
        with self.http.stream("GET", f"{self.url}call/{name}/{event}") as answer:
            lines = answer.iter_lines()
            for line in lines:
                if line in ("event: complete", "event: error"):
                    return f"{line} {next(lines)}"
        return "no answer"

    def submit(self, name: str, data: list[object]) -> str:
        session = self.session if self.is_honest else uuid.uuid4().hex
        body = json.dumps({"data": data, "session_hash": session})
        headers = {"Content-Type": "application/json"}
        answer = self.http.post(f"{self.url}call/{name}", content=body, headers=headers)
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.status_code} {answer.text[:80]}")
        return str(answer.json()["event_id"])

    def translation(self, text: str) -> list[object]:
        return [text, "", *[None] * 14]

    # --- what they do

    def translate(self) -> None:
        words = self.random.choice(SENTENCES).split()
        for n_parts in (1, 2):
            pause_s = self.random.uniform(*TYPING_S)
            until = time.monotonic() + pause_s
            event = self.type_text(" ".join(words[: len(words) * n_parts // 3]))
            with contextlib.suppress(httpx.ReadTimeout):  # the next words end it
                self.until_answered(event, pause_s)
            time.sleep(max(0.0, until - time.monotonic()))
        started = time.monotonic()
        event = self.type_text(" ".join(words))
        self.until_answered(event)
        self.waits.append(time.monotonic() - started)
        time.sleep(self.random.uniform(*READING_S))

    def type_text(self, text: str) -> str:
        """Ask for the translation of a text as the page does, which ends an older one."""
        body = {
            "data": [text, *self.values[1:]],
            "fn_index": self.event,
            "session_hash": self.session,
        }
        answer = self.http.post(f"{self.url}queue/join", json=body)
        answer.raise_for_status()
        return str(answer.json()["event_id"])

    def until_answered(self, event: str, timeout_s: float = TIMEOUT_S) -> None:
        asked = {"session_hash": self.session}
        with self.http.stream(
            "GET", f"{self.url}queue/data", params=asked, timeout=timeout_s
        ) as answer:
            for line in answer.iter_lines():
                said = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if said.get("event_id") == event and said["msg"] == "process_completed":
                    if not said["success"]:
                        self.errors[str(said["output"])[:100]] += 1
                    return
        self.errors["no answer"] += 1

    def flood(self) -> None:
        for _ in range(10):
            self.submit("translate", self.translation(LONG[:2_500]))

    def ask_dense(self) -> None:
        self.ask("translate", self.translation(DENSE[: self.random.choice((2_500, 10_000))]))

    def ask_long(self) -> None:
        self.ask("translate", self.translation(LONG))

    def leave(self) -> None:
        event = self.submit("translate", self.translation(LONG))
        with self.http.stream("GET", f"{self.url}call/translate/{event}"):
            time.sleep(0.2)

    def upload(self) -> None:
        for _ in range(5):
            files = {"files": ("a.txt", self.random.randbytes(5 * 2**20 - 1))}
            self.http.post(f"{self.url}upload", files=files)

    def trickle(self) -> None:
        place = urlsplit(self.url)
        with socket.create_connection((place.hostname, place.port), 10) as connection:
            head = f"POST {place.path}upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
            more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            connection.sendall(f"{head}{more}\r\n".encode())
            for _ in range(20):
                connection.sendall(b"x")
                time.sleep(0.1)

    def send_junk(self) -> None:
        name = self.random.choice(("translate", "attention", "score"))
        self.ask(name, [self.random.choice(JUNK) for _ in range(16 if name == "translate" else 6)])


def visit(visitor: Visitor, acts: list[Callable[[], None]], until: float) -> None:
    """Do one thing after the other, and note what an honest visitor should not meet."""
    with visitor.http:
        for act in itertools.cycle(acts):
            if time.monotonic() > until:
                return
            try:
                act()
            except (httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
                visitor.errors[f"{type(error).__name__}: {error}"[:100]] += 1
                time.sleep(0.2)


def start(visitor: Visitor, until: float) -> threading.Thread:
    hostile = [
        visitor.flood,
        visitor.ask_dense,
        visitor.ask_long,
        visitor.leave,
        visitor.upload,
        visitor.trickle,
        visitor.send_junk,
    ]
    visitor.random.shuffle(hostile)
    acts = [visitor.translate] if visitor.is_honest else hostile
    thread = threading.Thread(target=visit, args=(visitor, acts, until), daemon=True)
    thread.start()
    return thread


def disk_mib(folder: Path) -> float:
    sizes = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return sum(sizes) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--hostile", type=int, default=10)
    parser.add_argument("--one-address", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "files") as (url, server):
        files = Path(folder) / "files"
        until = time.monotonic() + 60 * options.minutes
        event = translate_event(url)
        visitors = [
            Visitor(
                url,
                number,
                event,
                is_alone=not options.one_address,
                is_honest=number >= options.hostile,
            )
            for number in range(options.visitors)
        ]
        threads = [start(visitor, until) for visitor in visitors]
        memory, disk = [server.memory_info().rss / 2**20], [0.0]
        while time.monotonic() < until:
            time.sleep(1)
            memory.append(server.memory_info().rss / 2**20)
            disk.append(disk_mib(files))
        for thread in threads:
            thread.join(max(0.0, until + LAST_ANSWERS_S - time.monotonic()))
        n_tracebacks = (Path(folder) / "stderr.txt").read_text().count("Traceback")
    show(visitors[options.hostile :], options, memory, disk, n_tracebacks)
    refused = sum((v.errors for v in visitors[: options.hostile]), Counter[str]())
    print(f"\nRefused to hostile visitors: {dict(refused.most_common(5))}", file=sys.stderr)


def show(
    honest: list[Visitor],
    options: argparse.Namespace,
    memory: list[float],
    disk: list[float],
    n_tracebacks: int,
) -> None:
    waits = sorted(wait for visitor in honest for wait in visitor.waits)
    errors = sum((visitor.errors for visitor in honest), Counter[str]())
    warm = memory[len(memory) // 4]
    rows = {
        "visitors, of them hostile": f"{options.visitors}, {options.hostile}",
        "addresses": "one" if options.one_address else "one each",
        "minutes": f"{options.minutes:g}",
        "honest answers": f"{len(waits):,}",
        "honest errors": f"{errors.total()} {dict(errors) or ''}".strip(),
        "median wait": f"{statistics.median(waits):.2f} s" if waits else "-",
        "answered in 5 s": f"{sum(wait <= 5 for wait in waits) / max(len(waits), 1):.1%}",
        "95th percentile": f"{waits[int(0.95 * (len(waits) - 1))]:.2f} s" if waits else "-",
        "slowest": f"{waits[-1]:.2f} s" if waits else "-",
        "memory when warm, at most": f"{warm:.0f} MiB, {max(memory):.0f} MiB",
        "disk, most": f"{max(disk):.0f} MiB",
        "tracebacks of the server": str(n_tracebacks),
    }
    print("| what | measured |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
