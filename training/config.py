"""A recipe: everything that decides a training run.

Takes a TOML file and `--set section.key=value` overrides, gives a frozen `RunConfig`. Must not know
the model's inside. All mistakes in a recipe are reported at once.
"""

import dataclasses
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hubnmt.config import DecodingConfig, FromDict, ModelConfig, find_problems, require
from hubnmt.errors import ConfigError
from hubnmt.tokenizer import MIN_VOCAB_SIZE

FROM_TOKENIZER = ("src_vocab_size", "tgt_vocab_size", "alignment_head", "alignment_shift")
"""Fields of `ModelConfig` that the run finds out; a recipe does not set them."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig(FromDict):
    """Where the sentence pairs come from and which are dropped."""

    src_lang: str
    """Source language, BCP 47."""
    tgt_lang: str
    """Target language, BCP 47."""
    dataset: str | None = None
    """Hub dataset; used for each split that has no local files."""
    dataset_config: str | None = None
    """Configuration of the Hub dataset."""
    train_split: str = "train"
    """Split of the Hub dataset to train on."""
    valid_split: str = "validation"
    """Split of the Hub dataset to choose on."""
    src_column: str | None = None
    """Column of the source text; null means `src_lang`."""
    tgt_column: str | None = None
    """Column of the target text; null means `tgt_lang`."""
    train: tuple[str, ...] = ()
    """Local files instead: source file, target file, line by line; more pairs may follow."""
    valid: tuple[str, ...] = ()
    """The same for validation."""
    max_tokens: int = 100
    """Training pairs with more tokens on either side are dropped."""
    max_length_ratio: float = 3.0
    """Training pairs are dropped if one side is this many times longer, in characters, than the
    other (short pairs, under 20 characters of difference, are kept)."""

    def __post_init__(self) -> None:
        """Check ranges; a pair of files has two names."""
        require(
            (self.max_tokens >= 1, f"max_tokens = {self.max_tokens} must be at least 1"),
            (
                self.max_length_ratio > 1,
                f"max_length_ratio = {self.max_length_ratio} must be above 1",
            ),
            *(
                (
                    len(getattr(self, name)) % 2 == 0,
                    f"{name} needs a source and a target file, got {len(getattr(self, name))}",
                )
                for name in ("train", "valid")
            ),
            *(
                (
                    bool(self.dataset or getattr(self, name)),
                    f"{name} is empty and dataset is not set: name local files or a Hub dataset",
                )
                for name in ("train", "valid")
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig(FromDict):
    """The vocabulary."""

    vocab_size: int = 8000
    """Pieces, 3 special ones and 256 bytes included."""
    joint: bool = True
    """One vocabulary for both languages, or one each."""

    def __post_init__(self) -> None:
        """Check ranges."""
        size, least = self.vocab_size, MIN_VOCAB_SIZE
        require((size >= least, f"vocab_size = {size} must be at least {least}"))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig(FromDict):
    """One optimizer step."""

    lr: float = 5e-3
    """Peak learning rate."""
    warmup_steps: int = 2000
    """Steps of linear rise; then the rate falls with the square root of the step."""
    betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's decay rates (Vaswani et al. 2017, section 5.3)."""
    weight_decay: float = 0.0
    """AdamW's decoupled decay."""
    label_smoothing: float = 0.1
    """Probability spread over all pieces."""
    grad_clip_norm: float = 1.0
    """Largest gradient norm; 0 means no clipping."""
    batch_tokens: int = 4096
    """Padded tokens per forward pass, on the longer side."""
    accumulate: int = 1
    """Forward passes per optimizer step."""

    def __post_init__(self) -> None:
        """Check ranges."""
        require(
            (self.lr > 0, f"lr = {self.lr} must be above 0"),
            (
                all(0 <= beta < 1 for beta in self.betas),
                f"betas = {self.betas} must each be in [0, 1)",
            ),
            (self.weight_decay >= 0, f"weight_decay = {self.weight_decay} must be 0 or more"),
            (self.warmup_steps >= 0, f"warmup_steps = {self.warmup_steps} must be 0 or more"),
            (
                0 <= self.label_smoothing < 1,
                f"label_smoothing = {self.label_smoothing} not in [0, 1)",
            ),
            (self.grad_clip_norm >= 0, f"grad_clip_norm = {self.grad_clip_norm} must be 0 or more"),
            (self.batch_tokens >= 1, f"batch_tokens = {self.batch_tokens} must be at least 1"),
            (self.accumulate >= 1, f"accumulate = {self.accumulate} must be at least 1"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings(FromDict):
    """How long, how often, where."""

    name: str
    """Name of the run folder."""
    folder: str = "runs"
    """Where run folders are made."""
    max_steps: int = 20_000
    """Optimizer steps at most."""
    max_minutes: float | None = None
    """Wall-clock limit, minutes; a resumed run counts what it used before."""
    eval_every: int = 250
    """Steps between validations; each also takes a snapshot for averaging."""
    average_last: int = 10
    """Weights validated and saved are the mean of this many last snapshots; 1 averages nothing."""
    patience: int = 20
    """Stop after this many validations without a better BLEU."""
    log_every: int = 50
    """Steps between log lines."""
    n_samples: int = 6
    """Validation sentences followed in `samples.md`."""
    seed: int = 1
    """Seed of everything random."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ..."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Precision of the matrix products (autocast); weights and sums stay float32."""
    n_threads: int = 0
    """CPU threads; 0 leaves torch's choice."""

    def __post_init__(self) -> None:
        """Check ranges."""
        require(
            *(
                (getattr(self, name) >= 1, f"{name} = {getattr(self, name)} must be at least 1")
                for name in ("max_steps", "eval_every", "average_last", "patience", "log_every")
            ),
            (self.n_samples >= 0, f"n_samples = {self.n_samples} must be 0 or more"),
            (self.n_threads >= 0, f"n_threads = {self.n_threads} must be 0 or more"),
            (0 <= self.seed < 2**63, f"seed = {self.seed} must be 0 to 2^63 - 1"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CardConfig(FromDict):
    """What a model card needs and no measurement can tell."""

    title: str = ""
    """First heading."""
    data: str = ""
    """The training data in a sentence."""
    data_license: str = ""
    """Licence of the data in a sentence."""
    license: str = "other"
    """Licence identifier of the weights, as the Hub lists them."""
    datasets: tuple[str, ...] = ()
    """Hub names of the data."""
    limits: str = ""
    """What the model cannot do."""
    bias: str = ""
    """What the data makes the model assume about people."""
    citation: str = ""
    """How to cite, BibTeX or a sentence."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """A whole recipe, one field per TOML section."""

    run: RunSettings
    data: DataConfig
    tokenizer: TokenizerConfig
    model: dict[str, Any]
    """Fields of `ModelConfig`, without languages and vocabulary sizes."""
    optimizer: OptimizerConfig
    decoding: dict[str, Any]
    """Decoding defaults stored with the model."""
    card: CardConfig

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved recipe, as JSON and TOML can hold it."""
        return dataclasses.asdict(self)

    def model_config(self, *, src_vocab_size: int, tgt_vocab_size: int) -> ModelConfig:
        """Complete the architecture with what the tokenizers brought."""
        values = {
            "src_lang": self.data.src_lang,
            "tgt_lang": self.data.tgt_lang,
            "max_src_tokens": self.data.max_tokens + 1,
            **self.model,
            "src_vocab_size": src_vocab_size,
            "tgt_vocab_size": tgt_vocab_size,
        }
        return ModelConfig.from_dict(values, where="[model]")


SECTIONS: dict[str, type] = {
    "run": RunSettings,
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "optimizer": OptimizerConfig,
    "card": CardConfig,
}


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a recipe, apply overrides, validate.

    Raises:
        ConfigError: listing every mistake, with the nearest name for an unknown key.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: no such recipe; see training/recipes ({error.strerror})"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None
    for override in overrides:
        apply_override(tables, override)
    return parse_recipe(tables, where=str(path))


def parse_recipe(tables: Mapping[str, Any], *, where: str) -> RunConfig:
    """Validate the sections of a recipe; see `load_recipe`."""
    known = {field.name for field in dataclasses.fields(RunConfig)}
    problems = find_problems(RunConfig, {key: tables[key] for key in tables if key not in known})
    problems = [problem for problem in problems if "is missing" not in problem]
    sections: dict[str, Any] = {}
    for name, cls in SECTIONS.items():
        try:
            sections[name] = cls.from_dict(tables.get(name, {}), where=f"[{name}]")  # type: ignore[attr-defined]  # all are FromDict
        except ConfigError as error:
            problems.append(str(error))
    for name in ("model", "decoding"):
        table = tables.get(name, {})
        sections[name] = dict(table) if isinstance(table, Mapping) else {}
        if not isinstance(table, Mapping):
            problems.append(f"[{name}]: must be a table of keys and values")
    problems += _model_problems(sections["model"], sections.get("tokenizer"))
    try:
        DecodingConfig.from_dict(sections["decoding"], where="[decoding]")
    except ConfigError as error:
        problems.append(str(error))
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")
    return RunConfig(**sections)


def _model_problems(model: dict[str, Any], tokenizer: TokenizerConfig | None) -> list[str]:
    """Check the architecture with the vocabulary size asked for; the run may find a smaller one."""
    forbidden = [name for name in (*FROM_TOKENIZER, "src_lang", "tgt_lang") if name in model]
    problems = [f"[model] {name} is found out by the run; remove it" for name in forbidden]
    rest = {key: value for key, value in model.items() if key not in forbidden}
    tokenizer = tokenizer or TokenizerConfig()
    size = tokenizer.vocab_size
    placeholders = {
        "src_lang": "x",
        "tgt_lang": "y",
        "src_vocab_size": size,
        "tgt_vocab_size": size,
    }
    try:
        config = ModelConfig.from_dict({**rest, **placeholders}, where="[model]")
    except ConfigError as error:
        return [*problems, str(error).replace("[model]: ", "[model] ", 1)]
    if config.share_embeddings and not tokenizer.joint:
        problems.append(
            "[model] share_embeddings = true needs one vocabulary: set tokenizer.joint = true, "
            "or model.share_embeddings = false"
        )
    return problems


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Set one value, `section.key=value`, in place; the value is TOML, or a bare word.

    A comma-separated value is a list where the key holds one (`data.train=a.de,a.en`).

    Raises:
        ConfigError: if it does not read like that.
    """
    target, equals, text = override.partition("=")
    section, dot, key = target.strip().partition(".")
    if not (equals and dot and key):
        raise ConfigError(f"--set {override}: must read section.key=value")
    cls = {**SECTIONS, "model": ModelConfig}.get(section)
    hints = typing.get_type_hints(cls) if cls else {}
    value: Any
    table = tables.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {override}: {section} is no section of the recipe")
    options = typing.get_args(hints.get(key)) or (hints.get(key),)
    if text.strip() == "null" and type(None) in options:
        value = None
    elif typing.get_origin(hints.get(key)) is tuple and not text.strip().startswith("["):
        value = [_bare(part.strip()) for part in text.split(",") if part.strip()]
    elif str in options and typing.get_origin(hints.get(key)) is not tuple:
        value = text.strip().strip("\"'")
    else:
        value = _bare(text.strip())
    table[key] = value


def _bare(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
