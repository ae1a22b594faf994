import dataclasses

from hubnmt.config import DecodingConfig
from hubnmt.ui.services import decoding_controls


def test_every_decoding_option_has_one_control_that_says_what_it_does():
    options = ["prefix", *(field.name for field in dataclasses.fields(DecodingConfig))]
    assert sorted(decoding_controls.NAMES) == sorted(options)
    assert all(control.label and control.info for control in decoding_controls.CONTROLS)
    assert len({control.label for control in decoding_controls.CONTROLS}) == len(options)
