"""The model that a run starts from: where it is found, what it brings, what it is called.

Takes the name that a recipe gives (`run.pretrained`), in all the ways `Translator.from_pretrained`
knows, gives a `Pretrained`. Must not know data or optimizer. A run takes weights, shape and
vocabulary from it, and begins all else anew; once it has a state of its own it needs it no more.
"""

import dataclasses
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.folder import bundled_models
from hubnmt.config import ModelConfig
from hubnmt.hub.reference import parse_reference
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.config.recipe import FROM_TOKENIZER, RunConfig, Tables
from training.optim.averaging import Weights, copy_weights


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pretrained:
    """A model to start from."""

    name: str
    """What others may know it as: never a path of this machine."""
    commit: str | None
    """Hash of its commit, if it came from the Hub."""
    config: ModelConfig
    tokenizers: tuple[Tokenizer, Tokenizer]
    """Twice the same object where the vocabulary is joint."""
    weights: Weights

    def settings(self, config: RunConfig) -> Tables:
        """Return its `[model]` and `[tokenizer]`, as a recipe would have them.

        The alignment head is not among them: it was found on other data, and may have changed.
        """
        own = (*FROM_TOKENIZER, "src_lang", "tgt_lang")
        model = {key: value for key, value in self.config.to_dict().items() if key not in own}
        # What it has seen, it knows, also when it now learns from shorter sentences.
        model["max_src_tokens"] = max(self.config.max_src_tokens, config.data.max_tokens + 1)
        src, tgt = self.tokenizers
        size = max(src.vocab_size, tgt.vocab_size)
        return {"model": model, "tokenizer": {"vocab_size": size, "joint": src is tgt}}

    def record(self) -> dict[str, Any]:
        """Return what the run's records say of it."""
        return {"name": self.name, "commit": self.commit}


def load_pretrained(name: str) -> Pretrained:
    """Find a model and read all a run takes from it; the weights stay on the CPU.

    Raises:
        ModelNotFoundError: if there is no such model.
        ModelFolderError: if its folder is not whole.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    translator = Translator.from_pretrained(name)
    return Pretrained(
        name=public_name(name, is_on_hub=translator.revision is not None),
        commit=translator.revision,
        config=translator.config,
        tokenizers=(translator.src_tokenizer, translator.tgt_tokenizer),
        weights=copy_weights(translator.model),
    )


def public_name(name: str, *, is_on_hub: bool) -> str:
    """Name a model for others: of a folder the last part, of a run's `best/` the run's name."""
    reference = parse_reference(name) if is_on_hub else None
    if reference is not None:
        return reference.repo
    if name in bundled_models():
        return name
    folder = Path(name).expanduser().resolve()
    is_of_run = folder.name in ("best", "last") and folder.parent.name
    return folder.parent.name if is_of_run else folder.name


def describe_pretrained(record: dict[str, Any]) -> str:
    """Say in words what `Pretrained.record` says."""
    commit = record.get("commit")
    return f"{record['name']} at commit {commit}" if commit else str(record["name"])
