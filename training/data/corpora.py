"""Read the corpora of a recipe: cleaned training pairs, validation and test pairs, cache keys."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from hubnmt.errors import InputError
from hubnmt.text.normalization import single_spaced
from training.config.data import CorpusConfig, DataConfig, group_files
from training.data.augmentation import as_typed, exchange_names, protect_names, protect_spans
from training.data.cleaning import (
    DUPLICATE,
    INVALID,
    Cleaner,
    CleaningReport,
    HeldOut,
    fingerprint_pair,
    tidy,
)
from training.data.sources import TextPair, fingerprint_corpus, read_corpus

FORMAT = 2
"""Version of the cleaning, part of the cache key."""
Split = Literal["valid", "test"]


class CleanPair(NamedTuple):
    """A cleaned training pair."""

    corpus: int
    """Index of its corpus in `DataConfig.training_corpora`."""
    src: str
    """Source, preceded by the tag of its corpus."""
    tgt: str


def read_valid(config: DataConfig) -> Iterator[TextPair]:
    """Yield the validation pairs; with `valid_as_typed`, with casual spelling."""
    for pair in load_split(config, "valid"):
        src, tgt = (text.strip().encode(errors="replace").decode() for text in pair)
        yield as_typed(src, tgt, **config.typing_habits()) if config.valid_as_typed else (src, tgt)


def load_split(config: DataConfig, split: Split) -> Iterator[TextPair]:
    """Yield the validation or test pairs; none if the recipe names no test set.

    Of the validation pairs at most `valid_limit` are taken, evenly spaced: the first lines of a
    sorted file are its shortest.
    """
    corpus = config.held_out_corpus(split)
    if corpus is None:
        return
    pairs = read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang)
    if split == "valid" and config.valid_limit:
        rows = list(pairs)
        n = min(config.valid_limit, len(rows))
        yield from (rows[row * len(rows) // n] for row in range(n))
    else:
        yield from pairs


def name_tests(config: DataConfig) -> Iterator[tuple[str, CorpusConfig]]:
    """Yield name and corpus of each test set of a recipe; each group of files is one."""
    corpus = config.held_out_corpus("test")
    if corpus is None:
        return
    if not corpus.files:
        yield f"{corpus.dataset} {corpus.split}", corpus
    groups = group_files(corpus.files)
    for files in groups:
        path = Path(files[0])
        name = path.name.partition(".")[0]
        name = f"{path.parent.name}/{name}" if len(groups) > 1 and path.parent.name else name
        yield name, dataclasses.replace(corpus, files=files)


def read_test(corpus: CorpusConfig, config: DataConfig) -> tuple[list[str], list[str]]:
    """Return sources and references of a test set, which must not be empty or invalid."""
    pairs = list(read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang))
    name = ", ".join(corpus.files) or corpus.dataset
    if not pairs:
        raise InputError(f"{name}: empty; an evaluation set needs at least one pair")
    for number, pair in enumerate(pairs, start=1):
        if any(tidy(text) == INVALID for text in pair):
            raise InputError(f"{name}, pair {number:,}: contains a lone surrogate; remove it")
    sources, references = ([pair[side].strip() for pair in pairs] for side in (0, 1))
    return sources, references


def read_clean(config: DataConfig, report: CleaningReport) -> Iterator[CleanPair]:
    """Yield the training pairs that pass cleaning, and count the dropped ones in the report.

    Texts contain no tabs and no line breaks. To find duplicates, a fingerprint of each pair is kept
    in memory, about 70 bytes.
    """
    splits: tuple[Split, ...] = ("valid", "test") if config.drop_held_out else ()
    held_out = HeldOut(pair for split in splits for pair in load_split(config, split))
    cleaners = {False: Cleaner(config, held_out), True: Cleaner(config, HeldOut([]))}
    seen: set[int] = set()
    for number, (name, corpus) in enumerate(config.training_corpora().items()):
        tag = single_spaced(corpus.tag)
        report.read[name] = 0  # reported even if it has no pairs
        for pair in read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang):
            # 1. Clean.
            report.read[name] += 1
            src, tgt = map(tidy, pair)
            reason = cleaners[corpus.keep_held_out].why_drop(src, tgt)
            if reason:
                report.drops[name][reason] += 1
                continue
            # 2. Augment; what is drawn depends on the pair alone.
            src, tgt = protect_spans(src, tgt, share=config.protect_spans)
            src, tgt = protect_names(src, tgt, share=config.protect_names)
            src, tgt = exchange_names(src, tgt, share=config.vary_names)
            src, tgt = as_typed(src, tgt, **config.typing_habits())
            # 3. Drop duplicates.
            if config.drop_duplicates:
                fingerprint = fingerprint_pair(src, tgt)
                if fingerprint in seen:
                    report.drops[name][DUPLICATE] += 1
                    continue
                seen.add(fingerprint)
            yield CleanPair(number, f"{tag} {src}" if tag else src, tgt)


def content_key(config: DataConfig) -> str:
    """Return a digest of everything that determines the cleaned training pairs."""
    corpora = {
        name: [_describe(corpus), corpus.tag, corpus.keep_held_out]
        for name, corpus in config.training_corpora().items()
    }
    splits: tuple[Split, ...] = ("valid", "test") if config.drop_held_out else ()
    held_out = [facts for split in splits if (facts := _describe_split(config, split))]
    return _digest(config.cleaning_settings(), corpora, held_out)


def valid_key(config: DataConfig) -> str:
    """Return a digest of everything that determines the validation pairs."""
    habits = [config.typing_habits()] if config.valid_as_typed else []
    return _digest(config.src_lang, config.tgt_lang, _describe_split(config, "valid"), *habits)


def _digest(*facts: object) -> str:
    return hashlib.blake2b(json.dumps([FORMAT, *facts]).encode(), digest_size=16).hexdigest()


def _describe_split(config: DataConfig, split: Split) -> list[object]:
    corpus = config.held_out_corpus(split)
    if corpus is None:
        return []
    if split == "valid" and config.valid_limit:
        return [*_describe(corpus), "evenly spaced", config.valid_limit]
    return _describe(corpus)


def _describe(corpus: CorpusConfig) -> list[object]:
    columns = (corpus.src_column, corpus.tgt_column, corpus.where_column, corpus.where_values)
    where = None if corpus.files else (corpus.dataset, corpus.config, corpus.split)
    return [fingerprint_corpus(corpus), where, columns, corpus.limit]
