"""Minutes from raw text to a BLEU score: one run, stopped where the validation set says so.

    python tests/benchmarks/race.py training/recipes/de-en-multi30k-fast.toml --goal 37.7 \
        --valid val.de val.en --test test_2016_flickr.de test_2016_flickr.en \
        --set data.train=train.de,train.en --set run.n_threads=2

Trains by the recipe until a validation (greedy) reaches the goal, stops the run, and translates the
test set once, greedily, with the weights of that validation. Minutes count from the first step,
validations included, and from the start of the command, with all imports and the preparation of the
texts. Asserts nothing. The number to beat on Multi30k, German to English, is 36.8 on the test set.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    records = [json.loads(line) for line in whole_lines]
    return next((r for r in records if r["kind"] == "valid" and r["bleu"] >= goal), None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--goal", type=float, required=True, help="validation BLEU to stop at")
    parser.add_argument("--valid", nargs=2, required=True, metavar=("SRC", "REF"))
    parser.add_argument("--test", nargs=2, type=Path, required=True, metavar=("SRC", "REF"))
    parser.add_argument("--processes", type=int, default=1, help="that train together")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        fixed = ["run.name=race", f"run.folder={place}", f"data.valid={','.join(options.valid)}"]
        fixed.append(f"data.test={','.join(map(str, options.test))}")  # nothing is learned from it
        words = [word for each in [*options.set, *fixed] for word in ("--set", each)]
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(options.processes)]
        start = [sys.executable, *(launch if options.processes > 1 else [])]
        command = [*start, "-m", "training.train", options.recipe, *words]
        started = time.monotonic()
        reached = train_until(options.goal, command, Path(place) / "race")
        minutes = (time.monotonic() - started) / 60
        if reached is None:
            sys.exit(f"the run ended without a validation BLEU of {options.goal}")
        # The run may have gone on for a step or two; `best` is what reached the goal.
        translator = Translator.from_pretrained(str(Path(place) / "race" / "best"))
        sources, references = read_aligned(*options.test)
        found = translator.translate(sources, beam_size=1)
        test = score_corpus([each.text for each in found], references)
    print(
        f"step {reached['step']}: validation BLEU {reached['bleu']:.2f}, test BLEU {test.bleu:.2f} "
        f"({test.bleu_signature}), greedy; {reached['minutes']:.2f} minutes of training, "
        f"{minutes:.2f} from the start of the command"
    )


if __name__ == "__main__":
    main()
