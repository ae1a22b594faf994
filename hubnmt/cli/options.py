"""What several commands share: loading the model, translating with the options, chunks."""

import argparse
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import hubnmt  # its `Translator` brings torch, which files of translations do not need
from hubnmt.config import DecodingConfig
from hubnmt.types import Translation

CHUNK_LINES = 256
"""Lines translated per call: enough to sort by length, few enough for constant memory."""

_Item = TypeVar("_Item")


def load_translator(options: argparse.Namespace) -> "hubnmt.Translator":
    """Load the model selected by the options of `hubnmt.cli.arguments.add_model_options`."""
    return hubnmt.Translator.from_pretrained(
        options.model, device=options.device, dtype=options.dtype, engine=options.engine
    )


def translate_with(
    translator: "hubnmt.Translator", options: argparse.Namespace
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
