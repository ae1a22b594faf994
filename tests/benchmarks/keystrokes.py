"""Time from a key to its translation on the page, in Chromium.

    python tests/benchmarks/keystrokes.py [--words 60] [--seed 1]

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
OBSERVE = """() => {
  const source = document.querySelector("#source textarea");
  const target = document.querySelector("#target");
  const field = target.querySelector("textarea");
  const times = (window.times = []);
  source.addEventListener("input", () => times.push({ typed: performance.now() }));
  let last = field.value;
  const see = () => {
    const own = times.at(-1);
    const [now, state] = [performance.now(), target.dataset.state];
    if (own && field.value !== last && state === "busy") own.first ??= now;
    if (own && field.value && state === "") own.whole ??= now;
    last = field.value;
    requestAnimationFrame(see);
  };
  see();
}"""
"""Notes when each key was pressed, and the frames in which its translation began and was whole."""


def type_words(page: Any, n_words: int, pace: random.Random) -> None:
    for sentence in SENTENCES:
        page.fill("#source textarea", "")
        time.sleep(0.5)
        words = sentence.split()[:n_words]
        n_words -= len(words)
        for word in words:
            for key in f"{word} ":
                page.keyboard.type(key)
                time.sleep(pace.uniform(*KEY_S))
            time.sleep(pace.uniform(*WORD_S))
        if not n_words:
            return


def measure(url: str, n_words: int, seed: int) -> tuple[float, list[dict[str, float]]]:
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
        page.evaluate(OBSERVE)
        type_words(page, n_words, pace)
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
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "files") as (api, _):
        url = api.removesuffix("gradio_api/")
        opened_s, times = measure(url, options.words, options.seed)
    # Every word ends with a space, whose translation nothing interrupts.
    ends = [own for own, later in zip(times, [*times[1:], None], strict=True) if is_end(own, later)]
    whole = [own["whole"] - own["typed"] for own in ends]
    first = [min(own.get("first", own["whole"]), own["whole"]) - own["typed"] for own in ends]
    print(f"First translation {opened_s:.1f} s after opening, twelve characters typed.\n")
    print("| from the last key, ms | median | 95 % | slowest | within 400 ms |")
    print("|---|---|---|---|---|")
    print(f"| to the first text ({len(ends)} words) | {quantiles(first)} |")
    print(f"| to the whole translation | {quantiles(whole)} |")


def is_end(own: dict[str, float], later: dict[str, float] | None) -> bool:
    """Whether a key ended a word and its translation was waited for."""
    end = later["typed"] if later else float("inf")
    return end - own["typed"] > 1000 * WORD_S[0] and "whole" in own


if __name__ == "__main__":
    main()
