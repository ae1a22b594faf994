import dataclasses
from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.services import decoding_controls


def test_every_decoding_option_has_one_control_that_says_what_it_does():
    options = ["prefix", *(field.name for field in dataclasses.fields(DecodingConfig))]
    assert sorted(decoding_controls.NAMES) == sorted(options)
    assert all(control.label and control.info for control in decoding_controls.CONTROLS)
    assert len({control.label for control in decoding_controls.CONTROLS}) == len(options)


def read_back(values: dict[str, Any]) -> DecodingConfig:
    """Read the settings from what the controls say; the prefix is none of them."""
    options = decoding_controls.read_options(list(values.values()))
    assert options.pop("prefix") == ""
    return DecodingConfig.from_dict(options)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize(
    "control",
    [c for c in decoding_controls.CONTROLS if isinstance(c, decoding_controls.Slider)],
    ids=lambda c: c.name,
)
def test_both_ends_of_every_range_are_possible(control: decoding_controls.Slider, end: str):
    values = decoding_controls.control_values(DecodingConfig(beam_size=16), "Best")
    values |= {"n_best": 1, control.name: getattr(control, end)}
    read_back(values)


def test_the_defaults_of_a_model_come_back_as_they_were():
    decoding = DecodingConfig(beam_size=4, n_best=4, max_new_tokens=None, top_p=0.5)
    values = decoding_controls.control_values(decoding)
    assert tuple(values) == decoding_controls.NAMES
    assert read_back(values) == decoding


def test_values_beyond_a_range_are_shown_at_its_end():
    values = decoding_controls.control_values(DecodingConfig(beam_size=200, length_penalty=-1.0))
    assert (values["beam_size"], values["length_penalty"]) == (16, 0)


def test_alternatives_are_shown_as_far_as_the_beam_reaches():
    assert (
        decoding_controls.control_values(DecodingConfig(beam_size=5))["n_best"]
        == decoding_controls.N_BEST
    )
    assert decoding_controls.control_values(DecodingConfig(beam_size=2))["n_best"] == 2


@pytest.mark.parametrize("preset", decoding_controls.PRESETS)
def test_every_preset_is_possible_and_changes_what_it_says(preset: str):
    values = decoding_controls.control_values(DecodingConfig(beam_size=5), preset)
    assert tuple(values) == decoding_controls.NAMES
    options = read_back(values)
    for name, value in decoding_controls.PRESETS[preset].items():
        assert getattr(options, name) == value


def test_an_emptied_control_is_left_to_the_model():
    values = decoding_controls.control_values(DecodingConfig()) | {"seed": None}
    assert "seed" not in decoding_controls.read_options(list(values.values()))


def test_a_sentence_is_completed_with_what_counts_for_one_search():
    values = decoding_controls.control_values(DecodingConfig(), "Creative")
    values |= {"beam_size": 3.0, "max_new_tokens": 0, "prefix": "A", "length_penalty": None}
    assert decoding_controls.read_steered(list(values.values())) == {
        "beam_size": 3,
        "max_new_tokens": None,
        "no_repeat_ngram_size": 0,
        "repetition_penalty": 1,
    }


def test_options_not_given_are_left_out_and_whole_numbers_are_whole():
    values = {"text": "a", "beam_size": 5.0, "top_k": None, "top_p": 0.5, "sample": False}
    given = decoding_controls.given_options(values)
    assert given == {"beam_size": 5, "top_p": 0.5, "sample": False}
    assert isinstance(given["beam_size"], int)
