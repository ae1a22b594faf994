"""The pretrained model that a run starts from (`run.pretrained`).

A run takes its weights, architecture and vocabulary, or those of its encoder only; optimizer and
schedule start anew. Once the run has a state of its own, the model is no longer needed.
"""

import dataclasses
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.files import bundled_models
from hubnmt.config import ModelConfig
from hubnmt.hub.client import parse_reference
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.translator import Translator
from training.config.recipe import SET_BY_RUN, Recipe, Tables
from training.run.checkpoint import Weights

_OF_ENCODER = (
    "d_model",
    "n_heads",
    "d_ff",
    "norm_order",
    "activation",
    "n_encoder_layers",
    "share_embeddings",
)
"""Fields of `ModelConfig` that follow from the encoder of another model."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pretrained:
    """A model to start from."""

    name: str
    """Public name; never a local path."""
    commit: str | None
    """Commit hash, if it came from the Hub."""
    config: ModelConfig
    tokenizers: Tokenizers
    weights: Weights
    """By name; those that are absent keep their random initial values."""
    part: str = "model"

    def settings(self, recipe: Recipe) -> Tables:
        """Return its `[model]` and `[tokenizer]`, in the format of a recipe.

        The alignment head is not among them: it was chosen on other data.
        """
        own = (*SET_BY_RUN, "src_lang", "tgt_lang")
        model = {key: value for key, value in self.config.to_dict().items() if key not in own}
        if self.part == "encoder":
            model = {key: model[key] for key in _OF_ENCODER}
            return {"model": model, "tokenizer": {"joint": False}}
        # Training on shorter sentences does not lower the length the model can translate.
        model["max_src_tokens"] = max(self.config.max_src_tokens, recipe.data.max_tokens + 1)
        src, tgt = self.tokenizers
        tokenizer = {"vocab_size": max(src.vocab_size, tgt.vocab_size), "joint": src is tgt}
        return {"model": model, "tokenizer": tokenizer}

    def record(self) -> dict[str, Any]:
        """Return name, commit and part, for the run's records."""
        return {"name": self.name, "commit": self.commit, "part": self.part}


def load_pretrained(name: str, part: str = "model") -> Pretrained:
    """Load a pretrained model by name, folder or Hub reference, or its part `encoder`.

    Raises:
        HubNMTError: if there is no such model, its folder is incomplete, or the Hub fails.
    """
    translator = Translator.from_pretrained(name)
    config, weights = translator.config, dict(translator.model.state_dict())
    if part == "encoder":
        config = dataclasses.replace(config, share_embeddings=False)
        weights = {k: w for k, w in weights.items() if k.startswith(("encoder.", "src_embedding."))}
    return Pretrained(
        name=public_name(name, is_on_hub=translator.commit is not None),
        commit=translator.commit,
        config=config,
        tokenizers=translator.tokenizers,
        weights=weights,
        part=part,
    )


def public_name(name: str, *, is_on_hub: bool) -> str:
    """Return a public name: the last part of a path, or the run's name for its `best/`."""
    reference = parse_reference(name) if is_on_hub else None
    if reference is not None:
        return reference.repo
    if name in bundled_models():
        return name
    folder = Path(name).expanduser().resolve()
    is_of_run = folder.name in ("best", "last") and folder.parent.name
    return folder.parent.name if is_of_run else folder.name


def describe_pretrained(record: dict[str, Any]) -> str:
    """Format the result of `Pretrained.record` for a model card."""
    commit = record.get("commit")
    model = f"{record['name']} at commit {commit}" if commit else str(record["name"])
    return f"the encoder of {model}" if record.get("part") == "encoder" else model
