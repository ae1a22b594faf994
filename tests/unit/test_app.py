import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hubnmt.__main__ import main
from hubnmt.cli.arguments import build_parser
from hubnmt.ui.gradio.launch import is_private, make_registry, may_ask_hub


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    return build_parser().parse_args(["app", *arguments])


def _is_private(arguments: list[str], environment: Mapping[str, str]) -> bool:
    return is_private(_parse(arguments), environment)


def test_the_page_is_private_on_the_persons_own_machine():
    assert _is_private([], {})
    assert _is_private(["--host", "localhost"], {})


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--host", "0.0.0.0"], {}),
        (["--share"], {}),
        ([], {"SPACE_ID": "user/space"}),
        ([], {"GRADIO_SERVER_NAME": "0.0.0.0"}),
        ([], {"GRADIO_SHARE": "True"}),
    ],
)
def test_others_who_reach_the_page_open_no_local_folder(
    arguments: list[str], environment: Mapping[str, str]
):
    assert not _is_private(arguments, environment)
    registry = make_registry(_parse([*arguments, "--model", "x"]), environment)
    assert not registry.allow_local


@pytest.mark.parametrize(
    ("arguments", "environment", "may"),
    [
        ([], {}, True),
        ([], {"HUBNMT_HUB": ""}, True),
        ([], {"HUBNMT_HUB": "0"}, False),
        ([], {"HUBNMT_HUB": "off"}, False),
        (["--share"], {}, False),
        ([], {"SPACE_ID": "user/space"}, False),
        ([], {"SPACE_ID": "user/space", "HUBNMT_HUB": "1"}, True),
        *((["--host", "0.0.0.0"], {"HUBNMT_HUB": said}, False) for said in ("", "off", " 1")),
    ],
)
def test_strangers_name_models_of_the_hub_only_if_the_owner_says_so(
    arguments: list[str], environment: Mapping[str, str], may: bool
):
    options = _parse([*arguments, "--model", "x"])
    assert may_ask_hub(options, environment) is may
    assert make_registry(options, environment).allow_hub is may


def test_the_option_goes_before_the_environment():
    environment = {"HUBNMT_MODEL": "from-environment"}
    for arguments, opening in ((["--model", "mine"], "mine"), ([], "from-environment")):
        registry = make_registry(_parse(arguments), environment)
        assert registry.opening == opening


def test_an_unknown_model_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]):
    assert main(["app", "--model", "no-such-model"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hubnmt: error: ")
    assert captured.err.count("\n") == 1
    assert "no-such-model" in captured.err


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
