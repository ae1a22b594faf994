"""Options that several commands share, and what they are used for. Imports nothing heavy."""

import dataclasses
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar, get_type_hints

from tqdm import tqdm
from typer import Option

import hubnmt  # its `Translator` brings torch, which files of translations do not need
from hubnmt.config import DEFAULT_BATCH_TOKENS, DTYPE_NAMES, ENGINES

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
        str,
        Option(metavar="|".join(ENGINES), help="decoding engine; ctranslate2 needs hubnmt[fast]"),
    ] = ENGINES[0]
    dtype: Annotated[
        str,
        Option(
            metavar="|".join(DTYPE_NAMES),
            help="weight type; auto: the faster of float32 and bfloat16; "
            "int8: with --engine ctranslate2",
        ),
    ] = "float32"

    def load(self, model: str) -> "hubnmt.Translator":
        """Load a model; see `Translator.from_pretrained`."""
        return hubnmt.Translator.from_pretrained(
            model, device=self.device, dtype=self.dtype, engine=self.engine
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translating:
    """Keyword arguments of `Translator.translate`; None stands for the model's own default."""

    guard: Annotated[
        bool, Option(help="decode degenerate output (repetition, copy, far too short) again")
    ] = True
    split: Annotated[bool, Option(help="translate each sentence of a line separately")] = True
    prefix: Annotated[
        str, Option(metavar="TEXT", help="text that the translation must begin with")
    ] = ""
    max_batch_tokens: Annotated[
        int, Option("--batch-tokens", help="source tokens times hypotheses per batch")
    ] = DEFAULT_BATCH_TOKENS
    beam_size: Annotated[
        int | None, Option(help="hypotheses kept per sentence; 1 is greedy search")
    ] = None
    length_penalty: Annotated[
        float | None, Option(help="above 1 favours longer translations, below 1 shorter ones")
    ] = None
    n_best: Annotated[
        int | None,
        Option(help="translations per text (see --json): at most beam size, or samples"),
    ] = None
    sample: Annotated[bool | None, Option(help="sample tokens instead of beam search")] = None
    temperature: Annotated[
        float | None, Option(help="of sampling: below 1 sharpens the distribution")
    ] = None
    top_k: Annotated[int | None, Option(help="sample from the k most probable tokens; 0: all")] = (
        None
    )
    top_p: Annotated[
        float | None, Option(help="sample from the smallest set with this probability; 1: all")
    ] = None
    seed: Annotated[int | None, Option(help="random seed of sampling")] = None
    no_repeat_ngram_size: Annotated[
        int | None, Option(help="forbid repeated n-grams of this many tokens; 0: allow all")
    ] = None
    repetition_penalty: Annotated[
        float | None, Option(help="above 1 makes tokens that were generated less likely")
    ] = None
    max_new_tokens: Annotated[
        int | None,
        Option(help="most tokens per sentence (default: a limit based on the source length)"),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """Return the options that are not left to the model."""
        return {key: value for key, value in vars(self).items() if value is not None}


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are dataclasses, as above, by an option for each of their fields."""
    parameters = inspect.signature(command).parameters.values()
    groups = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if isinstance(parameter.annotation, type) and dataclasses.is_dataclass(parameter.annotation)
    }
    options = [parameter for parameter in parameters if parameter.name not in groups]
    for group in groups.values():
        hints = get_type_hints(group, include_extras=True)
        for field in dataclasses.fields(group):
            option = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY)
            options.append(option.replace(default=field.default, annotation=hints[field.name]))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            fields = dataclasses.fields(group)
            values[name] = group(**{field.name: values.pop(field.name) for field in fields})
        command(**values)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # set for typer
    return run


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
