"""Write a recipe for the pairs of `training.import_pairs`, from their number, time and machine.

    python -m training.suggest DATA_FOLDER --name NAME [--minutes 10] [--start MODEL] > recipe.toml

The size of the model is the largest of `SIZES` that sees the data often enough in the time.
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from hubnmt.checkpoint.files import read_json
from training.command import make_parser, run_command
from training.data.cleaning import scripts_of
from training.distributed import pick_device
from training.import_pairs import REPORT, TRAIN, VALID
from training.run.plan import FEW_PASSES, choose_batch


class Size(NamedTuple):
    """A model for an amount of data."""

    d_model: int
    n_layers: int
    lr: float
    """Peak learning rate."""
    n_pairs: int
    """Fewer pairs cannot fill a larger model."""


SIZES = (
    Size(512, 6, 7e-4, 500_000),
    Size(256, 4, 2e-3, 50_000),
    Size(128, 2, 4e-3, 0),
)
LR_FINETUNE = 3e-4
MIN_PIECES, MAX_PIECES, PAIRS_PER_PIECE = 600, 16_000, 4
"""Limits of the vocabulary, and pairs for each of its pieces."""
BYTES_PER_TOKEN = 3
"""Of text in UTF-8, with a small vocabulary."""
EFFICIENCY = 0.3
"""Speed of training as a share of that of large products of matrices."""
N_VALIDATIONS = 12


def measure_flops(device: torch.device, trial_s: float = 0.3) -> float:
    """Return the floating-point operations per second of products of matrices."""
    a, b = torch.randn(1024, 256, device=device), torch.randn(256, 1024, device=device)
    began, n = time.monotonic(), 0
    while time.monotonic() - began < trial_s:
        float((a @ b)[0, 0])  # waits for a GPU
        n += 1
    return n * 2 * 1024 * 256 * 1024 / (time.monotonic() - began)


def count_tokens(size: Size, n_pieces: int, *, seconds: float, flops: float) -> float:
    """Return the tokens that a model sees in a time; 6 operations per parameter and token.

    Source: Kaplan et al. 2020, section 2.1, https://arxiv.org/abs/2001.08361
    """
    n_parameters = size.d_model * n_pieces + size.n_layers * 28 * size.d_model**2 / 2
    return EFFICIENCY * flops * seconds / (6 * n_parameters)


def suggest(
    folder: Path,
    *,
    name: str,
    minutes: float,
    start: str = "",
    part: str = "model",
    device: str = "auto",
) -> str:
    """Return a recipe as TOML.

    Raises:
        ModelFolderError: if the folder holds no imported pairs.
    """
    report = read_json(folder / REPORT)
    src_lang, tgt_lang = report["languages"]
    n_pairs = report["n_train"]
    n_data = (folder / TRAIN).stat().st_size / (2 * BYTES_PER_TOKEN)
    flops = measure_flops(pick_device(device, setting="--device"))
    n_pieces = max(MIN_PIECES, min(MAX_PIECES, n_pairs // PAIRS_PER_PIECE))
    for size in SIZES:
        n_tokens = count_tokens(size, n_pieces, seconds=60 * minutes, flops=flops)
        n_passes = n_tokens / n_data
        if n_pairs >= size.n_pairs and n_passes >= FEW_PASSES:
            break
    n_steps = n_tokens / choose_batch(n_tokens)
    every = max(20, math.ceil(n_steps / N_VALIDATIONS))
    is_joint = scripts_of(src_lang) == scripts_of(tgt_lang)
    quoted = {key: json.dumps(str(folder / key), ensure_ascii=False) for key in (TRAIN, VALID)}
    lines = [
        f"# {n_pairs:,} pairs and {minutes:g} minutes: about {n_steps:,.0f} steps, {n_passes:,.0f} "
        "passes over the data, at the speed of this machine.",
        "# Every setting is explained in training/config and training/docs/recipes.md.",
        "[run]",
        f"name = {json.dumps(name, ensure_ascii=False)}",
        f"max_minutes = {minutes:g} # the learning rate falls to 0 at this time",
        f"eval_every = {every} # steps between validations",
        f"log_every = {max(5, every // 10)}",
        *([f"pretrained = {json.dumps(start)}"] if start else []),
        *(['pretrained_part = "encoder"'] if part == "encoder" else []),
        "\n[data]",
        f'src_lang = "{src_lang}"',
        f'tgt_lang = "{tgt_lang}"',
        f"train = [{quoted[TRAIN]}]",
        f"valid = [{quoted[VALID]}] # shares no sentence with the training pairs",
        "max_tokens = 60 # longer pairs are dropped and counted",
    ]
    if not start:
        lines += [
            "\n[tokenizer]",
            f"vocab_size = {n_pieces}",
            f"joint = {json.dumps(is_joint)} # one vocabulary for two languages of one script",
            "\n[model]",
            f"d_model = {size.d_model}",
            "n_heads = 4",
            f"d_ff = {4 * size.d_model}",
            f"n_encoder_layers = {size.n_layers}",
            f"n_decoder_layers = {size.n_layers}",
            f"dropout = {0.1 if n_pairs > 100_000 else 0.2} # more for little data",
            f"share_embeddings = {json.dumps(is_joint)}",
            "tie_output = true",
        ]
    lines += ["\n[optimizer]", f"lr = {LR_FINETUNE if start else size.lr:g}"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("suggest", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", required=True, help="name of the run")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--start", default="", help="model to start from")
    parser.add_argument("--part", choices=("model", "encoder"), default="model")
    options = vars(parser.parse_args(arguments))
    return run_command(lambda: sys.stdout.write(suggest(options.pop("folder"), **options)))


if __name__ == "__main__":
    sys.exit(main())
