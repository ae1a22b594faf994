"""Select the columns of source and target from rows of tables and datasets."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from hubnmt.errors import InputError
from training.config.data import CorpusConfig

TextPair = tuple[str, str]
Row = dict[str, Any]


def pick_columns(
    rows: Iterable[Row], corpus: CorpusConfig, columns: TextPair, *, where: str
) -> Iterator[TextPair]:
    """Yield source and target of each row that passes the filter of a corpus.

    Raises:
        InputError: if a column is missing.
    """
    filtered, values = corpus.where_column, set(corpus.where_values)
    wanted = (*columns, *([filtered] if filtered else []))
    for number, row in enumerate(rows):
        fields = _flatten(row)
        if number == 0 and not {*wanted} <= {*fields}:
            raise InputError(
                f"{where}: no column {list_missing(wanted, fields)}; its columns: "
                f"{', '.join(fields)}; set src_column and tgt_column to two of them"
            )
        if filtered is None or str(fields.get(filtered)) in values:
            src, tgt = (fields.get(column) for column in columns)
            yield str(src or ""), str(tgt or "")


def _flatten(row: Row) -> Row:
    """Flatten nested columns to `outer.inner`; those of `translation` also to `inner`."""
    flat: Row = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
            if name == "translation":
                flat |= value
        else:
            flat[name] = value
    return flat


def list_missing(wanted: Collection[str], known: Collection[str]) -> str:
    """Return the wanted names that are not known, for a message."""
    return " or ".join(repr(name) for name in wanted if name not in known)
