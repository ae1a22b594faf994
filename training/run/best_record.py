"""Which validation the weights in `best/` and `last/` are of: a note that lies beside them.

Takes and gives the record of a validation. Must not know the model. The note comes into `best/` in
one step with the weights. The run's own record does not: a power cut between the save of `best/`
and that of the state lets a resumed run forget a validation whose weights are already there.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hubnmt.checkpoint.folder import read_json
from hubnmt.errors import ModelFolderError

NOTE_FILE = "validation.json"
Weights = Literal["best", "last"]
"""Which of the model folders of a run."""


def write_note(record: Mapping[str, Any]) -> dict[str, str]:
    """Give the note as a file's name and content."""
    return {NOTE_FILE: json.dumps(dict(record), indent=2) + "\n"}


def read_note(folder: Path) -> dict[str, Any] | None:
    """Read the note in a model folder; None if it has none that can be read, as older runs."""
    try:
        record = read_json(folder / NOTE_FILE)
    except ModelFolderError:
        return None
    numbers = (record.get("step"), record.get("bleu"))
    return record if all(isinstance(each, (int, float)) for each in numbers) else None
