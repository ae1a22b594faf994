"""All commands: help, version, and how a command ends."""

import os
import subprocess
import sys

import pytest

from hubnmt.__main__ import main
from tests.conftest import REPO

COMMANDS = ["translate", "evaluate", "score", "app", "inspect", "export"]
COMMANDS += ["list", "pull", "push", "space"]


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_is_printed_to_standard_output(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--help"]) == 0
    out, err = capsys.readouterr()
    assert "Usage: hubnmt" in out
    assert err == ""


CAPTIONS = str(REPO / "tests" / "fixtures" / "captions.en")
SCORE = f"evaluate --hyp {CAPTIONS} --ref {CAPTIONS}"
"""A command that starts quickly, because it runs no model."""


def run_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `hubnmt` is this package's command."""
    start = f'hubnmt() {{ "{sys.executable}" -m hubnmt "$@"; }}; '
    return subprocess.run(
        ["/bin/sh", "-c", start + command],
        env=os.environ | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("command", ["--version", "--help", "translate --help", "app --help"])
def test_what_needs_no_model_answers_at_once(command: str) -> None:
    """In seconds of the processor, which other work on the machine leaves alone."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "hubnmt", *command.split()], check=True, capture_output=True
    )
    after = os.times()
    used = after.children_user + after.children_system
    assert used - before.children_user - before.children_system < 0.5


def test_closed_standard_output_is_one_line() -> None:
    done = run_shell(f"hubnmt {SCORE} >&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hubnmt: error: standard output is closed; ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    command = [sys.executable, "-m", "hubnmt", *SCORE.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_results_are_utf8_in_every_locale_and_need_no_other_stream() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = "hubnmt translate 'മ' --model de-en-multi30k --json --beam-size 1 <&- 2>&-"
    done = run_shell(command, **ascii_only)
    assert done.returncode == 0
    assert '"src": "മ"' in done.stdout
