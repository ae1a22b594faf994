"""Prepare training data: clean pairs, train or load the tokenizers, encode; with a cache.

The vocabulary is learned on the training split, once per run: a resumed run loads its own, and a
run with a pretrained model uses that of the model. Each step is cached under a key of everything
that determines it: validation pairs (content), clean texts (content and cleaning), vocabulary
(texts and size), ids (texts, vocabulary and maximum length).
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
from hubnmt.text.tokenizer import TWO_FILES, WORD_PATTERN, Tokenizer, Tokenizers
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
from training.data.dataset import PairDataset, write_pairs
from training.data.sources import TextPair
from training.data.text_store import read_report, read_texts, write_texts
from training.files import telling_full_disk

STALE_S = 24 * 3600
"""Age in seconds after which a draft is assumed to be left by a killed process."""


def cached(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry of a key; build it if it is missing.

    Args:
        folder: the cache.
        key: file name that identifies the content.
        build: writes the entry's files into the given folder.

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
        draft.chmod(folder.stat().st_mode & 0o777)  # the cache may be shared with other users
        build(draft)
        for path in draft.iterdir():
            _flush(path)
        _move(draft, entry)
    except OSError as error:
        raise InputError(
            f"{folder}: the cache cannot be written ({error.strerror or error}); "
            "free disk space, or choose another with --set data.cache=FOLDER"
        ) from None
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return entry


def _move(draft: Path, entry: Path) -> None:
    """Move a draft into place, unless another process has already done so."""
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

MAX_TRUNCATED_SHARE = 0.01
"""Share of truncated validation targets above which to warn; a few may be misaligned pairs."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Training and validation data of a run, and its tokenizers."""

    train: PairDataset
    """Token ids of the training pairs."""
    valid: list[TextPair]
    """Validation pairs as text."""
    report: CleaningReport
    content: str
    """Digest of the training texts and their cleaning."""
    tokenizers: Tokenizers

    def save(self, folder: Path) -> None:
        """Save the tokenizers and the cleaning report in the run folder.

        Raises:
            ModelFolderError: if the disk is full.
        """
        with telling_full_disk(folder):
            self.tokenizers.save(folder)
            write_json(folder / REPORT_FILE, self.report.to_dict() | {"content": self.content})


def cache_folder(config: RunConfig) -> Path:
    """Return the cache folder of a recipe."""
    return Path(config.data.cache or Path(config.run.folder) / ".cache")


def prepare_corpus(
    config: RunConfig,
    resumed: Path | None,
    *,
    tokenizers: Tokenizers | None = None,
) -> Corpus:
    """Prepare the data of a run, using the cache.

    Args:
        config: the recipe.
        resumed: run folder whose tokenizers to use; if None or without tokenizers, they are
            learned.
        tokenizers: those of a pretrained model, if any.

    Raises:
        InputError: if no pairs are left, a file cannot be used, or the texts differ from those that
            a resumed run was started with.
    """
    require_pyarrow()
    content = content_key(config.data)
    if resumed is not None:
        content = _content_of_run(resumed, config, content)
    check_tests(config.data)
    valid = _read_valid(config)
    texts = _clean_texts(config, content)
    report = read_report(texts)
    _warn_of_invalid(report, valid)
    if not report.n_kept or not valid:
        raise InputError(f"nothing to train on: {report}; {len(valid)} validation pairs")
    tokenizers = tokenizers or _load_tokenizers(config, resumed) or _learn_tokenizers(config, texts)
    if config.decoding.get("max_new_tokens") is None:
        _warn_of_truncation(valid, tokenizers)
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
        tokenizers=tokenizers,
    )


def _read_valid(config: RunConfig) -> list[TextPair]:
    """Return the validation pairs; cached, because reading a stream takes long."""

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


def _warn_of_invalid(report: CleaningReport, valid: list[TextPair]) -> None:
    """Warn if most of a corpus is invalid; a few invalid lines are ignored."""
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


def _warn_of_truncation(valid: list[TextPair], tokenizers: Tokenizers) -> None:
    """Warn if the length limit of decoding would truncate many validation targets."""
    src, tgt = (
        tokenizer.encode_batch(texts)
        for tokenizer, texts in zip(tokenizers, zip(*valid, strict=True), strict=True)
    )
    longest = [DecodingConfig().max_tgt_tokens(len(ids)) for ids in src]
    n_cut = sum(len(ids) > most for ids, most in zip(tgt, longest, strict=True))
    if n_cut > MAX_TRUNCATED_SHARE * len(valid):
        log.warning(
            "data: %s of %s validation targets exceed the length limit of translations; "
            "set decoding.max_new_tokens (the longest has %d), or use a larger vocabulary",
            f"{n_cut:,}",
            f"{len(valid):,}",
            max(map(len, tgt)),
        )


def _content_of_run(run_folder: Path, config: RunConfig, content: str) -> str:
    """Return the content key of a resumed run, which an older version may have computed.

    Raises:
        InputError: if the texts have changed, because the run would not be reproducible.
    """
    path = run_folder / REPORT_FILE
    begun = str(read_json(path).get("content", content)) if path.exists() else content
    older = (content_key(config.data, version=version) for version in OLDER_FORMATS)
    if begun != content and begun not in older:
        raise InputError(
            f"the training, validation or test texts have changed since {run_folder} was started; "
            "restore them (for a Hub dataset: data.revision), or start a new run"
        )
    return begun


def _clean_texts(config: RunConfig, content: str) -> Path:
    """Return the cache entry of the cleaned texts."""

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


def _encode(config: RunConfig, texts: Path, tokenizers: Tokenizers) -> PairDataset:
    """Return the token ids of all pairs within the length limit."""
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
    return PairDataset(cached(cache_folder(config), f"pairs-{key}", build))


def _learn_tokenizers(config: RunConfig, texts: Path) -> Tokenizers:
    """Return tokenizers learned on the training texts."""
    settings = config.tokenizer

    def build(folder: Path) -> None:
        if settings.joint:
            joint = Tokenizer.train(_sides(texts, 1, 2), settings.vocab_size)
            learned = Tokenizers(joint, joint)
        else:
            src, tgt = (Tokenizer.train(_sides(texts, n), settings.vocab_size) for n in (1, 2))
            learned = Tokenizers(src, tgt)
        learned.save(folder)

    key = _digest(texts.name, settings.vocab_size, settings.joint, WORD_PATTERN)
    return _load(_file_names(config), cached(cache_folder(config), f"vocabulary-{key}", build))


def _load_tokenizers(config: RunConfig, folder: Path | None) -> Tokenizers | None:
    """Return the tokenizers stored in a run folder, if any."""
    names = _file_names(config)
    if folder is None or not all((folder / name).exists() for name in names):
        return None
    return _load(names, folder)


def _load(names: list[str], folder: Path) -> Tokenizers:
    loaded = [Tokenizer.load(folder / name) for name in names]
    return Tokenizers(loaded[0], loaded[-1])


def _file_names(config: RunConfig) -> list[str]:
    return ["tokenizer.json"] if config.tokenizer.joint else list(TWO_FILES)


def _sides(texts: Path, *columns: int) -> Iterator[str]:
    """Yield the texts of some columns, pair by pair."""
    for chunk in read_texts(texts):
        for row in zip(*(chunk[column] for column in columns), strict=True):
            yield from row


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
