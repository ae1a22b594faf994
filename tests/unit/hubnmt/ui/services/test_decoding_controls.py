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


@pytest.mark.parametrize("preset", decoding_controls.PRESETS)
def test_every_preset_is_possible_and_changes_what_it_says(preset: str):
    values = decoding_controls.control_values(DecodingConfig(beam_size=5), preset)
    assert tuple(values) == decoding_controls.NAMES
    options = read_back(values)
    for name, value in decoding_controls.PRESETS[preset].items():
        assert getattr(options, name) == value
