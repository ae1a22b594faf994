"""An engine nobody here wrote, CTranslate2, says the same as ours."""

from pathlib import Path

import ctranslate2
import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import run_search
from hubnmt.errors import ConfigError
from hubnmt.inference.ctranslate2_export import export_ctranslate2, list_pieces
from hubnmt.inference.engine import TorchEngine
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

SHAPES = {
    "pre-norm, shared and tied": {"norm_order": "pre"},
    "post-norm, gelu": {"norm_order": "post", "activation": "gelu"},
    "separate and untied": {"share_embeddings": False, "tie_output": False},
    "aligned": {"alignment_head": (1, 2)},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def stored(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> StoredModel:
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


ROWS = [[40, 50, 60, 70, 80], [90, 41], [55, 66, 77, 88, 99, 44, 33, 22]]


def test_ctranslate2_gives_every_token_the_same_log_probability(
    stored: StoredModel, tmp_path: Path
) -> None:
    export_ctranslate2(stored, tmp_path / "ct2")
    peer = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    pieces = list_pieces(stored.tokenizers.src)
    engine = TorchEngine(stored.model, tokenizers=stored.tokenizers)
    decoding = DecodingConfig(beam_size=4, n_best=3, max_new_tokens=7)
    found = run_search(engine.search(ROWS, decoding))
    pairs = [(row, each) for row, n_best in zip(ROWS, found, strict=True) for each in n_best]
    answers = peer.score_batch(
        [[pieces[token_id] for token_id in row] for row, _ in pairs],
        [[pieces[token_id] for token_id in each.ids] for _, each in pairs],
    )
    assert len(pairs) == 9
    for (_, ours), answer in zip(pairs, answers, strict=True):
        assert list(ours.token_log_probs) == pytest.approx(answer.log_probs, abs=1e-4)


def test_an_unknown_quantization_is_refused(stored: StoredModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CTranslate2"):
        export_ctranslate2(stored, tmp_path / "ct2", quantization="int3")
    assert not (tmp_path / "ct2").exists()
