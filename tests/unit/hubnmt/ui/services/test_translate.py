from pathlib import Path
from typing import Any

import pytest

from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, InputError
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.inspection import Inspector
from hubnmt.ui.services.limits import N_TOGETHER
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Answer, Handlers, Timed

TEXT = "ein hund rennt im schnee"


def _translate(handlers: Handlers, text: str = TEXT, model: str = "", **changes: Any) -> Answer:
    """Translate on the page with the model's own options but for some changes."""
    values = decoding_controls.control_values(handlers.choose(model).decoding) | changes
    *_, answer = handlers.translate_page(text, model, *values.values())
    assert isinstance(answer, Answer)
    return answer


def test_the_page_gets_text_timing_and_alternatives(handlers: Handlers):
    timed, alternatives, _ = _translate(handlers, model="second", length_penalty=0.5, n_best=2)
    text = timed.translation.text
    assert text == TEXT.upper()
    assert timed.seconds > 0
    assert alternatives["src"] == TEXT
    assert alternatives["model"] == "second"
    assert alternatives["sentences"] == [[0, len(TEXT)]]
    candidates = [(c["text"], c["rows"]) for c in alternatives["candidates"]]
    assert candidates == [(text, [[7, 8]]), (text + "!", [[7, 9]])]
    assert handlers.registry.get("second").asked["length_penalty"] == 0.5


def test_a_real_model_fits_the_page(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
):
    stored = StoredModel(
        model=tiny_model,
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(beam_size=3),
    )
    save_model(tmp_path / "tiny", stored)
    handlers = Handlers(
        ModelRegistry(Translator.from_pretrained, {}, opening=str(tmp_path / "tiny"))
    )
    assert handlers.choose("").facts.size_mb > 0
    timed, alternatives, _ = _translate(handlers, "Ein Hund.", beam_size=3.0, n_best=2)
    text = timed.translation.text
    assert len(alternatives["candidates"]) == 2
    figure = Inspector(handlers.registry).explore(alternatives).figure
    assert figure is not None
    pieces = figure["units"]["pieces"]
    assert pieces["maps"]["cross"]["heads"] == 3
    assert pieces["maps"]["encoder"]["layers"] == 1
    found = Endpoints(handlers).attention("Ein Hund.", translation=text, layer=2, head=1)
    assert {len(row) for row in found["weights"]} == {len(found["src_tokens"])}
    assert len(found["weights"]) == len(found["tgt_tokens"])


def test_refused_options_are_refused_before_anything_is_shown(handlers: Handlers):
    with pytest.raises(ConfigError, match="n_best = 9"):
        _translate(handlers, n_best=9)
    with pytest.raises(InputError):
        _translate(handlers, "")


@pytest.mark.parametrize(("n_words", "n_together"), [(1, 1), (600, N_TOGETHER)])
def test_sentences_of_a_long_text_are_searched_side_by_side(
    n_words: int, n_together: int, handlers: Handlers
):
    *_, last = handlers.stream_text("ja " * n_words, "")
    assert isinstance(last, Timed)
    assert handlers.registry.get("").n_together == n_together  # type: ignore[attr-defined]
