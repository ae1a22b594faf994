"""Frames are filled with the same values on both sides."""

import random
from pathlib import Path

import pytest

from hubnmt.errors import InputError
from hubnmt.text.protected_spans import PLACEHOLDERS
from training.augment.synthetic_pairs import Values, fill_frames, main, read_words
from training.augment.tables import PairTable

VALUES = Values(names=["Emre", "Zofia"], cities=["Lyon"], firms=["Rossi Ltd"])


def fill(src: str, tgt: str, *, times: int = 50, share: float = 0.0) -> list[tuple[str, str]]:
    rng = random.Random(3)
    frames = PairTable("de", "en", [(src, tgt)])
    return list(fill_frames(frames, VALUES, rng, times=times, protected_share=share))


def test_both_sides_have_the_same_values() -> None:
    frame = "{name} {surname}|{city}|{firm}|{number}"
    pairs = fill(frame, f"so {frame}")
    assert all(tgt == f"so {src}" for src, tgt in pairs)
    assert len({*pairs}) > 40
    columns = [{*column} for column in zip(*(src.split("|") for src, _ in pairs), strict=True)]
    assert "Lyon" in columns[1]
    assert "Rossi Ltd" in columns[2]
    assert all(len(column) > 10 for column in columns)  # synthetic values among them
    assert "1" not in columns[3]


def test_dates_and_times_follow_each_language() -> None:
    pairs = fill("{weekday}, {date}, {time}", "{weekday}, {date}, {time}", times=2000)
    rows = [(src.split(", "), tgt.split(", ")) for src, tgt in pairs]
    assert {tgt[0] for src, tgt in rows if src[0] == "Montag"} == {"Monday"}
    assert {tgt[1] for src, tgt in rows if src[1] == "31. März"} <= {"31 March", "March 31"}
    assert {src[1] for src, _ in rows if src[1].startswith("1. ")} == set()
    assert {tgt[2] for src, tgt in rows if src[2] == "15 Uhr"} == {"3 p.m."}
    assert {tgt[2] for src, tgt in rows if src[2] == "8 Uhr"} == {"8 a.m."}

    assert {tgt for _, tgt in fill("Um {time}.", "At {time}.") if ".." in tgt} == set()


def test_a_share_is_protected_by_placeholders() -> None:
    frame = ("{number} starb er.", "He died in {number}.")
    assert all(src[0] in PLACEHOLDERS for src, _ in fill(*frame, share=1.0))
    n_protected = sum(src[0] in PLACEHOLDERS for src, _ in fill(*frame, times=400, share=0.25))
    assert 60 < n_protected < 140


def test_the_command_fills_the_frames_of_the_project(
    repo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("faker")
    pytest.importorskip("babel")
    frames = repo / "training" / "phrasebook" / "frames-en-fr.tsv"
    command = [str(frames), "--output", str(tmp_path / "a.tsv"), "--times", "2", "--seed", "5"]
    assert main(command) == 0
    text = (tmp_path / "a.tsv").read_text(encoding="utf-8")
    header, *rows = text.splitlines()
    assert header == "en\tfr"
    assert len(rows) == 2 * (len(frames.read_text(encoding="utf-8").splitlines()) - 1)
    assert "{" not in text
    frames, words = frames.with_name("frames-words-en-ml.tsv"), frames.with_name("words-en-ml.tsv")
    command = [str(frames), "--output", str(tmp_path / "b.tsv"), "--times", "5"]
    assert main([*command, "--words", str(words)]) == 0
    assert main([str(frames), "--output", str(tmp_path / "a.tsv"), "--times", "2"]) == 2
    assert "must end in .tsv and not exist yet" in caplog.text
    assert main([str(frames), "--output", str(tmp_path / "c.tsv"), "--times", "0"]) == 2
    assert "--times 0 must be at least 1" in caplog.text


WORDS = """field\tde\tde.pl\ten\ten.pl
animal pet\tHund\tHunde\tdog\tdogs
animal\tKuh\tKühe\tcow\tcows
pet\tFisch\t\tfish\tfish
"""


def test_words_have_forms_in_each_language(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(WORDS, encoding="utf-8")
    rng = random.Random(3)

    def fill_words(src: str, tgt: str) -> set[tuple[str, str]]:
        frames = PairTable("de", "en", [(src, tgt)])
        words = read_words(path, frames)
        return {*fill_frames(frames, VALUES, rng, times=40, words=words)}

    pairs = fill_words("{animal.pl}, {animal2}", "{animal2}: {animal.pl}")
    assert pairs == {("Hunde, Kuh", "cow: dogs"), ("Kühe, Hund", "dog: cows")}
    for frame in ("{pet.pl}", "{pet.no}", "{plant}"):
        with pytest.raises(InputError, match=r"fields must be among .*pet, with their forms"):
            fill_words(frame, "a")
    for wrong in (WORDS + "pet\tKatze", WORDS + "bird\tEnte\t\tduck\t", WORDS.replace("de", "fr")):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError, match=r"is missing|needs two words"):
            fill_words("{pet}", "{pet}")


def test_firms_are_spelled_in_another_script() -> None:
    frames = PairTable("en", "ml", [("{firm}", "{firm}")])
    spellings = [("Aluva", "ആലുവ")]
    pairs = fill_frames(frames, VALUES, random.Random(3), times=1, spellings=spellings)
    assert [*pairs] == spellings
