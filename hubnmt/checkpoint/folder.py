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

from hubnmt.checkpoint import description
from hubnmt.checkpoint.description import CARD_FILE, FORMAT_VERSION, LIBRARY
from hubnmt.checkpoint.files import read_json, replace_folder, write_json
from hubnmt.checkpoint.weights import check_weights, load_weights, own_tensors, to_stored
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ModelFolderError
from hubnmt.model import Transformer
from hubnmt.model.meta import meta_device
from hubnmt.text.tokenizer import Tokenizer, Tokenizers


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
            target / "config.json",
            {"library": LIBRARY, "format_version": FORMAT_VERSION, **config},
        )
        write_json(target / "decoding.json", stored.decoding.to_dict())
        stored.tokenizers.save(target)
        tensors = to_stored(own_tensors(stored.model), stored.dtype)
        # Not `save_file`, which makes the file readable by its owner only.
        content = save(tensors, metadata={"format": "pt"})
        (target / "model.safetensors").write_bytes(content)
        (target / CARD_FILE).write_text(stored.card, encoding="utf-8")
        for name, text in (notes or {}).items():
            (target / name).write_text(text, encoding="utf-8")


def load_model(folder: str | os.PathLike[str]) -> StoredModel:
    """Load and validate a model folder.

    Raises:
        ModelFolderError: naming the file, the key and the remedy.
    """
    folder = Path(folder)
    config = description.load_config(folder)
    tokenizers = _load_tokenizers(folder, config)
    decoding_file = folder / "decoding.json"
    decoding = DecodingConfig()
    if decoding_file.exists():
        values = read_json(decoding_file)
        values.pop("prefix", None)  # a default of earlier versions
        decoding = description.parse_config(DecodingConfig, values, decoding_file)
    weights = folder / "model.safetensors"
    with meta_device():  # allocates no memory for an invalid config
        dtype = check_weights(Transformer(config), weights)
    model = Transformer(config).eval()
    load_weights(model, weights)
    return StoredModel(
        model=model,
        tokenizers=tokenizers,
        decoding=decoding,
        card=description.read_card(folder),
        dtype=dtype,
    )


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers:
    joint = folder / "tokenizer.json"
    if joint.exists() or not (folder / "tokenizer_src.json").exists():
        src = tgt = Tokenizer.load(joint, vocab_size=config.src_vocab_size)
        names = (joint.name, joint.name)
    else:
        names = ("tokenizer_src.json", "tokenizer_tgt.json")
        src = Tokenizer.load(folder / names[0], vocab_size=config.src_vocab_size)
        tgt = Tokenizer.load(folder / names[1], vocab_size=config.tgt_vocab_size)
    wanted = (config.src_vocab_size, config.tgt_vocab_size)
    for tokenizer, size, name in zip((src, tgt), wanted, names, strict=True):
        if tokenizer.vocab_size != size:
            raise ModelFolderError(
                f"{folder / name}: {tokenizer.vocab_size} pieces, but config.json says {size}; "
                "the files come from different models"
            )
    return Tokenizers(src, tgt)
