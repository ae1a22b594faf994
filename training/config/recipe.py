"""Recipes: TOML files with `--set section.key=value` overrides, parsed into a `Recipe`.

All mistakes in a recipe are reported at once.
"""

import copy
import dataclasses
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError
from hubnmt.schema import FromDict, collecting, find_problems, require
from hubnmt.text.tokenizer import MIN_VOCAB_SIZE
from training.config.data import CorpusConfig, DataConfig
from training.config.run import CardConfig, OptimizerConfig, RunConfig

SET_BY_RUN = ("src_vocab_size", "tgt_vocab_size", "alignment_head", "alignment_shift")
"""Fields of `ModelConfig` that are determined by the run and must not be set in a recipe."""
MAY_DIFFER_FROM_PRETRAINED = ("dropout", "attention_dropout", "ff_dropout", "max_src_tokens")
"""Fields of `ModelConfig` that may differ from those of the pretrained model."""
REMOVED: Mapping[str, Mapping[str, Any]] = {
    "optimizer": {
        **{"method": "adamw", "r_drop": 0.0},
        **{"min_lr": 0.0, "weight_decay": 0.0, "betas": [0.9, 0.98]},
    },
    "run": {"ema_decay": 0.999, "pretrained_encoder": "", "metric": "auto", "compile": False},
    "data": {"valid_as_typed": False},
    "card": {"license_name": "", "license_link": ""},
    "log": {"hook": None},
}
"""Settings of earlier versions by section, with their defaults, which are accepted."""
Tables = Mapping[str, Mapping[str, Any]]
CORPUS_KEY = re.compile(r"corpora\.(?P<name>[^.]+)\.(?P<key>[^.]+)")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig(FromDict):
    """Size and type of the vocabulary."""

    vocab_size: int = 8000
    """Vocabulary size, including 3 special tokens and 256 bytes."""
    joint: bool = True
    """Whether both languages share one vocabulary."""

    def __post_init__(self) -> None:
        """Check ranges."""
        size, least = self.vocab_size, MIN_VOCAB_SIZE
        require((size >= least, f"vocab_size = {size} must be at least {least}"))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A complete recipe, one field per TOML section."""

    run: RunConfig
    data: DataConfig
    tokenizer: TokenizerConfig
    model: dict[str, Any]
    """Fields of `ModelConfig`, without languages and vocabulary sizes."""
    optimizer: OptimizerConfig
    decoding: dict[str, Any]
    """Decoding defaults stored with the model."""
    card: CardConfig

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved recipe as plain values."""
        return dataclasses.asdict(self)

    def model_config(self, *, src_vocab_size: int, tgt_vocab_size: int) -> ModelConfig:
        """Return the architecture with the vocabulary sizes of the tokenizers."""
        values = {
            "src_lang": self.data.src_lang,
            "tgt_lang": self.data.tgt_lang,
            "max_src_tokens": self.data.max_tokens + 1,
            **self.model,
            "src_vocab_size": src_vocab_size,
            "tgt_vocab_size": tgt_vocab_size,
        }
        return ModelConfig.from_dict(values, where="[model]")


SECTIONS: dict[str, type[FromDict]] = {
    "run": RunConfig,
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "optimizer": OptimizerConfig,
    "card": CardConfig,
}


def load_recipe(
    source: Path | Tables, overrides: Sequence[str] = (), *, inherited: Tables | None = None
) -> Recipe:
    """Read a recipe, apply overrides (`section.key=value`) and validate it.

    Args:
        source: a TOML file, or the stored sections of a run.
        overrides: applied in order.
        inherited: `[model]` and `[tokenizer]` of the pretrained model, once it is loaded.

    Raises:
        ConfigError: if the recipe is invalid; lists all mistakes, with suggestions for typos.
    """
    tables: dict[str, Any]
    if isinstance(source, Path):
        tables, where = _read_toml(source), str(source)
    else:
        tables, where = copy.deepcopy(dict(source)), "the recipe of the run"
    problems: list[str] = []
    for override in overrides:
        with collecting(problems):
            apply_override(tables, override)
    problems += drop_removed(tables)
    problems += inherit(tables, inherited or {})
    with collecting(problems):
        recipe = parse_recipe(tables, where=where, is_complete=inherited is not None)
    if problems:
        raise ConfigError("; ".join(problems))
    return recipe


def drop_removed(tables: dict[str, Any]) -> list[str]:
    """Remove settings of earlier versions, in place; return those not at their default."""
    problems = []
    run = tables.get("run")
    if isinstance(run, dict) and run.pop("judged", None) == "raw":
        run["average_last"] = 1
    for section, settings in REMOVED.items():
        table = tables.get(section)
        if not isinstance(table, dict):
            continue  # missing, or reported by `parse_recipe`
        for name, default in settings.items():
            if table.pop(name, default) != default:
                problems.append(f"{section}.{name} is no longer a setting: remove it")
    tables.pop("log", None)
    return problems


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():  # also excludes devices, which may be endless
        raise ConfigError(f"{path}: no such recipe; see training/recipes")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from None


def inherit(tables: dict[str, Any], inherited: Tables) -> list[str]:
    """Fill in the settings of a pretrained model, in place; return what contradicts them."""
    differences = []
    for name, values in inherited.items():
        given = tables.get(name, {})
        if not isinstance(given, Mapping):
            continue  # reported by `parse_recipe`
        for key, value in values.items():
            if key not in MAY_DIFFER_FROM_PRETRAINED and given.get(key, value) != value:
                differences.append(f"{name}.{key} = {given[key]!r} and not {value!r}")
        fixed = {
            key: value for key, value in values.items() if key not in MAY_DIFFER_FROM_PRETRAINED
        }
        tables[name] = {**values, **given, **fixed}
    if not differences:
        return []
    return [
        "architecture and vocabulary are those of the pretrained model (run.pretrained), but the "
        f"recipe has {', '.join(differences)}: remove these settings"
    ]


def parse_recipe(tables: Mapping[str, Any], *, where: str, is_complete: bool = False) -> Recipe:
    """Validate the sections of a recipe, which a pretrained model may still complete."""
    known = {field.name for field in dataclasses.fields(Recipe)}
    problems = find_problems(Recipe, {key: tables[key] for key in tables if key not in known})
    problems = [problem for problem in problems if "is missing" not in problem]
    sections: dict[str, Any] = {}
    for name, cls in SECTIONS.items():
        with collecting(problems):
            sections[name] = cls.from_dict(tables.get(name, {}), where=f"[{name}]")
    for name in ("model", "decoding"):
        table = tables.get(name, {})
        sections[name] = dict(table) if isinstance(table, Mapping) else {}
        if not isinstance(table, Mapping):
            problems.append(f"[{name}]: must be a table of keys and values")
    is_complete = is_complete or not ("run" in sections and sections["run"].pretrained)
    tokenizer = sections.get("tokenizer")
    problems += _model_problems(sections["model"], tokenizer, is_complete=is_complete)
    with collecting(problems):
        DecodingConfig.from_dict(sections["decoding"], where="[decoding]")
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")
    return Recipe(**sections)


def _model_problems(
    model: dict[str, Any], tokenizer: TokenizerConfig | None, *, is_complete: bool
) -> list[str]:
    """Check the architecture; if a pretrained model is to complete it, names and types only."""
    forbidden = [name for name in (*SET_BY_RUN, "src_lang", "tgt_lang") if name in model]
    problems = [f"[model] {name} is determined by the run; remove it" for name in forbidden]
    rest = {key: value for key, value in model.items() if key not in forbidden}
    tokenizer = tokenizer or TokenizerConfig()
    size = tokenizer.vocab_size
    placeholders: dict[str, Any] = {"src_lang": "x", "tgt_lang": "y"}
    placeholders |= {"src_vocab_size": size, "tgt_vocab_size": size}
    if not is_complete:
        return problems + [f"[model] {p}" for p in find_problems(ModelConfig, rest | placeholders)]
    try:
        config = ModelConfig.from_dict({**rest, **placeholders}, where="[model]")
    except ConfigError as error:
        return [*problems, str(error).replace("[model]: ", "[model] ", 1)]
    if config.share_embeddings and not tokenizer.joint:
        problems.append(
            "[model] share_embeddings = true requires a joint vocabulary: set "
            "tokenizer.joint = true, or model.share_embeddings = false"
        )
    return problems


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Apply one override, `section.key=value`, in place; the value is TOML or a bare word.

    For keys that hold a list, the value may be comma-separated (`data.train=a.de,a.en`). Corpora
    are addressed by name (`data.corpora.NAME.files=a.de,a.en`).
    """
    target, equals, text = override.partition("=")
    section, dot, key = target.strip().partition(".")
    if not (equals and dot and key):
        raise ConfigError(f"--set {override}: must have the form section.key=value")
    cls = {**SECTIONS, "model": ModelConfig, "decoding": DecodingConfig}.get(section)
    match = CORPUS_KEY.fullmatch(key) if section == "data" else None
    if match:
        cls, key = CorpusConfig, match["key"]
    hints = typing.get_type_hints(cls) if cls else {}
    value: Any
    table = tables
    for name in (section, "corpora", match["name"]) if match else (section,):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: {name} is not a section of the recipe")
    options = typing.get_args(hints.get(key)) or (hints.get(key),)
    if text.strip() == "null" and type(None) in options:
        value = None
    elif typing.get_origin(hints.get(key)) is tuple and not text.strip().startswith("["):
        value = [part.strip().strip("\"'") for part in text.split(",") if part.strip()]
    elif str in options and typing.get_origin(hints.get(key)) is not tuple:
        value = text.strip().strip("\"'")
    else:
        value = _bare(text.strip())
    table[key] = value


def _bare(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
