"""Speed of the page over a bare call of `Translator`, and how long the page takes to open.

    python tests/benchmarks/app.py [--rounds 30] [--beam-size 5] [--model de-en-multi30k]

The page and the bare call take turns in one process; medians and the 90th percentile are printed.
The last column is what the page adds: HTTP, queue, JSON and threads. Then, where playwright and
Chromium are there, the page is opened with an empty cache, until its button can be pressed. Asserts
nothing.
"""

import argparse
import importlib
import shutil
import statistics
import time
from typing import Any

import torch
from gradio_client import Client
from turns import Job, take_turns

from hubnmt import Translator
from hubnmt.checkpoint.files import bundled_models
from hubnmt.ui.services.registry import ModelRegistry
from tests.conftest import CHROMIUM_NAMES
from tests.page import serving

SENTENCE = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."


def show(seconds: dict[str, list[float]]) -> None:
    bare = statistics.median(seconds["bare call"])
    print("| what | median | 90th percentile | over the bare call |\n|---|---|---|---|")
    for name, values in seconds.items():
        median, high = statistics.median(values), sorted(values)[int(0.9 * (len(values) - 1))]
        shown = (f"{1e3 * each:.0f} ms" for each in (median, high))
        print(f"| {name} | {' | '.join(shown)} | {1e3 * (median - bare):+.0f} ms |")


def time_opening(url: str, n_rounds: int) -> None:
    """Print how long the page takes to open, by visitors who come for the first time."""
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    try:
        sync_playwright = importlib.import_module("playwright.sync_api").sync_playwright
    except ImportError:
        path = None
    if path is None:
        print("opening the page: not measured, playwright or Chromium is missing")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        open_page(browser, url)  # warms up
        rounds = [open_page(browser, url) for _ in range(n_rounds)]
        browser.close()
    seconds, browsing, serving_it, n_requests, n_bytes = zip(*rounds, strict=True)
    print(
        f"opening the page, empty cache: median {statistics.median(seconds):.2f} s, "
        f"{min(seconds):.2f} to {max(seconds):.2f} s in {n_rounds} rounds; "
        f"the processor's seconds: {statistics.median(browsing):.2f} in the browser, "
        f"{statistics.median(serving_it):.2f} in this process; "
        f"{n_requests[0]} requests, {n_bytes[0] / 2**20:.1f} MiB"
    )


def browser_seconds(browser: Any) -> float:
    """Sum the processor's seconds of all of Chromium's processes that live."""
    wire = browser.new_browser_cdp_session()
    processes = wire.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(each["cpuTime"]) for each in processes)


def open_page(browser: Any, url: str) -> tuple[float, float, float, int, int]:
    """Open the page in a new profile.

    Returns:
        seconds until it can be used, the processor's seconds in the browser and here, requests,
        and bytes received.
    """
    context = browser.new_context()
    page = context.new_page()
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    sizes: list[int] = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    browsing, here = browser_seconds(browser), time.process_time()
    started = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector("#go:enabled")
    seconds = time.perf_counter() - started
    browsing, here = browser_seconds(browser) - browsing, time.process_time() - here
    context.close()
    return seconds, browsing, here, len(sizes), sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--openings", type=int, default=10)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--model", default=next(iter(bundled_models()), ""))
    options = parser.parse_args()
    registry = ModelRegistry(Translator.from_pretrained, bundled_models(), opening=options.model)
    translator = registry.get("")
    said = {"beam_size": options.beam_size}
    print(
        f"{options.model}, beam {options.beam_size}, {torch.get_num_threads()} threads: {SENTENCE}"
    )
    with serving(registry) as url:
        client = Client(url, verbose=False)
        jobs: dict[str, Job] = {
            "bare call": lambda: translator.translate(SENTENCE, **said),
            "/translate": lambda: client.predict(SENTENCE, **said, api_name="/translate"),
            "/models (no model runs)": lambda: client.predict(api_name="/models"),
        }
        show(take_turns(jobs, options.rounds))
        client.close()
        time_opening(url, options.openings)


if __name__ == "__main__":
    main()
