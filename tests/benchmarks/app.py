"""What the page adds to a bare call of `Translator`: HTTP, queue, JSON and threads.

    python tests/benchmarks/app.py [--rounds 30] [--beam-size 5] [--model de-en]

The page, in a process of its own, and the bare call take turns; medians and the 90th percentile are
printed. Asserts nothing.
"""

import statistics

import typer
from gradio_client import Client
from systems import Job, take_turns
from tables import show_table
from visitors import serve, share

from hubnmt import Translator

SENTENCE = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."


def main(rounds: int = 30, beam_size: int = 5, model: str = "de-en") -> None:
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
    print(f"{model}, beam {beam_size}: {SENTENCE}\n")
    rows = []
    for name, seconds in measured.items():
        times = statistics.median(seconds), share(seconds, 0.9)
        rows.append((name, *(f"{1e3 * each:.0f}" for each in times)))
    show_table(("what, ms", "median", "90th percentile"), rows)


if __name__ == "__main__":
    typer.run(main)
