"""`hubnmt translate`: translate arguments, a file or standard input in constant memory.

Translations go to standard output or a file, warnings to standard error.
"""

import contextlib
import functools
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

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

if TYPE_CHECKING:
    from hubnmt.types import Translation


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
        bool, Option("--continue", help="continue after the lines of the output file")
    ] = False,
    workers: Annotated[
        int | None,
        Option(
            min=1,
            help="processes, each with its own copy of the model (default: one per core, at most "
            "8, for a file of 1,000 lines or more on a CPU)",
        ),
    ] = None,
    as_json: AsJson = False,
    placement: Placement,
    translating: Translating,
) -> None:
    """Translate arguments, a file or standard input."""
    _check_files(source, output, has_texts=bool(texts), overwrite=overwrite, carry_on=carry_on)
    # 1. Open the input; the lines of a pipe or of standard input cannot be counted before.
    is_file = source is not None and can_be_read_twice(source)
    total = count_lines(source) if source and is_file else None
    if carry_on and source and output:
        lines = _read_after(source, output)
    else:
        lines = _read_input(texts, source)
    # 2. Load the model; no text at all checks the options.
    translator = placement.load(model)
    translate_chunk: Any = functools.partial(translator.translate, **translating.keywords())
    translate_chunk([])
    # 3. Translate and write chunk by chunk.
    from hubnmt.cli.workers import default_workers, translate_chunks

    n_workers = workers or default_workers(placement.device, total)
    sink_of = _open_sink(source, output, overwrite=overwrite, carry_on=carry_on)
    with sink_of as (sink, n_done), progress_bar(total, n_done) as bar:
        results = translate_chunks(translate_chunk, in_chunks(lines), n_workers=n_workers)
        with contextlib.closing(results):
            for translations in results:
                _write(sink, translations, as_json=as_json)
                for number, translation in enumerate(translations, start=n_done + 1):
                    for warning in translation.warnings:
                        print_note(f"line {number}: {warning}")
                n_done += len(translations)
                bar.update(len(translations))


def _check_files(
    source: Path | None, output: Path | None, *, has_texts: bool, overwrite: bool, carry_on: bool
) -> None:
    if has_texts and source:
        raise ConfigError("give texts or --input FILE, not both")
    if carry_on and overwrite:
        raise ConfigError("give --continue or --overwrite, not both")
    if carry_on and not (source and output):
        raise ConfigError("--continue needs --input FILE and --output FILE")
    if source and output and source.resolve() == output.resolve():
        raise ConfigError(f"--input and --output are the same file {source}")


def _read_after(source: Path, output: Path) -> Iterator[str]:
    """Skip the lines that are translated; one whose translation is incomplete is translated again.

    Called before the output is opened, because opening truncates an incomplete last line.
    """
    n_done = count_lines(output) if output.is_file() else 0
    lines = read_lines(source, skip=max(n_done - 1, 0))
    if not n_done:
        return lines
    last = next(lines, None)
    if last is None:
        raise InputError(
            f"--continue: {output} has {n_done:,} lines and {source} fewer, so it is not the start "
            "of this translation; name another --output"
        )
    return itertools.chain([last], lines) if is_torn(output) else lines


@contextlib.contextmanager
def _open_sink(
    source: Path | None, output: Path | None, *, overwrite: bool, carry_on: bool
) -> Iterator[tuple[BinaryIO, int]]:
    """Open the output; an interrupted job reports what was written and how to continue."""
    if not output:
        yield sys.stdout.buffer, 0
        return
    written = None
    try:
        with open_output(output, overwrite=overwrite, carry_on=carry_on) as (sink, n_done):
            written = Path(sink.name)
            yield sink, n_done
    except (KeyboardInterrupt, HubNMTError) as error:
        if written:
            _add_resume_notes(error, source, output, written)
        raise


def _add_resume_notes(
    error: BaseException, source: Path | None, output: Path, written: Path
) -> None:
    is_draft = written != output
    if is_draft:
        error.add_note(f"{output} is unchanged")
    if written.is_file() and written.stat().st_size:
        error.add_note(f"the lines so far are in {written}")
        if source:
            name = f" --output {shlex.quote(str(written))} without --overwrite" if is_draft else ""
            error.add_note(f"--continue{name} continues after them")


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


def _write(sink: BinaryIO, translations: "Sequence[Translation]", *, as_json: bool) -> None:
    for translation in translations:
        line = (
            json.dumps(translation.to_dict(), ensure_ascii=False) if as_json else translation.text
        )
        sink.write(line.replace("\n", " ").encode() + b"\n")
    sink.flush()
