import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hubnmt.__main__ import main
from hubnmt.ui.gradio.launch import AppOptions, make_registry, may_ask_hub


@pytest.mark.parametrize(
    ("options", "environment", "is_own"),
    [
        ({}, {}, True),
        ({"host": "localhost"}, {}, True),
        ({"host": "0.0.0.0"}, {}, False),
        ({"share": True}, {}, False),
        ({}, {"SPACE_ID": "user/space"}, False),
        ({}, {"GRADIO_SERVER_NAME": "0.0.0.0"}, False),
        ({}, {"GRADIO_SHARE": "True"}, False),
    ],
)
def test_local_folders_are_opened_on_ones_own_machine_alone(
    options: dict[str, Any], environment: Mapping[str, str], is_own: bool
):
    registry = make_registry(AppOptions(model="x", **options), environment)
    assert registry.allow_local is is_own


@pytest.mark.parametrize(
    ("options", "environment", "may"),
    [
        ({}, {}, True),
        ({}, {"HUBNMT_HUB": ""}, True),
        ({}, {"HUBNMT_HUB": "0"}, False),
        ({}, {"HUBNMT_HUB": "off"}, False),
        ({"share": True}, {}, False),
        ({}, {"SPACE_ID": "user/space"}, False),
        ({}, {"SPACE_ID": "user/space", "HUBNMT_HUB": "1"}, True),
        *(({"host": "0.0.0.0"}, {"HUBNMT_HUB": said}, False) for said in ("", "off", " 1")),
    ],
)
def test_strangers_name_models_of_the_hub_only_if_the_owner_says_so(
    options: dict[str, Any], environment: Mapping[str, str], may: bool
):
    given = AppOptions(model="x", **options)
    assert may_ask_hub(given, environment) is may
    assert make_registry(given, environment).allow_hub is may


def test_the_option_goes_before_the_environment():
    environment = {"HUBNMT_MODEL": "from-environment"}
    for model, opening in (("mine", "mine"), ("", "from-environment")):
        registry = make_registry(AppOptions(model=model), environment)
        assert registry.opening == opening


def test_an_upload_folder_that_cannot_be_written_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """As /tmp/gradio, where it belongs to another user."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert main(["app", "--model", "x"]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file' / 'gradio'} cannot be written" in said
    assert "set GRADIO_TEMP_DIR" in said
    assert said.count("\n") == 1
