"""Visitors of one page, beside one client with many requests: errors, waiting and memory.

    python tests/benchmarks/soak.py [--minutes 1] [--visitors 50] [--crowd 0] [--long]

A visitor types a sentence in three parts, each of which the page translates when they pause, waits
for the translation of the whole, reads and goes on; the wait is that from the last pause. The crowd
is one client who always has so many requests, of a sentence or, with `--long`, of 2,500 characters.
Each has an address of its own, as behind a proxy. Prints a table for RESULTS.md.
"""

import argparse
import contextlib
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

import httpx
import psutil

ROOT = Path(__file__).parents[2]
SENTENCES = (ROOT / "tests" / "fixtures" / "captions.de").read_text("utf-8").splitlines()
TYPING_S = (0.7, 1.5)
"""Between the pauses of a visitor who types."""
READING_S = (1.0, 4.0)
"""Between an answer and the next question of a visitor."""
TIMEOUT_S = 120.0
LAST_ANSWERS_S = 30.0
"""How long answers are waited for that were asked for before the end."""
LONG = " ".join(SENTENCES * 3)[:2_500]


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
            process.kill()  # connections are still open
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

    def __init__(self, url: str, number: int, event: tuple[int, list[object]]) -> None:
        self.url = url
        self.event, self.values = event
        self.session = uuid.uuid4().hex
        self.random = random.Random(number)
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        self.http = httpx.Client(headers={"X-Forwarded-For": address}, timeout=TIMEOUT_S)
        self.waits: list[float] = []
        self.errors: Counter[str] = Counter()

    def ask(self, text: str) -> None:
        """Call the endpoint and wait for the answer."""
        body = {"data": [text, "", *[None] * 14], "session_hash": self.session}
        call = f"{self.url}call/translate"
        event = self.http.post(call, json=body).raise_for_status().json()["event_id"]
        self.http.get(f"{call}/{event}")

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


def visit(visitor: Visitor, act: Callable[[], None], until: float) -> None:
    """Do one thing after the other, and note what a visitor should not meet."""
    while time.monotonic() < until:
        try:
            act()
        except (httpx.HTTPError, OSError, ValueError) as error:
            visitor.errors[f"{type(error).__name__}: {error}"[:100]] += 1
            time.sleep(0.2)


def start(visitor: Visitor, act: Callable[[], None], until: float) -> threading.Thread:
    thread = threading.Thread(target=visit, args=(visitor, act, until), daemon=True)
    thread.start()
    return thread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--crowd", type=int, default=0)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "files") as (url, server):
        until = time.monotonic() + 60 * options.minutes
        event = translate_event(url)
        visitors = [Visitor(url, number, event) for number in range(1, 1 + options.visitors)]
        crowd = Visitor(url, 0, event)
        text = LONG if options.long else SENTENCES[0]
        for _ in range(options.crowd):
            start(crowd, lambda: crowd.ask(text), until)
        threads = [start(visitor, visitor.translate, until) for visitor in visitors]
        memory = [server.memory_info().rss / 2**20]
        while time.monotonic() < until:
            time.sleep(1)
            memory.append(server.memory_info().rss / 2**20)
        for thread in threads:
            thread.join(max(0.0, until + LAST_ANSWERS_S - time.monotonic()))
        n_tracebacks = (Path(folder) / "stderr.txt").read_text().count("Traceback")
    show(visitors, options, memory, n_tracebacks)


def show(
    visitors: list[Visitor], options: argparse.Namespace, memory: list[float], n_tracebacks: int
) -> None:
    waits = sorted(wait for visitor in visitors for wait in visitor.waits)
    errors = sum((visitor.errors for visitor in visitors), Counter[str]())
    warm = memory[len(memory) // 4]
    kind = "of 2,500 characters" if options.long else "of a sentence"
    rows = {
        "visitors, minutes": f"{options.visitors}, {options.minutes:g}",
        "requests of one more client": f"{options.crowd} {kind}" if options.crowd else "none",
        "answers": f"{len(waits):,}",
        "errors": f"{errors.total()} {dict(errors) or ''}".strip(),
        "median wait": f"{statistics.median(waits):.2f} s" if waits else "-",
        "95th percentile": f"{waits[int(0.95 * (len(waits) - 1))]:.2f} s" if waits else "-",
        "slowest": f"{waits[-1]:.2f} s" if waits else "-",
        "memory when warm, at most": f"{warm:.0f} MiB, {max(memory):.0f} MiB",
        "tracebacks of the server": str(n_tracebacks),
    }
    print("| what | measured |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
