"""The callable for `datasets`, Ray Data and Spark."""

import pickle
from pathlib import Path

import datasets
import pandas as pd
import pytest

from hubnmt import Translator
from hubnmt.batch import TranslateBatch

TEXTS = ["Ein Hund rennt im Schnee.", "Zwei Männer.", "Ein kleines Mädchen klettert."]


@pytest.fixture
def expected(model_folder: Path) -> list[str]:
    translations = Translator.from_pretrained(model_folder).translate(TEXTS, max_new_tokens=5)
    return [each.text for each in translations]


def make(model_folder: Path, output: str = "translation") -> TranslateBatch:
    return TranslateBatch(str(model_folder), "de", output, max_new_tokens=5)


def test_columns_are_added_and_the_others_kept(model_folder: Path, expected: list[str]) -> None:
    batch = make(model_folder, "en")({"id": [1, 2, 3], "de": TEXTS})
    assert batch == {"id": [1, 2, 3], "de": TEXTS, "en": expected}


def test_pickled_without_its_model(model_folder: Path, expected: list[str]) -> None:
    used = make(model_folder)
    used({"de": TEXTS})
    pickled = pickle.dumps(used)
    assert len(pickled) < 2_000
    assert pickle.loads(pickled)({"de": TEXTS})["translation"] == expected


def test_bad_rows_stop_nothing(
    model_folder: Path, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    texts = [TEXTS[0], None, TEXTS[1], "\ud800", TEXTS[2]]
    found = make(model_folder)({"de": texts})
    assert found["translation"] == [expected[0], None, expected[1], None, expected[2]]
    assert "row 2 of the batch is not translated" in caplog.text


def test_data_frames_as_in_sparks_map_in_pandas(model_folder: Path, expected: list[str]) -> None:
    frames = iter([pd.DataFrame({"id": [7, 8, 9], "de": TEXTS})])
    (frame,) = map(make(model_folder), frames)
    assert list(frame.columns) == ["id", "de", "translation"]
    assert list(frame["translation"]) == expected


def test_maps_a_dataset(model_folder: Path, expected: list[str]) -> None:
    dataset = datasets.Dataset.from_dict({"de": TEXTS})
    mapped = dataset.map(make(model_folder), batched=True, batch_size=2, num_proc=2)
    assert mapped["translation"][:] == expected
