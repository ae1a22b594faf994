"""Config: what makes sense is accepted, what does not is named with its allowed range."""

import json
from typing import Any

import pytest

from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError

PAIR = {"src_lang": "de", "tgt_lang": "en", "src_vocab_size": 300, "tgt_vocab_size": 300}


def make_model_config(**changes: Any) -> ModelConfig:
    return ModelConfig(**(PAIR | changes))


@pytest.mark.parametrize(
    "config",
    [
        make_model_config(),
        make_model_config(alignment_head=(2, 3), norm_order="post", dropout=0),
        make_model_config(share_embeddings=False, tgt_vocab_size=400, tie_output=False),
        DecodingConfig(),
        DecodingConfig(sample=True, n_best=9, beam_size=1, max_new_tokens=7),
    ],
)
def test_config_survives_a_trip_through_json(config: ModelConfig | DecodingConfig) -> None:
    text = json.dumps(config.to_dict())
    assert type(config).from_dict(json.loads(text)) == config


def test_all_problems_are_named_at_once_with_the_place() -> None:
    values = {"src_lang": 5, "tgt_lang": "en", "tgt_vocab_size": 300, "droput": 0.1}
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(values, where="config.json")
    message = str(caught.value)
    assert message.startswith("config.json: ")
    for part in ("src_lang = 5 must be str", "src_vocab_size is missing", "did you mean 'dropout'"):
        assert part in message


def test_something_that_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be a table"):
        ModelConfig.from_dict(["d_model"])  # type: ignore[arg-type]  # as a file may hold


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("d_model", "64", "int"),
        ("dropout", False, "float"),
        ("tie_output", 1, "bool"),
        ("norm_order", "middle", "'pre' or 'post'"),
        ("alignment_head", [1, 2.0], "null"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict(PAIR | {key: value})
    assert f"{key} = {value!r} must be" in str(caught.value)
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src_vocab_size": 0, "tgt_vocab_size": 0}, "src_vocab_size = 0 must be 1 to 1048576"),
        ({"tgt_lang": "en\x1b[2J"}, r"tgt_lang = 'en\\x1b\[2J' must be language tags"),
        ({"n_decoder_layers": -1}, "n_decoder_layers = -1 must be 1 to 256"),
        ({"ff_dropout": float("nan")}, "ff_dropout = nan must be 0 to 0.99"),
        ({"d_model": 36, "n_heads": 8}, "d_model = 36 must be a multiple of n_heads = 8"),
        ({"tgt_vocab_size": 301}, "share_embeddings needs one vocabulary"),
        ({"alignment_head": (6, 0)}, r"alignment_head = \(6, 0\) must be \(decoder layer, head\)"),
        (
            {"d_model": 2**14, "d_ff": 2**17, "n_encoder_layers": 256},
            "parameters are more than the 4,000,000,000 allowed",
        ),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_model_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 257}, "beam_size = 257 must be 1 to 256"),
        ({"length_penalty": float("nan")}, "length_penalty = nan must be -5 to 5"),
        ({"n_best": 6}, "n_best = 6 must be at most beam_size = 5"),
        ({"temperature": float("nan")}, "temperature = nan must be above 0"),
        ({"top_k": -1}, "top_k = -1 must be 0"),
        ({"top_p": 1.1}, "top_p = 1.1 must be 0 to 1"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0 must be 1 to 65536"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DecodingConfig(**changes)


def test_a_smaller_beam_lowers_the_number_of_translations() -> None:
    config = DecodingConfig(beam_size=5, n_best=3)
    assert config.with_options(beam_size=2) == DecodingConfig(beam_size=2, n_best=2)
    with pytest.raises(ConfigError, match="n_best = 3 must be at most beam_size = 2"):
        config.with_options(beam_size=2, n_best=3)
    samples = DecodingConfig(beam_size=1, n_best=3, sample=True)
    assert samples.with_options(temperature=0.5).n_best == 3
