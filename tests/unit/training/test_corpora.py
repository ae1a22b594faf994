"""Corpora: pairs stay aligned; broken ones are dropped and counted, none in silence."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import InputError
from training import corpora
from training.config import DataConfig
from training.corpora import (
    CleaningReport,
    clean,
    drop_long,
    load_split,
    read_dataset,
    read_lines,
    read_pairs,
)


def make_config(**changes: Any) -> DataConfig:
    return DataConfig(**({"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | changes))


def write(folder: Path, **files: bytes) -> tuple[str, ...]:
    """Write files and return their names, in order."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return tuple(str(folder / name) for name in files)


# --- local files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\nb\n", ["", "", "b"]),
        (b"", []),
        ("a\u2028b\x0bc\x85d\x0ce\n".encode(), ["a\u2028b\x0bc\x85d\x0ce"]),
        (b"good\nb\xffd\n", ["good", "b\ufffdd"]),
    ],
)
def test_only_a_line_feed_ends_a_line(content: bytes, lines: list[str], tmp_path: Path) -> None:
    (name,) = write(tmp_path, text=content)
    assert list(read_lines(Path(name))) == lines


def test_pairs_are_aligned_line_by_line_over_several_files(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1\n2\n", b=b"one\ntwo\n", c=b"3\n", d=b"three\n")
    assert list(read_pairs(files)) == [("1", "one"), ("2", "two"), ("3", "three")]


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 1200), (1200, 3), (0, 1), (4, 5)])
def test_files_of_different_length_are_refused_with_both_counts(
    n_src: int, n_tgt: int, tmp_path: Path
) -> None:
    files = write(tmp_path, src=b"x\n" * n_src, tgt=b"y\n" * n_tgt)
    with pytest.raises(InputError, match=rf"src has {n_src:,} lines and .*tgt has {n_tgt:,};"):
        list(read_pairs(files))


def test_the_second_pair_of_files_is_checked_too(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1\n", b=b"one\n", c=b"3\n4\n", d=b"three\n")
    with pytest.raises(InputError, match=r"c has 2 lines and .*d has 1;"):
        list(read_pairs(files))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (name,) = write(tmp_path, src=b"x\n")
    with pytest.raises(InputError, match=r"none\.en: cannot be read \(No such file"):
        list(read_pairs((name, str(tmp_path / "none.en"))))


def test_a_folder_is_no_text_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_pairs((str(tmp_path), str(tmp_path))))


def test_a_home_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="nobody-of-that-name"):
        list(read_pairs(("~nobody-of-that-name/x", "~nobody-of-that-name/y")))


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, src=b"x\n", tgt=b"y\n")
    assert list(read_pairs(("~/src", "~/tgt"))) == [("x", "y")]


def test_each_split_reads_its_own_files(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1\n", b=b"one\n", c=b"2\n", d=b"two\n")
    config = make_config(dataset=None, train=files[:2], valid=files[2:])
    assert list(load_split(config, "train")) == [("1", "one")]
    assert list(load_split(config, "valid")) == [("2", "two")]


# --- the Hub -------------------------------------------------------------------------------------


class FakeDatasets:
    """Answers as `datasets.load_dataset` would, and remembers what it was asked."""

    def __init__(self, answer: list[dict[str, Any]] | Exception) -> None:
        self.answer = answer
        self.calls: list[tuple[Any, ...]] = []

    def load_dataset(self, path: str, name: str | None, *, split: str) -> list[dict[str, Any]]:
        self.calls.append((path, name, split))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def read_fake(
    answer: list[dict[str, Any]] | Exception, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> list[tuple[str, str]]:
    monkeypatch.setattr(corpora, "datasets", FakeDatasets(answer))
    return list(read_dataset(make_config(**changes), "train"))


def test_columns_are_named_after_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"en": "one", "de": "eins", "id": 7}]
    assert read_fake(rows, monkeypatch) == [("eins", "one")]


def test_columns_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"source": "eins", "target": "one"}]
    named = {"src_column": "source", "tgt_column": "target"}
    assert read_fake(rows, monkeypatch, **named) == [("eins", "one")]


def test_a_translation_column_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"translation": {"de": "eins", "en": "one"}}]
    assert read_fake(rows, monkeypatch) == [("eins", "one")]


def test_a_missing_column_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match=r"no column 'de' or 'en'.*columns: text, label; set data"):
        read_fake([{"text": "x", "label": 1}], monkeypatch)


def test_a_missing_value_is_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"de": None, "en": "one"}, {"de": "zwei", "en": "two"}]
    monkeypatch.setattr(corpora, "datasets", FakeDatasets(rows))
    kept, report = clean(read_dataset(make_config(), "train"), make_config())
    assert kept == [("zwei", "two")]
    assert report.n_read == 2


@pytest.mark.parametrize(
    ("split", "name"), [("train", "train"), ("valid", "validation")], ids=["train", "valid"]
)
def test_the_hub_is_asked_for_the_split(
    split: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeDatasets([])
    monkeypatch.setattr(corpora, "datasets", fake)
    assert list(load_split(make_config(dataset_config="de-en"), split)) == []
    assert fake.calls == [("user/name", "de-en", name)]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("Couldn't reach 'user/name' on the Hub (OfflineModeIsEnabled)"),
        FileNotFoundError("Dataset 'user/name' doesn't exist on the Hub or cannot be accessed."),
        ValueError("Unknown split 'train'. Should be one of ['test'].\nmore\nlines"),
        RuntimeError("Dataset scripts are no longer supported"),
        OSError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_dataset_out_of_reach_gives_one_line_with_the_way_out(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"'user/name'.*cannot be loaded") as caught:
        read_fake(error, monkeypatch)
    message = str(caught.value)
    assert "--set data.train=SRC,TGT --set data.valid=SRC,TGT" in message
    assert "\n" not in message


def test_an_unknown_dataset_without_network_gives_one_line_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"data\.train=SRC,TGT") as caught:
        list(read_dataset(make_config(dataset="nobody-at-all/nothing"), "train"))
    assert "\n" not in str(caught.value)


def test_without_the_datasets_library_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpora, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'hubnmt\[train\]'.*data\.train=SRC,TGT"):
        list(load_split(make_config(), "train"))


def test_without_the_datasets_library_local_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "datasets", None)
    files = write(tmp_path, a=b"1\n", b=b"one\n")
    assert list(load_split(make_config(train=files), "train")) == [("1", "one")]


# --- cleaning ------------------------------------------------------------------------------------


def test_broken_pairs_are_dropped_counted_and_reported(tmp_path: Path) -> None:
    src = [b"Ein Hund.", b"Ein \xff Hund.", b"", b"Zwei.", b"   ", b"Drei.", b"Ja." * 20]
    tgt = [b"A dog.", b"A dog.", b"Nothing.", b"\t", b"", b"T\xe9.", b"Yes."]
    files = write(tmp_path, src=b"\n".join(src), tgt=b"\n".join(tgt))
    kept, report = clean(read_pairs(files), make_config())
    assert kept == [("Ein Hund.", "A dog.")]
    assert report.to_dict() == {
        "n_read": 7,
        "n_kept": 1,
        "dropped": {"not valid UTF-8": 2, "empty": 3, "absurdly unequal": 1},
    }
    assert str(report) == (
        "1 of 7 pairs kept; dropped: 3 empty, 2 not valid UTF-8, 1 absurdly unequal"
    )


def test_what_was_read_is_what_was_kept_and_what_was_dropped(tmp_path: Path) -> None:
    noise = bytes(range(256)) * 40
    files = write(tmp_path, src=noise, tgt=noise)
    kept, report = clean(read_pairs(files), make_config())
    assert report.n_kept == len(kept)
    assert report.n_read == report.n_kept + sum(report.dropped.values()) == noise.count(b"\n") + 1


def test_nothing_dropped_is_said_too() -> None:
    _, report = clean([("eins", "one")], make_config())
    assert str(report) == "1 of 1 pairs kept; dropped: none"


@pytest.mark.parametrize(
    ("n_src", "n_tgt", "is_kept"),
    [(30, 90, True), (30, 91, False), (91, 30, False), (1, 20, True), (1, 21, False)],
)
def test_unequal_means_several_times_longer_and_by_a_margin(
    n_src: int, n_tgt: int, is_kept: bool
) -> None:
    kept, _ = clean([("x" * n_src, "y" * n_tgt)], make_config(max_length_ratio=3.0))
    assert bool(kept) is is_kept


def test_the_ratio_is_a_setting() -> None:
    pair = ("x" * 30, "y" * 91)
    assert clean([pair], make_config(max_length_ratio=4.0))[0] == [pair]


def test_kept_text_is_stripped_and_normalised() -> None:
    decomposed = unicodedata.normalize("NFD", "Männer")
    kept, _ = clean([(f"  {decomposed}\t", "\u00a0men ")], make_config())
    assert kept == [("Männer", "men")]


def test_the_order_stays() -> None:
    pairs = [(str(n), str(n)) if n % 3 else ("", "x") for n in range(20)]
    kept, _ = clean(pairs, make_config())
    assert kept == [(str(n), str(n)) for n in range(20) if n % 3]


def test_pairs_are_read_one_by_one_not_all_at_once() -> None:
    def endless() -> Iterator[tuple[str, str]]:
        yield from [("eins", "one")] * 3
        raise InputError("the fourth pair was asked for")

    with pytest.raises(InputError, match="fourth"):
        clean(endless(), make_config())


def test_long_pairs_are_dropped_on_either_side_and_counted() -> None:
    report = CleaningReport(n_read=5, n_kept=4)
    pairs = [([1] * 3, [1] * 3), ([1] * 4, [1]), ([1], [1] * 4), ([1], [1])]
    assert drop_long(pairs, max_tokens=3, report=report) == [pairs[0], pairs[3]]
    assert report.to_dict()["dropped"] == {"longer than 3 tokens": 2}
    assert report.n_kept == 2


def test_no_long_pairs_leave_no_trace_in_the_report() -> None:
    report = CleaningReport(n_read=1, n_kept=1)
    drop_long([([1], [1])], max_tokens=3, report=report)
    assert "dropped: none" in str(report)
