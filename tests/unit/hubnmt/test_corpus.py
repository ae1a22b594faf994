"""The files of a corpus, read and written without Ray."""

import json
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hubnmt.__main__ import main
from hubnmt.corpus.shards import (
    CHUNK_ROWS,
    Shard,
    check_columns,
    list_shards,
    read_texts,
    write_shard,
)
from hubnmt.errors import InputError
from hubnmt.text.textfile import MAX_LINE_CHARS
from tests.hub_server import HubServer

TYPES = {"translation": "string", "score": "double"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Shard]:
    def make(name: str, content: bytes) -> Shard:
        (tmp_path / name).write_bytes(content)
        return Shard(f"file://{tmp_path}/{name}", name)

    return make


def translate(
    shard: Shard, output: Path, types: dict[str, str] = TYPES
) -> tuple[list[str | None], list[tuple[int, str]]]:
    """Write a shard with its texts in capitals; return the texts and the problems reported."""
    texts = [text for chunk in read_texts(shard, "de") for text in chunk]
    problems: list[tuple[int, str]] = []
    scores = [0.5] * (len(types) - 1)
    rows = [(t.upper(), *scores, None) if t else (t, *[None] * len(types)) for t in texts]
    write_shard(shard, "de", output, types, iter(rows), lambda *each: problems.append(each))
    return texts, problems


def test_jsonl_keeps_every_member(write, tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "de": "ein", "meta": {"a": [1, "x"]}}',
        "",
        "not json",
        '{"id": "two", "de": null}',
        "[1]",
        '{"de": "zwei"}',
    ]
    shard = write("a.jsonl", "\n".join(lines).encode())
    texts, problems = translate(shard, tmp_path / "out.jsonl")
    assert texts == ["ein", None, None, None, "zwei"]
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        {"id": 1, "de": "ein", "meta": {"a": [1, "x"]}, "translation": "EIN", "score": 0.5},
        {"translation": None, "score": None},
        {"id": "two", "de": None, "translation": None, "score": None},
        {"translation": None, "score": None},
        {"de": "zwei", "translation": "ZWEI", "score": 0.5},
    ]
    assert problems == [
        (2, "invalid JSON"),
        (3, "no text in the source column"),
        (4, "not a JSON object, {...}"),
    ]


def test_csv_keeps_quoted_cells(write, tmp_path: Path) -> None:
    shard = write("a.csv", b'\xef\xbb\xbfid,de\r\n1,"ein, ""zwei""\nzeilig"\r\n2\r\n\r\n3,drei\r\n')
    texts, problems = translate(shard, tmp_path / "out.csv")
    assert texts == ['ein, "zwei"\nzeilig', None, "drei"]
    assert problems == [(2, "1 cells, but the header has 2")]
    assert (tmp_path / "out.csv").read_text() == (
        "id,de,translation,score\n"
        '1,"ein, ""zwei""\nzeilig","EIN, ""ZWEI""\nZEILIG",0.5\n,,,\n3,drei,DREI,0.5\n'
    )


def test_tsv_has_no_quotes(write, tmp_path: Path) -> None:
    shard = write("a.tsv", b'id\tde\n1\tein "zitat\n2\tzwei\n')
    assert translate(shard, tmp_path / "out.tsv")[1] == []
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "id\tde\ttranslation\tscore",
        '1\tein "zitat\tEIN "ZITAT\t0.5',
        "2\tzwei\tZWEI\t0.5",
    ]


def test_text_stays_aligned(write, tmp_path: Path) -> None:
    long = b"x" * (MAX_LINE_CHARS + 1)
    shard = write("a.txt", b"ein\n\n\xff\xfe\n" + long + b"\nf\xc3\xbcnf")
    texts, problems = translate(shard, tmp_path / "out.txt", {"translation": "string"})
    assert texts == ["ein", "", None, None, "fünf"]
    assert (tmp_path / "out.txt").read_text() == "EIN\n\n\n\nFÜNF\n"
    assert [number for number, _ in problems] == [3, 4]
    with pytest.raises(InputError, match="no columns"):
        check_columns(shard, "text", TYPES)


def test_parquet_keeps_types(tmp_path: Path) -> None:
    n = CHUNK_ROWS + 2
    table = pa.table({"de": ["ein", None] * (n // 2), "n": [[1], [2, 3]] * (n // 2)})
    pq.write_table(table, tmp_path / "a.parquet")
    shard = Shard(f"file://{tmp_path}/a.parquet", "a.parquet")
    texts, problems = translate(shard, tmp_path / "out.parquet")
    assert texts == ["ein", None] * (n // 2)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.select(["de", "n"]) == table
    assert written["translation"].to_pylist() == ["EIN", None] * (n // 2)
    assert written["score"].type == pa.float64()
    assert problems[-1] == (n, "no text in the source column")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"id,text\n1,ein\n", "no column 'de'; its columns are: id, text"),
        ("a.csv", b"de,translation\nein,one\n", "has a column 'translation'"),
        ("a.parquet", b"not parquet at all", "cannot be read"),
    ],
)
def test_unusable_shards_are_named(write, name: str, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: .*{said}"):
        check_columns(write(name, content), "de", TYPES)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_shard_that_changed_is_not_written(write, tmp_path: Path, n_rows: int) -> None:
    shard = write("a.txt", b"ein\nzwei\n")
    rows = iter([("one", None)] * n_rows)
    with pytest.raises(InputError, match="changed"):
        write_shard(shard, "", tmp_path / "out", {"translation": "string"}, rows, lambda *_: None)
    assert not (tmp_path / "out").exists()


def test_folders_and_patterns_of_any_file_system(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("b.jsonl", "deep/a.csv", "README.md", "deep/c.de"):
        memory.pipe(f"/corpus/{name}", b"")
    listed = list_shards("memory://corpus")
    assert [each.name for each in listed] == ["b.jsonl", "deep/a.csv"]
    assert [each.name for each in list_shards("memory://corpus/*/*.de")] == ["deep/c.de"]
    assert list(read_texts(listed[0], "de")) == []
    with pytest.raises(InputError, match="no files"):
        list_shards(str(tmp_path / "*.jsonl"))
    with pytest.raises(InputError, match="cannot be listed"):
        list_shards("nowhere://x")


def test_data_sets_of_the_hub(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = "huggingface_hub.constants"  # HF_ENDPOINT is read when the library is imported
    monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    files = {"README.md": b"", "a.jsonl": b'{"de": "ein"}\n', "b.jsonl": b'{"de": "zwei"}\n'}
    hub.store.put("user/corpus", files, kind="dataset")
    for address in ("hf://datasets/user/corpus", "hf://datasets/user/corpus/*.jsonl"):
        shards = list_shards(address)
        assert [shard.name for shard in shards] == ["a.jsonl", "b.jsonl"]
        assert [list(read_texts(shard, "de")) for shard in shards] == [[["ein"]], [["zwei"]]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--ray needs --input and --output"),
        (["--input", "nowhere/*.txt", "--output", "out"], "nowhere/*.txt: no files"),
    ],
)
def test_mistakes_are_found_before_ray_starts(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "--ray", "local", "--model", "de-en", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_ray_that_does_not_start_is_one_line(
    bundled_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/dev/null")
    (tmp_path / "a.txt").write_text("Ein Hund.", encoding="utf-8")
    files = ["--input", f"{tmp_path}/*.txt", "--output", str(tmp_path / "out")]
    assert main(["translate", "--ray", "local", "--model", str(bundled_model), *files]) == 2
    assert "--ray local: [Errno 20]" in (said := capsys.readouterr().err)
    assert "Ray did not start" in said
    assert said.count("\n") == 1
