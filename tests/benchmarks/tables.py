"""Tables that benchmarks read, separated by tabs, and those that they print, in Markdown."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"


def read_table(path: Path) -> list[dict[str, str]]:
    """Read the rows by the names of their columns; quotation marks mean nothing."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for cells in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(map(str, cells))} |")
