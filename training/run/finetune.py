"""The pretrained model that a run starts from (`run.pretrained`, `run.pretrained_encoder`).

A run takes its weights, architecture and vocabulary, or those of its encoder only; optimizer and
schedule start anew. Once the run has a state of its own, the pretrained model is no longer needed.
"""

import dataclasses
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.description import bundled_models
from hubnmt.config import ModelConfig
from hubnmt.errors import ConfigError
from hubnmt.hub.reference import parse_reference
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.config.recipe import FROM_TOKENIZER, RunConfig, Tables
from training.config.run import RunSettings
from training.optim.averaging import Weights

ENCODER_FIELDS = ("d_model", "n_heads", "d_ff", "norm_order", "activation")
"""Fields of `ModelConfig` in which an encoder and the decoder it is joined to must agree."""
ENCODER_WEIGHTS = ("encoder.", "src_embedding.")
"""Beginnings of the names of the weights of the source side."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pretrained:
    """A model to start from."""

    name: str
    """Public name; never a local path."""
    commit: str | None
    """Commit hash, if it came from the Hub."""
    config: ModelConfig
    src: Tokenizer
    """Source tokenizer."""
    tgt: Tokenizer | None
    """Target tokenizer, the same object for a joint vocabulary; None: to be learned."""
    weights: Weights
    """By name; those that are absent keep their random initial values."""
    encoder: dict[str, Any] | None = None
    """Record of the other model that the encoder comes from, if any."""

    def settings(self, config: RunConfig) -> Tables:
        """Return its `[model]` and `[tokenizer]`, in the format of a recipe.

        The alignment head is not among them: it was chosen on other data.
        """
        own = (*FROM_TOKENIZER, "src_lang", "tgt_lang")
        model = {key: value for key, value in self.config.to_dict().items() if key not in own}
        if self.tgt is None:
            names = (*ENCODER_FIELDS, "n_encoder_layers", "share_embeddings")
            model = {name: model[name] for name in names}
            return {"model": model, "tokenizer": {"joint": False}}
        # Training on shorter sentences does not lower the length the model can translate.
        model["max_src_tokens"] = max(self.config.max_src_tokens, config.data.max_tokens + 1)
        size = max(self.src.vocab_size, self.tgt.vocab_size)
        return {"model": model, "tokenizer": {"vocab_size": size, "joint": self.src is self.tgt}}

    def record(self) -> dict[str, Any]:
        """Return name and commit, for the run's records."""
        part = "encoder" if self.tgt is None else "model"
        return {"name": self.name, "commit": self.commit, "part": part, "encoder": self.encoder}


def load_start(settings: RunSettings) -> Pretrained:
    """Load what a run starts from: a model, an encoder, or a model with the encoder of another.

    Raises:
        ConfigError: if encoder and decoder differ in size.
        HubNMTError: if a model cannot be loaded, see `load_pretrained`.
    """
    whole = load_pretrained(settings.pretrained) if settings.pretrained else None
    if not settings.pretrained_encoder:
        assert whole is not None, "called for a run with a pretrained model"
        return whole
    source = load_pretrained(settings.pretrained_encoder)
    weights = {k: w for k, w in source.weights.items() if k.startswith(ENCODER_WEIGHTS)}
    separate = dataclasses.replace(source.config, share_embeddings=False)
    if whole is None:
        return dataclasses.replace(source, config=separate, tgt=None, weights=weights)
    for name in ENCODER_FIELDS:
        if getattr(source.config, name) != getattr(whole.config, name):
            raise ConfigError(
                f"run.pretrained_encoder: its {name} is {getattr(source.config, name)}, that of "
                f"run.pretrained {getattr(whole.config, name)}; they must be equal"
            )
    n_layers = source.config.n_encoder_layers
    return dataclasses.replace(
        whole,
        config=dataclasses.replace(whole.config, n_encoder_layers=n_layers, share_embeddings=False),
        src=source.src,
        weights=whole.weights | weights,
        encoder=source.record(),
    )


def load_pretrained(name: str) -> Pretrained:
    """Load a pretrained model by name, folder or Hub reference; the weights stay on the CPU.

    Raises:
        ModelNotFoundError: if there is no such model.
        ModelFolderError: if its folder is incomplete.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    translator = Translator.from_pretrained(name)
    return Pretrained(
        name=public_name(name, is_on_hub=translator.commit is not None),
        commit=translator.commit,
        config=translator.config,
        src=translator.tokenizers.src,
        tgt=translator.tokenizers.tgt,
        weights=dict(translator.model.state_dict()),
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
    commit, encoder = record.get("commit"), record.get("encoder")
    model = f"{record['name']} at commit {commit}" if commit else str(record["name"])
    if record.get("part") == "encoder":
        return f"the encoder of {model}"
    return f"{model}, with the encoder of {describe_pretrained(encoder)}" if encoder else model
