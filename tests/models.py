"""Random models and a batch: every size differs, so that a swapped axis shows."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.config import ModelConfig
from hubnmt.model.transformer import Transformer

SRC_VOCAB, TGT_VOCAB = 19, 23


def make_config(**changes: Any) -> ModelConfig:
    """H=3 heads of E=4, D=12, F=17, 2 encoder layers, 3 decoder layers, no dropout."""
    defaults = {
        "src_lang": "de",
        "tgt_lang": "en",
        "src_vocab_size": SRC_VOCAB,
        "tgt_vocab_size": TGT_VOCAB,
        "d_model": 12,
        "n_heads": 3,
        "d_ff": 17,
        "n_encoder_layers": 2,
        "n_decoder_layers": 3,
        "share_embeddings": False,
        "dropout": 0.0,
    }
    return ModelConfig(**(defaults | changes))


def randomize(module: nn.Module) -> nn.Module:
    """Give every parameter a random value, so that no zero bias or unit gain hides a mistake."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
    return module.double()


def make_model(**changes: Any) -> Transformer:
    """A float64 model in evaluation mode with random weights."""
    torch.manual_seed(0)
    model = Transformer(make_config(**changes))
    randomize(model)
    return model.eval()


class Batch(NamedTuple):
    src_ids: Tensor
    tgt_in: Tensor
    src_pad_mask: Tensor


def make_batch() -> Batch:
    """B=2 sentences: S=5 and 3 source tokens, T=7 target tokens."""
    generator = torch.Generator().manual_seed(1)
    src_ids = torch.randint(3, SRC_VOCAB, (2, 5), generator=generator)
    tgt_in = torch.randint(3, TGT_VOCAB, (2, 7), generator=generator)
    src_pad_mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    return Batch(src_ids.masked_fill(src_pad_mask, 0), tgt_in, src_pad_mask)
