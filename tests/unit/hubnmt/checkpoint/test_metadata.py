"""The head of a card: read with care, refused with a reason."""

import pytest

from hubnmt.checkpoint.metadata import (
    MAX_HEAD_CHARS,
    Score,
    check_metadata,
    read_languages,
    read_metadata,
    read_scores,
)
from hubnmt.errors import HubNMTError, ModelFolderError

CARD = """---
language: [no, en]
model-index:
- name: tiny
  results:
  - task: {type: translation}
    dataset: {name: Multi30k 2016, type: bentrevett/multi30k}
    metrics:
    - {type: bleu, value: 42.5}
    - {type: chrf, value: 61}
    - {type: wer, value: 3}
  - dataset: {name: Multi30k 2017}
    metrics: [{type: BLEU, value: 30.1}]
---
BLEU 99 in the text counts for nothing.
"""


def test_the_first_score_of_each_metric_is_read():
    assert read_scores(read_metadata(CARD)) == (
        Score("BLEU", 42.5, "Multi30k 2016"),
        Score("chrF", 61.0, "Multi30k 2016"),
    )


def test_a_short_head_that_could_stand_for_a_huge_one_is_not_read():
    """Ten aliases in each of fifteen values: written out, a million gigabytes."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 16)]
    head = "\n".join(["---", "a0: &a0 [x, x]", *lines, "language: [de]", "---", ""])
    assert read_metadata(head) == {}
    with pytest.raises(ModelFolderError, match="alias"):
        check_metadata(head)


@pytest.mark.parametrize(
    "value",
    [
        "1" + ":59" * 400 + ".5",  # OverflowError
        "2026-99-99",  # ValueError
        "!!python/object/apply:os.system [ls]",
        "9" * 5000,
    ],
)
def test_a_value_that_fells_the_parser_harms_nothing(value: str):
    """Dates, numbers and tags are texts here."""
    card = CARD.replace("language:", f"x: {value}\nlanguage:", 1)
    assert read_languages(read_metadata(card)) == ("no", "en")
    assert len(read_scores(read_metadata(card))) == 2


GOOD = """---
language: [de, en]
library_name: hubnmt
tags: [hubnmt, translation]
---
# Titel ü
"""


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (GOOD.replace("hubnmt\ntags", "transformers\ntags"), "library_name is not hubnmt"),
        (GOOD.replace("[hubnmt, translation]", "hubnmt"), "tags do not contain hubnmt"),
        ("---\n[unclosed\n---\n", "not valid YAML"),
        (f"---\nlong: {'x' * MAX_HEAD_CHARS}\n---\n", "longer than"),
    ],
)
def test_a_card_the_hub_could_not_file_is_refused(card: str, problem: str):
    with pytest.raises(HubNMTError, match=problem):
        check_metadata(card)
