"""An engine nobody here wrote, CTranslate2, says the same as ours."""

from pathlib import Path

import ctranslate2
import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import Hypothesis, run_search
from hubnmt.errors import ConfigError
from hubnmt.inference.ctranslate2_export import PAD, build_spec, export_ctranslate2
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


def peer_of(stored: StoredModel, folder: Path) -> ctranslate2.Translator:
    export_ctranslate2(stored, folder)
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)


def search(stored: StoredModel, **options: int) -> list[list[Hypothesis]]:
    engine = TorchEngine(stored.model, tokenizers=stored.tokenizers)
    return run_search(engine.search(ROWS, DecodingConfig(**options)))


def test_ctranslate2_finds_the_same_greedy_translations(
    stored: StoredModel, tmp_path: Path
) -> None:
    peer, pieces = peer_of(stored, tmp_path / "ct2"), stored.tokenizers.src.pieces
    answers = peer.translate_batch(
        [[pieces[token_id] for token_id in row] for row in ROWS],
        beam_size=1,
        max_decoding_length=9,
    )
    for ours, answer in zip(search(stored, beam_size=1, max_new_tokens=9), answers, strict=True):
        assert [pieces[token_id] for token_id in ours[0].ids] == answer.hypotheses[0]


def test_ctranslate2_gives_every_token_the_same_log_probability(
    stored: StoredModel, tmp_path: Path
) -> None:
    peer, pieces = peer_of(stored, tmp_path / "ct2"), stored.tokenizers.src.pieces
    found = search(stored, beam_size=4, n_best=3, max_new_tokens=7)
    pairs = [(row, each) for row, n_best in zip(ROWS, found, strict=True) for each in n_best]
    answers = peer.score_batch(
        [[pieces[token_id] for token_id in row] for row, _ in pairs],
        [[pieces[token_id] for token_id in each.ids] for _, each in pairs],
    )
    assert len(pairs) == 9
    for (_, ours), answer in zip(pairs, answers, strict=True):
        assert list(ours.token_log_probs) == pytest.approx(answer.log_probs, abs=1e-4)


def test_every_piece_has_a_name_of_its_own_without_white_space(tiny_tokenizer: Tokenizer) -> None:
    pieces = tiny_tokenizer.pieces
    assert len(set(pieces)) == tiny_tokenizer.vocab_size
    assert all(piece and not any(map(str.isspace, piece)) for piece in pieces)
    assert pieces[tiny_tokenizer.pad_id] == PAD


def test_an_unknown_quantization_is_refused(stored: StoredModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CTranslate2"):
        export_ctranslate2(stored, tmp_path / "ct2", quantization="int3")
    assert not (tmp_path / "ct2").exists()


def test_a_second_export_takes_the_place_of_the_first(stored: StoredModel, tmp_path: Path) -> None:
    export_ctranslate2(stored, tmp_path / "ct2")
    export_ctranslate2(stored, tmp_path / "ct2", quantization="int8")
    assert ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu") is not None
    assert [path.name for path in tmp_path.iterdir()] == ["ct2"]


def test_without_ctranslate2_the_message_says_what_to_install(
    stored: StoredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubnmt.inference.ctranslate2_export.ctranslate2", None)
    with pytest.raises(ConfigError, match=r"pip install 'hubnmt\[ct2\]'"):
        export_ctranslate2(stored, tmp_path / "ct2")


def test_the_aligning_head_travels_along(stored: StoredModel) -> None:
    spec = build_spec(stored)
    head = stored.model.config.alignment_head
    assert int(spec.decoder.alignment_layer) == (-1 if head is None else head[0])
