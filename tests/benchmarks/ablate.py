"""One change at a time: what each setting is worth after the same small training.

    python tests/benchmarks/ablate.py RECIPE --folder DIR --steps 2000 \
        --try model.dropout=0.1 --try "optimizer.label_smoothing=0" \
        --try "run.average_last=5" --set data.train=train.de,train.en

Trains the recipe as it is and once for each `--try`, which may hold several settings, all with the
same seed, steps and texts, and prints what the last validation said. Every run has its folder in
DIR: one that is finished is not trained again, one that was interrupted goes on, so the command can
be repeated until its table is whole. One seed tells little about half a point. Asserts nothing.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

AS_IT_IS = "the recipe as it is"


def train(recipe: str, change: str, folder: Path, settings: list[str]) -> dict[str, Any]:
    """Train one variant to its end, or what is missing of it; return its last validation."""
    name = re.sub(r"[^\w.=-]+", "_", change)
    overrides = [*settings, f"run.folder={folder}", f"run.name={name}"]
    overrides += [] if change == AS_IT_IS else change.split()
    command = [sys.executable, "-m", "training.train", recipe]
    command += [word for each in overrides for word in ("--set", each)]
    run = folder / name
    if (run / "state.pt").exists():
        command += ["--resume", str(run)]
    card = run / "best" / "README.md"  # what a run writes last
    if not card.exists():
        subprocess.run(command, check=True)
    if not card.exists():
        sys.exit(f"{name} was stopped; the same command goes on with it")
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "valid"][-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--folder", type=Path, required=True, help="for runs and prepared texts")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--try", action="append", default=[], dest="changes", metavar="SETTINGS")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    settings = [f"run.max_steps={options.steps}", f"run.patience={options.steps}", *options.set]
    rows = ["| change | dev loss | BLEU | chrF | minutes |", "|---|---|---|---|---|"]
    for change in tqdm([AS_IT_IS, *options.changes], unit="run"):
        last = train(options.recipe, change, options.folder, settings)
        numbers = (last["dev_loss"], last["bleu"], last["chrf"], last["minutes"])
        rows.append(f"| {change} | {' | '.join(f'{number:.2f}' for number in numbers)} |")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
