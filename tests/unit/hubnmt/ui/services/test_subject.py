"""What comes back from a browser is read with suspicion."""

from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.translator import Translator
from hubnmt.ui.services.limits import MAX_NEW_TOKENS
from hubnmt.ui.services.subject import Subject, page_state

TEXT = "Ein Hund.  Zwei Katzen!\nDrei Vögel."


@pytest.fixture
def value(copying_model: Translator) -> dict[str, Any]:
    """What the page keeps of a translation."""
    found = copying_model.translate(TEXT, guard=False)
    return page_state(TEXT, "", found, copying_model) | {"sentence": 1}


def test_a_new_row_changes_one_sentence_and_keeps_the_white_space(
    value: Any, copying_model: Translator
):
    row = copying_model.tokenizers.tgt.encode("Zwei Hunde!")
    changed = Subject.read(value, copying_model).replace_row(row, copying_model)
    first, *others = changed["candidates"]
    assert first["text"] == TEXT.replace("Katzen", "Hunde")
    assert first["probability"] is None
    assert others == value["candidates"]
    assert Subject.read(changed, copying_model).row == tuple(row)


@pytest.mark.parametrize(
    "change",
    [
        {"sentence": 9},
        {"sentence": -1},
        {"sentence": True},
        {"sentence": "1"},
        {"selected": 99},
        {"sentences": [[0, 3]]},
        {"sentences": None},
        {"candidates": []},
        {"candidates": [{"text": "a", "rows": [[7], [1, 2], [7]]}]},
        {"candidates": [{"text": "a", "rows": [[7], [10**9], [7]]}]},
        {"candidates": [{"text": "a", "rows": [[7], ["<b>"], [7]]}]},
        {"candidates": [{"text": 3, "rows": [[7], [7], [7]]}]},
        {"candidates": [{"rows": [[7], [7], [7]]}]},
        {"src": 3},
        {"src": ""},
    ],
)
def test_what_the_page_never_sends_is_refused(
    value: dict[str, Any], copying_model: Translator, change: dict[str, Any]
):
    with pytest.raises(InputError):
        Subject.read(value | change, copying_model)


def test_a_sentence_longer_than_any_is_not_looked_at(value: Any, copying_model: Translator):
    rows = value["candidates"][0]["rows"]
    rows[1] = [rows[1][0]] * MAX_NEW_TOKENS
    Subject.read(value, copying_model)
    rows[1].append(rows[1][0])
    with pytest.raises(InputError, match="too long to inspect: 513 tokens"):
        Subject.read(value, copying_model)
    Subject.read(value | {"sentence": 0}, copying_model)
