"""Validation: its loss and its scores, and the best weights of those that it is given."""

import dataclasses
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.translator import Translator
from tests.runs import RunFarm, differing, score_as
from training.run.checkpoint import average
from training.run.validation import Evaluation, encode_pairs, evaluate, read_validation

PAIRS = [
    ("Ein Hund rennt.", "A dog is running in the snow."),
    ("Zwei Männer stehen am Herd.", "Two men."),
    ("Eine Frau in Blau fährt mit dem Fahrrad.", "A woman in blue rides a bicycle."),
    ("Ein Hund rennt. Eine Frau fährt.", "A dog is running. A woman rides."),
    ("EIN KLEINES MÄDCHEN KLETTERT!", "A LITTLE GIRL CLIMBS!"),
    ("Ein Hund 🐕", "A dog 🐕"),
]
"""The last three are what a page would split, put in small letters, or take apart."""


@pytest.fixture
def translator(tiny_stored: StoredModel) -> Translator:
    decoding = DecodingConfig(max_new_tokens=9)
    return Translator(dataclasses.replace(tiny_stored, decoding=decoding))


def judge(translator: Translator, pairs: list[tuple[str, str]]) -> Evaluation:
    return evaluate(translator, encode_pairs(translator, pairs), batch_tokens=1000)


def test_loss_and_scores_are_of_the_same_pairs(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    """One that would take all the memory there is counts for neither, and that is said."""
    endless = "lang " * 20_000
    found = judge(translator, [PAIRS[0], (endless, "long"), ("kurz", endless), *PAIRS[1:]])
    expected = judge(translator, PAIRS)
    assert found.translations == expected.translations
    encode = translator.tokenizers.src.encode
    log_probs = translator.replay([(encode(src), encode(tgt)) for src, tgt in PAIRS])
    expected_loss = -sum(map(sum, log_probs)) / sum(map(len, log_probs))
    assert found.dev_loss == pytest.approx(expected_loss, rel=1e-5)
    assert found.scores == expected.scores
    assert "skipped 2 of 8 evaluation pairs with 256 tokens or more" in caplog.text


def test_best_is_the_model_of_the_best_validation(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([11, 13, 12, 12.5], monkeypatch)
    settings = ["run.eval_every=1", "run.average_last=4", "run.max_steps=4"]
    done = run_farm(tmp_path, *settings)
    snapshots = [*done.progress.snapshots.values()]
    for name, count in (("best", 2), ("last", 4)):
        stored = Translator.from_pretrained(done.folder / name)
        assert differing(stored, average(snapshots[:count])) == []


def test_chrf_chooses_while_bleu_is_low(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([1, 2, 6, 5.5], monkeypatch, chrf=[40, 39, 20, 41])
    done = run_farm(tmp_path, "run.eval_every=1", "run.max_steps=4")
    assert done.progress.best_step == 3
    record = read_validation(done.folder / "best")
    assert record is not None
    assert record["step"] == 3
