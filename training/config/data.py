"""The `[data]` section of a recipe: sources of pairs, cleaning and mixing."""

import dataclasses
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from hubnmt.errors import ConfigError
from hubnmt.schema import FromDict, above_zero, at_least, collecting, require, within

TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")
"""Suffixes of tables, which hold both sides; other files are text and come in pairs."""
AUGMENTATION = ("drop_final_mark", "lowercase_src", "vary_names", "protect_spans", "protect_names")
"""Shares of the pairs that are changed; their order is part of the cache key."""
MAIN = "main"
"""Name of the corpus defined by `train` or `dataset`."""


def suffix_of(name: str) -> str:
    """Return the suffix that identifies the format: `.tsv` for `a.TSV` and `a.tsv.gz`."""
    path = PurePath(name)
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def group_files(files: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Group file names into single tables and pairs of text files."""
    groups: list[tuple[str, ...]] = []
    waiting = iter(files)
    for name in waiting:
        if suffix_of(name) in TABLE_SUFFIXES:
            groups.append((name,))
            continue
        partner = next(waiting, None)
        if partner is None or suffix_of(partner) in TABLE_SUFFIXES:
            raise ConfigError(
                f"{name} has no matching translation file: set two text files, SRC,TGT, "
                f"or one file that ends in {', '.join(TABLE_SUFFIXES)} or one of these and .gz"
            )
        groups.append((name, partner))
    return groups


def _find_file_problem(files: tuple[str, ...]) -> str:
    problems: list[str] = []
    with collecting(problems):
        group_files(files)
    return "".join(problems)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig(FromDict):
    """Settings of the main corpus and of each additional one."""

    dataset: str | None = None
    """Hub dataset, used if there are no local files."""
    config: str | None = None
    split: str = "train"
    """Split of the Hub dataset to train on; `train[:1000000]` selects rows."""
    revision: str | None = None
    """Branch, tag or commit of the Hub dataset; a commit needs no network once it is cached."""
    streaming: bool = False
    """Stream the Hub dataset instead of downloading it first."""
    src_column: str | None = None
    """Source column; null means the language code, ignoring case. In a table without a header, a
    number counted from 1; `a.b` is the nested column b of a."""
    tgt_column: str | None = None
    limit: int | None = None
    """Use only the first pairs, at most this many."""
    weight: float = 1.0
    """Repetitions of each pair per epoch: 2 is twice, 0.25 a new random quarter every epoch."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig(SourceConfig):
    """One training corpus."""

    files: tuple[str, ...] = ()
    """Local files: line-aligned source and target text, or a table of both; several are allowed."""
    where_column: str | None = None
    """Use only rows that have one of `where_values` in this column."""
    where_values: tuple[str, ...] = ()
    tag: str = ""
    """Text prepended to each source after cleaning: `<bt>` for synthetic sources
    (Caswell et al. 2019, https://arxiv.org/abs/1906.06442)."""
    keep_held_out: bool = False
    """Keep pairs that `data.drop_held_out` drops: for a phrase book, whose greetings and single
    words are likely to be in any test set."""

    def __post_init__(self) -> None:
        """Check ranges and that files or a dataset are set."""
        problem = _find_file_problem(self.files)
        texts = [name for name in self.files if suffix_of(name) not in TABLE_SUFFIXES]
        require(
            (not problem, problem),
            (bool(self.files or self.dataset), "set files or a Hub dataset"),
            *above_zero(self, "weight"),
            *at_least(self, 1, "limit"),
            (
                (self.where_column is None) == (not self.where_values),
                "where_column and where_values belong together: set both or neither",
            ),
            (
                self.where_column is None or not texts,
                f"where_column requires a table, but {', '.join(texts)} is a text file",
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(SourceConfig):
    """Sources of sentence pairs, cleaning, augmentation and mixing.

    The inherited settings are those of the main corpus; `dataset` and its settings also serve for
    validation and test sets that have no local files, `limit` and `weight` do not.
    """

    src_lang: str
    tgt_lang: str
    """Languages, BCP 47."""
    valid_split: str = "validation"
    test_split: str | None = None
    """Test split of the Hub dataset, held out from training and evaluated once at the end of a run;
    used only if `split` is used, too."""
    train: tuple[str, ...] = ()
    """Local files instead of `dataset`: line-aligned source and target text, or a .tsv, .csv,
    .jsonl or .parquet file, each also .gz; several are allowed."""
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    """Local files of the test set, held out from training and evaluated once at the end."""
    valid_limit: int | None = None
    """Use at most this many validation pairs, evenly spaced."""
    corpora: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Additional training corpora, `[data.corpora.NAME]`, with the fields of `CorpusConfig`."""
    max_tokens: int = 100
    """Training pairs with more tokens on either side are dropped."""
    max_length_ratio: float = 3.0
    """Training pairs are dropped if one side is this many times longer, in characters, than the
    other; pairs that differ by less than 20 characters are kept."""
    min_script_share: float = 0.5
    """Training pairs are dropped if less than this share of the letters of a side is in a script of
    its language; 0 disables the check."""
    drop_duplicates: bool = True
    """Keep only the first of equal training pairs; different translations of a source are kept."""
    drop_copies: bool = True
    """Drop training pairs whose target equals the source, which teach the model to copy."""
    drop_held_out: bool = True
    """Drop training pairs that share a side with the validation or the test set, ignoring case,
    spaces and punctuation."""
    drop_final_mark: float = 0.0
    """Share of training pairs without final punctuation, as in casual typing."""
    lowercase_src: float = 0.0
    """Share of training pairs whose source is lower-cased, for the same reason."""
    vary_names: float = 0.0
    """Share of training pairs in which names and numbers that both sides share are replaced by
    random ones; otherwise a model may replace unknown names with known ones."""
    protect_spans: float = 0.0
    """Share of training pairs in which spans that both sides share, such as URLs, times and numbers
    of three digits or more, are replaced by placeholders."""
    protect_names: float = 0.0
    """The same for names, so that a translation can keep those which the model cannot spell."""
    bpe_dropout: float = 0.0
    """Probability to skip each merge in training batches (Provilkov et al. 2020,
    https://arxiv.org/abs/1910.13267, use 0.1). Batches are planned with the lengths without it, so
    some exceed `optimizer.batch_tokens`, and the largest may not be the first."""
    bpe_dropout_sides: Literal["both", "src", "tgt"] = "both"
    """Sides that `bpe_dropout` applies to."""
    cache: str | None = None
    """Cache folder for cleaned and tokenised text; null means `.cache` in `run.folder`."""

    def __post_init__(self) -> None:
        """Check ranges and that training and validation data are set."""
        problems = [
            f"{name}: {problem}"
            for name in ("train", "valid", "test")
            if (problem := _find_file_problem(getattr(self, name)))
        ]
        for name, values in self.corpora.items():
            with collecting(problems):
                CorpusConfig.from_dict(values, where=f"corpora.{name}")
        require(
            *((False, problem) for problem in problems),
            (
                MAIN not in self.corpora,
                f"corpora.{MAIN} is reserved for train or dataset; choose another name",
            ),
            *at_least(self, 1, "max_tokens", "limit", "valid_limit"),
            *within(self, 0, 1, "min_script_share", "bpe_dropout", *AUGMENTATION),
            *above_zero(self, "weight"),
            (
                self.max_length_ratio > 1,
                f"max_length_ratio = {self.max_length_ratio} must be above 1",
            ),
            (
                bool(self.dataset or self.train or self.corpora),
                "train is empty and dataset is not set: set local files, a Hub dataset or "
                "[data.corpora.NAME]",
            ),
            (
                bool(self.dataset or self.valid),
                "valid is empty and dataset is not set: set local files or a Hub dataset",
            ),
        )

    def training_corpora(self) -> dict[str, CorpusConfig]:
        """Return all training corpora by name, in reading order."""
        corpora = {}
        if self.train or self.dataset:
            corpora[MAIN] = self._corpus(self.train, self.split, self.limit)
        for name, values in self.corpora.items():
            corpora[name] = CorpusConfig.from_dict(values, where=f"corpora.{name}")
        return corpora

    def held_out_corpora(self) -> list[CorpusConfig]:
        """Return the validation set, and the test set if there is one."""
        corpora = [self._corpus(self.valid, self.valid_split, None)]
        if self.test:
            corpora.append(self._corpus(self.test, "test", None))
        elif self.test_split and self.dataset and not self.train:
            corpora.append(self._corpus((), self.test_split, None))
        return corpora

    def _corpus(self, files: tuple[str, ...], split: str, limit: int | None) -> CorpusConfig:
        names = [field.name for field in dataclasses.fields(SourceConfig)]
        values = {name: getattr(self, name) for name in names}
        return CorpusConfig(**values | {"files": files, "split": split, "limit": limit})

    def cleaning_settings(self) -> Mapping[str, Any]:
        """Return the settings that determine the cleaned pairs, for the cache key."""
        names = ["src_lang", "tgt_lang", "max_length_ratio", "min_script_share"]
        names += ["drop_duplicates", "drop_copies", "drop_held_out"]
        # Only if set, so that cache entries from before these settings existed stay valid.
        names += [name for name in AUGMENTATION if getattr(self, name)]
        return {name: getattr(self, name) for name in names}
