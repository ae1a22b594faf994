"""Random models of every shape that an export has to cover."""

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.model.transformer import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

SHAPES = {
    "pre-norm, shared and tied": {"norm_order": "pre"},
    "post-norm, gelu": {"norm_order": "post", "activation": "gelu"},
    "separate and untied": {"share_embeddings": False, "tie_output": False},
    "aligned": {"alignment_head": (1, 2)},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def stored(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> StoredModel:
    """H = 3, E = 8, D = 24, F = 40; three encoder layers, two decoder layers."""
    torch.manual_seed(5)
    config = ModelConfig(
        src_lang="de",
        tgt_lang="en",
        src_vocab_size=tiny_tokenizer.vocab_size,
        tgt_vocab_size=tiny_tokenizer.vocab_size,
        **{"d_model": 24, "n_heads": 3, "d_ff": 40, "n_encoder_layers": 3, "n_decoder_layers": 2}
        | request.param,
    )
    model = Transformer(config).eval()
    with torch.no_grad():  # biases and norms off their neutral start, so that a swap shows
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return StoredModel(
        model=model,
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(),
    )
