"""Read the corpora of a recipe: cleaned training pairs, validation and test pairs, cache keys."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hubnmt.errors import InputError
from hubnmt.text.characters import single_spaced
from training.config.data import CorpusConfig, DataConfig, group_files
from training.data.augmentation import augment
from training.data.cleaning import (
    DUPLICATE,
    INVALID,
    CleaningReport,
    HeldOutSentences,
    fingerprint_pair,
    tidy,
    why_drop,
)
from training.data.sources import TextPair, fingerprint_corpus, read_corpus

FORMAT = 2
"""Version of the cleaning, part of the cache key."""


class CleanPair(NamedTuple):
    """A cleaned training pair."""

    corpus: int
    """Index of its corpus in `DataConfig.training_corpora`."""
    src: str
    """Source, preceded by the tag of its corpus."""
    tgt: str


class TestSet(NamedTuple):
    """A test set."""

    name: str
    """Name for the card."""
    dataset: str | None
    """Its name on the Hub, if it is from there."""
    pairs: list[TextPair]


def read_valid(config: DataConfig) -> list[TextPair]:
    """Return the validation pairs: at most `valid_limit`, evenly spaced.

    The first lines would not do: those of a sorted file are its shortest.
    """
    pairs = [
        (_clean_side(src), _clean_side(tgt))
        for src, tgt in _read(config.held_out_corpora()[0], config)
    ]
    n = min(config.valid_limit or len(pairs), len(pairs))
    return [pairs[row * len(pairs) // n] for row in range(n)]


def _clean_side(text: str) -> str:
    return text.strip().encode(errors="replace").decode()


def _read(corpus: CorpusConfig, config: DataConfig) -> Iterator[TextPair]:
    return read_corpus(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang)


def read_tests(config: DataConfig) -> list[TestSet]:
    """Return the test sets of a recipe; each group of files is one.

    Raises:
        InputError: if one cannot be read, is empty, or has text that cannot be encoded.
    """
    tests = []
    for corpus in config.held_out_corpora()[1:]:
        groups = group_files(corpus.files)
        for files in groups or [()]:
            name = f"{corpus.dataset} {corpus.split}"
            if files:
                path = Path(files[0])
                folder = f"{path.parent.name}/" if len(groups) > 1 and path.parent.name else ""
                name = folder + path.name.partition(".")[0]
            where = ", ".join(files) or name
            pairs = list(_read(dataclasses.replace(corpus, files=files), config))
            if not pairs:
                raise InputError(f"{where}: empty; an evaluation set needs at least one pair")
            if any(tidy(text) == INVALID for pair in pairs for text in pair):
                raise InputError(f"{where}: contains a lone surrogate; remove it")
            dataset = None if files else corpus.dataset
            tests.append(TestSet(name, dataset, [(src.strip(), tgt.strip()) for src, tgt in pairs]))
    return tests


def read_clean(
    config: DataConfig, report: CleaningReport, valid: Iterable[TextPair]
) -> Iterator[CleanPair]:
    """Yield the training pairs that pass cleaning, and count the dropped ones in the report.

    Texts contain no tabs and no line breaks. To find duplicates, a fingerprint of each pair is kept
    in memory, about 70 bytes.
    """
    held_out = HeldOutSentences()
    if config.drop_held_out:
        held_out.update(valid)
        for test in read_tests(config):
            held_out.update(test.pairs)
    seen: set[int] = set()
    for number, (name, corpus) in enumerate(config.training_corpora().items()):
        tag = single_spaced(corpus.tag)
        report.read[name] = 0  # reported even if it has no pairs
        for pair in _read(corpus, config):
            # 1. Clean.
            report.read[name] += 1
            src, tgt = map(tidy, pair)
            reason = why_drop(src, tgt, config)
            if not reason and not corpus.keep_held_out and held_out.shares_a_side(src, tgt):
                reason = "in validation or test set"
            # 2. Augment; what is drawn depends on the pair alone.
            if not reason:
                src, tgt = augment(src, tgt, config)
            # 3. Drop duplicates.
            if not reason and config.drop_duplicates:
                fingerprint = fingerprint_pair(src, tgt)
                reason = DUPLICATE if fingerprint in seen else None
                seen.add(fingerprint)
            if reason:
                report.drop(name, reason, (src, tgt))
            else:
                yield CleanPair(number, f"{tag} {src}" if tag else src, tgt)


def content_key(config: DataConfig) -> str:
    """Return a digest of everything that determines the cleaned training pairs."""
    corpora = {
        name: [_describe(corpus), corpus.tag, corpus.keep_held_out]
        for name, corpus in config.training_corpora().items()
    }
    held_out = [_describe(corpus) for corpus in config.held_out_corpora() if config.drop_held_out]
    if held_out and config.valid_limit:
        held_out[0] += ["evenly spaced", config.valid_limit]
    facts = [FORMAT, config.cleaning_settings(), corpora, held_out]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _describe(corpus: CorpusConfig) -> list[object]:
    columns = (corpus.src_column, corpus.tgt_column, corpus.where_column, corpus.where_values)
    where = None if corpus.files else (corpus.dataset, corpus.config, corpus.split)
    return [fingerprint_corpus(corpus), where, columns, corpus.limit]
