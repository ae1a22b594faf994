"""Enlarge a trained model, which then computes the same function and can be trained further.

    python -m training.grow MODEL FOLDER --encoder-layers 6 --d-ff 1024 --placeholders

New layers add nothing to the residual stream at first, because the weights of their outputs are
zero; the other weights of a new layer are those of the layer below it. New hidden features of the
feed-forward networks have outputs of zero likewise. Training such a model costs less than training
one of its size from the start. Sources: Net2Net, Chen et al. 2016
(https://arxiv.org/abs/1511.05641); progressive stacking, Gong et al. 2019
(https://proceedings.mlr.press/v97/gong19a.html).
"""

import dataclasses
import json
import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from hubnmt.checkpoint.description import check_place
from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import ModelConfig
from hubnmt.errors import ConfigError
from hubnmt.model import Transformer
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from training.command import make_parser, run_command

log = logging.getLogger("training")

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_GROWN = ("n_encoder_layers", "n_decoder_layers", "d_ff", "src_vocab_size", "tgt_vocab_size")
"""Sizes that can grow."""
_OUTPUTS = ("out_proj", "feed_forward.linear2")
"""Projections whose result is added to the residual stream."""


def grow(old: Transformer, config: ModelConfig, seed: int = 1) -> Transformer:
    """Return a larger model that computes the same function.

    Args:
        old: the trained model, with pre-norm layers.
        config: its configuration with more layers, a larger `d_ff`, or larger vocabularies.
        seed: for the weights that have no counterpart.
    """
    sizes = {name: getattr(config, name) for name in _GROWN}
    if dataclasses.replace(old.config, **sizes) != config or old.config.norm_order != "pre":
        raise ConfigError(f"a model with pre-norm layers can grow in {', '.join(_GROWN)} only")
    for name, size in sizes.items():
        if size < (least := getattr(old.config, name)):
            raise ConfigError(f"{name} = {size} is less than the {least} of the model")
    torch.manual_seed(seed)
    new = Transformer(config).eval()
    counts = {"encoder": old.config.n_encoder_layers, "decoder": old.config.n_decoder_layers}
    weights = old.state_dict()
    with torch.no_grad():
        for name, target in new.state_dict().items():
            match = _LAYER.fullmatch(name)
            n_old = counts[match[1]] if match else 0
            if match and int(match[2]) >= n_old:  # a new layer
                _copy(weights[f"{match[1]}.layers.{n_old - 1}.{match[3]}"], target, name)
                if any(output in match[3] for output in _OUTPUTS):
                    target.zero_()
            else:
                _copy(weights[name], target, name)
    return new


def _copy(source: Tensor, target: Tensor, name: str) -> None:
    if "feed_forward.linear2" in name:
        target.zero_()
    target[tuple(slice(size) for size in source.shape)] = source


def with_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> Tokenizer:
    """Return the tokenizer with a piece for each text, alone and after a space.

    Their merges come before all others, so only texts that contain them are tokenized differently.
    The texts are single characters, which no piece contains.
    """
    settings = json.loads(tokenizer.to_json())
    vocab: dict[str, int] = settings["model"]["vocab"]
    names = {token_id: name for name, token_id in vocab.items()}
    byte_names = [names[token_id] for token_id in tokenizer.byte_ids()]
    merges: dict[tuple[str, str], None] = {}
    for text in texts:
        whole = ""
        for byte in text.encode():
            if whole:
                merges[whole, byte_names[byte]] = None
            whole += byte_names[byte]
        merges[byte_names[ord(" ")], whole] = None
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    settings["model"]["merges"] = [*map(list, merges), *settings["model"]["merges"]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_text(json.dumps(settings), encoding="utf-8")
        return Tokenizer.load(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("grow", __doc__)
    parser.add_argument("model", help="bundled model, folder, or model on the Hub")
    parser.add_argument("folder", type=Path, help="output folder")
    parser.add_argument("--encoder-layers", type=int, metavar="N", help="default: as it is")
    parser.add_argument("--decoder-layers", type=int, metavar="N", help="default: as it is")
    parser.add_argument("--d-ff", type=int, metavar="N", help="default: as it is")
    parser.add_argument(
        "--placeholders", action="store_true", help="add pieces for the placeholders of spans"
    )
    parser.add_argument("--seed", type=int, default=1, help="for weights without a counterpart")
    options = parser.parse_args(arguments)

    def work() -> None:
        check_place(options.folder)
        old = Translator.from_pretrained(options.model)
        src, tgt = old.tokenizers
        if options.placeholders:
            is_joint = src is tgt
            src = with_pieces(src, PLACEHOLDERS)
            tgt = src if is_joint else with_pieces(tgt, PLACEHOLDERS)
        sizes = {
            "n_encoder_layers": options.encoder_layers,
            "n_decoder_layers": options.decoder_layers,
            "d_ff": options.d_ff,
            "src_vocab_size": src.vocab_size,
            "tgt_vocab_size": tgt.vocab_size,
        }
        chosen = {name: size for name, size in sizes.items() if size is not None}
        config = dataclasses.replace(old.config, **chosen)
        model = grow(old.model, config, options.seed)
        stored = StoredModel(
            model=model, tokenizers=Tokenizers(src, tgt), decoding=old.decoding, card=old.card
        )
        save_model(options.folder, stored)
        log.info("%s: %s parameters", options.folder, f"{config.n_parameters:,}")

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
