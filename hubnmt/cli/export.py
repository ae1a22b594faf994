"""`hubnmt export`: convert a model for another runtime."""

import argparse
from pathlib import Path

from hubnmt.checkpoint.folder import load_model
from hubnmt.cli.parser import Commands
from hubnmt.errors import InputError
from hubnmt.hub.resolve import find_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2


def add_export(commands: Commands) -> None:
    """Add the parser of `export`."""
    export = commands.add_parser("export")
    export.add_argument("model", metavar="MODEL", help="bundled name, folder, or user/name")
    export.add_argument("dir", type=Path, metavar="DIR", help="output folder")
    export.add_argument("--to", required=True, choices=["ctranslate2"], help="target runtime")
    export.add_argument("--quantization", help="CTranslate2 type such as int8 (default: float32)")
    export.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> None:
    """Write the converted model to a new folder."""
    if options.dir.exists() and any(options.dir.iterdir() if options.dir.is_dir() else [1]):
        raise InputError(f"{options.dir} exists and is not empty; name another folder")
    export_ctranslate2(
        load_model(find_model(options.model)), options.dir, quantization=options.quantization
    )
    print(options.dir)
