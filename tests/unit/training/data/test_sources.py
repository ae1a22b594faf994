"""Sources: pairs stay aligned, whatever the format; what is missing is named with the way out."""

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

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


def as_parquet() -> bytes:
    rows = [
        {"source": name, "en": en, "de": de} for name, (de, en) in zip("xyx", PAIRS, strict=True)
    ]
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


FORMATS = {
    "tsv": b'source\ten\tde\nx\tone\teins\ny\ttwo, 2\tzwei "2"\nx\tthree\tdrei\n',
    "csv": b'source,en,de\r\nx,one,eins\r\ny,"two, 2","zwei ""2"""\r\nx,three,drei\r\n',
    "jsonl": b"""{"source": "x", "en": "one", "de": "eins"}
{"source": "y", "en": "two, 2", "de": "zwei \\"2\\""}
{"source": "x", "en": "three", "de": "drei"}
""",
    "parquet": as_parquet(),
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("gz", ["", "_gz"])
def test_every_format_holds_the_same_pairs(suffix: str, gz: str, tmp_path: Path) -> None:
    (name,) = write(tmp_path, **{f"a_{suffix}{gz}": FORMATS[suffix]})
    assert read(name) == PAIRS


def test_a_filter_takes_rows_with_its_values_and_must_find_some(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_tsv=FORMATS["tsv"])
    assert read(name, where_column="source", where_values=("x", "z")) == [PAIRS[0], PAIRS[2]]
    with pytest.raises(InputError, match="none of 3 rows has source = z; correct where_values"):
        read(name, where_column="source", where_values=("z",))
    (name,) = write(tmp_path, b_jsonl=b'{"de": "a", "en": "b", "source": "x"}\n{"de": "c"}\n')
    assert read(name, where_column="source", where_values=("x",)) == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a_csv", b"\xef\xbb\xbfen,de\r\none,eins\r\n"),  # what Excel calls CSV UTF-8
        ("a_tsv", b"EN\tDE\none\teins\n"),
        ("a_csv", b"en;de\none;eins\n"),  # what Excel calls CSV where the comma is decimal
        ("a_jsonl_gz", b'\xef\xbb\xbf{"en": "one", "de": "eins"}\n'),
    ],
)
def test_neither_case_nor_a_byte_order_mark_swaps_the_sides(
    name: str, content: bytes, tmp_path: Path
) -> None:
    assert read(*write(tmp_path, **{name: content})) == [("eins", "one")]


@pytest.mark.parametrize("name", ["a", "a_gz", "a_tsv", "a_csv", "a_jsonl"])
def test_utf_16_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    files = write(tmp_path, **{name: "eins\none\n".encode("utf-16")}, b=b"one\n")
    with pytest.raises(InputError, match=r"a.*: UTF-16, .*save it as UTF-8"):
        read(*(files if name in ("a", "a_gz") else files[:1]))


def test_columns_without_names_have_numbers(tmp_path: Path) -> None:
    (name,) = write(tmp_path, a_tsv=b"one\teins\tCC-BY\ntwo\tzwei\tCC-BY\n")
    assert read(name, src_column="2", tgt_column="1") == [("eins", "one"), ("zwei", "two")]
    with pytest.raises(InputError, match=r"no column 'de' or 'en'; its first line is: one, ein"):
        read(name)


@pytest.mark.parametrize("streaming", [False, True])
def test_the_real_library_reads_a_dataset_folder(streaming: bool, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder, train_jsonl=FORMATS["jsonl"])
    corpus = CorpusConfig(dataset=str(folder), streaming=streaming, split="train[1:3]")
    assert list(read_corpus(corpus, src_lang="de", tgt_lang="en")) == PAIRS[1:]
    assert fingerprint_corpus(corpus) == fingerprint_corpus(corpus)
