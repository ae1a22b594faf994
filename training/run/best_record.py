"""Record of the validation that the weights in `best/` or `last/` belong to, stored beside them.

The record is written atomically with the weights. The run's own state is not: after a power cut
between saving `best/` and saving the state, a resumed run would not know of that validation.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hubnmt.checkpoint.folder import read_json
from hubnmt.errors import ModelFolderError

RECORD_FILE = "validation.json"
Weights = Literal["best", "last"]
"""Model folders of a run."""


def record_file(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the record as a mapping of file name to content."""
    return {RECORD_FILE: json.dumps(dict(record), indent=2) + "\n"}


def read_best_record(folder: Path) -> dict[str, Any] | None:
    """Return the record in a model folder; None if it is missing or unreadable."""
    try:
        record = read_json(folder / RECORD_FILE)
    except ModelFolderError:
        return None
    numbers = (record.get("step"), record.get("bleu"))
    return record if all(isinstance(each, (int, float)) for each in numbers) else None
