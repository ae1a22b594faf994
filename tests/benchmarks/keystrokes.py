"""Time from a key to its translation on the page, in Chromium.

    python tests/benchmarks/keystrokes.py [--sentences 12] [--seed 1]

Starts the page, opens it, and types sentences in words at the pace of a practised typist: 90 to
170 ms between keys, and a pause of 0.8 to 1.4 s after each word, in which its translation should
appear. Measured in the page: from opening it to the first translation, twelve characters included;
from the last key of each word to the first text that is shown for it, which may be the beginning
of a streamed translation, and to the whole translation. Prints a table for RESULTS.md.
"""

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.benchmarks.soak import SENTENCES, serve
from tests.browser.conftest import FLAGS
from tests.conftest import CHROMIUM_NAMES

KEY_S = (0.09, 0.17)
WORD_S = (0.8, 1.4)
N_WARM = 1
"""Sentences typed before the measurement."""

OBSERVE = """() => {
  const source = document.querySelector("#source textarea");
  const target = document.querySelector("#target");
  const field = target.querySelector("textarea");
  const times = (window.times = []);
  source.addEventListener("input", () => times.push({ typed: performance.now() }));
  let last = field.value;
  const see = () => {
    const own = times.at(-1);
    if (own && field.value !== last && target.dataset.state === "busy") own.first ??= performance.now();
    if (own && target.dataset.state === "" && field.value) own.whole ??= performance.now();
    last = field.value;
    requestAnimationFrame(see);
  };
  see();
}"""
"""Notes when each key was pressed, and the frames in which its translation began and was whole."""


def type_sentences(page: Any, sentences: list[str], pace: random.Random) -> None:
    for sentence in sentences:
        page.fill("#source textarea", "")
        time.sleep(0.5)
        for word in sentence.split():
            for key in f"{word} ":
                page.keyboard.type(key)
                time.sleep(pace.uniform(*KEY_S))
            time.sleep(pace.uniform(*WORD_S))


def measure(url: str, sentences: list[str], seed: int) -> tuple[float, list[dict[str, float]]]:
    """Return seconds from opening to the first translation, and the times of each key."""
    pace = random.Random(seed)
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        started = time.monotonic()
        page.goto(url)
        page.click("#source textarea")
        page.keyboard.type("Guten Morgen", delay=100)
        page.wait_for_function(
            "document.querySelector('#target').dataset.state === ''"
            " && document.querySelector('#target textarea').value"
        )
        opened_s = time.monotonic() - started
        type_sentences(page, sentences[:N_WARM], pace)
        page.evaluate(OBSERVE)
        type_sentences(page, sentences[N_WARM:], pace)
        times: list[dict[str, float]] = page.evaluate("times")
        browser.close()
    return opened_s, times


def quantiles(waits: list[float]) -> str:
    waits = sorted(waits)
    if not waits:
        return "-"
    shares = [waits[int(share * (len(waits) - 1))] for share in (0.5, 0.95, 1.0)]
    within = sum(wait <= 400 for wait in waits) / len(waits)
    return " | ".join([*(f"{share:.0f}" for share in shares), f"{within:.0%}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "files") as (api, _):
        sentences = SENTENCES[: options.sentences + N_WARM]
        opened_s, times = measure(api.removesuffix("gradio_api/"), sentences, options.seed)
    # Every word ends with a space, whose translation nothing interrupts.
    ends = [own for own, later in zip(times, [*times[1:], None], strict=True) if is_end(own, later)]
    print(f"First translation {opened_s:.1f} s after opening, twelve characters typed.\n")
    print("| from the last key, ms | median | 95 % | slowest | within 400 ms |\n|---|---|---|---|---|")
    begun = [min(own.get("first", own["whole"]), own["whole"]) - own["typed"] for own in ends]
    print(f"| to the first text ({len(ends)} words) | {quantiles(begun)} |")
    print(f"| to the whole translation | {quantiles([own['whole'] - own['typed'] for own in ends])} |")


def is_end(own: dict[str, float], later: dict[str, float] | None) -> bool:
    """Whether a key ended a word and its translation was waited for."""
    end = later["typed"] if later else float("inf")
    return end - own["typed"] > 1000 * WORD_S[0] and "whole" in own


if __name__ == "__main__":
    main()
