"""`hubnmt translate`: translate arguments, a file or standard input in constant memory.

Translations go to standard output or a file, warnings to standard error.
"""

import argparse
import contextlib
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from hubnmt.cli.options import (
    in_chunks,
)
from hubnmt.cli.progress import Progress
from hubnmt.cli.workers import count_workers, open_translation
from hubnmt.errors import ConfigError, HubNMTError, InputError
from hubnmt.text.textfile import (
    can_be_read_twice,
    check_line,
    count_lines,
    is_torn,
    open_output,
    read_lines,
    read_stdin,
)
from hubnmt.types import Translation


def run_translate(options: argparse.Namespace) -> None:
    """Translate the input in chunks of lines."""
    _check_options(options)
    is_file = options.input and can_be_read_twice(options.input)
    total = count_lines(options.input) if is_file else None
    if options.carry_on and total is not None:
        _check_beginning(options.input, options.output, n_lines=total)
    translate = open_translation(options, count_workers(options, total))
    is_pipe = options.carry_on and total is None
    remaining = _skip_pipe_lines(options.input, options.output) if is_pipe else None
    with _open_sink(options) as (sink, n_done), Progress(total, n_done) as progress:
        chunks = in_chunks(remaining or _input_lines(options, skip=n_done))
        with contextlib.closing(translate(chunks)) as results:
            for translations in results:
                _write(sink, translations, as_json=options.json)
                for number, translation in enumerate(translations, start=n_done + 1):
                    for warning in translation.warnings:
                        tqdm.write(f"line {number}: {warning}", file=sys.stderr)
                n_done += len(translations)
                progress.update(len(translations))
    if options.input and progress.n_lines > 1:
        print(progress.summarize(), file=sys.stderr)


def _check_options(options: argparse.Namespace) -> None:
    if options.text and options.input:
        raise ConfigError("give texts or --input FILE, not both")
    if options.carry_on and options.overwrite:
        raise ConfigError("give --continue or --overwrite, not both")
    if options.carry_on and not (options.input and options.output):
        raise ConfigError("--continue needs --input FILE and --output FILE")
    if options.input and options.output and options.input.resolve() == options.output.resolve():
        raise ConfigError(f"--input and --output are the same file {options.input}")


def _check_beginning(source: Path, output: Path, *, n_lines: int) -> None:
    """Check that the output has at most as many lines as the input, as otherwise it is unrelated.

    Called before the output is opened, because opening truncates an incomplete last line.
    """
    n_done = count_lines(output) if output.is_file() else 0
    if n_done > n_lines:
        raise _unrelated_output(output, f"{n_done:,} lines and {source} only {n_lines:,}")


def _skip_pipe_lines(source: Path, output: Path) -> Iterator[str]:
    """Skip the lines of a pipe that are already translated and return the rest.

    A pipe cannot be read twice, so its lines cannot be counted first as in `_check_beginning`. A
    line whose translation is incomplete is translated again.
    """
    n_done = count_lines(output) if output.is_file() else 0
    if not n_done:
        return read_lines(source)
    lines = read_lines(source, skip=n_done - 1)
    last = next(lines, None)
    if last is None:
        raise _unrelated_output(output, f"{n_done:,} lines and {source} fewer")
    return itertools.chain([last], lines) if is_torn(output) else lines


def _unrelated_output(output: Path, counts: str) -> InputError:
    return InputError(
        f"--continue: {output} has {counts}, so it is not the start of this translation; "
        "name another --output"
    )


@contextlib.contextmanager
def _open_sink(options: argparse.Namespace) -> Iterator[tuple[BinaryIO, int]]:
    """Open the output; an interrupted job reports what was written and how to continue."""
    if not options.output:
        yield sys.stdout.buffer, 0
        return
    written = None
    try:
        with open_output(
            options.output, overwrite=options.overwrite, carry_on=options.carry_on
        ) as (sink, n_done):
            written = Path(sink.name)
            yield sink, n_done
    except (KeyboardInterrupt, HubNMTError) as error:
        if written:
            _add_resume_notes(error, written, options)
        raise


def _add_resume_notes(error: BaseException, written: Path, options: argparse.Namespace) -> None:
    is_draft = written != options.output
    if is_draft:
        error.add_note(f"{options.output} is unchanged")
    if written.is_file() and written.stat().st_size:
        error.add_note(f"the lines so far are in {written}")
        if options.input:
            name = f" --output {shlex.quote(str(written))} without --overwrite" if is_draft else ""
            error.add_note(f"--continue{name} continues after them")


def _input_lines(options: argparse.Namespace, *, skip: int) -> Iterator[str]:
    if options.text:
        texts = map(_read_argument, options.text)
        return (check_line(text, where=f"text {n}") for n, text in enumerate(texts, start=1))
    return read_lines(options.input, skip=skip) if options.input else read_stdin()


def _read_argument(text: str) -> str:
    """Decode an argument as UTF-8 independently of the locale; leave invalid text unchanged."""
    try:
        return os.fsencode(text).decode()
    except UnicodeError:
        return text


def _write(sink: BinaryIO, translations: Sequence[Translation], *, as_json: bool) -> None:
    for translation in translations:
        line = (
            json.dumps(translation.to_dict(), ensure_ascii=False) if as_json else translation.text
        )
        sink.write(line.replace("\n", " ").encode() + b"\n")
    sink.flush()
