"""How long a recipe would take, from the operations of its steps: an estimate, not a measurement.

    python tests/benchmarks/estimate.py RECIPE ... --gops 79000 276500 [--length 30]

Counts the operations of all steps, batches full and sentences of one length, and divides them by
rates that were measured elsewhere (thousand million operations per second, as the table of
`train.py` has them). A run that loses patience ends sooner.
"""

import argparse
from pathlib import Path

import torch
from train import count_operations

from hubnmt.model.batching import SourceBatch
from training.config.recipe import RunConfig, load_recipe
from training.data.batching import Batch


def count_all(config: RunConfig, length: int) -> float:
    """Operations of a whole run with sentences of `length` tokens on both sides."""
    model, n_rows = config.model, max(1, config.optimizer.batch_tokens // length)
    shape = {name: model[name] for name in ("d_model", "d_ff")}
    shape |= {"n": model["n_encoder_layers"], "vocab_size": config.tokenizer.vocab_size}
    ids = torch.zeros(n_rows, length, dtype=torch.int64)
    no_padding = torch.zeros_like(ids, dtype=torch.bool)
    batch = Batch(SourceBatch(ids, no_padding), ids, ids.flatten(), torch.arange(ids.numel()))
    return count_operations(shape, batch) * config.optimizer.accumulate * config.run.max_steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="+", type=Path)
    parser.add_argument("--gops", nargs="+", type=float, required=True)
    parser.add_argument("--length", type=int, default=30)
    options = parser.parse_args()
    print(f"| recipe | operations | {' | '.join(f'{r:,.0f} Gop/s' for r in options.gops)} |")
    print(f"|---|---{'|---' * len(options.gops)}|")
    for path in options.recipes:
        total = count_all(load_recipe(path), options.length)
        hours = [f"{total / rate / 1e9 / 3600:,.2f} h" for rate in options.gops]
        print(f"| {path.stem} | {total:.2g} | {' | '.join(hours)} |")


if __name__ == "__main__":
    main()
