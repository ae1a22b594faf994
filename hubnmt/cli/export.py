"""`hubnmt export`: convert a model for another runtime, or to another type of weights."""

import argparse
import dataclasses
from pathlib import Path

import torch

from hubnmt.checkpoint.folder import load_model, save_model
from hubnmt.cli.parser import Commands
from hubnmt.errors import InputError
from hubnmt.hub.resolve import find_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2

WEIGHT_TYPES = {"float16": torch.float16, "int8": torch.int8}
"""Types of weights in a hubnmt folder; int8 has a scale for each row of a matrix."""


def add_export(commands: Commands) -> None:
    """Add the parser of `export`."""
    export = commands.add_parser("export")
    export.add_argument("model", metavar="MODEL", help="bundled name, folder, or user/name")
    export.add_argument("dir", type=Path, metavar="DIR", help="output folder")
    export.add_argument(
        "--to",
        required=True,
        choices=["ctranslate2", *WEIGHT_TYPES],
        help="a folder for CTranslate2, or a hubnmt folder with smaller weights",
    )
    export.add_argument("--quantization", help="CTranslate2 type such as int8 (default: float32)")
    export.set_defaults(run=run_export)


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
