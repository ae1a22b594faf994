"""The `[data]` part of a recipe: where pairs come from, which are dropped, how they are mixed.

Takes plain dictionaries, gives frozen, validated settings. Must not know files or the Hub.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from hubnmt.config import FromDict, require
from hubnmt.errors import ConfigError

TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")
"""Files that hold both sides of a pair; any other file is text and needs a partner."""
MAIN = "main"
"""The corpus that `train` or `dataset` makes; those of `corpora` have their own names."""


def suffix_of(name: str) -> str:
    """Return the ending that tells the format: `.tsv` of `a.tsv` and of `a.tsv.gz`."""
    path = PurePath(name)
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def group_files(files: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Group names into tables, which stand alone, and pairs of texts.

    Raises:
        ConfigError: if a text has no partner.
    """
    groups: list[tuple[str, ...]] = []
    waiting = iter(files)
    for name in waiting:
        if suffix_of(name) in TABLE_SUFFIXES:
            groups.append((name,))
            continue
        partner = next(waiting, None)
        if partner is None or suffix_of(partner) in TABLE_SUFFIXES:
            raise ConfigError(
                f"{name} has no translation beside it: name two text files, SRC,TGT, "
                f"or one file that ends in {', '.join(TABLE_SUFFIXES)} or one of these and .gz"
            )
        groups.append((name, partner))
    return groups


def _find_file_problem(files: tuple[str, ...]) -> str:
    try:
        group_files(files)
    except ConfigError as error:
        return str(error)
    return ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig(FromDict):
    """One source of pairs."""

    files: tuple[str, ...] = ()
    """Local files: source text, target text, line by line; or a table of both; more may follow."""
    dataset: str | None = None
    """Hub dataset, if there are no files."""
    config: str | None = None
    """Configuration of the Hub dataset."""
    split: str = "train"
    """Split of the Hub dataset; `train[10:20]` takes part of it."""
    revision: str | None = None
    """Branch, tag or commit of the Hub dataset; a commit needs no network once it is cached."""
    streaming: bool = False
    """Read over the network row by row in place of downloading the whole first."""
    src_column: str | None = None
    """Column of the source; null means the language's name, in whatever case. In a table
    without names, a number counted from 1; `a.b` is column b inside a."""
    tgt_column: str | None = None
    """Column of the target."""
    where_column: str | None = None
    """Take only rows that have one of `where_values` in this column."""
    where_values: tuple[str, ...] = ()
    """See `where_column`."""
    limit: int | None = None
    """Take only so many pairs, the first ones."""
    weight: float = 1.0
    """How often an epoch meets each pair: 2 is twice, 0.25 another random quarter every epoch."""
    tag: str = ""
    """Put in front of each source, as text, after the checks: `<bt>` for synthetic sources
    (Caswell et al. 2019, https://arxiv.org/abs/1906.06442)."""

    def __post_init__(self) -> None:
        """Check ranges and that there is something to read."""
        problem = _find_file_problem(self.files)
        texts = [name for name in self.files if suffix_of(name) not in TABLE_SUFFIXES]
        require(
            (not problem, problem),
            (bool(self.files or self.dataset), "name files or a Hub dataset"),
            (self.weight > 0, f"weight = {self.weight} must be above 0"),
            (self.limit is None or self.limit >= 1, f"limit = {self.limit} must be at least 1"),
            (
                (self.where_column is None) == (not self.where_values),
                "where_column and where_values belong together: set both or neither",
            ),
            (
                self.where_column is None or not texts,
                f"where_column needs columns, and {', '.join(texts)} has none",
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(FromDict):
    """Where the sentence pairs come from, which are dropped, how they are mixed."""

    src_lang: str
    """Source language, BCP 47."""
    tgt_lang: str
    """Target language, BCP 47."""
    dataset: str | None = None
    """Hub dataset; used for each split that has no local files."""
    config: str | None = None
    """Configuration of the Hub dataset."""
    revision: str | None = None
    """Branch, tag or commit of the Hub dataset."""
    streaming: bool = False
    """Read the Hub dataset row by row in place of downloading the whole first."""
    split: str = "train"
    """Split of the Hub dataset to train on; `train[:1000000]` takes part of it."""
    valid_split: str = "validation"
    """Split of the Hub dataset to choose on."""
    test_split: str | None = None
    """Split of the Hub dataset that nothing may learn from, and that a run measures itself on once,
    at its end; read only when `split` is read too."""
    src_column: str | None = None
    """Column of the source text; null means `src_lang`."""
    tgt_column: str | None = None
    """Column of the target text; null means `tgt_lang`."""
    train: tuple[str, ...] = ()
    """Local files instead: source text, target text, line by line; or a .tsv, .csv, .jsonl or
    .parquet file; each may end in .gz; more may follow."""
    valid: tuple[str, ...] = ()
    """The same for validation."""
    test: tuple[str, ...] = ()
    """The same for the test set: training pairs that stand in it are dropped, and a run measures
    itself on it once, at its end."""
    limit: int | None = None
    """Train on so many pairs only, the first ones of `train` or `split`."""
    valid_limit: int | None = None
    """Choose on so many pairs only, the first ones: each validation translates them all."""
    weight: float = 1.0
    """How often an epoch meets each pair of `train` or `split`; see `corpora`."""
    corpora: dict[str, Any] = dataclasses.field(default_factory=dict)
    """More to train on, `[data.corpora.NAME]`, each with the fields of `CorpusConfig`."""
    max_tokens: int = 100
    """Training pairs with more tokens on either side are dropped."""
    max_length_ratio: float = 3.0
    """Training pairs are dropped if one side is this many times longer, in characters, than the
    other (short pairs, under 20 characters of difference, are kept)."""
    min_script_share: float = 0.5
    """Training pairs are dropped if less than this share of the letters of a side are of a script
    that its language is written in; 0 keeps them."""
    drop_duplicates: bool = True
    """Keep the first of equal training pairs; several translations of one source all stay."""
    drop_copies: bool = True
    """Drop training pairs whose target is their source: a model that learns to copy does so."""
    drop_held_out: bool = True
    """Drop training pairs that share a side with the validation or the test set, whatever their
    case, spaces and punctuation."""
    drop_final_mark: float = 0.0
    """Share of training pairs that lose the full stop, question or exclamation mark both sides end
    in: people leave it out when they type, and corpora do not."""
    lowercase_src: float = 0.0
    """Share of training pairs whose source is put in small letters, for the same reason."""
    vary_names: float = 0.0
    """Share of training pairs whose names and numbers, where both sides spell them alike, are
    exchanged for made-up ones: else a model writes a name it knows for one it does not."""
    valid_as_typed: bool = False
    """Shorten and lower the same shares of the validation pairs, to choose what is best at what
    people type. Scores then compare only with those of runs that do so, too."""
    bpe_dropout: float = 0.0
    """Chance of each merge to be skipped in training batches, anew every epoch (Provilkov et al.
    2020, https://arxiv.org/abs/1910.13267, use 0.1). Batches are cut by the lengths without it, so
    some then hold more than `optimizer.batch_tokens`, the largest maybe after the first step."""
    bpe_dropout_sides: Literal["both", "src", "tgt"] = "both"
    """Which side `bpe_dropout` is for."""
    cache: str | None = None
    """Folder for cleaned and tokenised text; null is `.cache` in `run.folder`."""

    def __post_init__(self) -> None:
        """Check ranges and that there is something to train and to choose on."""
        problems = [
            f"{name}: {problem}"
            for name in ("train", "valid", "test")
            if (problem := _find_file_problem(getattr(self, name)))
        ]
        for name, values in self.corpora.items():
            try:
                CorpusConfig.from_dict(values, where=f"corpora.{name}")
            except ConfigError as error:
                problems.append(str(error))
        require(
            *((False, problem) for problem in problems),
            (MAIN not in self.corpora, f"corpora.{MAIN} is the name of train or dataset itself"),
            (self.max_tokens >= 1, f"max_tokens = {self.max_tokens} must be at least 1"),
            (
                self.max_length_ratio > 1,
                f"max_length_ratio = {self.max_length_ratio} must be above 1",
            ),
            *(
                (0 <= getattr(self, name) <= 1, f"{name} = {getattr(self, name)} must be 0 to 1")
                for name in (
                    "min_script_share",
                    "drop_final_mark",
                    "lowercase_src",
                    "vary_names",
                    "bpe_dropout",
                )
            ),
            *(
                (
                    getattr(self, name) is None or getattr(self, name) >= 1,
                    f"{name} = {getattr(self, name)} must be at least 1",
                )
                for name in ("limit", "valid_limit")
            ),
            (self.weight > 0, f"weight = {self.weight} must be above 0"),
            (
                bool(self.dataset or self.train or self.corpora),
                "train is empty and dataset is not set: name local files, a Hub dataset or "
                "[data.corpora.NAME]",
            ),
            (
                bool(self.dataset or self.valid),
                "valid is empty and dataset is not set: name local files or a Hub dataset",
            ),
        )

    def training_corpora(self) -> dict[str, CorpusConfig]:
        """Return all there is to train on, by name, in reading order."""
        corpora = {}
        if self.train or self.dataset:
            corpora[MAIN] = self._main(self.train, self.split, self.limit)
        for name, values in self.corpora.items():
            corpora[name] = CorpusConfig.from_dict(values, where=f"corpora.{name}")
        return corpora

    def held_out_corpus(self, split: Literal["valid", "test"]) -> CorpusConfig | None:
        """Return the validation set, or the test set if one is named."""
        if split == "valid":
            return self._main(self.valid, self.valid_split, self.valid_limit)
        if self.test:
            return self._main(self.test, "test", None)
        if self.test_split and self.dataset and not self.train:
            return self._main((), self.test_split, None)
        return None

    def _main(self, files: tuple[str, ...], split: str, limit: int | None) -> CorpusConfig:
        return CorpusConfig(
            files=files,
            dataset=self.dataset,
            config=self.config,
            split=split,
            revision=self.revision,
            streaming=self.streaming,
            src_column=self.src_column,
            tgt_column=self.tgt_column,
            limit=limit,
            weight=self.weight,
        )

    def typing_habits(self) -> dict[str, float]:
        """Return the shares that `training.data.casing.as_typed` wants to know."""
        return {"drop_final_mark": self.drop_final_mark, "lowercase_src": self.lowercase_src}

    def cleaning_settings(self) -> Mapping[str, Any]:
        """Return what decides, apart from the texts, which pairs stay and how they read."""
        names = ["src_lang", "tgt_lang", "max_length_ratio", "min_script_share"]
        names += ["drop_duplicates", "drop_copies", "drop_held_out"]
        # Named only where set: texts that were prepared before there was a choice stay good.
        shares = {**self.typing_habits(), "vary_names": self.vary_names}
        habits = {name: share for name, share in shares.items() if share}
        return {name: getattr(self, name) for name in names} | habits
