"""`export` writes a new folder, and never into one that is used."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hubnmt
from hubnmt import Translator
from hubnmt.__main__ import main

PRETRAINED = Path(hubnmt.__file__).parent / "pretrained"
Run = Callable[..., str]


@pytest.mark.parametrize("name", ["de-en-multi30k", "en-ml"])
def test_an_exported_folder_works_alone(name: str, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    assert run("export", name, tmp_path / "out", "--to", "ctranslate2") == f"{tmp_path / 'out'}\n"
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    absent = "import sys; sys.modules.update(hubnmt=None, torch=None)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{absent}\n{code}"],
        cwd=tmp_path / "out",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    (src,) = re.findall(r"""encode\(['"](.*?)['"]\)""", code)
    translation = Translator.from_pretrained(name).translate(src)
    assert (done.stdout, done.stderr) == (f"{translation.text}\n", "")


def test_a_folder_in_use_stays_as_it_is(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious", encoding="utf-8")
    assert main(["export", model, str(tmp_path / "out"), "--to", "ctranslate2"]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_place_that_cannot_be_written_is_one_line(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for kind in ("int8", "ctranslate2"):
        assert main(["export", model, str(tmp_path / "file" / "new"), "--to", kind]) == 2
        assert "cannot be written" in capsys.readouterr().err


def test_a_quantization_that_would_be_ignored_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = ["export", model, str(tmp_path / "out"), "--to", "int8", "--quantization", "int8"]
    assert main(request) == 2
    assert "for --to ctranslate2 only" in capsys.readouterr().err


def test_another_type_of_weights_keeps_the_record_and_is_on_the_card(tmp_path: Path) -> None:
    old, new = PRETRAINED / "de-en-multi30k", tmp_path / "new"
    assert main(["export", "de-en-multi30k", str(new), "--to", "int8"]) == 0
    assert "- weights stored as: float16\n" in (old / "README.md").read_text(encoding="utf-8")
    assert "- weights stored as: int8\n" in (new / "README.md").read_text(encoding="utf-8")
    for name in ("metrics.jsonl", "samples.md"):
        assert (new / name).read_bytes() == (old / name).read_bytes()
