"""What the commands share: the options of models and of decoding, the progress bar.

Takes arguments, gives values and a `Translator`. Must not know what a command does with them.
"""

import argparse
import dataclasses
import itertools
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tqdm import tqdm

from hubnmt.config import DecodingConfig
from hubnmt.inference.dtypes import AUTO, CT2_DTYPE, DTYPES
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS
from hubnmt.translator import ENGINES, Translator

CHUNK_LINES = 256
"""Lines translated together: enough to sort by length, few enough for constant memory."""

TEXT_FLAGS = {
    "guard": "try again what repeats itself, copies the source or is far too short (default: yes)",
    "split": "translate the sentences of a line apart (default: yes)",
}

DECODING_HELP = {
    "beam_size": "hypotheses kept per sentence; 1 is greedy search",
    "length_penalty": "above 1 favours longer translations, below 1 shorter ones",
    "n_best": "translations per text, at most the beam size, or that many samples (see --json)",
    "sample": "draw tokens at random instead of searching for the most probable ones",
    "temperature": "of sampling: below 1 keeps to probable tokens, above 1 is wilder",
    "top_k": "sample among the k most probable tokens; 0 is all",
    "top_p": "sample among the fewest tokens that reach this probability; 1 is all",
    "seed": "of sampling: the same seed gives the same text",
    "no_repeat_ngram_size": "no run of this many tokens comes twice; 0 allows all",
    "repetition_penalty": "above 1 makes tokens less likely that were said before",
    "max_new_tokens": "longest translation of a sentence, in tokens beyond those of the prefix "
    "(left out, it follows the source, generously)",
}

_Item = TypeVar("_Item")


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add where and how a model runs."""
    parser.add_argument(
        "--model", required=required, metavar="MODEL", help="bundled name, folder, or user/name"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument(
        "--engine",
        default=ENGINES[0],
        choices=ENGINES,
        help="what searches (default: torch; ctranslate2 needs hubnmt[ct2])",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=sorted({*DTYPES, CT2_DTYPE, AUTO}),
        help=f"of the weights (default: float32); {AUTO}: float32 or bfloat16, the faster one; "
        f"{CT2_DTYPE}: with ctranslate2 only",
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=DEFAULT_BATCH_TOKENS,
        metavar="N",
        help="source tokens times hypotheses per batch",
    )


def load_translator(options: argparse.Namespace) -> Translator:
    """Load the model that `add_model_options` asked for."""
    return Translator.from_pretrained(
        options.model, device=options.device, dtype=options.dtype, engine=options.engine
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add what happens to a text, its prefix, and one option per field of `DecodingConfig`.

    Left out, a decoding option has the model's default.
    """
    switch = argparse.BooleanOptionalAction
    for name, said in TEXT_FLAGS.items():
        parser.add_argument(f"--{name}", action=switch, default=None, help=said)
    parser.add_argument(
        "--prefix", metavar="TEXT", help="text that the translation must begin with"
    )
    group = parser.add_argument_group("decoding (defaults come with the model)")
    hints = typing.get_type_hints(DecodingConfig)
    for field in dataclasses.fields(DecodingConfig):
        flag, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        said = DECODING_HELP[field.name]
        if hint is bool:
            group.add_argument(flag, action=switch, default=None, help=said)
            continue
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kind = options[0]
        group.add_argument(flag, type=kind, default=None, metavar=kind.__name__.upper(), help=said)


def decoding_options(options: argparse.Namespace) -> dict[str, Any]:
    """Pick the options of `Translator.translate` that were given."""
    names = [*TEXT_FLAGS, "prefix", *(field.name for field in dataclasses.fields(DecodingConfig))]
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def in_chunks(lines: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Cut lines into lists of `CHUNK_LINES`."""
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, CHUNK_LINES)):
        yield chunk


def show_progress(total: int | None, n_done: int) -> "tqdm[Any]":
    """Show progress on a terminal; a pipe or a log gets none."""
    hidden = not sys.stderr.isatty() or (total is not None and total < 2)
    return tqdm(total=total, initial=n_done, unit="line", file=sys.stderr, disable=hidden)
