"""Tables in Arrow's IPC file format, read through a memory map, and rows of Parquet files.

The format is that of the `datasets` library's cache; `pyarrow` is part of `hubnmt[train]`.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import torch
from torch import Tensor

from hubnmt.errors import InputError

try:  # recipes and text files can be read without pyarrow
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = pq = None

ROWS_PER_CHUNK = 16_384
"""Rows per record batch, which the writer buffers in memory."""
TEXT, NUMBER, NUMBERS = "text", "number", "numbers"
"""Column types: string, int32, list of int32."""


def require_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        InputError: if it is not; install it.
    """
    if pa is None:
        raise InputError("training requires pyarrow: pip install 'hubnmt[train]'")


class TableWriter:
    """Writes rows to a file in chunks; all chunks but the last have the same size."""

    def __init__(self, path: Path, columns: dict[str, str]) -> None:
        """Open the file.

        Args:
            path: file to create.
            columns: column types by name.
        """
        require_pyarrow()
        kinds = {TEXT: pa.string(), NUMBER: pa.int32(), NUMBERS: pa.list_(pa.int32())}
        self._schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
        self._writer = pa.ipc.new_file(str(path), self._schema)
        self._columns: list[list[Any]] = [[] for _ in columns]

    def __enter__(self) -> Self:
        """Enter a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Write the remaining rows and close; after an error the file is invalid."""
        if kind is None and self._columns[0]:
            self._flush()
        self._writer.close()

    def add(self, *row: Any) -> None:
        """Add one row."""
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        if len(self._columns[0]) == ROWS_PER_CHUNK:
            self._flush()

    def _flush(self) -> None:
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        for column in self._columns:
            column.clear()


def read_chunks(path: Path) -> Iterator[Any]:
    """Yield the record batches of a file; their buffers refer to its memory map.

    Raises:
        InputError: if the file is incomplete.
    """
    require_pyarrow()
    yield from _chunks(pa.memory_map(str(path)), path)


def _chunks(source: Any, path: Path) -> Iterator[Any]:
    try:
        table = pa.ipc.open_file(source)
    except (OSError, pa.ArrowInvalid) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path}: incomplete Arrow file ({first}); remove it") from None
    for number in range(table.num_record_batches):
        yield table.get_batch(number)


def read_columns(path: Path) -> Iterator[tuple[list[Any], ...]]:
    """Yield the columns of each chunk as lists."""
    for chunk in read_chunks(path):
        yield tuple(column.to_pylist() for column in chunk.columns)


def map_lists(path: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Memory-map the lists of a file.

    Returns:
        the file as (V,) int32; the offset of each list in it, (rows, columns) int64; and the length
        of each list, (rows, columns) int32.

    Raises:
        InputError: if the file is incomplete.
    """
    require_pyarrow()
    with path.open("rb") as file:
        # Copy-on-write, because torch expects writable memory; an empty file cannot be mapped.
        mapped = (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if path.stat().st_size else b""
        )
    whole = pa.py_buffer(mapped)
    starts, lengths = [], []
    for chunk in _chunks(whole, path):
        sides = [_locate(column, whole.address) for column in chunk.columns]
        starts.append(torch.stack([start for start, _ in sides], dim=1))
        lengths.append(torch.stack([length for _, length in sides], dim=1))
    values = torch.frombuffer(mapped, dtype=torch.int32, count=len(mapped) // 4)
    none = torch.empty(0, 2, dtype=torch.int32)
    return values, torch.cat(starts or [none]).long(), torch.cat(lengths or [none])


def _locate(column: Any, address: int) -> tuple[Tensor, Tensor]:
    """Return offsets and lengths of a list column in the file mapped at an address."""
    writable = bytearray(column.offsets.buffers()[1])  # torch warns about read-only memory
    offsets = torch.frombuffer(writable, dtype=torch.int32)
    values = column.values.buffers()[1]  # None if all lists are empty
    first = (values.address - address) // 4 if values else 0
    return offsets[:-1].long() + first, offsets.diff()


def read_parquet(file: BinaryIO, *, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file.

    Raises:
        InputError: if it is not a Parquet file, or pyarrow is missing.
    """
    if pq is None:
        raise InputError(f"{name}: Parquet requires pyarrow: pip install 'hubnmt[train]'")
    try:
        table = pq.ParquetFile(file)
        for chunk in table.iter_batches(batch_size=ROWS_PER_CHUNK):
            yield from chunk.to_pylist()
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{name}: incomplete or not a Parquet file ({first})") from None
