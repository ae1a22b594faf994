"""A model, and the commands run on it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt import Translator
from hubnmt.__main__ import main
from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig

Run = Callable[..., str]


@pytest.fixture
def lines() -> list[str]:
    """Lines with what lines can hold: nothing, odd white space, other scripts."""
    return ["Ein Hund rennt.", "", "Zwei\u2028Männer\x0cstehen.", "  x  ", "നായ", "a\rb", "Ja!"]


@pytest.fixture
def model(stored: StoredModel, tmp_path: Path) -> str:
    """A folder with a random model."""
    decoding = DecodingConfig(beam_size=2)
    save_model(tmp_path / "model", dataclasses.replace(stored, decoding=decoding))
    return str(tmp_path / "model")


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command that must succeed and say nothing wrong; returns standard output."""

    def run_command(*arguments: object) -> str:
        status = main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        assert status == 0, err
        assert b"Traceback" not in err
        return out.decode("utf-8")

    return run_command


@pytest.fixture
def expected(model: str, lines: list[str]) -> list[str]:
    """What the Python interface says about `lines`, as lines."""
    translations = Translator.from_pretrained(model).translate(lines, max_new_tokens=6)
    return [translation.text.replace("\n", " ") for translation in translations]
