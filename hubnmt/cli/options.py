"""Options that several commands share, and what they are used for. Imports nothing heavy."""

import dataclasses
import functools
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from tqdm import tqdm
from typer import Option

import hubnmt  # its `Translator` brings torch, which files of translations do not need
from hubnmt.config import DEFAULT_BATCH_TOKENS, DTYPE_NAMES, ENGINES, DecodingConfig

CHUNK_LINES = 256
"""Lines translated per call: enough to sort by length, few enough for constant memory."""
BAR_EVERY_S = 30.0
"""Interval of the bar where standard error is a file; a shorter job has none there."""

_Item = TypeVar("_Item")

Model = Annotated[str, Option(metavar="MODEL", help="bundled name, folder, or user/name")]
AsJson = Annotated[bool, Option("--json", help="print one JSON object per line")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """How a model runs."""

    device: Annotated[str, Option(help="cpu, cuda, cuda:1, ... or auto")] = "cpu"
    engine: Annotated[
        str | None,
        Option(
            metavar="|".join(ENGINES),
            help="decoding engine; ctranslate2 needs hubnmt[fast] and is the default of "
            "translate --input on a CPU",
        ),
    ] = None
    dtype: Annotated[
        str,
        Option(
            metavar="|".join(DTYPE_NAMES),
            help="weight type; auto: the faster of float32 and bfloat16; int8: with CTranslate2",
        ),
    ] = "float32"

    def load(self, model: str, *, for_file: bool = False) -> "hubnmt.Translator":
        """Load a model; for a file and without a named engine, into CTranslate2 if possible."""
        is_fast = for_file and self.device == "cpu" and self.dtype in ("float32", "int8")
        default = "ctranslate2" if is_fast and importlib.util.find_spec("ctranslate2") else "torch"
        return hubnmt.Translator.from_pretrained(
            model, device=self.device, dtype=self.dtype, engine=self.engine or default
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translating:
    """Keyword arguments of `Translator.translate` beside the decoding options."""

    guard: Annotated[
        bool,
        Option(
            help="search again after degenerate output (repetition, no end, copy, far too short)"
        ),
    ] = True
    split: Annotated[bool, Option(help="translate each sentence of a line separately")] = True
    prefix: Annotated[
        str, Option(metavar="TEXT", help="text that the translation must begin with")
    ] = ""
    max_batch_tokens: Annotated[
        int, Option("--batch-tokens", help="source tokens times hypotheses per batch")
    ] = DEFAULT_BATCH_TOKENS


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that stand for several options.

    A dataclass, as above, becomes an option for each of its fields, and `**decoding` one for each
    field of `DecodingConfig`, which is passed on if it is given: the model has its own defaults.
    """
    options: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            hints = get_type_hints(DecodingConfig, include_extras=True)
            for option, hint in hints.items():
                kind, text = get_args(hint)
                options.append(_option(option, Annotated[kind | None, Option(help=text)], None))
        elif dataclasses.is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            hints = get_type_hints(parameter.annotation, include_extras=True)
            fields = dataclasses.fields(parameter.annotation)
            options += [_option(field.name, hints[field.name], field.default) for field in fields]
        else:
            options.append(parameter)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{field: values.pop(field) for field in fields})
        command(**{name: value for name, value in values.items() if value is not None})

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # set for typer
    return run


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def in_chunks(lines: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield lists of `CHUNK_LINES` lines."""
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, CHUNK_LINES)):
        yield chunk


def progress_bar(total: int | None, n_done: int = 0) -> "tqdm[Any]":
    """Return a bar of lines on standard error; a single line has none."""
    every_s = 0.1 if sys.stderr.isatty() else BAR_EVERY_S
    return tqdm(
        total=total,
        initial=n_done,
        unit="line",
        disable=total == 1,
        mininterval=every_s,
        delay=every_s,
    )


def print_note(message: str) -> None:
    """Print a line to standard error; on a terminal, above the bar."""
    if sys.stderr.isatty():
        tqdm.write(message, file=sys.stderr)
    else:
        # In one piece: `print` may be interrupted between the text and the end of its line.
        sys.stderr.write(f"{message}\n")
