"""Sources: pairs stay aligned, whatever the format; what is missing is named with the way out."""

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import InputError
from training.config.data import CorpusConfig
from training.data.sources import fingerprint_corpus, read_corpus, read_lines

PAIRS = [("eins", "one"), ('zwei "2"', "two, 2"), ("drei", "three")]


def write(folder: Path, **files: bytes) -> tuple[str, ...]:
    """Write files and return their names, in order; `a_tsv` is a.tsv."""
    names = []
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        names.append(str(path))
    return tuple(names)


def read(*files: str, **changes: Any) -> list[tuple[str, str]]:
    corpus = CorpusConfig(files=files, **changes)
    return list(read_corpus(corpus, src_lang="de", tgt_lang="en"))


# --- text files ----------------------------------------------------------------------------------


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
@pytest.mark.parametrize("name", ["text", "text_gz"])
def test_only_a_line_feed_ends_a_line(
    name: str, content: bytes, lines: list[str], tmp_path: Path
) -> None:
    (path,) = write(tmp_path, **{name: content})
    assert list(read_lines(Path(path))) == lines


def test_pairs_are_aligned_line_by_line_over_several_files(tmp_path: Path) -> None:
    files = write(
        tmp_path, a=b"\xef\xbb\xbf1\n2\n", b_gz=b"one\ntwo\n", c_tsv=b"de\ten\n3\tthree\n"
    )
    assert read(*files) == [("1", "one"), ("2", "two"), ("3", "three")]


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 1200), (1200, 3), (0, 1), (4, 5)])
def test_files_of_different_length_are_refused_with_both_counts(
    n_src: int, n_tgt: int, tmp_path: Path
) -> None:
    files = write(tmp_path, src=b"x\n" * n_src, tgt=b"y\n" * n_tgt)
    with pytest.raises(InputError, match=rf"src has {n_src:,} lines and .*tgt has {n_tgt:,};"):
        read(*files)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (name,) = write(tmp_path, src=b"x\n")
    for missing in ("none.en", "none.en.gz"):
        with pytest.raises(InputError, match=rf"{missing}: cannot be read \(No such file"):
            read(name, str(tmp_path / missing))


def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The digest would take all of it, and leave nothing to learn from."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: a pipe or a device, .* as a regular file first"):
        fingerprint_corpus(CorpusConfig(files=(str(tmp_path / "pipe"), "x")))


@pytest.mark.parametrize("torn", [b"no gzip", gzip.compress(b"x\n" * 9999, mtime=0)[:-9]])
def test_a_torn_gzip_file_is_named(torn: bytes, tmp_path: Path) -> None:
    (whole,) = write(tmp_path, whole=b"x\n" * 9999)
    (tmp_path / "torn.gz").write_bytes(torn)
    with pytest.raises(InputError, match=r"torn\.gz: incomplete or not a gzip file"):
        read(whole, str(tmp_path / "torn.gz"))


def test_a_limit_takes_the_first_pairs_and_reads_no_further(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1\n2\n3\n", b=b"one\ntwo\n")  # the end is broken
    assert read(*files, limit=2) == [("1", "one"), ("2", "two")]


# --- tables --------------------------------------------------------------------------------------


def as_tsv(rows: list[dict[str, str]], header: bool = True) -> bytes:
    lines = [list(rows[0])] if header else []
    lines += [list(row.values()) for row in rows]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def as_csv(rows: list[dict[str, str]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_jsonl(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[dict[str, str]]) -> bytes:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


FORMATS: dict[str, Callable[[list[dict[str, str]]], bytes]] = {
    "tsv": as_tsv,
    "csv": as_csv,
    "jsonl": as_jsonl,
    "parquet": as_parquet,
}
ROWS = [{"source": name, "en": en, "de": de} for name, (de, en) in zip("xyx", PAIRS, strict=True)]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("gz", ["", "_gz"])
def test_every_format_holds_the_same_pairs(suffix: str, gz: str, tmp_path: Path) -> None:
    (name,) = write(tmp_path, **{f"a_{suffix}{gz}": FORMATS[suffix](ROWS)})
    assert read(name) == PAIRS


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_filter_takes_the_rows_with_its_values(suffix: str, tmp_path: Path) -> None:
    (name,) = write(tmp_path, **{f"a_{suffix}": FORMATS[suffix](ROWS)})
    assert read(name, where_column="source", where_values=("x", "z")) == [PAIRS[0], PAIRS[2]]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    "named",
    [{"src_column": "deutsch"}, {"where_column": "deutsch", "where_values": ("x",)}],
    ids=str,
)
def test_a_missing_column_is_named_with_those_that_there_are(
    suffix: str, named: dict[str, Any], tmp_path: Path
) -> None:
    (name,) = write(tmp_path, **{f"a_{suffix}": FORMATS[suffix](ROWS)})
    with pytest.raises(InputError, match=r"no column 'deutsch'.*source, en, de.*src_column") as e:
        read(name, **named)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a_csv", b"\xef\xbb\xbfen,de\r\none,eins\r\n"),  # what Excel calls CSV UTF-8
        ("a_tsv", b"EN\tDE\none\teins\n"),
        ("a_csv", b'\xef\xbb\xbf"En", De\none,eins\n'),
        ("a_jsonl", b'\xef\xbb\xbf{"en": "one", "de": "eins"}\n'),
        ("a_jsonl_gz", b'\xef\xbb\xbf{"en": "one", "de": "eins"}\n'),
    ],
)
def test_neither_case_nor_a_byte_order_mark_swaps_the_sides(
    name: str, content: bytes, tmp_path: Path
) -> None:
    assert read(*write(tmp_path, **{name: content})) == [("eins", "one")]


@pytest.mark.parametrize("name", ["a", "a_gz", "a_tsv", "a_csv", "a_jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_refused_in_one_line(name: str, encoding: str, tmp_path: Path) -> None:
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    files = write(tmp_path, **{name: mark + "eins\none\n".encode(encoding)}, b=b"one\n")
    with pytest.raises(InputError, match=r"a.*: UTF-16, .*save it as UTF-8"):
        read(*(files if name in ("a", "a_gz") else files[:1]))


def test_columns_without_names_have_numbers(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_tsv=b"one\teins\tCC-BY\ntwo\tzwei\tCC-BY\n")
    assert read(name, src_column="2", tgt_column="1") == [("eins", "one"), ("zwei", "two")]
    with pytest.raises(InputError, match=r"no column 'de' or 'en'; its first line is: one, ein"):
        read(name)


def test_a_quote_in_a_tsv_file_is_text_and_a_short_line_lacks_a_side(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_tsv=b'de\ten\n"eins\tone\nzwei\ndrei\tthree\tmore\n')
    assert read(name) == [('"eins', "one"), ("zwei", ""), ("drei", "three")]


def test_a_line_break_in_a_csv_field_ends_no_row(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_csv=b'de,en\n"eins\nzwei","one\ntwo"\n')
    assert read(name) == [("eins\nzwei", "one\ntwo")]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"translation": {"de": "eins", "en": "one"}}, {}),
        ({"source": "eins", "target": "one"}, {"src_column": "source", "tgt_column": "target"}),
        ({"x": {"de": "eins", "en": "one"}}, {"src_column": "x.de", "tgt_column": "x.en"}),
    ],
    ids=str,
)
def test_columns_are_found(row: dict[str, Any], named: dict[str, str], tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_jsonl=json.dumps(row).encode())
    assert read(name, **named) == [("eins", "one")]


def test_missing_values_are_no_words(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_jsonl=b'{"de": "x", "en": null}\n\n{"de": "y"}\n')
    assert read(name) == [("x", ""), ("y", "")]


@pytest.mark.parametrize("line", [b"{", b"[1]", b"3", b"[" * 100_000])
def test_a_line_that_is_no_json_object_is_named(line: bytes, tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_jsonl=b'{"de": "x", "en": "y"}\n' + line + b"\n")
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: (not|must be a) JSON"):
        read(name)


# --- the Hub -------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
def test_the_real_library_reads_a_dataset_folder(streaming: bool, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder, train_jsonl=as_jsonl(ROWS))
    corpus = CorpusConfig(dataset=str(folder), streaming=streaming, split="train[1:3]")
    assert list(read_corpus(corpus, src_lang="de", tgt_lang="en")) == PAIRS[1:]
    assert fingerprint_corpus(corpus) == fingerprint_corpus(corpus)


# --- fingerprints --------------------------------------------------------------------------------


def test_a_fingerprint_follows_the_content_and_not_the_name(tmp_path: Path) -> None:
    files = write(tmp_path, a=b"1\n", b=b"one\n", c=b"1\n", d=b"one\n", e=b"two\n")
    prints = [fingerprint_corpus(CorpusConfig(files=pair)) for pair in (files[:2], files[2:4])]
    prints.append(fingerprint_corpus(CorpusConfig(files=(files[0], files[4]))))
    assert prints[0] == prints[1] != prints[2]


def test_a_dataset_pinned_to_a_commit_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    corpora = [CorpusConfig(dataset="user/name", revision=revision * 40) for revision in "ab"]
    assert len({*map(fingerprint_corpus, corpora)}) == 2
