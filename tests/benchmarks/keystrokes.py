"""Time from a key to its translation on the page, in Chromium.

    python tests/benchmarks/keystrokes.py [--words 60] [--seed 1]

Starts the page, opens it, and types sentences in words at the pace of a practised typist: 90 to
170 ms between keys, and a pause of 0.8 to 1.4 s after each word, in which its translation should
appear. Measured are the opening of the page, with an empty cache, until it can be used; and from
the last key of each word to the first text that is shown for it, which may be the beginning of a
streamed translation, and to the whole translation. Prints a table for RESULTS.md.
"""

import random
import time
from typing import Any

import typer
from tables import show_table
from visitors import SENTENCES, serve, share

from tests.environments import chromium

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
    """Return the seconds until the page can be used, and the times of each key."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        started = time.monotonic()
        page.goto(url)
        page.wait_for_selector("#go:enabled")
        opened_s = time.monotonic() - started
        page.click("#source textarea")
        page.evaluate(OBSERVE)
        type_words(page, n_words, random.Random(seed))
        times: list[dict[str, float]] = page.evaluate("times")
    return opened_s, times


def is_end(own: dict[str, float], later: dict[str, float] | None) -> bool:
    """Whether a key ended a word and its translation was waited for."""
    end = later["typed"] if later else float("inf")
    return end - own["typed"] > 1000 * WORD_S[0] and "whole" in own


def quantiles(waits: list[float]) -> list[str]:
    within = sum(wait <= 400 for wait in waits) / len(waits)
    return [*(f"{share(waits, part):.0f}" for part in (0.5, 0.95, 1)), f"{within:.0%}"]


def main(words: int = 60, seed: int = 1) -> None:
    with serve() as page:
        opened_s, times = measure(page.url, words, seed)
    # Every word ends with a space, whose translation nothing interrupts.
    ends = [own for own, later in zip(times, [*times[1:], None], strict=True) if is_end(own, later)]
    whole = [own["whole"] - own["typed"] for own in ends]
    first = [min(own.get("first", own["whole"]), own["whole"]) - own["typed"] for own in ends]
    print(f"opened in {opened_s:.2f} s\n")
    show_table(
        ("from the last key, ms", "median", "95 %", "slowest", "within 400 ms"),
        [
            (f"to the first text ({len(ends)} words)", *quantiles(first)),
            ("to the whole translation", *quantiles(whole)),
        ],
    )


if __name__ == "__main__":
    typer.run(main)
