"""The run: one step is one step however it is cut, stopping and going on leaves no trace."""

import dataclasses
import json
import logging
import math
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt import Translator
from hubnmt.errors import ConfigError, HubNMTError, ModelFolderError
from training import train
from training.batches import Batch, collate
from training.config import load_recipe
from training.loss import LossSums
from training.run_folder import describe_machine
from training.state import Progress, average
from training.train import Meter, Run, main, pick_device, prepare_corpus, seed_everything

FarmOptions = Callable[..., list[str]]
RunFarm = Callable[..., Run]


def read_metrics(folder: Path, kind: str = "") -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record for record in records if kind in ("", record["kind"])]


def read_samples(folder: Path) -> list[list[tuple[str, str]]]:
    """Sources and references in each table of samples.md."""
    tables = (folder / "samples.md").read_text(encoding="utf-8").split("\n## ")[1:]
    rows = [[line for line in table.splitlines() if line.startswith("| ")][1:] for table in tables]
    return [[tuple(row.split(" | ")[:2]) for row in table] for table in rows]  # type: ignore[misc]


def differing(run: Run | Translator, other: Run | Translator | dict[str, Tensor]) -> list[str]:
    """Name the weights that are not the same to the last bit."""
    theirs = other if isinstance(other, dict) else other.model.state_dict()
    mine = run.model.state_dict()
    return [name for name in mine if not torch.equal(mine[name], theirs[name])]


def stop_at(step: int, patch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in the middle of a step."""
    take_step = Run._step

    def step_and_stop(self: Run, batches: Iterator[Batch]) -> tuple[float, float, int]:
        if self.progress.step + 1 == step:
            signal.raise_signal(signal.SIGINT)
        return take_step(self, batches)

    patch.setattr(Run, "_step", step_and_stop)


def break_at(step: int, patch: pytest.MonkeyPatch, value: float = math.nan) -> None:
    """Let the loss of a step be no number."""
    price = train.projected_cross_entropy
    calls = 0

    def broken(*args: Any, **kwargs: Any) -> LossSums:
        nonlocal calls
        calls += 1
        sums = price(*args, **kwargs)
        is_broken = calls > 2 * (step - 1)  # the recipe accumulates two batches
        return LossSums(sums.smoothed * value, sums.nll) if is_broken else sums

    patch.setattr(train, "projected_cross_entropy", broken)


# --- one step ------------------------------------------------------------------------------------


def gradients_of_a_step(current: Run, batches: list[list[int]], accumulate: int) -> list[Tensor]:
    """The gradients that the optimizer gets to see."""
    optimizer = dataclasses.replace(current.config.optimizer, accumulate=accumulate)
    current.config = dataclasses.replace(current.config, optimizer=optimizer)
    found: list[Tensor] = []

    def remember() -> None:
        found.extend(p.grad.clone() for p in current.model.parameters() if p.grad is not None)

    current.optimizer.step = remember  # type: ignore[method-assign,assignment]
    tokenizers = {
        "src_tokenizer": current.corpus.src_tokenizer,
        "tgt_tokenizer": current.corpus.tgt_tokenizer,
    }
    made = (collate([current.corpus.train[i] for i in rows], **tokenizers) for rows in batches)
    current._step(made)
    return found


@pytest.fixture
def still_run(farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path) -> Iterator[Run]:
    """A run before its first step, without dropout and clipping."""
    nothing = [f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ff_dropout")]
    options = farm_options(tmp_path, *nothing, "optimizer.grad_clip_norm=0.0")
    config = load_recipe(farm_recipe, options)
    current = Run(config, tmp_path, prepare_corpus(config, tmp_path))
    yield current
    current.report.close()


def test_accumulated_batches_pull_like_one_big_batch(still_run: Run) -> None:
    parts = [[0, 1, 2, 3, 4], [5], [6, 7]]  # of different size: a mean of means would differ
    whole = gradients_of_a_step(still_run, [[*range(8)]], accumulate=1)
    accumulated = gradients_of_a_step(still_run, parts, accumulate=3)
    assert len(whole) == len(list(still_run.model.parameters()))
    for mine, theirs in zip(accumulated, whole, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_the_loss_is_divided_by_the_real_tokens_of_the_step(still_run: Run) -> None:
    rows = [0, 1, 2]
    optimizer = dataclasses.replace(still_run.config.optimizer, accumulate=1)
    still_run.config = dataclasses.replace(still_run.config, optimizer=optimizer)
    tokenizers = still_run.corpus.src_tokenizer, still_run.corpus.tgt_tokenizer
    pairs = [still_run.corpus.train[row] for row in rows]
    batch = collate(pairs, src_tokenizer=tokenizers[0], tgt_tokenizer=tokenizers[1])
    logits = still_run.model(batch.src.src_ids, batch.tgt_in, batch.src.src_pad_mask)
    labels = torch.full(batch.tgt_in.shape, -100)
    labels[batch.is_label] = batch.labels
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
    )
    loss, _, n_tokens = still_run._step(iter([batch]))
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert n_tokens == sum(len(tgt) + 1 for _, tgt in pairs)


def test_gradients_do_not_leak_into_the_next_step(still_run: Run) -> None:
    first = gradients_of_a_step(still_run, [[0, 1]], accumulate=1)
    again = gradients_of_a_step(still_run, [[0, 1]], accumulate=1)
    torch.testing.assert_close(again, first)


def test_clipping_caps_the_norm_and_reports_the_norm_before(still_run: Run) -> None:
    def norm_of(gradients: list[Tensor]) -> Tensor:
        return torch.cat([gradient.flatten() for gradient in gradients]).norm()

    free = gradients_of_a_step(still_run, [[0, 1, 2]], accumulate=1)
    norm = norm_of(free)
    optimizer = dataclasses.replace(still_run.config.optimizer, grad_clip_norm=0.01)
    still_run.config = dataclasses.replace(still_run.config, optimizer=optimizer)
    clipped = gradients_of_a_step(still_run, [[0, 1, 2]], accumulate=1)
    assert norm > 0.02
    assert norm_of(clipped).item() == pytest.approx(0.01, rel=1e-3)
    torch.testing.assert_close(clipped[0], free[0] * 0.01 / norm, rtol=1e-3, atol=1e-7)


# --- a whole run ---------------------------------------------------------------------------------


def test_a_run_leaves_what_was_promised(farm_run: Run) -> None:
    names = {path.name for path in farm_run.folder.iterdir() if not path.name.startswith(".")}
    promised = {"best", "last", "state.pt", "metrics.jsonl", "samples.md", "recipe.json"}
    assert names >= promised | {"machine.json", "cleaning.json", "tokenizer.json"}


def test_best_and_last_can_translate(farm_run: Run) -> None:
    for name in ("best", "last"):
        translator = Translator.from_pretrained(farm_run.folder / name)
        assert translator.decoding.beam_size == 2
        assert (translator.config.src_lang, translator.config.tgt_lang) == ("de", "en")
        assert isinstance(translator.translate("Heute wartet die Kuh.").text, str)


def test_last_is_the_mean_of_the_last_snapshots(farm_run: Run) -> None:
    snapshots = farm_run.progress.snapshots
    assert len(snapshots) == 2
    assert differing(farm_run, snapshots[-1]) == []
    last = Translator.from_pretrained(farm_run.folder / "last")
    assert differing(last, average(snapshots)) == []
    assert "src_embedding.weight" in differing(last, snapshots[-1])


def test_the_rate_follows_the_schedule(farm_run: Run) -> None:
    rates = [record["lr"] for record in read_metrics(farm_run.folder, "train")]
    expected = [1 / 3, 2 / 3, 1, *(math.sqrt(3 / step) for step in range(4, 9))]
    assert rates == pytest.approx([0.01 * factor for factor in expected])


def test_metrics_hold_every_logged_step_and_every_validation(farm_run: Run) -> None:
    records = read_metrics(farm_run.folder, "train")
    assert [record["step"] for record in records] == list(range(1, 9))
    keys = {"loss", "lr", "grad_norm", "tokens_per_s", "epoch", "time"}
    assert all(keys <= set(record) for record in records)
    validations = read_metrics(farm_run.folder, "valid")
    assert [record["step"] for record in validations] == [4, 8]
    for record in validations:
        assert record["dev_loss"] > 0
        assert "tok:13a" in record["bleu_signature"]
        assert "nc:6" in record["chrf_signature"]


def test_samples_follow_the_same_sentences(farm_run: Run) -> None:
    tables = read_samples(farm_run.folder)
    assert len(tables) == 2
    assert tables[0] == tables[1]
    valid = {(f"| {src}", tgt) for src, tgt in farm_run.corpus.valid}
    assert len(set(tables[0])) == 3
    assert set(tables[0]) <= valid


@pytest.mark.parametrize(("n_samples", "n_rows"), [(1, 1), (9, 9), (50, 12)])
def test_as_many_samples_as_asked_for_and_as_there_are(
    n_samples: int, n_rows: int, run_farm: RunFarm, tmp_path: Path
) -> None:
    done = run_farm(tmp_path, f"run.n_samples={n_samples}", "run.max_steps=1", "run.eval_every=1")
    assert [len(set(table)) for table in read_samples(done.folder)] == [n_rows]


def test_curves_are_written(farm_run: Run) -> None:
    pytest.importorskip("tensorboard")
    assert list((farm_run.folder / "tensorboard").glob("events.out.tfevents.*"))


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
    assert translator.src_tokenizer.encode("wartet") != translator.tgt_tokenizer.encode("wartet")


def test_a_run_learns(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.max_steps=40", "run.eval_every=40", "run.log_every=10")
    losses = [record["loss"] for record in read_metrics(done.folder, "train")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]


def test_bfloat16_runs_too(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.dtype=bfloat16", "run.max_steps=2", "run.eval_every=2")
    assert {weight.dtype for weight in done.model.parameters()} == {torch.float32}
    assert all(math.isfinite(record["loss"]) for record in read_metrics(done.folder, "train"))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    torch.manual_seed(99)  # what happened before the run must not matter
    same = run_farm(tmp_path / "same")
    other = run_farm(tmp_path / "other", "run.seed=6")
    assert differing(same, farm_run) == []
    assert "src_embedding.weight" in differing(other, farm_run)


def test_epochs_pass_through_all_pairs_in_different_orders(farm_run: Run) -> None:
    progress = farm_run.progress
    farm_run.progress = Progress()
    batches = farm_run._batches()
    epochs: list[list[tuple[int, ...]]] = [[], []]
    while farm_run.progress.epoch < 2:
        batch = next(batches)
        if farm_run.progress.epoch < 2:
            rows = zip(batch.src.src_ids.tolist(), batch.tgt_in.tolist(), strict=True)
            pad = farm_run.corpus.src_tokenizer.pad_id
            kept = [tuple(i for i in (*src, *tgt) if i != pad) for src, tgt in rows]
            epochs[farm_run.progress.epoch] += kept
    farm_run.progress = progress
    assert len(epochs[0]) == len(farm_run.corpus.train)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]


def test_a_run_ends_with_a_model_of_its_last_step(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.max_steps=5", "run.average_last=1")  # eval_every is 4
    assert differing(Translator.from_pretrained(done.folder / "last"), done) == []


def test_a_run_shorter_than_a_validation_ends_with_a_model_too(
    run_farm: RunFarm, tmp_path: Path
) -> None:
    done = run_farm(tmp_path, "run.max_steps=2")
    assert Translator.from_pretrained(done.folder / "best").config.d_model == 12


# --- when it ends --------------------------------------------------------------------------------


def score_as(scores: list[float], patch: pytest.MonkeyPatch) -> None:
    """Let the validations come out like this."""
    judge = train.evaluate
    values = iter(scores)

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        evaluation = judge(*args, **kwargs)
        scored = dataclasses.replace(evaluation.scores, bleu=next(values))
        return dataclasses.replace(evaluation, scores=scored)

    patch.setattr(train, "evaluate", evaluate)


def test_early_stopping_counts_validations_without_a_better_score(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([1, 3, 2, 4, 4, 3.9, 5, 6], monkeypatch)
    done = run_farm(tmp_path, "run.eval_every=1", "run.patience=2")
    assert done.progress.step == 6
    assert (done.progress.best_bleu, done.progress.best_step) == (4, 4)


def test_best_is_the_model_of_the_best_validation(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([1, 3, 2, 2.5], monkeypatch)
    settings = ["run.eval_every=1", "run.average_last=4", "run.max_steps=4"]
    done = run_farm(tmp_path, *settings)
    snapshots = done.progress.snapshots
    for name, count in (("best", 2), ("last", 4)):
        stored = Translator.from_pretrained(done.folder / name)
        assert differing(stored, average(snapshots[:count])) == []


def test_the_clock_ends_a_run(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.max_minutes=1e-9")
    assert done.progress.step == 1


# --- stopping and going on -----------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 4, 6])
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(
    step: int, farm_run: Run, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        stopped = run_farm(tmp_path)
    assert stopped.progress.step == step
    seed_everything(99)  # a new process starts from another random state
    resumed = run_farm(tmp_path, resume=True)
    assert differing(resumed, farm_run) == []
    for name in ("best", "last"):
        weights = [(run.folder / name / "model.safetensors") for run in (farm_run, resumed)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    torch.testing.assert_close(
        resumed.optimizer.state_dict(), farm_run.optimizer.state_dict(), rtol=0, atol=0
    )
    progress = [dataclasses.asdict(run.progress) for run in (farm_run, resumed)]
    for values in progress:
        del values["seconds"], values["snapshots"]
    assert progress[0] == progress[1]
    curves = [
        [(record["step"], record["loss"]) for record in read_metrics(run.folder, "train")]
        for run in (farm_run, resumed)
    ]
    assert curves[0] == curves[1]
    assert read_samples(resumed.folder) == read_samples(farm_run.folder)


def test_a_longer_run_starts_from_the_end_of_a_shorter_one(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    resumed = run_farm(tmp_path, resume=True)  # max_steps may change
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
    with pytest.raises(HubNMTError, match=r"not those that .*farm began with"):
        run_farm(tmp_path, files, resume=True)


def test_a_run_may_go_on_with_another_cache(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=3")
    resumed = run_farm(tmp_path, f"data.cache={tmp_path / 'elsewhere'}", resume=True)
    assert differing(resumed, farm_run) == []


def test_resuming_a_finished_run_changes_nothing(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path)
    before = [path.read_bytes() for path in sorted(done.folder.glob("*/model.safetensors"))]
    again = run_farm(tmp_path, resume=True)
    assert again.progress.step == 8
    assert [p.read_bytes() for p in sorted(done.folder.glob("*/model.safetensors"))] == before
    assert len(read_metrics(done.folder, "train")) == 8


def test_the_time_of_earlier_sittings_counts(run_farm: RunFarm, tmp_path: Path) -> None:
    first = run_farm(tmp_path, "run.max_steps=4")
    resumed = run_farm(tmp_path, resume=True)
    assert resumed.progress.seconds > first.progress.seconds > 0


def test_ctrl_c_ends_the_run_after_the_step_and_says_how_to_go_on(
    run_farm: RunFarm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop_at(3, monkeypatch)
    with caplog.at_level(logging.INFO):
        run_farm(tmp_path)
    assert f"--resume {tmp_path / 'farm'}" in caplog.text
    assert (tmp_path / "farm" / "state.pt").is_file()


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
    with pytest.raises(ConfigError, match=r"holds a run already: go on with --resume .*farm, or"):
        run_farm(tmp_path, "run.max_steps=2")
    assert {path: path.read_bytes() for path in old.folder.rglob("*") if path.is_file()} == before


def test_resuming_with_another_recipe_is_refused_with_the_differences(
    run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=1")
    changes = ["optimizer.lr=0.02", "model.dropout=0.3", "run.seed=6", "run.max_steps=3"]
    with pytest.raises(ConfigError, match="belongs to another recipe") as caught:
        run_farm(tmp_path, *changes, resume=True)
    differences = str(caught.value).partition("recipe: ")[2].split("; ")
    assert sorted(differences) == [
        "model.dropout was 0.2, is 0.3",
        "optimizer.lr was 0.01, is 0.02",
        "run.seed was 5, is 6",
    ]


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"run": 3}'])
def test_a_folder_that_holds_no_run_cannot_be_resumed(
    content: str | None, run_farm: RunFarm, tmp_path: Path
) -> None:
    (tmp_path / "farm").mkdir()
    if content is not None:
        (tmp_path / "farm" / "recipe.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="farm"):
        run_farm(tmp_path, resume=True)


def test_a_torn_state_is_refused_and_left_where_it_is(run_farm: RunFarm, tmp_path: Path) -> None:
    run_farm(tmp_path, "run.max_steps=1")
    path = tmp_path / "farm" / "state.pt"
    torn = path.read_bytes()[:-1000]
    path.write_bytes(torn)
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        run_farm(tmp_path, "run.max_steps=3", resume=True)
    assert path.read_bytes() == torn


def test_a_mistake_does_not_occupy_the_name_of_the_run(run_farm: RunFarm, tmp_path: Path) -> None:
    for mistake in ("data.train=no.de,no.en", "decoding.beam_size=0", "tokenizer.vocab_size=9"):
        with pytest.raises(HubNMTError):
            run_farm(tmp_path, mistake)
        done = run_farm(tmp_path, "run.max_steps=1", f"run.name={mistake.partition('.')[0]}")
        assert done.progress.step == 1
    assert run_farm(tmp_path, "run.max_steps=1").progress.step == 1  # now without a mistake


# --- when the numbers break ----------------------------------------------------------------------


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
    settings = [word for option in farm_options(tmp_path) for word in ("--set", option)]
    command = [str(farm_recipe), *settings, "--resume", str(tmp_path / "farm")]
    with monkeypatch.context() as patch:
        break_at(3, patch, value)  # the third step of this sitting
        assert main(command) == 1
    message = r"^error: training stopped: step 7: loss (nan|-?inf) .*lower optimizer\.lr"
    assert re.search(message, capsys.readouterr().err, re.MULTILINE)  # not glued to the bar
    assert (tmp_path / "farm" / "state.pt").read_bytes() == before
    resumed = run_farm(tmp_path, resume=True)
    assert differing(resumed, farm_run) == []


def test_an_absurd_rate_is_found_out(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = farm_options(tmp_path, "optimizer.lr=1e30", "optimizer.warmup_steps=0")
    assert main([str(farm_recipe), *(w for o in options for w in ("--set", o))]) == 1
    assert "error: training stopped: step 2:" in capsys.readouterr().err


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
    price = train.projected_cross_entropy
    calls = []

    def price_little(hidden: Tensor, weight: Tensor, labels: Tensor, **options: Any) -> LossSums:
        calls.append(len(labels))
        n_rows = int((labels == 2).sum())  # one eos a pair
        if n_rows > n_fit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB.\nMore.")
        return price(hidden, weight, labels, **options)

    monkeypatch.setattr(train, "projected_cross_entropy", price_little)
    options = farm_options(tmp_path)
    assert main([str(farm_recipe), *(w for o in options for w in ("--set", o))]) == status
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error: out of memory")
    assert said in line
    assert len(calls) > 2
    assert calls == sorted(calls, reverse=True)  # the first batch already, then ever less


# --- small parts ---------------------------------------------------------------------------------


def test_the_meter_weighs_steps_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 14.0])
    monkeypatch.setattr(train.time, "monotonic", lambda: next(clock))
    meter = Meter()
    meter.add(2.0, 30)
    meter.add(5.0, 10)
    assert meter.to_dict() == {"loss": pytest.approx(2.75), "tokens_per_s": pytest.approx(10.0)}


def test_auto_is_a_device_that_is_there() -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["", "gpu", "cuda:x", "tpu:0"])
def test_a_device_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is no device; try auto, cpu or cuda"):
        pick_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:99", "mps", "meta"])
def test_a_device_that_is_not_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=f"run.device = '{name}'"):
        pick_device(name)


def test_the_machine_is_described_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert describe_machine(torch.device("cpu"))["git_commit"] is None
