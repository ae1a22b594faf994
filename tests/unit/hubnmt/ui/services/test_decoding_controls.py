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


@pytest.mark.parametrize("preset", decoding_controls.PRESETS)
def test_every_preset_is_possible_and_changes_what_it_says(preset: str):
    values = decoding_controls.control_values(DecodingConfig(beam_size=5), preset)
    assert tuple(values) == decoding_controls.NAMES
    options = read_back(values)
    for name, value in decoding_controls.PRESETS[preset].items():
        assert getattr(options, name) == value or value is None
    assert preset != "Creative" or read_back(values).seed != options.seed
