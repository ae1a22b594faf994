"""A user's mistake is one line on standard error and exit status 2; nothing is harmed by it."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt.__main__ import main
from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

Fails = Callable[..., str]


@pytest.fixture(scope="module")
def desk(
    tiny_config: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with a model and some files that are no good."""
    tmp_path = tmp_path_factory.mktemp("desk")
    stored = StoredModel(
        model=Transformer(tiny_config).eval(),
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(beam_size=1, max_new_tokens=4),
    )
    for name in ("good", "no-weights"):
        save_model(tmp_path / name, stored)
    (tmp_path / "no-weights" / "model.safetensors").unlink()
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "three.txt").write_text("Ein Hund\n\nZwei Hunde\n", encoding="utf-8")
    (tmp_path / "two.txt").write_text("A dog\nTwo dogs\n", encoding="utf-8")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "many.txt").write_text("Ein Hund\n" * 600, encoding="utf-8")
    (tmp_path / "latin1.txt").write_bytes("Ein Hund\nZwei Männer\n".encode("latin-1"))
    (tmp_path / "binary.bin").write_bytes(b"Ein Hund\n\x7fELF\x00\x00\n")
    (tmp_path / "endless.txt").write_text(f"Ein Hund\n{'x' * 100_000}\n", encoding="utf-8")
    (tmp_path / "old.txt").write_text("precious\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def here(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, to work in."""
    monkeypatch.chdir(desk)
    return desk


def one_line(err: str) -> str:
    assert err.startswith("hubnmt: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert len(err) < 1000
    return err


@pytest.fixture
def fails(here: Path, capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run a command that must be refused; returns its one line."""

    def run(*arguments: str) -> str:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        return one_line(err)

    return run


TRANSLATE = ["translate", "--model", "good"]

REQUESTS: dict[str, tuple[list[str], list[str]]] = {
    # the mistake: (command, words of the answer)
    "model is an empty folder": (
        ["translate", "x", "--model", "empty-folder"],
        ["empty-folder", "config.json"],
    ),
    "missing input": ([*TRANSLATE, "--input", "nowhere.txt"], ["nowhere.txt", "No such file"]),
    "input in Latin 1": ([*TRANSLATE, "--input", "latin1.txt"], ["latin1.txt, line 2", "UTF-8"]),
    "a line without end": (
        [*TRANSLATE, "--input", "endless.txt"],
        ["endless.txt, line 2", "100,000", "50,000"],
    ),
    "a text without end": ([*TRANSLATE, "Hund", "x" * 100_000], ["text 2", "100,000", "50,000"]),
    "half a character": ([*TRANSLATE, "H\udcfcnd"], ["surrogate"]),
    "output exists": ([*TRANSLATE, "x", "--output", "old.txt"], ["old.txt", "--overwrite"]),
    "output is the input": (
        [*TRANSLATE, "--input", "two.txt", "--output", "./two.txt", "--overwrite"],
        ["same file"],
    ),
    "evaluate a model and a file": (
        ["evaluate", "--model", "good", "--hyp", "two.txt", "--ref", "two.txt"],
        ["--model", "--hyp"],
    ),
    "translations and references of different length": (
        ["evaluate", "--hyp", "three.txt", "--ref", "two.txt"],
        ["three.txt has 3", "two.txt has 2"],
    ),
    "empty files": (["evaluate", "--hyp", "empty.txt", "--ref", "empty.txt"], ["empty"]),
}


@pytest.mark.parametrize("mistake", REQUESTS)
def test_a_mistake_is_one_line_that_names_it(mistake: str, fails: Fails, here: Path) -> None:
    command, words = REQUESTS[mistake]
    message = fails(*command)
    assert [word for word in words if word not in message] == []
    assert (here / "old.txt").read_text(encoding="utf-8") == "precious\n"
    assert (here / "two.txt").read_text(encoding="utf-8") == "A dog\nTwo dogs\n"


def test_bytes_that_are_no_text_are_refused(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Ein Hund\n\xff\xfe\n")))
    assert "standard input, line 2" in fails("translate", "--model", "good")
