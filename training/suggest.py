"""Write a recipe for the pairs of `training.import_pairs`, from their number, time and machine."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from training.data.cleaning import scripts_of
from training.distributed import pick_device
from training.run.budget import FEW_PASSES, choose_batch

SIZES = ((512, 6, 7e-4, 500_000), (256, 4, 2e-3, 50_000), (128, 2, 4e-3, 0))
"""Width, layers, peak learning rate, and the pairs below which a smaller model is as good."""
PARTS = {"model": 1e-4, "encoder": 7e-4}
"""Part of a model to start from, and its peak learning rate."""
MIN_PIECES, MAX_PIECES, PAIRS_PER_PIECE = 600, 16_000, 4
"""Limits of the vocabulary, and pairs for each of its pieces."""
BYTES_PER_TOKEN = 3
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


def suggest(
    folder: Path, report: Mapping[str, Any], *, minutes: float, start: str = "", part: str = "model"
) -> str:
    """Return a recipe as TOML; the largest of `SIZES` that sees the data `FEW_PASSES` times.

    A token takes 6 operations per parameter: Kaplan et al. 2020, section 2.1,
    https://arxiv.org/abs/2001.08361
    """
    n_pairs, (src_lang, tgt_lang) = report["n_train"], report["languages"]
    n_pieces = max(MIN_PIECES, min(MAX_PIECES, n_pairs // PAIRS_PER_PIECE))
    flops = EFFICIENCY * 60 * minutes * measure_flops(pick_device("auto"))
    n_data_tokens = (folder / "train.tsv").stat().st_size / (2 * BYTES_PER_TOKEN)
    for d_model, n_layers, lr, least_pairs in SIZES:  # noqa: B007  # the last that is tried
        n_tokens = flops / (6 * (d_model * n_pieces + n_layers * 14 * d_model**2))
        n_passes = n_tokens / n_data_tokens
        if n_pairs >= least_pairs and n_passes >= FEW_PASSES:
            break
    n_steps = n_tokens / choose_batch(n_tokens)
    eval_every = max(20, math.ceil(n_steps / N_VALIDATIONS))
    is_joint = str(scripts_of(src_lang) == scripts_of(tgt_lang)).lower()
    tokenizer = f"""
[tokenizer]
vocab_size = {n_pieces}
"""
    network = f"""joint = {is_joint} # one vocabulary for two languages of one script

[model]
d_model = {d_model}
n_heads = 4
d_ff = {4 * d_model}
n_encoder_layers = {n_layers}
n_decoder_layers = {n_layers}
dropout = {0.1 if n_pairs > 100_000 else 0.2} # more for little data
share_embeddings = {is_joint}
"""
    learned = tokenizer + network if not start else tokenizer if part == "encoder" else ""
    return f"""\
# {n_pairs:,} pairs: about {n_steps:,.0f} steps, {n_passes:,.0f} passes, at this machine's speed.
# Every setting is explained in training/config and training/docs/recipes.md.
[run]
name = "{src_lang}-{tgt_lang}"
max_minutes = {minutes:g} # the learning rate falls to 0 at this time
eval_every = {eval_every} # steps between validations
log_every = {max(5, eval_every // 10)}
pretrained = "{start}" # the model to start from
pretrained_part = "{part}"

[data]
src_lang = "{src_lang}"
tgt_lang = "{tgt_lang}"
train = ["{folder.as_posix()}/train.tsv"]
valid = ["{folder.as_posix()}/valid.tsv"] # shares no sentence with the training pairs
max_tokens = 60 # longer pairs are dropped and counted
cache = "{folder.as_posix()}/cache" # goes when the pairs are deleted

[optimizer]
lr = {PARTS[part] if start else lr:g}

[card]
data = {json.dumps(report["note"], ensure_ascii=False)}
{learned}"""
