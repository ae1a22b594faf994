"""`hubnmt export`: convert a model for another runtime, or to another type of weights."""

import argparse
import dataclasses
import re
import shutil
from pathlib import Path

import torch

from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.errors import InputError
from hubnmt.hub.files import MAX_RECORD_MIB, METRICS, SAMPLES
from hubnmt.hub.pull import find_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2
from hubnmt.inference.onnx_export import export_onnx

WEIGHT_TYPES = {"float16": torch.float16, "int8": torch.int8}
"""Types of weights in a hubnmt folder; int8 has a scale for each row of a matrix."""


def run_export(options: argparse.Namespace) -> None:
    """Write the converted model to a new folder."""
    if options.dir.exists() and any(options.dir.iterdir() if options.dir.is_dir() else [1]):
        raise InputError(f"{options.dir} exists and is not empty; name another folder")
    if options.quantization and options.to != "ctranslate2":
        raise InputError("--quantization is for --to ctranslate2 only")
    folder = find_model(options.model)
    stored = load_model(folder)
    if options.to == "ctranslate2":
        export_ctranslate2(stored, options.dir, quantization=options.quantization)
    elif options.to == "onnx":
        export_onnx(stored, options.dir)
    else:
        _convert(stored, folder, options.dir, weight_type=options.to)
    print(options.dir)


def _convert(stored: StoredModel, folder: Path, new: Path, *, weight_type: str) -> None:
    """Write a model folder with another type of weights, and the record of its training."""
    card = re.sub(r"(?m)^(- weights stored as: ).*$", rf"\g<1>{weight_type}", stored.card)
    save_model(new, dataclasses.replace(stored, dtype=WEIGHT_TYPES[weight_type], card=card))
    for name in (METRICS, SAMPLES):
        record = folder / name
        if record.is_file() and record.stat().st_size <= MAX_RECORD_MIB * 2**20:
            shutil.copyfile(record, new / name)
