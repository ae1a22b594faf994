"""Back-translation: a line in, a pair out; stopped and started again it is the same file."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.translator import Translator
from training.augment import back_translate as back
from training.augment.back_translate import main

LINES = [
    "A dog is running in the snow.",
    "",
    "Two men are at the stove.",
    "A\ttab and  spaces",
    "A woman in blue.",
    "A little girl climbs.",
    "Snow.",
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back, "CHUNK_LINES", 2)


@pytest.fixture
def reverse(tiny_stored: StoredModel, tmp_path: Path) -> Path:
    """A model from de to en, as the tiny one is: so en is what the new model would translate."""
    decoding = DecodingConfig(beam_size=2, max_new_tokens=6)
    save_model(tmp_path / "reverse", dataclasses.replace(tiny_stored, decoding=decoding))
    return tmp_path / "reverse"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "captions.de"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


Call = Callable[..., int]


@pytest.fixture
def call(reverse: Path, text: Path, tmp_path: Path) -> Call:
    def run(*options: str, output: str = "out") -> int:
        words = ["--model", str(reverse), "--input", str(text), "--output", str(tmp_path / output)]
        return main([*words, *options])

    return run


def rows_of(folder: Path) -> list[list[str]]:
    lines = (folder / "pairs.tsv").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return [line.split("\t") for line in lines]


def stop_after(n_chunks: int, patch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in the middle of a later chunk."""
    translate = back._translate
    done = 0

    def interrupted(*args: Any) -> bytes:
        nonlocal done
        if done == n_chunks:
            raise KeyboardInterrupt
        done += 1
        return translate(*args)

    patch.setattr(back, "_translate", interrupted)


def test_each_line_becomes_a_pair_with_its_translation_as_source(
    call: Call, reverse: Path, tmp_path: Path
) -> None:
    assert call() == 0
    header, *rows = rows_of(tmp_path / "out")
    assert header == ["en", "de"]  # the new model's source, then its target
    assert [tgt for _, tgt in rows] == [" ".join(line.split()) for line in LINES]
    translator = Translator.from_pretrained(reverse)
    expected = [each.text for each in translator.translate(LINES[:2], guard=False)]
    assert [src for src, _ in rows[:2]] == [" ".join(line.split()) for line in expected]
    assert rows[1] == ["", ""]  # the line stays in its place; cleaning drops it


@pytest.mark.parametrize(
    ("n_chunks", "options"), [(0, []), (1, ["--sample", "--seed", "3", "--top-k", "50"])]
)
def test_stopped_and_started_again_it_is_the_same_file(
    n_chunks: int, options: Sequence[str], call: Call, tmp_path: Path
) -> None:
    assert call(*options, output="straight") == 0
    with pytest.MonkeyPatch.context() as patch:
        stop_after(n_chunks, patch)
        assert call(*options) == 130
    assert len(rows_of(tmp_path / "out")) == 1 + 2 * n_chunks
    assert call(*options) == 0
    files = [tmp_path / name / "pairs.tsv" for name in ("straight", "out")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_pairs_made_otherwise_are_not_mixed(
    call: Call, text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert call("--limit", "2") == 0
    before = (tmp_path / "out" / "pairs.tsv").read_bytes()
    assert call("--limit", "2", "--sample") == 2
    assert "options was {}, is {'sample': True}; choose another --output" in caplog.text
    text.write_text("Other lines.\n" * 9, encoding="utf-8")
    assert call("--limit", "2") == 2
    assert (tmp_path / "out" / "pairs.tsv").read_bytes() == before
