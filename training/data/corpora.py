"""Read the corpora of a recipe: cleaned training pairs, validation and test pairs, cache keys."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hubnmt.errors import InputError
from training.config.data import CorpusConfig, DataConfig, group_files
from training.data.casing import as_typed
from training.data.cleaning import INVALID, Cleaner, CleaningReport, HeldOut, tidy
from training.data.placeholders import protect_spans
from training.data.sources import TextPair, fingerprint, read_corpus
from training.data.synthetic_names import exchange_names

log = logging.getLogger("training")

FORMAT = 2
"""Version of the cleaning, part of the cache key."""
OLDER_FORMATS = (1,)
"""Versions that differ for malformed files only; runs started with them can be resumed."""


class CleanPair(NamedTuple):
    """A cleaned training pair."""

    src: str
    """Source, preceded by the tag of its corpus."""
    tgt: str
    corpus: int
    """Index of its corpus in `DataConfig.training_corpora`."""
    plain_src: str
    """Source without the tag."""


def read_valid(config: DataConfig) -> Iterator[TextPair]:
    """Yield the validation pairs; with `valid_as_typed`, with casual spelling."""
    for pair in load_split(config, "valid"):
        src, tgt = (_whole_characters(text.strip()) for text in pair)
        yield as_typed(src, tgt, **config.typing_habits()) if config.valid_as_typed else (src, tgt)


def _whole_characters(text: str) -> str:
    """Replace lone surrogates, which JSON can contain but UTF-8 cannot."""
    return text.encode("utf-8", errors="replace").decode()


def load_split(config: DataConfig, split: Literal["valid", "test"]) -> Iterator[TextPair]:
    """Yield the validation or test pairs; none if the recipe names no test set."""
    corpus = config.held_out_corpus(split)
    if corpus is not None:
        yield from read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang)


def read_sides(
    corpus: CorpusConfig, *, src_lang: str, tgt_lang: str
) -> tuple[list[str], list[str]]:
    """Return sources and references of an evaluation set.

    Raises:
        InputError: if it cannot be read, is empty, or contains invalid text.
    """
    pairs = list(read_corpus(corpus, src_lang=src_lang, tgt_lang=tgt_lang))
    name = ", ".join(corpus.files) or corpus.dataset
    if not pairs:
        raise InputError(f"{name}: empty; an evaluation set needs at least one pair")
    for number, pair in enumerate(pairs, start=1):
        if any(tidy(text) == INVALID for text in pair):
            raise InputError(f"{name}, pair {number:,}: contains a lone surrogate; remove it")
    sources, references = ([pair[side].strip() for pair in pairs] for side in (0, 1))
    return sources, references


def check_tests(config: DataConfig) -> None:
    """Check before training that each file of the test set has pairs.

    A file that cannot be read is only logged: the run continues without its scores.

    Raises:
        InputError: if a file is empty.
    """
    corpus = config.held_out_corpus("test")
    if corpus is None:
        return
    for files in group_files(corpus.files):
        part = dataclasses.replace(corpus, files=files)
        pairs = read_corpus(part, src_lang=config.src_lang, tgt_lang=config.tgt_lang)
        try:
            is_empty = next(pairs, None) is None
        except InputError as error:
            log.warning("no scores at the end: %s", error)
            continue
        if is_empty:
            raise InputError(
                f"data.test: {', '.join(files)}: empty; set files that contain text, or none"
            )


def read_clean(config: DataConfig, report: CleaningReport) -> Iterator[CleanPair]:
    """Yield the training pairs that pass cleaning, and count the dropped ones in the report."""
    cleaner = Cleaner(config, _hold_out(config))
    for number, (name, corpus) in enumerate(config.training_corpora().items()):
        for pair in read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang):
            report.read[name] += 1
            src, tgt = map(tidy, pair)
            reason = cleaner.why_drop(src, tgt)
            if reason:
                report.drop(name, reason)
                continue
            src, tgt = protect_spans(src, tgt, share=config.protect_spans)
            src, tgt = exchange_names(src, tgt, share=config.vary_names)
            src, tgt = as_typed(src, tgt, **config.typing_habits())
            yield CleanPair(f"{corpus.tag} {src}" if corpus.tag else src, tgt, number, src)


def _hold_out(config: DataConfig) -> HeldOut:
    if not config.drop_held_out:
        return HeldOut([])
    return HeldOut(pair for split in ("valid", "test") for pair in load_split(config, split))


def content_key(config: DataConfig, *, version: int = FORMAT) -> str:
    """Return a digest of everything that determines the cleaned training pairs."""
    corpora = {
        name: [_describe(corpus), corpus.tag] for name, corpus in config.training_corpora().items()
    }
    held_out = [
        _describe(corpus)
        for split in ("valid", "test")
        if config.drop_held_out and (corpus := config.held_out_corpus(split))
    ]
    return _digest(dict(config.cleaning_settings()), corpora, held_out, version=version)


def valid_key(config: DataConfig) -> str:
    """Return a digest of everything that determines the validation pairs."""
    corpus = config.held_out_corpus("valid")
    assert corpus is not None  # only the test set is optional
    habits = [config.typing_habits()] if config.valid_as_typed else []
    return _digest(config.src_lang, config.tgt_lang, _describe(corpus), *habits)


def _digest(*facts: object, version: int = FORMAT) -> str:
    return hashlib.blake2b(json.dumps([version, *facts]).encode(), digest_size=16).hexdigest()


def _describe(corpus: CorpusConfig) -> list[object]:
    columns = (corpus.src_column, corpus.tgt_column, corpus.where_column, corpus.where_values)
    where = None if corpus.files else (corpus.dataset, corpus.config, corpus.split)
    return [fingerprint(corpus), where, columns, corpus.limit]
