"""A grown model computes the same function, has the new sizes, and can be trained further."""

import dataclasses
from pathlib import Path

import pytest

from hubnmt.errors import ConfigError
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.translator import Translator
from training.grow import grow, main

TEXTS = ["Ein Hund rennt im Schnee.", "Zwei Frauen essen an einem Tisch."]


def test_a_grown_model_translates_as_before_and_knows_the_placeholders(tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    options = ["--encoder-layers", "6", "--decoder-layers", "5", "--d-ff", "384", "--placeholders"]
    assert main(["de-en-multi30k", str(folder), *options]) == 0
    old, new = Translator.from_pretrained("de-en-multi30k"), Translator.from_pretrained(folder)
    config = new.config
    assert (config.n_encoder_layers, config.n_decoder_layers, config.d_ff) == (6, 5, 384)
    assert [each.text for each in new.translate(TEXTS)] == [
        each.text for each in old.translate(TEXTS)
    ]
    for text in (*TEXTS, "Grüße, 1 €"):
        assert new.tokenizers.src.encode(text) == old.tokenizers.src.encode(text)
    for mark in PLACEHOLDERS:
        assert len(new.tokenizers.src.encode(mark)) == 1
        assert (
            len(new.tokenizers.src.encode(f"({mark})."))
            == len(old.tokenizers.src.encode("().")) + 1
        )
        assert new.tokenizers.src.decode(new.tokenizers.src.encode(f"a {mark}.")) == f"a {mark}."


def test_a_model_does_not_shrink_or_change_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["de-en-multi30k", str(tmp_path / "new"), "--d-ff", "100"]) == 2
    assert caplog.messages == ["error: d_ff = 100 is less than the 256 of the model"]
    old = Translator.from_pretrained("de-en-multi30k").model
    with pytest.raises(ConfigError, match="can grow in"):
        grow(old, dataclasses.replace(old.config, d_model=256))
