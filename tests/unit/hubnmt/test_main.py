"""The door to all commands: help, version, and how a command ends."""

import pytest

import hubnmt
from hubnmt.__main__ import main


@pytest.mark.parametrize(
    "arguments", [["--help"], ["translate", "--help"], ["evaluate", "-h"], ["inspect", "-h"]]
)
def test_help_is_printed_to_standard_output(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    out, err = capsys.readouterr()
    assert "usage: hubnmt" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"hubnmt {hubnmt.__version__}\n"


def test_an_error_is_one_line_that_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """What a message quotes may be a stranger's; letters of any script stay."""
    status = main(["inspect", "./no\x1b[2J\x07such\nmodel ദി ü"])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("hubnmt: error: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    assert "ദി ü" in err
