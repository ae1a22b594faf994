"""Corpora: all of a recipe's pairs in order, each counted where it came from."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from training.config.data import DataConfig
from training.data.cleaning import CleaningReport
from training.data.corpora import content_key, read_clean, read_valid


def write(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    """Three corpora, a validation and a test set, a bad pair of each kind."""
    train = (
        write(tmp_path, "a.de", "Eins", "Zwei", "Eins ", "", "Zum Wählen", "Zum Testen"),
        write(tmp_path, "a.en", "One", "Two", "One", "x", "To choose", "For a test"),
    )
    back = write(tmp_path, "b.tsv", "de\ten", "Drei\tThree", "Привет, мир\tHello")
    valid = (write(tmp_path, "v.de", "Zum Wählen"), write(tmp_path, "v.en", "Chosen"))
    test = (write(tmp_path, "t.de", "Zur Probe"), write(tmp_path, "t.en", "for a test."))
    book = write(tmp_path, "c.tsv", "de\ten", "Zum Wählen\tChosen")
    corpora = {
        "back": {"files": [back], "tag": "<bt>", "weight": 0.5},
        "book": {"files": [book], "keep_held_out": True},
    }
    return make(train=train, valid=valid, test=test, corpora=corpora)


def make(**values: Any) -> DataConfig:
    return DataConfig(src_lang="de", tgt_lang="en", **values)


def test_pairs_come_corpus_by_corpus_and_the_rest_is_counted(config: DataConfig) -> None:
    report = CleaningReport()
    assert list(read_clean(config, report, read_valid(config))) == [
        (0, "Eins", "One"),
        (0, "Zwei", "Two"),
        (1, "<bt> Drei", "Three"),
        (2, "Zum Wählen", "Chosen"),
    ]
    assert report.to_dict() == {
        "n_read": 9,
        "n_kept": 4,
        "dropped": {"in validation or test set": 2, "empty": 1, "wrong script": 1, "duplicate": 1},
        "corpora": {
            "main": {
                "n_read": 6,
                "dropped": {"duplicate": 1, "empty": 1, "in validation or test set": 2},
            },
            "back": {"n_read": 2, "dropped": {"wrong script": 1}},
            "book": {"n_read": 1, "dropped": {}},
        },
    }


def test_a_limit_takes_evenly_spaced_validation_pairs(tmp_path: Path) -> None:
    lines = [str(n) for n in range(10)]
    files = (write(tmp_path, "v", *lines), write(tmp_path, "w", *lines))
    config = make(train=files, valid=files, valid_limit=4)
    assert [src for src, _ in read_valid(config)] == ["0", "2", "5", "7"]
    more = dataclasses.replace(config, valid_limit=11)
    assert [src for src, _ in read_valid(more)] == lines
    assert content_key(config) != content_key(more)


def test_the_key_follows_whatever_decides_the_texts(config: DataConfig, tmp_path: Path) -> None:
    fields = {name: getattr(config, name) for name in ("train", "valid", "test", "corpora")}
    back = config.corpora["back"]

    def changed(**values: Any) -> dict[str, Any]:
        return fields | {"corpora": config.corpora | {"back": back | values}}

    same = [
        fields,
        fields | {"max_tokens": 7, "weight": 2.0, "bpe_dropout": 0.1, "cache": "x"},
        changed(weight=3.0),
    ]
    others = [
        fields | {"limit": 3},
        fields | {"drop_held_out": False},
        fields | {"drop_final_mark": 0.5},
        fields | {"test": ()},
        fields | {"corpora": {}},
        changed(tag=""),
        changed(src_column="en", tgt_column="de"),
    ]
    keys = [content_key(make(**values)) for values in same]
    assert len(set(keys)) == 1
    keys += [content_key(make(**values)) for values in others]
    write(tmp_path, "v.de", "Zum Wählen!")
    keys.append(content_key(config))
    assert len(set(keys)) == 1 + len(others) + 1
