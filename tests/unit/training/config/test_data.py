"""The `[data]` section: simple forms, named corpora, and mistakes told with their remedy."""

from typing import Any

import pytest

from hubnmt.errors import ConfigError
from training.config.data import DataConfig


def make(**changes: Any) -> DataConfig:
    return DataConfig.from_dict({"src_lang": "de", "tgt_lang": "en", **changes}, where="[data]")


@pytest.mark.parametrize(
    ("changes", "has_test"),
    [
        ({"dataset": "a/b"}, False),
        ({"dataset": "a/b", "test_split": "test"}, True),
        ({"dataset": "a/b", "test": ["t.de", "t.en"]}, True),
        # Local training files must not bring the Hub back in for the test split.
        ({"dataset": "a/b", "test_split": "test", "train": ["t.de", "t.en"]}, False),
    ],
)
def test_a_test_set_is_there_only_if_it_is_named(changes: dict[str, Any], has_test: bool) -> None:
    assert len(make(**changes).held_out_corpora()) == 1 + has_test


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"train is empty and dataset is not set.*valid is empty"),
        ({"dataset": "a/b", "train": ["a.de"]}, r"train: a\.de has no matching translation file"),
        ({"dataset": "a/b", "max_tokens": 0}, r"max_tokens = 0 must be at least 1"),
        ({"dataset": "a/b", "min_script_share": 1.1}, r"min_script_share = 1\.1 must be 0 to 1"),
        ({"dataset": "a/b", "bpe_dropout_sides": "left"}, r"'both' or 'src' or 'tgt'"),
        ({"dataset": "a/b", "corpora": {"main": {"dataset": "x"}}}, r"corpora\.main is reserved"),
        ({"dataset": "a/b", "corpora": {"x": {}}}, r"corpora\.x: set files or a Hub dataset"),
        (
            {"dataset": "a/b", "corpora": {"x": {"file": ["a.tsv"]}}},
            r"corpora\.x: unknown key 'file' \(did you mean 'files'\?",
        ),
        (
            {"dataset": "a/b", "corpora": {"x": {"dataset": "x", "weight": -1.0}}},
            r"corpora\.x: weight = -1\.0 must be above 0",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)
