"""Minutes from raw text to a BLEU score: one run, stopped where the validation set says so.

    python tests/benchmarks/race.py training/recipes/de-en-multi30k-fast.toml --goal 37.7 \
        --valid val.de val.en --test test_2016_flickr.de test_2016_flickr.en \
        --set data.train=train.de,train.en --set run.n_threads=2

Trains by the recipe until a validation (greedy) reaches the goal, stops the run, and translates the
test set once, greedily, with the weights of that validation. Minutes count from the first step,
validations included, and from the start of the command, with all imports and the preparation of the
texts. Asserts nothing. The number to beat on Multi30k, German to English, is 36.8 on the test set.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from hubnmt import Translator
from hubnmt.text.metrics import score_corpus
from hubnmt.text.textfile import read_aligned


def train_until(goal: float, command: list[str], folder: Path) -> dict[str, float] | None:
    """Run the command; return the validation that reached the goal, None if it ended before."""
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            time.sleep(0.1)
            reached = find_goal(folder / "metrics.jsonl", goal)
            if reached:
                process.send_signal(signal.SIGTERM)
                process.wait()
                return reached
    finally:
        process.kill()
    return find_goal(folder / "metrics.jsonl", goal)


def find_goal(metrics: Path, goal: float) -> dict[str, float] | None:
    if not metrics.exists():
        return None
    whole_lines = metrics.read_text(encoding="utf-8").split("\n")[:-1]
    records = map(json.loads, whole_lines)
    return next((r for r in records if r["kind"] == "valid" and r["bleu"] >= goal), None)


def main(
    recipe: str,
    goal: Annotated[float, typer.Option(help="validation BLEU to stop at")],
    valid: Annotated[tuple[str, str], typer.Option()],
    test: Annotated[tuple[Path, Path], typer.Option()],
    processes: Annotated[int, typer.Option(help="that train together")] = 1,
    settings: Annotated[list[str], typer.Option("--set")] = [],  # noqa: B006  # typer's way
) -> None:
    with tempfile.TemporaryDirectory() as place:
        fixed = ["run.name=race", f"run.folder={place}", f"data.valid={','.join(valid)}"]
        fixed.append(f"data.test={','.join(map(str, test))}")  # nothing is learned from it
        words = [word for each in [*settings, *fixed] for word in ("--set", each)]
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        start = [sys.executable, *(launch if processes > 1 else [])]
        command = [*start, "-m", "training.train", recipe, *words]
        started = time.monotonic()
        reached = train_until(goal, command, Path(place) / "race")
        minutes = (time.monotonic() - started) / 60
        if reached is None:
            sys.exit(f"the run ended without a validation BLEU of {goal}")
        # The run may have gone on for a step or two; `best` is what reached the goal.
        translator = Translator.from_pretrained(str(Path(place) / "race" / "best"))
        sources, references = read_aligned(*test)
        found = translator.translate(sources, beam_size=1)
        scores = score_corpus([each.text for each in found], references)
    print(
        f"step {reached['step']}: validation BLEU {reached['bleu']:.2f}, "
        f"test BLEU {scores.bleu:.2f} ({scores.bleu_signature}), greedy; "
        f"{reached['minutes']:.2f} minutes of training, {minutes:.2f} from the start of the command"
    )


if __name__ == "__main__":
    typer.run(main)
