"""The command: what a run leaves, what it refuses, how it is interrupted, where it ends."""

import re
from pathlib import Path

import pytest

from hubnmt import Translator
from hubnmt.errors import ConfigError, HubNMTError
from tests.runs import FarmOptions, RunFarm, as_flags, break_at, differing, stop_at
from training.run.run_dir import lock_folder
from training.run.trainer import Trainer
from training.train import main


def test_ctrl_c_ends_the_run_after_the_step_and_says_how_to_go_on(
    farm_run: Trainer,
    run_farm: RunFarm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The folder has the recipe, and what the run was started with."""
    folder = tmp_path / "farm"
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        run_farm(tmp_path)
    (said,) = [message for message in caplog.messages if "resume with" in message]
    command = "python -m training.train "
    assert said.endswith(f"{command}--resume {folder}")
    assert main(said.partition(command)[2].split()) == 0
    last = Translator.from_pretrained(folder / "last")
    assert differing(last, Translator.from_pretrained(farm_run.folder / "last")) == []


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_state(
    farm_recipe: Path,
    farm_options: FarmOptions,
    run_farm: RunFarm,
    farm_run: Trainer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    before = (tmp_path / "farm" / "state.pt").read_bytes()
    settings = as_flags(farm_options(tmp_path, "run.max_steps=8"))
    command = [str(farm_recipe), *settings, "--resume", str(tmp_path / "farm")]
    with monkeypatch.context() as patch:
        break_at(3, patch)  # the third step of this session
        assert main(command) == 1
    message = r"^error: training stopped: step 7: loss (nan|-?inf) .*lower optimizer\.lr"
    assert re.search(message, capsys.readouterr().err, re.MULTILINE)  # not glued to the bar
    assert (tmp_path / "farm" / "state.pt").read_bytes() == before
    resumed = run_farm(tmp_path, "run.max_steps=8", resume=True)
    assert differing(resumed, farm_run) == []


def test_a_run_does_not_go_on_with_other_texts(
    run_farm: RunFarm, farm_options: FarmOptions, tmp_path: Path, repo: Path
) -> None:
    for side in ("de", "en"):
        text = (repo / f"tests/fixtures/farm.train.{side}").read_text(encoding="utf-8")
        (tmp_path / f"my.{side}").write_text(text, encoding="utf-8")
    files = f"data.train={tmp_path / 'my.de'},{tmp_path / 'my.en'}"
    run_farm(tmp_path, files, "run.max_steps=1")
    with (tmp_path / "my.de").open("a", encoding="utf-8") as file:
        file.write("Noch ein Satz.\n")
    with (tmp_path / "my.en").open("a", encoding="utf-8") as file:
        file.write("One more sentence.\n")
    with pytest.raises(HubNMTError, match=r"texts have changed since .*farm was started"):
        run_farm(tmp_path, files, resume=True)


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(ConfigError, match="another process is training there"),
        lock_folder(tmp_path),
    ):
        pass
    with lock_folder(tmp_path):  # free again, although the file stays
        assert (tmp_path / ".lock").exists()
