"""A user's mistake is one line on standard error and exit status 2; nothing is harmed by it."""

import io
from pathlib import Path

import pytest

from hubnmt.__main__ import main

TEXTS: dict[str, str] = {
    "three.txt": "Ein Hund\n\nZwei Hunde\n",
    "two.txt": "A dog\nTwo dogs\n",
    "empty.txt": "",
    "endless.txt": f"Ein Hund\n{'x' * 100_000}\n",
    "old.txt": "precious\n",
}
LATIN_1 = "Ein Hund\nZwei Männer\n".encode("latin-1")
TRANSLATE = ["translate", "--model", "model"]

MISTAKES: list[tuple[list[str], list[str]]] = [
    # (command, words of the answer)
    ([], ["Missing command; see hubnmt --help"]),
    (["tranlsate", "x"], ["Did you mean 'translate'?; see hubnmt --help"]),
    ([*TRANSLATE, "x", "--beem-size", "3"], ["--beem-size (Possible options: --beam-size, "]),
    (["evaluate", "--model", "model"], ["Missing option '--ref'"]),
    (["translate", "x"], ["Missing option '--model' (bundled models: de-en, "]),
    (["inspect", "de-en-multi30"], ["did you mean 'de-en-multi30k'?"]),
    (["app", "--model", "no-such-model"], ["no-such-model"]),
    (["inspect", "./no\x1b[2J\x07such\nmodel ദി ü"], ["ദി ü"]),  # a stranger's may steer terminals
    (["translate", "x", "--model", "empty-folder"], ["empty-folder", "config.json"]),
    ([*TRANSLATE, "--input", "nowhere.txt"], ["nowhere.txt", "No such file"]),
    ([*TRANSLATE, "--input", "latin1.txt"], ["latin1.txt, line 2", "UTF-8"]),
    ([*TRANSLATE], ["standard input, line 2", "UTF-8"]),
    ([*TRANSLATE, "--input", "endless.txt"], ["endless.txt, line 2", "100,000", "50,000"]),
    ([*TRANSLATE, "Hund", "x" * 100_000], ["text 2", "100,000", "50,000"]),
    ([*TRANSLATE, "H\udcfcnd"], ["surrogate"]),
    ([*TRANSLATE, "x", "--output", "old.txt"], ["old.txt", "--overwrite"]),
    ([*TRANSLATE, "--input", "two.txt", "--output", "./two.txt", "--overwrite"], ["same file"]),
    (["export", "model", ".", "--to", "ctranslate2"], ["not empty"]),
    (
        ["evaluate", "--model", "model", "--hyp", "two.txt", "--ref", "two.txt"],
        ["--model", "--hyp"],
    ),
    (["evaluate", "--hyp", "three.txt", "--ref", "two.txt"], ["three.txt has 3", "two.txt has 2"]),
    (["evaluate", "--hyp", "empty.txt", "--ref", "empty.txt"], ["empty"]),
    (["pull", "user/name", "--token", "x"], ["No such option: --token"]),
    (["push", "model", "user/name", "--token", "x"], ["No such option: --token"]),
]


@pytest.mark.parametrize(("command", "words"), MISTAKES, ids=lambda words: ascii(words)[:40])
def test_a_mistake_is_one_line_that_names_it(
    command: list[str],
    words: list[str],
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(Path(model).parent)
    for name, content in TEXTS.items():
        Path(name).write_text(content, encoding="utf-8")
    Path("latin1.txt").write_bytes(LATIN_1)
    Path("empty-folder").mkdir()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LATIN_1)))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hubnmt: error: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert len(err) < 1000
    assert [word for word in words if word not in err] == []
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert after == before
