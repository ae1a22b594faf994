"""Prepare training data: clean pairs, train or load the tokenizers, encode; with a cache.

Each step is cached under a key of everything that determines it: clean texts (content and
cleaning), vocabulary (texts and size), ids (texts, vocabulary and length).
"""

import dataclasses
import hashlib
import itertools
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from hubnmt.checkpoint.files import read_json, write_json
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES, Tokenizer, Tokenizers
from hubnmt.text.tokenizer_file import WORD_PATTERN
from training.command import progress_bar
from training.config.data import DataConfig
from training.config.recipe import Recipe
from training.data.batching import PairDataset, write_pairs
from training.data.cleaning import CleaningReport, is_broken
from training.data.corpora import content_key, read_clean, read_tests, read_valid
from training.data.sources import TextPair
from training.files import reporting_write_errors

log = logging.getLogger("training")

REPORT_FILE = "cleaning.json"
TEXTS_FILE = "texts.tsv"
CHUNK = 16_384
MAX_TRUNCATED_SHARE = 0.01
"""Share of truncated validation targets above which to warn; a few may be misaligned pairs."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunData:
    """Training and validation data of a run, and its tokenizers."""

    train: PairDataset
    valid: list[TextPair]
    cleaning: CleaningReport
    content_key: str
    """Digest of the training texts and their cleaning."""
    tokenizers: Tokenizers

    def save(self, run_folder: Path) -> None:
        """Save the tokenizers and the cleaning report in the run folder.

        Raises:
            ModelFolderError: if the disk is full.
        """
        with reporting_write_errors(run_folder):
            self.tokenizers.save(run_folder)
            report = self.cleaning.to_dict() | {"content": self.content_key}
            write_json(run_folder / REPORT_FILE, report)


def prepare_data(
    recipe: Recipe, run_folder: Path | None, pretrained: Tokenizers | None = None
) -> RunData:
    """Prepare the data of a run, using the cache.

    The tokenizers are those of the pretrained model, or in the run's folder if that is given, else
    they are learned; to a pretrained encoder belongs its source tokenizer only.

    Raises:
        InputError: if no pairs are left, a file cannot be used, or the texts differ from those that
            the run was started with.
    """
    # 1. Read and clean the texts.
    log.info("reading")
    key = content_key(recipe.data)
    if run_folder is not None:
        _check_content(run_folder, key)
    valid = _read_valid(recipe.data)
    text_dir, report = _clean_texts(recipe, key, valid)
    if not report.n_kept or not valid:
        raise InputError(f"nothing to train on: {report.describe()}; {len(valid)} validation pairs")
    # 2. Load or learn the vocabulary.
    tokenizers = _load_tokenizers(recipe, text_dir, run_folder, pretrained)
    if recipe.decoding.get("max_new_tokens") is None:
        _warn_of_truncation(valid, tokenizers)
    # 3. Encode the training pairs.
    train = _encode(recipe, text_dir, tokenizers, n_pairs=report.n_kept)
    for name, count in zip(recipe.data.training_corpora(), train.counts, strict=True):
        n_long = report.read[name] - report.drops[name].total() - count
        if n_long:
            report.drops[name][f"longer than {recipe.data.max_tokens} tokens"] = n_long
    if not len(train):
        raise InputError(f"nothing to train on: {report.describe()}")
    for name in report.read:
        log.info("data: %s: %s", name, report.describe(name))
    return RunData(
        train=train, valid=valid, cleaning=report, content_key=key, tokenizers=tokenizers
    )


def _read_valid(config: DataConfig) -> list[TextPair]:
    """Return the validation pairs; check the files of the test sets before the work."""
    if config.test:
        read_tests(config)
    valid = read_valid(config)
    if n_broken := sum(is_broken(src) or is_broken(tgt) for src, tgt in valid):
        log.warning("data: %d of %d validation pairs are not valid UTF-8", n_broken, len(valid))
    return valid


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


def _check_content(run_folder: Path, key: str) -> None:
    path = run_folder / REPORT_FILE
    if path.exists() and read_json(path)["content"] != key:
        raise InputError(
            f"the training, validation or test texts have changed since {run_folder} was started; "
            "restore them (for a Hub dataset: data.revision), or start a new run"
        )


def _clean_texts(recipe: Recipe, key: str, valid: list[TextPair]) -> tuple[Path, CleaningReport]:
    """Return the cache entry of the cleaned texts, and its report."""

    def build(entry: Path) -> None:
        report = CleaningReport()
        clean = read_clean(recipe.data, report, valid)
        pairs = progress_bar("cleaning", iterable=clean, unit=" pairs", leave=False)
        with (entry / TEXTS_FILE).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{corpus}\t{src}\t{tgt}\n" for corpus, src, tgt in pairs)
        write_json(entry / REPORT_FILE, {"read": report.read, "drops": report.drops})

    text_dir = cached(recipe, f"text-{key}", build)
    stored = read_json(text_dir / REPORT_FILE)
    report = CleaningReport(Counter(stored["read"]))
    for name, counts in stored["drops"].items():
        report.drops[name].update(counts)
    return text_dir, report


def _read_texts(text_dir: Path) -> Iterator[list[str]]:
    with (text_dir / TEXTS_FILE).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line[:-1].split("\t")


def _encode(recipe: Recipe, text_dir: Path, tokenizers: Tokenizers, *, n_pairs: int) -> PairDataset:
    """Return the token ids of all pairs within the length limit."""
    max_tokens = recipe.data.max_tokens

    def rows() -> Iterator[tuple[int, list[int], list[int]]]:
        pairs = _read_texts(text_dir)
        with progress_bar("encoding", total=n_pairs, unit=" pairs", leave=False) as bar:
            while chunk := list(itertools.islice(pairs, CHUNK)):
                corpora, *sides = zip(*chunk, strict=True)
                ids = [t.encode_batch(side) for t, side in zip(tokenizers, sides, strict=True)]
                for corpus, src, tgt in zip(corpora, *ids, strict=True):
                    if max(len(src), len(tgt)) <= max_tokens:
                        yield int(corpus), src, tgt
                bar.update(len(chunk))

    def build(entry: Path) -> None:
        write_pairs(entry, rows(), n_corpora=len(recipe.data.training_corpora()))

    key = _digest(text_dir.name, max_tokens, *(tokenizer.to_json() for tokenizer in tokenizers))
    return PairDataset(cached(recipe, f"pairs-{key}", build))


def _load_tokenizers(
    recipe: Recipe, text_dir: Path, run_folder: Path | None, pretrained: Tokenizers | None
) -> Tokenizers:
    """Return the tokenizers of the pretrained model or in the run's folder, else learned ones."""
    if pretrained and recipe.run.pretrained_part == "model":
        return pretrained
    settings = recipe.tokenizer

    def build(entry: Path) -> None:
        log.info("tokenizer")
        sides = [slice(1, 3)] if settings.joint else [slice(1, 2), slice(2, 3)]
        learned = []
        for side in sides:
            lines = (text for pair in _read_texts(text_dir) for text in pair[side])
            learned.append(Tokenizer.train(lines, settings.vocab_size))
        Tokenizers(learned[0], learned[-1]).save(entry)

    key = _digest(text_dir.name, settings.vocab_size, settings.joint, WORD_PATTERN)
    folder = run_folder or cached(recipe, f"vocabulary-{key}", build)
    names = [JOINT_FILE] if settings.joint else TWO_FILES
    loaded = [Tokenizer.load(folder / name) for name in names]
    return Tokenizers(pretrained.src if pretrained else loaded[0], loaded[-1])


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def cached(recipe: Recipe, key: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry of a key; `build` writes its files if it is missing.

    Raises:
        InputError: if the cache cannot be written.
    """
    root = Path(recipe.data.cache or Path(recipe.run.folder) / ".cache")
    entry = root / key
    if entry.is_dir():
        return entry
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=root) as draft:
            draft_entry = Path(draft, key)
            draft_entry.mkdir()  # with the usual rights: the cache may be shared with other users
            build(draft_entry)
            for path in draft_entry.iterdir():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            try:
                draft_entry.rename(entry)
            except OSError:
                if not entry.is_dir():  # another process was faster
                    raise
    except OSError as error:
        raise InputError(
            f"{root}: the cache cannot be written ({error.strerror or error}); "
            "free disk space, or choose another with --set data.cache=FOLDER"
        ) from None
    return entry
