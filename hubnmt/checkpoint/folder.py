"""Save and load a model folder: config, tokenizers, weights, decoding defaults, model card.

Folders are untrusted: only JSON and safetensors are read, and all sizes are checked against the
config before memory is allocated. Writing is atomic: a temporary folder is renamed at the end.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save

from hubnmt.checkpoint.files import (
    CARD,
    CONFIG,
    DECODING,
    FORMAT_VERSION,
    LIBRARY,
    WEIGHTS,
    load_config,
    load_decoding,
    replace_folder,
    write_json,
)
from hubnmt.checkpoint.metadata import read_card
from hubnmt.checkpoint.weights import check_weights, load_weights, own_tensors, to_stored
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ModelFolderError
from hubnmt.model import Transformer
from hubnmt.model.meta import meta_device
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES, Tokenizer, Tokenizers


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """The contents of a model folder."""

    model: Transformer
    """In eval mode, float32, on the CPU."""
    tokenizers: Tokenizers
    decoding: DecodingConfig
    """Default decoding options."""
    card: str = ""
    """The model card in Markdown with YAML metadata."""
    dtype: torch.dtype = torch.float32
    """Type of the weights in the folder; float16 halves its size, int8 quarters it."""


def save_model(
    folder: str | os.PathLike[str], stored: StoredModel, *, notes: Mapping[str, str] | None = None
) -> None:
    """Save a model folder, and `notes`, texts by file name; an old one is replaced atomically.

    The weights are written in `stored.dtype`, or in their own type if that is narrower. Callers
    check for unrelated files with `check_place`.
    """
    with replace_folder(Path(folder)) as target:
        config = stored.model.config.to_dict()
        write_json(
            target / CONFIG,
            {"library": LIBRARY, "format_version": FORMAT_VERSION, **config},
        )
        write_json(target / DECODING, stored.decoding.to_dict())
        stored.tokenizers.save(target)
        tensors = to_stored(own_tensors(stored.model), stored.dtype)
        # Not `save_file`, which makes the file readable by its owner only.
        content = save(tensors, metadata={"format": "pt"})
        (target / WEIGHTS).write_bytes(content)
        (target / CARD).write_text(stored.card, encoding="utf-8")
        for name, text in (notes or {}).items():
            (target / name).write_text(text, encoding="utf-8")


def load_model(folder: str | os.PathLike[str]) -> StoredModel:
    """Load and validate a model folder.

    Raises:
        ModelFolderError: naming the file, the key and the remedy.
    """
    folder = Path(folder)
    config = load_config(folder)
    tokenizers = _load_tokenizers(folder, config)
    weights = folder / WEIGHTS
    with meta_device():  # allocates no memory for an invalid config
        dtype = check_weights(Transformer(config), weights)
    model = Transformer(config).eval()
    load_weights(model, weights)
    return StoredModel(
        model=model,
        tokenizers=tokenizers,
        decoding=load_decoding(folder),
        card=read_card(folder),
        dtype=dtype,
    )


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers:
    sizes, is_joint = (config.src_vocab_size, config.tgt_vocab_size), True
    if not (folder / JOINT_FILE).exists():
        is_joint = not (folder / TWO_FILES[0]).exists()
    names = (JOINT_FILE, JOINT_FILE) if is_joint else TWO_FILES
    loaded = {
        name: Tokenizer.load(folder / name, vocab_size=size)
        for name, size in dict(zip(names, sizes, strict=True)).items()
    }
    for name, size in zip(names, sizes, strict=True):
        if loaded[name].vocab_size != size:
            raise ModelFolderError(
                f"{folder / name}: {loaded[name].vocab_size} pieces, but config.json says {size}; "
                "the files come from different models"
            )
    return Tokenizers(*(loaded[name] for name in names))
