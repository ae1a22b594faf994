"""`hubnmt translate`: translate arguments, a file or standard input in constant memory.

Translations go to standard output or a file, warnings to standard error.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from typer import Argument, Option

from hubnmt.cli.options import (
    AsJson,
    Model,
    Placement,
    Translating,
    in_chunks,
    print_note,
    progress_bar,
)
from hubnmt.errors import ConfigError, InputError
from hubnmt.text.textfile import (
    can_be_read_twice,
    check_line,
    open_output,
    read_lines,
    read_stdin,
)


def translate(
    texts: Annotated[list[str] | None, Argument(metavar="TEXT")] = None,
    *,
    model: Model,
    source: Annotated[
        Path | None, Option("--input", metavar="FILE", help="input file, one text per line")
    ] = None,
    output: Annotated[
        Path | None, Option(metavar="FILE", help="output file, one translation per line")
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="replace an existing output file")
    ] = False,
    carry_on: Annotated[
        bool, Option("--continue", help="continue an interrupted job after its lines")
    ] = False,
    as_json: AsJson = False,
    placement: Placement,
    translating: Translating,
    **decoding: Any,
) -> None:
    """Translate arguments, a file or standard input."""
    if texts and source:
        raise ConfigError("give texts or --input FILE, not both")
    if carry_on and not output:
        raise ConfigError("--continue needs --output FILE")
    if source and output and source.resolve() == output.resolve():
        raise ConfigError(f"--input and --output are the same file {source}")
    # 1. Open the input; a file is read once before, which checks and counts its lines.
    is_file = source is not None and can_be_read_twice(source)
    total = sum(1 for _ in read_lines(source)) if source and is_file else None
    lines = _read_input(texts, source)
    # 2. Load the model; no text at all checks the options.
    translator = placement.load(model, for_file=source is not None)
    options = {**vars(translating), **decoding}
    translator.translate([], **options)
    # 3. Translate and write chunk by chunk.
    with contextlib.ExitStack() as stack:
        sink: BinaryIO = sys.stdout.buffer
        n_done = 0
        if output:
            opened = open_output(output, overwrite=overwrite, carry_on=carry_on)
            sink, n_done = stack.enter_context(opened)
            _skip(lines, n_done)
        bar = stack.enter_context(progress_bar(total, n_done))
        for chunk in in_chunks(lines):
            for translation in translator.translate(chunk, **options):
                n_done += 1
                facts = json.dumps(translation.to_dict(), ensure_ascii=False) if as_json else None
                line = facts or translation.text
                sink.write(line.replace("\n", " ").encode() + b"\n")
                for warning in translation.warnings:
                    print_note(f"line {n_done}: {warning}")
            sink.flush()
            bar.update(len(chunk))


def _read_input(texts: Sequence[str] | None, source: Path | None) -> Iterator[str]:
    if texts:
        decoded = map(_read_argument, texts)
        return (check_line(text, where=f"text {n}") for n, text in enumerate(decoded, start=1))
    return read_lines(source) if source else read_stdin()


def _read_argument(text: str) -> str:
    """Decode an argument as UTF-8 independently of the locale; leave invalid text unchanged."""
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        return text


def _skip(lines: Iterator[str], n_done: int) -> None:
    n_read = sum(1 for _ in zip(range(n_done), lines, strict=False))
    if n_read < n_done:
        raise InputError(
            f"the input has {n_read:,} lines, fewer than the {n_done:,} that --continue found "
            "translated: it is another input"
        )
