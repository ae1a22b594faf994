"""The command: what a run leaves, what it refuses, how it is interrupted, where it ends."""

import contextlib
import json
import logging
import math
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt import Translator
from hubnmt.errors import ConfigError, HubNMTError, ModelFolderError
from tests.hub import READER, REPO
from tests.hub_server import Fault, HubServer
from tests.runs import break_at, differing, read_metrics, stop_at
from training import train
from training.optim import step
from training.optim.loss import LossSums
from training.run.run_dir import hold_folder
from training.run.trainer import Run
from training.train import main

FarmOptions = Callable[..., list[str]]
RunFarm = Callable[..., Run]


def test_a_run_leaves_what_was_promised(farm_run: Run) -> None:
    names = {path.name for path in farm_run.folder.iterdir() if not path.name.startswith(".")}
    promised = {"best", "last", "state.pt", "metrics.jsonl", "samples.md", "recipe.json"}
    assert names >= promised | {"machine.json", "cleaning.json", "tokenizer.json"}


def test_the_folder_says_how_it_came_to_be(farm_run: Run) -> None:
    recipe = json.loads((farm_run.folder / "recipe.json").read_text(encoding="utf-8"))
    machine = json.loads((farm_run.folder / "machine.json").read_text(encoding="utf-8"))
    assert recipe == json.loads(json.dumps(farm_run.config.to_dict()))
    assert recipe["run"]["seed"] == 5
    assert recipe["optimizer"]["weight_decay"] == 0  # defaults are written out too
    assert machine["torch"] == torch.__version__
    assert {"hubnmt", "python", "device", "git_commit", "command"} <= set(machine)


def test_the_cleaning_report_is_kept(run_farm: RunFarm, tmp_path: Path) -> None:
    dirty = {"de": ["Ja.", "", "Nein!", "x" * 100_000], "en": ["Yes.", "x", "No!", "y"]}
    for side, lines in dirty.items():
        (tmp_path / f"dirty.{side}").write_text("\n".join(lines * 3), encoding="utf-8")
    files = f"data.train={tmp_path / 'dirty.de'},{tmp_path / 'dirty.en'}"
    done = run_farm(tmp_path, files, "run.max_steps=1", "data.max_tokens=4")
    report = json.loads((done.folder / "cleaning.json").read_text(encoding="utf-8"))
    assert report["n_read"] == 12
    assert report["dropped"]["empty"] == report["dropped"]["absurdly unequal"] == 3
    assert report["n_kept"] == 12 - sum(report["dropped"].values()) == len(done.corpus.train)


def test_two_vocabularies_make_a_whole_model_too(run_farm: RunFarm, tmp_path: Path) -> None:
    separate = ["tokenizer.joint=false", "model.share_embeddings=false"]
    done = run_farm(tmp_path, *separate, "run.max_steps=1", "run.eval_every=1")
    translator = Translator.from_pretrained(done.folder / "best")
    assert translator.tokenizers.src.encode("wartet") != translator.tokenizers.tgt.encode("wartet")


def test_ctrl_c_ends_the_run_after_the_step_and_says_how_to_go_on(
    run_farm: RunFarm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop_at(3, monkeypatch)
    run_farm(tmp_path)
    hint = f"python -m training.train --resume {tmp_path / 'farm'}"
    said = [message for message in caplog.messages if "resume with" in message]
    assert len(said) == 1
    assert said[0].endswith(hint)  # what it was started with is remembered
    assert (tmp_path / "farm" / "state.pt").is_file()


def test_the_hint_of_a_resumed_run_repeats_what_this_sitting_was_given(
    run_farm: RunFarm,
    farm_recipe: Path,
    tmp_path: Path,
    hub: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    n_threads = torch.get_num_threads()
    stop_at(1, monkeypatch)
    run_farm(tmp_path, "run.n_threads=1", "run.max_steps=5")
    stop_at(1, monkeypatch)
    settings = ["run.max_steps=7", f"data.cache={tmp_path / 'a cache'}"]
    folder = tmp_path / "farm"
    resumed = train.run(farm_recipe, overrides=settings, resume=folder, push=REPO)
    assert (resumed.config.run.n_threads, resumed.config.run.max_steps) == (1, 7)
    assert torch.get_num_threads() == n_threads  # a caller keeps its own
    hint = caplog.text.partition(f"--resume {folder} ")[2]
    options = ["--set", settings[0], "--set", settings[1], "--push", REPO]
    assert shlex.split(hint.splitlines()[0]) == options


def test_signals_are_handed_back_after_the_run(run_farm: RunFarm, tmp_path: Path) -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(each) for each in signals]
    try:
        run_farm(tmp_path, "run.max_steps=1")
        assert [signal.getsignal(each) for each in signals] == before
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


def test_a_new_run_does_not_overwrite_an_old_one(run_farm: RunFarm, tmp_path: Path) -> None:
    old = run_farm(tmp_path, "run.max_steps=1")
    before = {path: path.read_bytes() for path in old.folder.rglob("*") if path.is_file()}
    with pytest.raises(
        ConfigError, match=r"already holds a run: resume it with --resume .*farm, or"
    ):
        run_farm(tmp_path, "run.max_steps=2")
    assert {path: path.read_bytes() for path in old.folder.rglob("*") if path.is_file()} == before


def test_resuming_with_another_recipe_is_refused_with_the_differences(
    run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=1")
    changes = ["optimizer.lr=0.02", "model.dropout=0.3", "run.seed=6", "run.max_steps=3"]
    with pytest.raises(ConfigError, match="was started with another recipe") as caught:
        run_farm(tmp_path, *changes, resume=True)
    differences = str(caught.value).partition("recipe: ")[2].split("; ")
    assert sorted(differences) == [
        "model.dropout was 0.2, is 0.3",
        "optimizer.lr was 0.01, is 0.02",
        "run.seed was 5, is 6",
    ]


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"run": 3}', "[" * 200_000])
def test_a_folder_that_holds_no_run_cannot_be_resumed(
    content: str | None, run_farm: RunFarm, tmp_path: Path
) -> None:
    (tmp_path / "farm").mkdir()
    if content is not None:
        (tmp_path / "farm" / "recipe.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="farm"):
        run_farm(tmp_path, resume=True)


def test_a_run_goes_on_without_its_recipe(farm_run: Run, run_farm: RunFarm, tmp_path: Path) -> None:
    """The folder has it."""
    run_farm(tmp_path, "run.max_steps=3")
    folder = tmp_path / "farm"
    assert main(["--resume", str(folder), "--set", "run.max_steps=8"]) == 0
    last = Translator.from_pretrained(folder / "last")
    assert differing(last, Translator.from_pretrained(farm_run.folder / "last")) == []


def test_a_change_is_refused_without_the_recipe_too(
    run_farm: RunFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_farm(tmp_path, "run.max_steps=1")
    assert main(["--resume", str(tmp_path / "farm"), "--set", "optimizer.lr=0.02"]) == 2
    assert "optimizer.lr was 0.01, is 0.02" in capsys.readouterr().err


def test_no_more_threads_are_taken_than_there_are_cores(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_farm(tmp_path, "run.n_threads=1000000", "run.max_steps=1").progress.step == 1
    assert f"but this machine has {os.cpu_count()} cores" in caplog.text


def test_a_torn_state_is_refused_and_left_where_it_is(run_farm: RunFarm, tmp_path: Path) -> None:
    run_farm(tmp_path, "run.max_steps=1")
    path = tmp_path / "farm" / "state.pt"
    torn = path.read_bytes()[:-1000]
    path.write_bytes(torn)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        run_farm(tmp_path, "run.max_steps=3", resume=True)
    assert path.read_bytes() == torn


def test_a_mistake_does_not_occupy_the_name_of_the_run(run_farm: RunFarm, tmp_path: Path) -> None:
    for mistake in ("data.train=no.de,no.en", "decoding.beam_size=0", "tokenizer.vocab_size=9"):
        with pytest.raises(HubNMTError):
            run_farm(tmp_path, mistake)
        done = run_farm(tmp_path, "run.max_steps=1", f"run.name={mistake.partition('.')[0]}")
        assert done.progress.step == 1
    assert run_farm(tmp_path, "run.max_steps=1").progress.step == 1  # now without a mistake


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_state(
    value: float,
    farm_recipe: Path,
    farm_options: FarmOptions,
    run_farm: RunFarm,
    farm_run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    before = (tmp_path / "farm" / "state.pt").read_bytes()
    more = farm_options(tmp_path, "run.max_steps=8")
    settings = [word for option in more for word in ("--set", option)]
    command = [str(farm_recipe), *settings, "--resume", str(tmp_path / "farm")]
    with monkeypatch.context() as patch:
        break_at(3, patch, value)  # the third step of this sitting
        assert main(command) == 1
    message = r"^error: training stopped: step 7: loss (nan|-?inf) .*lower optimizer\.lr"
    assert re.search(message, capsys.readouterr().err, re.MULTILINE)  # not glued to the bar
    assert (tmp_path / "farm" / "state.pt").read_bytes() == before
    resumed = run_farm(tmp_path, "run.max_steps=8", resume=True)
    assert differing(resumed, farm_run) == []


def test_an_absurd_rate_is_found_out(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = farm_options(tmp_path, "optimizer.lr=1e30", "optimizer.warmup_steps=0")
    assert main([str(farm_recipe), *(w for o in options for w in ("--set", o))]) == 1
    assert "error: training stopped: step 2:" in capsys.readouterr().err


def test_a_validation_of_no_number_stops_the_run_before_anything_is_kept(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["optimizer.lr=1e30", "optimizer.warmup_steps=0", "run.eval_every=1"]
    options = farm_options(tmp_path, *settings)
    assert main([str(farm_recipe), *(w for o in options for w in ("--set", o))]) == 1
    said = "error: training stopped: step 1: validation loss nan; lower optimizer.lr"
    assert said in capsys.readouterr().err
    assert not any((tmp_path / "farm" / name).exists() for name in ("best", "last", "state.pt"))


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


def test_a_run_may_go_on_with_another_cache(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=3")
    settings = [f"data.cache={tmp_path / 'elsewhere'}", "run.max_steps=8"]
    resumed = run_farm(tmp_path, *settings, resume=True)
    assert differing(resumed, farm_run) == []


def test_the_way_out_of_too_little_memory_works(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    for resume in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(step, "projected_cross_entropy", refuse)
            with pytest.raises(ConfigError, match="out of memory"):
                run_farm(tmp_path)
        smaller = ["optimizer.batch_tokens=200", "optimizer.accumulate=3"]
        done = run_farm(tmp_path, "run.max_steps=1", *smaller, resume=resume)
        recipe = json.loads((done.folder / "recipe.json").read_text(encoding="utf-8"))
        assert recipe["optimizer"]["accumulate"] == 3
        shutil.rmtree(done.folder)


def test_two_starts_at_once_do_not_share_a_folder(run_farm: RunFarm, tmp_path: Path) -> None:
    (tmp_path / "farm").mkdir()
    with hold_folder(tmp_path / "farm"), pytest.raises(ConfigError, match="another process"):
        run_farm(tmp_path)
    assert {path.name for path in (tmp_path / "farm").iterdir()} == {".lock"}


def test_a_run_whose_state_is_gone_is_left_alone(run_farm: RunFarm, tmp_path: Path) -> None:
    folder = run_farm(tmp_path).folder
    (folder / "state.pt").unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"state\.pt is missing"):
        run_farm(tmp_path, resume=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("n_fit", "status", "said"), [(2, 2, "would fit"), (0, 2, "not even one")])
def test_memory_that_runs_out_is_told_with_what_fits(
    n_fit: int,
    status: int,
    said: str,
    farm_recipe: Path,
    farm_options: FarmOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    price = step.projected_cross_entropy
    calls = []

    def price_little(hidden: Tensor, weight: Tensor, labels: Tensor, **options: Any) -> LossSums:
        calls.append(len(labels))
        n_rows = int((labels == 2).sum())  # one eos a pair
        if n_rows > n_fit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB.\nMore.")
        return price(hidden, weight, labels, **options)

    monkeypatch.setattr(step, "projected_cross_entropy", price_little)
    options = farm_options(tmp_path)
    assert main([str(farm_recipe), *(w for o in options for w in ("--set", o))]) == status
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error: out of memory")
    assert said in line
    assert len(calls) > 2
    assert calls == sorted(calls, reverse=True)  # the first batch already, then ever less


# --- interrupted ---------------------------------------------------------------------------------


def test_a_signal_passed_on_at_once_is_the_same_wish(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Run._count

    def press_twice(self: Run, *args: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        take(self, *args)

    monkeypatch.setattr(Run, "_count", press_twice)
    assert run_farm(tmp_path).progress.step == 1


def test_a_second_signal_later_ends_the_run_at_once(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "GRACE_S", 0.0)

    def press_twice(self: Run, *_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Run, "_count", press_twice)
    with pytest.raises(KeyboardInterrupt):
        run_farm(tmp_path)
    assert not (tmp_path / "farm" / "state.pt").exists()


# --- the way to the Hub --------------------------------------------------------------------------


@pytest.fixture
def command(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path
) -> Callable[..., list[str]]:
    """Write the command line of the farm run with more settings and other words."""

    def words(*settings: str, extra: tuple[str, ...] = ()) -> list[str]:
        sets = [word for option in farm_options(tmp_path, *settings) for word in ("--set", option)]
        return [str(farm_recipe), *sets, *extra]

    return words


@pytest.mark.parametrize("is_public", [False, True])
def test_checkpoints_and_result_go_to_the_hub(
    is_public: bool, command: Callable[..., list[str]], hub: HubServer
) -> None:
    """A new repository is private, one that is there stays as it is."""
    if is_public:
        hub.store.create("model", REPO)
    assert main(command(extra=("--push", REPO, "--hub-checkpoints"))) == 0
    best, *steps, _ = hub.repo(REPO).history()
    assert best.startswith("Best of training: validation BLEU ")
    assert steps == ["Step 8, in training", "Step 4, in training"]
    assert hub.repo(REPO).private is not is_public
    assert Translator.from_pretrained(REPO).config.d_model == 12


@pytest.mark.parametrize("trouble", ["a token that only reads", "no Hub", "another's model"])
def test_a_hub_that_will_not_take_the_model_is_told_before_the_first_step(
    trouble: str,
    command: Callable[..., list[str]],
    hub: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if trouble == "a token that only reads":
        hub.store.create("model", REPO)
        monkeypatch.setenv("HF_TOKEN", READER)
    elif trouble == "no Hub":
        hub.faults.add(Fault("GET", times=None, status=503))
    else:
        hub.store.put(REPO, {"config.json": b"{}"})
    assert main(command(extra=("--push", REPO))) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "farm").exists()


def test_a_finished_run_is_handed_over_again(
    command: Callable[..., list[str]], tmp_path: Path, hub: HubServer
) -> None:
    """Also one that was shorter than a validation, whose state knows of none."""
    assert main(command("run.max_steps=2")) == 0
    folder = tmp_path / "farm"
    (folder / "best" / "README.md").unlink()
    again = command("run.max_steps=2", extra=("--resume", str(folder), "--push", REPO))
    assert main(again) == 0
    assert len(hub.repo(REPO).history()) == 2
    card = hub.repo(REPO).files()["README.md"].decode()
    assert "# Farm\n" in card
    assert "steps until the best weights: 2" in card
    assert len(read_metrics(folder, "valid")) == 1  # nothing is judged twice


def test_a_hub_that_goes_away_costs_nothing_but_the_push(
    command: Callable[..., list[str]],
    tmp_path: Path,
    hub: HubServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hub.faults.add(Fault("preupload", times=None, status=503))
    assert main(command(extra=("--push", REPO, "--hub-checkpoints"))) == 2
    assert "retry the upload with: hubnmt push" in capsys.readouterr().err.splitlines()[-1]
    state = torch.load(tmp_path / "farm" / "state.pt", weights_only=True)
    assert state["progress"]["step"] == 8


def test_a_push_to_nowhere_is_refused_before_training(
    command: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(extra=("--hub-checkpoints",))) == 2
    assert "--hub-checkpoints requires --push USER/NAME" in capsys.readouterr().err
    assert not (tmp_path / "farm").exists()


@contextlib.contextmanager
def new_log() -> Iterator[None]:
    """The log as a new process finds it; pytest has handlers of its own there."""
    levels = {name: logging.getLogger(name).level for name in ("", "training")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        patch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
        yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_the_run_speaks_and_libraries_only_of_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    with new_log():
        train.set_up_log(is_leader=True)
        logging.getLogger("training").info("step 50")
        logging.getLogger("httpx").info("GET https://huggingface.co")
        logging.getLogger("urllib3").warning("a certificate is old")
        hub = logging.getLogger("huggingface_hub")
        assert not hub.propagate  # it has a voice of its own: nothing is to be said twice
    said = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["step 50", "a certificate is old"]


def test_the_others_of_a_team_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with new_log():
        train.set_up_log(is_leader=False)
        logging.getLogger("training").warning("step 50")
        logging.getLogger("training").critical("process 1: out of memory")
    assert capsys.readouterr().err.count("\n") == 1


def test_shapes_are_not_remembered_without_bound_unless_somebody_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounded, chosen = train.SHAPE_CACHES
    monkeypatch.setenv(bounded, "")
    monkeypatch.delenv(bounded)
    monkeypatch.setenv(chosen, "2000")
    train.bound_shape_caches()
    assert (os.environ[bounded], os.environ[chosen]) == ("64", "2000")
