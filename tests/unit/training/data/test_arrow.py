"""Arrow files: what goes in comes out, chunk by chunk; a torn file is refused."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import InputError
from training.data import arrow
from training.data.arrow import (
    NUMBER,
    NUMBERS,
    TEXT,
    TableWriter,
    map_lists,
    read_columns,
    read_parquet,
    require_pyarrow,
)

pa = pytest.importorskip("pyarrow")
COLUMNS = {"corpus": NUMBER, "text": TEXT, "ids": NUMBERS}
ROWS: list[tuple[Any, ...]] = [
    (0, "a", [1, 2, 3]),
    (1, "", []),
    (0, "മഴ", [7]),
    (2, "x\ty\n", [5, 6]),
    (3, "z", [2**31 - 1]),
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_CHUNK", 2)


def write(path: Path, rows: list[tuple[Any, ...]] = ROWS) -> Path:
    with TableWriter(path, COLUMNS) as writer:
        for row in rows:
            writer.add(*row)
    return path


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    chunks = list(read_columns(write(tmp_path / "x.arrow")))
    assert [row for chunk in chunks for row in zip(*chunk, strict=True)] == ROWS
    assert [len(chunk[0]) for chunk in chunks] == [2, 2, 1]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 4])
def test_any_number_of_rows_is_fine(n_rows: int, tmp_path: Path) -> None:
    chunks = list(read_columns(write(tmp_path / "x.arrow", ROWS[:n_rows])))
    assert [row for chunk in chunks for row in zip(*chunk, strict=True)] == ROWS[:n_rows]


LISTS = {"src": NUMBERS, "tgt": NUMBERS}
LIST_ROWS = [([1, 2, 3], [4]), ([], [5, 6]), ([7], []), ([], []), ([8, 2**31 - 1], [-1])]


def write_lists(path: Path, rows: list[tuple[list[int], list[int]]]) -> Path:
    with TableWriter(path, LISTS) as writer:
        for row in rows:
            writer.add(*row)
    return path


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 5])
def test_lists_are_found_in_the_file(n_rows: int, tmp_path: Path) -> None:
    values, starts, lengths = map_lists(write_lists(tmp_path / "x.arrow", LIST_ROWS[:n_rows]))
    found = [
        tuple(values[start : start + length].tolist() for start, length in zip(*both, strict=True))
        for both in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    assert found == LIST_ROWS[:n_rows]
    assert starts.shape == lengths.shape == (n_rows, 2)


def test_lists_are_mapped_and_not_read(tmp_path: Path) -> None:
    """The numbers are the file itself; what is written to them stays in this process."""
    path = write_lists(tmp_path / "x.arrow", LIST_ROWS)
    before = path.read_bytes()
    values, _, _ = map_lists(path)
    assert values.numpy().tobytes() == before[: len(before) // 4 * 4]
    values[:] = 0
    assert path.read_bytes() == before


def test_the_datasets_library_reads_the_format(tmp_path: Path) -> None:
    """The same file is an Arrow table for other tools."""
    table = pa.ipc.open_file(str(write(tmp_path / "x.arrow"))).read_all()
    assert table.column("text").to_pylist() == [text for _, text, _ in ROWS]


@pytest.mark.parametrize("keep", [0, 100, -10])
def test_a_torn_file_is_refused(keep: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x.arrow")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"x\.arrow: incomplete Arrow file"):
        list(read_columns(path))
    with pytest.raises(InputError, match=r"x\.arrow: incomplete Arrow file"):
        map_lists(path)


def test_parquet_rows_are_dictionaries() -> None:
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"de": ["eins", None], "en": ["one", "two"]}), file)
    rows = list(read_parquet(file, name="x.parquet"))
    assert rows == [{"de": "eins", "en": "one"}, {"de": None, "en": "two"}]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all" * 9])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.parquet: incomplete or not a Parquet file"):
        list(read_parquet(io.BytesIO(content), name="x.parquet"))


def test_without_pyarrow_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "pa", None)
    monkeypatch.setattr(arrow, "pq", None)
    with pytest.raises(InputError, match=r"pip install 'hubnmt\[train\]'"):
        require_pyarrow()
    with pytest.raises(InputError, match=r"x\.parquet.*pip install 'hubnmt\[train\]'"):
        list(read_parquet(io.BytesIO(), name="x.parquet"))


def test_training_imports_without_the_libraries_of_its_extra(repo: Path) -> None:
    script = """
import sys
for name in ("pyarrow", "datasets", "tensorboard", "gradio"):
    sys.modules[name] = None
import training.train, training.augment.back_translate, training.finish
assert training.train.load_settings
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
