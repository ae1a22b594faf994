"""An engine nobody here wrote, CTranslate2, says the same as ours."""

from pathlib import Path

import ctranslate2
import pytest

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.errors import ConfigError
from hubnmt.inference.ctranslate2_export import export_ctranslate2
from hubnmt.inference.engine import TorchEngine

ROWS = [[40, 50, 60, 70, 80], [90, 41], [55, 66, 77, 88, 99, 44, 33, 22]]


def test_ctranslate2_gives_every_token_the_same_log_probability(
    stored: StoredModel, tmp_path: Path
) -> None:
    export_ctranslate2(stored, tmp_path / "ct2")
    peer = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu", intra_threads=1)
    pieces = stored.tokenizers.src.pieces
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
