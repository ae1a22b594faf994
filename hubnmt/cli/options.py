"""Options shared by several commands (model, decoding), chunking and the progress bar."""

import argparse
import dataclasses
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from hubnmt.config import DecodingConfig
from hubnmt.inference.dtypes import AUTO, DTYPES, INT8
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS
from hubnmt.translator import ENGINES, Translator
from hubnmt.types import Translation

CHUNK_LINES = 256
"""Lines translated per call: enough to sort by length, few enough for constant memory."""

TEXT_FLAGS = {
    "guard": "decode degenerate output (repetition, copy, far too short) again (default: yes)",
    "split": "translate each sentence of a line separately (default: yes)",
}

DECODING_HELP = {
    "beam_size": "hypotheses kept per sentence; 1 is greedy search",
    "length_penalty": "above 1 favours longer translations, below 1 shorter ones",
    "n_best": "translations per text (see --json): at most the beam size, or the number of samples",
    "sample": "sample tokens instead of beam search",
    "temperature": "sampling temperature: below 1 sharpens the distribution, above 1 flattens it",
    "top_k": "sample from the k most probable tokens; 0: all",
    "top_p": "sample from the smallest set of tokens with this total probability; 1: all",
    "seed": "random seed of sampling",
    "no_repeat_ngram_size": "forbid repeated n-grams of this many tokens; 0: allow all",
    "repetition_penalty": "above 1 makes tokens that were already generated less likely",
    "max_new_tokens": "most tokens to generate per sentence, not counting the prefix "
    "(default: a generous limit based on the source length)",
}

_Item = TypeVar("_Item")


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that select a model and how it runs."""
    parser.add_argument(
        "--model", required=required, metavar="MODEL", help="bundled name, folder, or user/name"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument(
        "--engine",
        default=ENGINES[0],
        choices=ENGINES,
        help="decoding engine (default: torch; ctranslate2 needs hubnmt[ct2])",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=sorted({*DTYPES, INT8, AUTO}),
        help=f"weight type (default: float32); {AUTO}: the faster of float32 and bfloat16; "
        f"{INT8}: products of the search in 8 bits",
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=DEFAULT_BATCH_TOKENS,
        metavar="N",
        help="source tokens times hypotheses per batch",
    )


def load_translator(options: argparse.Namespace) -> Translator:
    """Load the model selected by the options of `add_model_options`."""
    return Translator.from_pretrained(
        options.model, device=options.device, dtype=options.dtype, engine=options.engine
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add the text options, the prefix, and one option per field of `DecodingConfig`.

    Omitted decoding options take the model's defaults.
    """
    switch = argparse.BooleanOptionalAction
    for name, description in TEXT_FLAGS.items():
        parser.add_argument(f"--{name}", action=switch, default=True, help=description)
    parser.add_argument(
        "--prefix", default="", metavar="TEXT", help="text that the translation must begin with"
    )
    group = parser.add_argument_group("decoding (defaults come with the model)")
    hints = typing.get_type_hints(DecodingConfig)
    for field in dataclasses.fields(DecodingConfig):
        flag, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        description = DECODING_HELP[field.name]
        if hint is bool:
            group.add_argument(flag, action=switch, default=None, help=description)
            continue
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kind = options[0]
        metavar = kind.__name__.upper()
        group.add_argument(flag, type=kind, default=None, metavar=metavar, help=description)


def translate_with(
    translator: Translator, options: argparse.Namespace
) -> Callable[[Sequence[str]], list[Translation]]:
    """Return `Translator.translate` with the given options; an omitted one is the model's.

    Raises:
        ConfigError: if an option has an invalid value.
        InputError: if the prefix has several lines.
    """
    keywords = translate_options(options)

    def translate(texts: Sequence[str]) -> list[Translation]:
        return translator.translate(texts, **keywords)

    translate([])  # validates the options
    return translate


def translate_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `Translator.translate` that the options stand for."""
    names = [field.name for field in dataclasses.fields(DecodingConfig)]
    return {
        **{name: value for name in names if (value := getattr(options, name)) is not None},
        "prefix": options.prefix,
        "max_batch_tokens": options.batch_tokens,
        "guard": options.guard,
        "split": options.split,
    }


def in_chunks(lines: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield lists of `CHUNK_LINES` lines."""
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, CHUNK_LINES)):
        yield chunk


def show_progress(total: int | None, n_done: int) -> "tqdm[Any]":
    """Return a progress bar, hidden if standard error is not a terminal."""
    hidden = not sys.stderr.isatty() or (total is not None and total < 2)
    return tqdm(total=total, initial=n_done, unit="line", file=sys.stderr, disable=hidden)
