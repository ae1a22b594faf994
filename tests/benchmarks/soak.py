"""Visitors of one page, beside one client with many requests: errors, waiting and memory.

    python tests/benchmarks/soak.py [--minutes 1] [--visitors 50] [--crowd 0]

A visitor types a sentence in three parts, each of which the page translates when they pause, waits
for the translation of the whole, reads and goes on; the wait is that from the last pause. The crowd
is one client who always has so many requests. Each has an address of its own, as behind a proxy.
Prints a table for RESULTS.md.
"""

import contextlib
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable

import httpx
import typer
from tables import show_table
from visitors import SENTENCES, serve, share

TYPING_S = (0.7, 1.5)
"""Between the pauses of a visitor who types."""
READING_S = (1.0, 4.0)
"""Between an answer and the next question of a visitor."""
TIMEOUT_S = 120.0
LAST_ANSWERS_S = 30.0
"""How long answers are waited for that were asked for before the end."""


def translate_event(url: str) -> tuple[int, list[object]]:
    """Return the number of the page's event that translates, and the values of its inputs."""
    config = httpx.get(f"{url}config").json()
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
        self.url = f"{url}gradio_api/"
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
        body = {"data": [text, *self.values[1:]], "fn_index": self.event}
        asked = body | {"session_hash": self.session}
        answer = self.http.post(f"{self.url}queue/join", json=asked).raise_for_status()
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


def start(visitor: Visitor, act: Callable[[], None], until: float) -> threading.Thread:
    """Do one thing after the other in a thread, and note what a visitor should not meet."""

    def visit() -> None:
        while time.monotonic() < until:
            try:
                act()
            except (httpx.HTTPError, OSError, ValueError) as error:
                visitor.errors[f"{type(error).__name__}: {error}"[:100]] += 1
                time.sleep(0.2)

    thread = threading.Thread(target=visit, daemon=True)
    thread.start()
    return thread


def main(minutes: float = 1, visitors: int = 50, crowd: int = 0) -> None:
    with serve() as page:
        until = time.monotonic() + 60 * minutes
        event = translate_event(page.url)
        everybody = [Visitor(page.url, number, event) for number in range(1, 1 + visitors)]
        client = Visitor(page.url, 0, event)
        for _ in range(crowd):
            start(client, lambda: client.ask(SENTENCES[0]), until)
        threads = [start(each, each.translate, until) for each in everybody]
        memory = []
        while not memory or time.monotonic() < until:
            memory.append(page.process.memory_info().rss / 2**20)
            time.sleep(1)
        for thread in threads:
            thread.join(max(0.0, until + LAST_ANSWERS_S - time.monotonic()))
        n_tracebacks = page.log.read_text().count("Traceback")
    waits = [wait for each in everybody for wait in each.waits] or [float("nan")]
    errors = sum((each.errors for each in everybody), Counter[str]())
    rows = {
        "visitors, minutes": f"{visitors}, {minutes:g}",
        "requests of one more client": str(crowd),
        "answers": f"{len(waits):,}",
        "errors": f"{errors.total()} {dict(errors) or ''}".strip(),
        "median wait": f"{share(waits, 0.5):.2f} s",
        "95th percentile": f"{share(waits, 0.95):.2f} s",
        "slowest": f"{share(waits, 1):.2f} s",
        "memory when warm, at most": f"{memory[len(memory) // 4]:.0f} MiB, {max(memory):.0f} MiB",
        "tracebacks of the server": str(n_tracebacks),
    }
    show_table(("what", "measured"), rows.items())


if __name__ == "__main__":
    typer.run(main)
