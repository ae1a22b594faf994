"""A validation: the weights that the recipe names are judged, and the best of them are kept."""

from pathlib import Path

import pytest

from hubnmt import Translator
from tests.runs import RunFarm, differing, score_as
from training.optim.averaging import average
from training.run.run_dir import read_validation


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
