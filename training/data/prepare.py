"""From texts to what a run learns from: clean pairs of ids, and the tokenizers that made them.

Takes a recipe, gives a `Corpus`. Must not know the model. The vocabulary is learned on the training
split only, once per run: a run that is resumed loads its own, and one that starts from a model has
that model's.

Each step is kept in the cache under the key of all that decides it, so that a second start skips
it: validation pairs (key: content), clean texts (content and cleaning), vocabulary (texts and its
size), ids (texts, vocabulary and longest pair).
"""

import contextlib
import dataclasses
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tqdm import tqdm

from hubnmt.checkpoint.folder import read_json, write_json
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.text.tokenizer import WORD_PATTERN, Tokenizer
from training.config.recipe import RunConfig
from training.data.arrow import TEXT, TableWriter, read_columns, require_pyarrow
from training.data.cleaning import NOT_TEXT, CleaningReport, is_broken
from training.data.corpora import (
    OLDER_FORMATS,
    check_tests,
    content_key,
    read_clean,
    read_valid,
    valid_key,
)
from training.data.dataset import PairStore, write_pairs
from training.data.sources import TextPair
from training.data.text_store import read_report, read_texts, write_texts
from training.files import telling_full_disk

STALE_S = 24 * 3600
"""Drafts older than this were left by a process that was killed."""


def cached(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the entry of a key, built first if there is none.

    Args:
        folder: the cache.
        key: a file name that changes with whatever decides the content.
        build: writes the entry's files into the folder it is given.

    Raises:
        InputError: if the cache cannot be written.
    """
    entry = folder / key
    if entry.is_dir():
        return entry
    draft: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale_drafts(folder)
        draft = Path(tempfile.mkdtemp(prefix=f".draft-{key}-", dir=folder))
        draft.chmod(folder.stat().st_mode & 0o777)  # others may share the cache
        build(draft)
        for path in draft.iterdir():
            _flush(path)
        _move(draft, entry)
    except OSError as error:
        raise InputError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); "
            "make room, or choose another with --set data.cache=FOLDER"
        ) from None
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return entry


def _move(draft: Path, entry: Path) -> None:
    """Put a draft in its place, unless another process was faster."""
    try:
        draft.rename(entry)
    except OSError:
        if not entry.is_dir():
            raise


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove_stale_drafts(folder: Path) -> None:
    for path in folder.glob(".draft-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S:
                shutil.rmtree(path, ignore_errors=True)


log = logging.getLogger("training")

REPORT_FILE = "cleaning.json"
VALID_FILE = "valid.arrow"

MANY_CUT = 0.01
"""Share of validation targets; a pair or two may be no translations of each other."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """What the run learns from and chooses on."""

    train: PairStore
    """Ids of the kept training pairs."""
    valid: list[TextPair]
    """Validation texts."""
    report: CleaningReport
    content: str
    """Changes with the training texts and their cleaning."""
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer

    def save(self, folder: Path) -> None:
        """Keep the tokenizers and the cleaning report in the run's folder.

        Raises:
            ModelFolderError: if the disk is full.
        """
        with telling_full_disk(folder):
            _save_tokenizers(folder, (self.src_tokenizer, self.tgt_tokenizer))
            write_json(folder / REPORT_FILE, self.report.to_dict() | {"content": self.content})


def cache_folder(config: RunConfig) -> Path:
    """Name the folder where a recipe's prepared texts are kept."""
    return Path(config.data.cache or Path(config.run.folder) / ".cache")


def prepare_corpus(
    config: RunConfig,
    resumed: Path | None,
    *,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
) -> Corpus:
    """Read, clean, learn or load the vocabulary, encode; or find all that in the cache.

    Args:
        config: the recipe.
        resumed: run folder whose tokenizers to use; None, or a folder without, learns new ones.
        tokenizers: of a model to start from; then none are learned.

    Raises:
        InputError: if nothing is left to train on, a file cannot be used, or the texts are not
            those that a resumed run began with.
    """
    require_pyarrow()
    content = content_key(config.data)
    if resumed is not None:
        content = _content_begun_with(resumed, config, content)
    check_tests(config.data)
    valid = _read_valid(config)
    texts = _clean_texts(config, content)
    report = read_report(texts)
    _warn_of_broken(report, valid)
    if not report.n_kept or not valid:
        raise InputError(f"nothing to train on: {report}; {len(valid)} validation pairs")
    tokenizers = tokenizers or _load_tokenizers(config, resumed) or _learn_tokenizers(config, texts)
    if config.decoding.get("max_new_tokens") is None:
        _warn_of_cut(valid, tokenizers)
    train = _encode(config, texts, tokenizers)
    for name, count in zip(config.data.training_corpora(), train.counts, strict=True):
        n_long = report.kept(name) - count
        report.drop(name, f"longer than {config.data.max_tokens} tokens", n_long)
    if not len(train):
        raise InputError(f"nothing to train on: {report}")
    for line in report.lines():
        log.info("data: %s", line)
    return Corpus(
        train=train,
        valid=valid,
        report=report,
        content=content,
        src_tokenizer=tokenizers[0],
        tgt_tokenizer=tokenizers[1],
    )


def _read_valid(config: RunConfig) -> list[TextPair]:
    """Return the validation pairs; those of a long stream are not looked for twice."""

    def build(folder: Path) -> None:
        with TableWriter(folder / VALID_FILE, {"src": TEXT, "tgt": TEXT}) as writer:
            for pair in read_valid(config.data):
                writer.add(*pair)

    folder = cached(cache_folder(config), f"valid-{valid_key(config.data)}", build)
    return [
        pair
        for src, tgt in read_columns(folder / VALID_FILE)
        for pair in zip(src, tgt, strict=True)
    ]


def _warn_of_broken(report: CleaningReport, valid: list[TextPair]) -> None:
    """Say so if most of a corpus is no text; a few broken lines are nothing to speak of."""
    broken = {name: (drops[NOT_TEXT], report.read[name]) for name, drops in report.drops.items()}
    broken["validation"] = (sum(map(is_broken, map(" ".join, valid))), len(valid))
    for name, (n_broken, n_read) in broken.items():
        if 2 * n_broken > n_read:
            log.warning(
                "data: %s: %s of %s pairs are not valid UTF-8; convert the files first",
                name,
                f"{n_broken:,}",
                f"{n_read:,}",
            )


def _warn_of_cut(valid: list[TextPair], tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    """Say so if the translations of a language with small pieces may not grow long enough."""
    src, tgt = (
        tokenizer.encode_batch(texts)
        for tokenizer, texts in zip(tokenizers, zip(*valid, strict=True), strict=True)
    )
    longest = [DecodingConfig().max_tgt_tokens(len(ids)) for ids in src]
    n_cut = sum(len(ids) > most for ids, most in zip(tgt, longest, strict=True))
    if n_cut > MANY_CUT * len(valid):
        log.warning(
            "data: %s of %s validation targets have more pieces than a translation may have; "
            "set decoding.max_new_tokens (the longest has %d), or give the target more pieces",
            f"{n_cut:,}",
            f"{len(valid):,}",
            max(map(len, tgt)),
        )


def _content_begun_with(run_folder: Path, config: RunConfig, content: str) -> str:
    """Return the key of a run's texts, which an older version may have made.

    Raises:
        InputError: if the texts are others: the run could never be repeated.
    """
    path = run_folder / REPORT_FILE
    begun = str(read_json(path).get("content", content)) if path.exists() else content
    older = (content_key(config.data, version=version) for version in OLDER_FORMATS)
    if begun != content and begun not in older:
        raise InputError(
            f"the training, validation or test texts are not those that {run_folder} began with; "
            "bring those back (of a Hub dataset: data.revision), or start a new run"
        )
    return begun


def _clean_texts(config: RunConfig, content: str) -> Path:
    """Return the cache's folder of clean texts."""

    def build(folder: Path) -> None:
        report = CleaningReport()
        write_texts(
            folder,
            tqdm(read_clean(config.data, report), unit=" pairs", leave=False, disable=None),
            report,
            names=list(config.data.training_corpora()),
            drop_duplicates=config.data.drop_duplicates,
        )

    return cached(cache_folder(config), f"texts-{content}", build)


def _encode(config: RunConfig, texts: Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> PairStore:
    """Return the ids of all texts that are short enough."""
    max_tokens = config.data.max_tokens

    def rows() -> Iterator[tuple[int, list[int], list[int]]]:
        for corpora, *sides in read_texts(texts):
            ids = [t.encode_batch(side) for t, side in zip(tokenizers, sides, strict=True)]
            for corpus, src, tgt in zip(corpora, *ids, strict=True):
                if max(len(src), len(tgt)) <= max_tokens:
                    yield corpus, src, tgt

    def build(folder: Path) -> None:
        write_pairs(folder, rows(), n_corpora=len(config.data.training_corpora()))

    key = _digest(texts.name, max_tokens, *(tokenizer.to_json() for tokenizer in tokenizers))
    return PairStore(cached(cache_folder(config), f"pairs-{key}", build))


def _learn_tokenizers(config: RunConfig, texts: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the vocabulary of the training texts, learned now or before."""
    settings = config.tokenizer

    def build(folder: Path) -> None:
        if settings.joint:
            joint = Tokenizer.train(_sides(texts, 1, 2), settings.vocab_size)
            learned = (joint, joint)
        else:
            src, tgt = (Tokenizer.train(_sides(texts, n), settings.vocab_size) for n in (1, 2))
            learned = (src, tgt)
        _save_tokenizers(folder, learned)

    key = _digest(texts.name, settings.vocab_size, settings.joint, WORD_PATTERN)
    return _load(_file_names(config), cached(cache_folder(config), f"vocabulary-{key}", build))


def _load_tokenizers(config: RunConfig, folder: Path | None) -> tuple[Tokenizer, Tokenizer] | None:
    """Return the vocabulary that a run has already, if it has."""
    names = _file_names(config)
    if folder is None or not all((folder / name).exists() for name in names):
        return None
    return _load(names, folder)


def _load(names: list[str], folder: Path) -> tuple[Tokenizer, Tokenizer]:
    loaded = [Tokenizer.load(folder / name) for name in names]
    return loaded[0], loaded[-1]


def _file_names(config: RunConfig) -> list[str]:
    return ["tokenizer.json"] if config.tokenizer.joint else list(_SEPARATE)


_SEPARATE = ("tokenizer_src.json", "tokenizer_tgt.json")


def _save_tokenizers(folder: Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    src, tgt = tokenizers
    if src is tgt:
        src.save(folder / "tokenizer.json")
    else:
        for name, tokenizer in zip(_SEPARATE, tokenizers, strict=True):
            tokenizer.save(folder / name)


def _sides(texts: Path, *columns: int) -> Iterator[str]:
    """Yield the texts of some columns, pair by pair."""
    for chunk in read_texts(texts):
        for row in zip(*(chunk[column] for column in columns), strict=True):
            yield from row


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
