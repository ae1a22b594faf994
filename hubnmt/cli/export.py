"""`hubnmt export`: convert a model for another runtime, or to another type of weights."""

import argparse
import dataclasses

import torch

from hubnmt.checkpoint.folder import load_model, save_model
from hubnmt.errors import InputError
from hubnmt.hub.resolve import find_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2

WEIGHT_TYPES = {"float16": torch.float16, "int8": torch.int8}
"""Types of weights in a hubnmt folder; int8 has a scale for each row of a matrix."""


def run_export(options: argparse.Namespace) -> None:
    """Write the converted model to a new folder."""
    if options.dir.exists() and any(options.dir.iterdir() if options.dir.is_dir() else [1]):
        raise InputError(f"{options.dir} exists and is not empty; name another folder")
    stored = load_model(find_model(options.model))
    if options.to in WEIGHT_TYPES:
        if options.quantization:
            raise InputError("--quantization is for --to ctranslate2 only")
        save_model(options.dir, dataclasses.replace(stored, dtype=WEIGHT_TYPES[options.to]))
    else:
        export_ctranslate2(stored, options.dir, quantization=options.quantization)
    print(options.dir)
