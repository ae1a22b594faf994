"""Models whose output is known: one with random weights, and one whose weights copy the source."""

import dataclasses

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.model.transformer import Transformer
from hubnmt.translator import Translator
from tests.models import make_config


@pytest.fixture
def stored(tiny_stored: StoredModel) -> StoredModel:
    """Random but decided weights: no two continuations are nearly equal."""
    model = tiny_stored.model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
        model.src_embedding.weight.mul_(2)
    return dataclasses.replace(tiny_stored, decoding=DecodingConfig(beam_size=3, n_best=2))


@pytest.fixture
def random_model(stored: StoredModel) -> Translator:
    """A model with random weights: the same meaningless text each time."""
    return Translator(stored)


@pytest.fixture
def position_model(tiny_stored: StoredModel) -> StoredModel:
    """One layer a side, all matrices zero, so that the decoder knows only its position."""
    size = tiny_stored.tokenizers.tgt.vocab_size
    layers = {"n_heads": 1, "n_encoder_layers": 1, "n_decoder_layers": 1}
    sizes = {"src_vocab_size": size, "tgt_vocab_size": size, "d_model": 128, "max_src_tokens": 40}
    model = Transformer(make_config(**layers, **sizes, tie_output=False)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.zero_()
    return dataclasses.replace(tiny_stored, model=model)


@pytest.fixture
def copying_model(position_model: StoredModel) -> Translator:
    """A model that copies: each position attends to the same position of the source.

    Features 64 to 125 hold a random code for each token. Cross-attention compares the first 32
    features, which hold the position, and adds the code at the best position to the output. The
    last feature, which is nearly constant, undoes the mean that the layer norm subtracts.
    """
    model = position_model.model
    attention = model.get_submodule("decoder.layers.0.cross_attention")
    place, code = range(32), range(64, 126)
    codes = torch.zeros_like(model.src_embedding.weight)  # (V, D)
    codes[:, 64:126] = torch.randn(len(codes), 62).sign()
    spread = model.positions.table[:40].std(1, correction=0).mean()
    with torch.no_grad():
        model.src_embedding.weight.copy_(codes)
        q, k, v = attention.get_parameter("qkv_proj.weight").chunk(3)
        for projection in (q, k):
            projection[place, place] = 100
            projection[:32, -1] = -100
        attention.get_parameter("qkv_proj.bias")[:32] = 100 / spread
        v[code, code] = 1
        attention.get_parameter("out_proj.weight")[code, code] = 100
        model.output_proj.weight.copy_(codes)
    decoding = DecodingConfig(beam_size=3, n_best=2)
    return Translator(dataclasses.replace(position_model, decoding=decoding))
