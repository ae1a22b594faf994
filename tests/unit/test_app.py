from collections.abc import Mapping

import pytest

import app


def _is_private(arguments: list[str], environment: Mapping[str, str]) -> bool:
    return app.is_private(app.parse_arguments(arguments), environment)


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
    registry = app.make_registry(app.parse_arguments([*arguments, "--model", "x"]), environment)
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
    options = app.parse_arguments([*arguments, "--model", "x"])
    assert app.may_ask_hub(options, environment) is may
    assert app.make_registry(options, environment).allow_hub is may


def test_the_option_goes_before_the_environment():
    environment = {"HUBNMT_MODEL": "from-environment"}
    for arguments, opening in ((["--model", "mine"], "mine"), ([], "from-environment")):
        registry = app.make_registry(app.parse_arguments(arguments), environment)
        assert registry.opening == opening


def test_an_unknown_model_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str],
):
    assert app.main(["--model", "no-such-model"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("app.py: ")
    assert captured.err.count("\n") == 1
    assert "no-such-model" in captured.err


def test_a_port_that_is_no_number_is_status_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        app.main(["--port", "many"])
    assert caught.value.code == 2
    assert "--port" in capsys.readouterr().err


def test_agents_without_their_library_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    asked = {}

    class Demo:
        def launch(self, **options: object) -> None:
            asked.update(options)
            raise ImportError("you must install gradio with the `mcp` extra")

    monkeypatch.setattr(app, "build_demo", lambda handlers: Demo())
    assert app.main(["--model", "x", "--mcp"]) == 2
    assert asked["mcp_server"] is True
    assert "install" in capsys.readouterr().err


def test_a_taken_port_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    class Demo:
        def launch(self, **_: object) -> None:
            raise OSError("Cannot find empty port in range: 7860-7860.")

    monkeypatch.setattr(app, "build_demo", lambda handlers: Demo())
    assert app.main(["--model", "x", "--port", "7860"]) == 2
    assert "empty port" in capsys.readouterr().err
