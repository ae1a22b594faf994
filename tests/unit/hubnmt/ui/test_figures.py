import base64

import numpy as np
import pytest

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.ui import figures
from hubnmt.ui.facts import ModelFacts, Score

MARKUP = "<img src=x onerror=alert(1)> & \"quoted\" '${x}' {{y}}"


def _rows(*shape: int) -> np.ndarray:
    weights = np.random.default_rng(1).random(shape, dtype=np.float32)
    return weights / weights.sum(-1, keepdims=True)


def _figure(**changes: object) -> dict:
    values = {
        "src_tokens": ["a", "b", "<eos>"],
        "tgt_tokens": ["A", "<eos>"],
        "cross": _rows(4, 5, 2, 3),
        "encoder_self": _rows(1, 5, 3, 3),
        "decoder_self": _rows(4, 5, 2, 2),
        "tgt_log_probs": (-0.693147, -1e-9),
        "alignment_head": (3, 1),
    }
    return figures.attention_figure(**(values | changes))


def _unpack(packed: dict, *shape: int) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(packed["weights"]), dtype="<u2")
    return numbers.reshape(packed["layers"], packed["heads"], *shape) / figures.FULL_SCALE


def test_weights_arrive_as_they_were_sent():
    cross = _rows(4, 5, 2, 3)
    figure = _figure(cross=cross)
    np.testing.assert_allclose(_unpack(figure["maps"]["cross"], 2, 3), cross, atol=1e-5)
    assert _unpack(figure["maps"]["encoder"], 3, 3).shape == (1, 5, 3, 3)
    assert figure["start"] == [3, 1]


def test_probabilities_stay_within_their_range():
    assert _figure()["probabilities"] == [0.5, 1.0]
    assert _figure(tgt_log_probs=(1e-7, -1000.0))["probabilities"] == [1.0, 0.0]


def test_weights_slightly_outside_their_range_do_not_wrap_around():
    cross = np.array([[[[1.0000001, -1e-9, 0.5]] * 2]], dtype=np.float32)
    sent = _unpack(_figure(cross=cross)["maps"]["cross"], 2, 3)
    np.testing.assert_allclose(sent[0, 0, 0], [1, 0, 0.5], atol=1e-5)


def test_a_text_too_long_to_draw_is_refused_with_its_size():
    config = ModelConfig(
        src_lang="de",
        tgt_lang="en",
        src_vocab_size=300,
        tgt_vocab_size=300,
        n_encoder_layers=1,
        n_decoder_layers=2,
        n_heads=4,
    )
    n_weights = 4 * (300 * 300 + 2 * (400 * 300 + 400 * 400))
    with pytest.raises(InputError, match=f"300 and 400 tokens make {n_weights:,}"):
        figures.check_drawable(300, 400, config)
    figures.check_drawable(30, 40, config)


def test_tokens_for_the_explorer_stay_text():
    assert _figure(src_tokens=[MARKUP, "b", "c"])["src"][0] == MARKUP


def test_notices_are_escaped_sentences():
    html = figures.notice([MARKUP], "error")
    assert "<img" not in html
    assert "&lt;img" in html
    assert 'role="alert"' in html
    assert figures.notice(["it was cut"], "warning").count("<p>It was cut.</p>") == 1


def test_no_message_is_no_notice():
    assert figures.notice([], "warning") == ""


def test_the_model_line_shows_what_is_known_and_escapes_it():
    facts = ModelFacts("m", "de", MARKUP, 2_650_000, 10.26, (Score("BLEU", 42.26, MARKUP),))
    html = figures.model_line(facts)
    assert "German →" in html
    assert "2.6 M parameters" in html or "2.7 M parameters" in html
    assert "10.3 MB" in html
    assert "<b>42.3</b>" in html
    assert "<img" not in html
    assert '"quoted"' not in html


def test_the_model_line_leaves_out_what_is_not_known():
    html = figures.model_line(ModelFacts("m", "de", "en", 950))
    assert "950 parameters" in html
    assert "MB" not in html
    assert "BLEU" not in html


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (7, "7 p"),
        (1_200, "1.2 k"),
        (56_000, "56 k"),
        (61_400_000, "61 M"),
        (3_300_000_000, "3.3 B"),
    ],
)
def test_counts_are_short(number: int, text: str):
    assert text in figures.model_line(ModelFacts("m", "de", "en", number))


def test_timing_has_units():
    html = figures.timing_line(seconds=0.0815, n_tokens=12, score=-0.309, load_seconds=1.25)
    for part in ("82 ms", "12 tokens", "147 tokens/s", "score −0.31", "opened in 1.2 s"):
        assert part in html


def test_timing_of_one_token_in_no_time():
    html = figures.timing_line(seconds=0, n_tokens=1, score=0.0, load_seconds=0)
    assert "1 token<" in html
    assert "tokens/s" not in html
    assert "opened" not in html
