"""Speed of the page over a bare call of `Translator`, and how long the page takes to open.

    python tests/benchmarks/app.py [--rounds 30] [--openings 10] [--beam-size 5] [--model de-en]

The page, in a process of its own, and the bare call take turns; medians and the 90th percentile are
printed. The last column is what the page adds: HTTP, queue, JSON and threads. Then Chromium opens
the page with an empty cache, until its button can be pressed. Asserts nothing.
"""

import statistics
import time
from typing import Any

import typer
from gradio_client import Client
from systems import Job, take_turns
from tables import show_table
from visitors import serve, share

from hubnmt import Translator
from tests.environments import chromium

SENTENCE = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."
SIZES = "performance.getEntries().map(entry => entry.transferSize || 0)"


def open_page(browser: Any, url: str) -> tuple[float, list[int]]:
    """Open the page in a new profile.

    Returns:
        seconds until it can be used, and the bytes of each answer.
    """
    context = browser.new_context()
    page = context.new_page()
    started = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector("#go:enabled")
    seconds = time.perf_counter() - started
    sizes: list[int] = page.evaluate(SIZES)
    context.close()
    return seconds, sizes


def main(rounds: int = 30, openings: int = 10, beam_size: int = 5, model: str = "de-en") -> None:
    translator = Translator.from_pretrained(model)
    with serve("--model", model) as page:
        client = Client(page.url, verbose=False)
        jobs: dict[str, Job] = {
            "bare call": lambda: translator.translate(SENTENCE, beam_size=beam_size),
            "/translate": lambda: client.predict(
                SENTENCE, beam_size=beam_size, api_name="/translate"
            ),
            "/models (no model runs)": lambda: client.predict(api_name="/models"),
        }
        measured = take_turns(jobs, rounds)
        client.close()
        with chromium() as browser:
            open_page(browser, page.url)  # warms up
            opened = [open_page(browser, page.url) for _ in range(openings)]
    bare = statistics.median(measured["bare call"])
    print(f"{model}, beam {beam_size}: {SENTENCE}\n")
    rows = []
    for name, values in measured.items():
        median, high = statistics.median(values), share(values, 0.9)
        numbers = (f"{1e3 * median:.0f}", f"{1e3 * high:.0f}", f"{1e3 * (median - bare):+.0f}")
        rows.append((name, *numbers))
    show_table(("what, ms", "median", "90th percentile", "over the bare call"), rows)
    seconds = [each for each, _ in opened]
    sizes = opened[0][1]
    print(
        f"\nopening the page, empty cache: median {statistics.median(seconds):.2f} s, "
        f"{min(seconds):.2f} to {max(seconds):.2f} s in {openings} rounds; "
        f"{len(sizes)} entries, {sum(sizes) / 2**20:.1f} MiB"
    )


if __name__ == "__main__":
    typer.run(main)
