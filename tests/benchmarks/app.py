"""Speed of the page over a bare call of `Translator`, through `gradio_client`.

    python tests/benchmarks/app.py [--rounds 30] [--beam-size 5] [--model de-en-multi30k]

The page and the bare call take turns in one process; medians and the 90th percentile are printed.
The last column is what the page adds: HTTP, queue, JSON and threads. Asserts nothing.
"""

import argparse
import statistics

import torch
from gradio_client import Client
from turns import Job, take_turns

from hubnmt import Translator
from hubnmt.checkpoint import bundled_models
from hubnmt.ui.handlers import Handlers
from hubnmt.ui.registry import ModelRegistry
from tests.page import serving

SENTENCE = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."


def show(seconds: dict[str, list[float]]) -> None:
    bare = statistics.median(seconds["bare call"])
    print("| what | median | 90th percentile | over the bare call |\n|---|---|---|---|")
    for name, values in seconds.items():
        median, high = statistics.median(values), sorted(values)[int(0.9 * (len(values) - 1))]
        shown = (f"{1e3 * each:.0f} ms" for each in (median, high))
        print(f"| {name} | {' | '.join(shown)} | {1e3 * (median - bare):+.0f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--model", default=next(iter(bundled_models()), ""))
    options = parser.parse_args()
    registry = ModelRegistry(Translator.from_pretrained, bundled_models(), opening=options.model)
    translator = registry.get("")
    said = {"beam_size": options.beam_size}
    print(
        f"{options.model}, beam {options.beam_size}, {torch.get_num_threads()} threads: {SENTENCE}"
    )
    with serving(Handlers(registry)) as url:
        client = Client(url, verbose=False)
        jobs: dict[str, Job] = {
            "bare call": lambda: translator.translate(SENTENCE, **said),
            "/translate": lambda: client.predict(SENTENCE, **said, api_name="/translate"),
            "/models (no model runs)": lambda: client.predict(api_name="/models"),
        }
        show(take_turns(jobs, options.rounds))
        client.close()


if __name__ == "__main__":
    main()
