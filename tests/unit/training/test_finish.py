"""Finishing: what is stored is what was measured, and the card says no more than that."""

import dataclasses
import gzip
import json
import re
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from hubnmt.checkpoint.folder import load_model
from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis
from hubnmt.inference.engine import TorchEngine
from hubnmt.text.metrics import score_corpus
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from training import finish as finishing
from training.finish import choose_trial, main, tune_decoding
from training.release.alignment_head import choose_head
from training.run.validation import HeldOutPairs
from training.train import Run

Finish = Callable[..., Path]


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three trials are enough to choose from."""
    monkeypatch.setattr(finishing, "BEAM_SIZES", (1, 3))
    monkeypatch.setattr(finishing, "LENGTH_PENALTIES", (0.6, 1.4))


@pytest.fixture
def run_dir(farm_run: Run, tmp_path: Path) -> Path:
    """A copy of a finished run, which may be changed."""
    return Path(shutil.copytree(farm_run.folder, tmp_path / "run"))


@pytest.fixture(scope="session")
def valid_pair(repo: Path) -> str:
    return ",".join(str(repo / "tests" / "fixtures" / f"farm.valid.{s}") for s in ("de", "en"))


@pytest.fixture
def test_pair(repo: Path, tmp_path: Path) -> str:
    """Seven pairs, none of them for validation."""
    for side in ("de", "en"):
        path = repo / "tests" / "fixtures" / f"farm.train.{side}"
        lines = path.read_text(encoding="utf-8").splitlines()[20:27]
        (tmp_path / f"test.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{tmp_path / 'test.de'},{tmp_path / 'test.en'}"


@pytest.fixture
def finish_run(run_dir: Path, valid_pair: str, test_pair: str, tmp_path: Path) -> Finish:
    """Call the command and return DEST."""

    def call(*options: str) -> Path:
        dest = tmp_path / "models" / "de-en-farm"
        words = [str(run_dir), str(dest), "--valid", valid_pair, "--test", test_pair]
        assert main([*words, "--test-name", "Farm test", *options]) == 0
        return dest

    return call


def read_pair(pair: str) -> list[list[str]]:
    return [Path(name).read_text(encoding="utf-8").splitlines() for name in pair.split(",")]


def metrics_of(card: str) -> dict[str, float]:
    head = yaml.safe_load(card.split("---\n")[1])
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["name"] == "Farm test"
    return {each["type"]: each["value"] for each in result["metrics"]}


# --- end to end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--half"]], ids=str)
def test_the_card_says_what_the_stored_folder_scores(
    options: list[str], finish_run: Finish, test_pair: str
) -> None:
    """As it comes out of the box: with its own defaults, from the weights as they are stored."""
    dest = finish_run(*options)
    translator = Translator.from_pretrained(dest)
    sources, references = read_pair(test_pair)
    texts = [each.text for each in translator.translate(sources, guard=False, split=False)]
    scores = score_corpus(texts, references)
    expected = {"bleu": scores.bleu, "chrf": scores.chrf}
    assert metrics_of(translator.card) == pytest.approx(expected, abs=0.0051)
    assert f"| Farm test | {len(sources)} | {scores.bleu:.2f}" in translator.card
    assert scores.bleu_signature in translator.card


def test_files_are_read_as_training_reads_them(
    finish_run: Finish, test_pair: str, tmp_path: Path
) -> None:
    """So that the command that a run prints works whatever its recipe names."""
    names = test_pair.split(",")
    for name in names:
        Path(f"{name}.gz").write_bytes(gzip.compress(Path(name).read_bytes()))
    rows = zip(*read_pair(test_pair), strict=True)
    table = "".join(json.dumps({"en": tgt, "de": src}) + "\n" for src, tgt in rows)
    (tmp_path / "t.jsonl").write_text(table, encoding="utf-8")
    zipped = ",".join(f"{name}.gz" for name in names)
    more = ["--test", zipped, "--test-name", "zipped"]
    dest = finish_run(*more, "--test", str(tmp_path / "t.jsonl"), "--test-name", "table")
    head = yaml.safe_load(load_model(dest).card.split("---\n")[1])
    results = head["model-index"][0]["results"]
    assert [each["dataset"]["name"] for each in results] == ["Farm test", "zipped", "table"]
    assert results[0]["metrics"] == results[1]["metrics"] == results[2]["metrics"]


def test_the_defaults_are_the_best_of_the_trials(finish_run: Finish, run_dir: Path) -> None:
    stored = load_model(finish_run())
    trials = json.loads((run_dir / "tuning.json").read_text(encoding="utf-8"))
    tried = [(trial["beam_size"], trial["length_penalty"]) for trial in trials]
    assert tried == [(1, 1.0), (3, 0.6), (3, 1.4)]
    best = max(trials, key=lambda trial: trial["bleu"])
    assert stored.decoding.beam_size == best["beam_size"]
    assert stored.decoding.length_penalty == best["length_penalty"]
    chosen = f"beam {best['beam_size']}, length penalty {best['length_penalty']}"
    assert chosen in stored.card


def test_the_recipes_other_decoding_options_are_kept(finish_run: Finish, run_dir: Path) -> None:
    """They were in force while tuning and measuring, so without them the scores would be others."""
    wanted = load_model(run_dir / "best").decoding
    assert wanted.max_new_tokens == 8
    stored = load_model(finish_run()).decoding
    tuned = {"beam_size": stored.beam_size, "length_penalty": stored.length_penalty}
    assert stored == dataclasses.replace(wanted, **tuned)


def test_weights_and_vocabulary_are_those_of_the_best_folder(
    finish_run: Finish, run_dir: Path
) -> None:
    dest = finish_run()
    mine, best = (load_file(folder / "model.safetensors") for folder in (dest, run_dir / "best"))
    assert mine.keys() == best.keys()
    assert all(torch.equal(mine[name], best[name]) for name in mine)
    assert (dest / "tokenizer.json").read_bytes() == (run_dir / "best/tokenizer.json").read_bytes()
    assert "weights stored as: float32" in load_model(dest).card


def test_the_last_weights_can_be_taken_in_place_of_the_best(
    finish_run: Finish, run_dir: Path
) -> None:
    path = run_dir / "last" / "model.safetensors"
    weights = load_file(path)
    save_file({name: each + 1 for name, each in weights.items()}, path)
    record = json.loads((run_dir / "last" / "validation.json").read_text(encoding="utf-8"))
    dest = finish_run("--weights", "last")
    mine = load_file(dest / "model.safetensors")
    assert all(torch.equal(mine[name], weights[name] + 1) for name in mine)
    card = load_model(dest).card
    assert f"steps until the last weights: {record['step']}" in card
    assert f"BLEU {record['bleu']:.2f}" in card


def test_half_the_size_is_stored_as_float16_and_said(finish_run: Finish, run_dir: Path) -> None:
    dest = finish_run("--half")
    mine, best = (load_file(folder / "model.safetensors") for folder in (dest, run_dir / "best"))
    assert {tensor.dtype for tensor in mine.values()} == {torch.float16}
    assert all(torch.equal(mine[name], best[name].half()) for name in mine)
    assert "weights stored as: float16" in load_model(dest).card


def test_half_is_judged_as_it_is_stored(
    finish_run: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every translation that counts is made with the rounded weights."""
    n_judged = 0
    search = TorchEngine.search

    def look(self: TorchEngine, rows: Any, *options: Any, **more: Any) -> Any:
        nonlocal n_judged
        n_judged += 1
        assert all(torch.equal(tensor, tensor.half().float()) for tensor in self.model.parameters())
        return search(self, rows, *options, **more)

    monkeypatch.setattr(TorchEngine, "search", look)
    finish_run("--half")
    assert n_judged >= 4


def test_the_device_can_be_chosen(finish_run: Finish) -> None:
    assert (finish_run("--device", "cpu") / "model.safetensors").is_file()


def test_a_device_that_is_none_is_refused_before_the_work(
    run_dir: Path, valid_pair: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = [str(run_dir), str(tmp_path / "dest"), "--valid", valid_pair, "--device", "gpu"]
    assert main(words) == 2
    assert "--device = 'gpu' is not a device; use auto, cpu or cuda" in caplog.text
    assert not (tmp_path / "dest").exists()


def test_without_a_test_set_no_score_is_claimed(
    run_dir: Path, valid_pair: str, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    assert main([str(run_dir), str(dest), "--valid", valid_pair]) == 0
    card = load_model(dest).card
    assert "model-index" not in card
    assert "## Scores" not in card


def test_the_card_tells_how_the_model_came_about(finish_run: Finish, run_dir: Path) -> None:
    """Each number as the run recorded it."""
    card = load_model(finish_run()).card
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    valid = [each for each in map(json.loads, lines) if each["kind"] == "valid"]
    best = max(valid, key=lambda record: record["bleu"])
    cleaning = json.loads((run_dir / "cleaning.json").read_text(encoding="utf-8"))
    wanted = [
        "# Farm\n",
        f"steps until the best weights: {best['step']}",
        f"BLEU {best['bleu']:.2f}",
        f"loss {best['dev_loss']:.3f} nats per token",
        "seed: 5",
        f"torch {torch.__version__}",
        f"{cleaning['n_kept']} of {cleaning['n_read']} training pairs kept",
        "[model]\nd_model = 12\n",
        "[optimizer]\nlr = 0.01\n",
    ]
    assert [words for words in wanted if words not in card] == []


def test_samples_are_translations_of_the_chosen_settings(
    finish_run: Finish, valid_pair: str
) -> None:
    translator = Translator.from_pretrained(finish_run())
    sources, references = read_pair(valid_pair)
    rows = re.findall(r"^\| (.*\.) \| (.*\.) \| .* \|$", translator.card, flags=re.MULTILINE)
    assert rows
    assert set(rows) <= set(zip(sources, references, strict=True))


def test_finishing_again_replaces_the_folder(finish_run: Finish) -> None:
    first = {path.name: path.read_bytes() for path in finish_run().iterdir()}
    second = {path.name: path.read_bytes() for path in finish_run().iterdir()}
    assert first == second


# --- the parts -----------------------------------------------------------------------------------


class CannedEngine:
    """Translates well with one setting only, and remembers what it was asked."""

    def __init__(self, good: tuple[int, float], tokenizer: Tokenizer) -> None:
        self.asked: list[tuple[int, float]] = []
        self._good = good
        self._bad = tokenizer.encode("nothing like it at all")

    def search(
        self, rows: list[list[int]], decoding: DecodingConfig, **_: Any
    ) -> Generator[list[int], None, list[list[Hypothesis]]]:
        yield from ()
        self.asked.append((decoding.beam_size, decoding.length_penalty))
        is_good = self.asked[-1] == self._good
        return [[Hypothesis(row if is_good else self._bad, 0.0, 0.0, ())] for row in rows]


@pytest.mark.parametrize("good", [(1, 1.0), (3, 0.6), (3, 1.4)])
def test_tuning_finds_the_setting_that_scores_best(
    good: tuple[int, float], tiny_tokenizer: Tokenizer
) -> None:
    texts = ["the cow waits in the garden today", "a dog runs behind the barn"]
    pairs = HeldOutPairs(texts, texts, [(tiny_tokenizer.encode(text), ()) for text in texts])
    engine = CannedEngine(good, tiny_tokenizer)
    canned: Any = SimpleNamespace(
        engine=engine,
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(),
    )
    chosen, trials = tune_decoding(canned, pairs)
    assert (chosen.beam_size, chosen.length_penalty) == good
    assert engine.asked == [(1, 1.0), (3, 0.6), (3, 1.4)]
    assert max(trials, key=lambda trial: trial["bleu"])["bleu"] == pytest.approx(100)
    assert len(trials) == 3


@pytest.mark.parametrize(
    ("bleu", "expected"),
    [
        ({1: 41.0, 3: 41.3, 9: 41.35}, 3),  # what the widest adds is noise
        ({1: 41.0, 3: 41.3, 9: 41.5}, 9),
        ({1: 41.3, 3: 41.2, 9: 41.35}, 1),
    ],
)
def test_a_wider_beam_must_bring_more_than_noise(bleu: dict[int, float], expected: int) -> None:
    well_set = [(1, 1.0), (3, 1.4), (9, 1.4)]
    trials = [
        {"beam_size": beam, "length_penalty": penalty, "bleu": bleu[beam] - 9 * (penalty == 0.6)}
        for beam, penalty in [(1, 1.0), (3, 0.6), (3, 1.4), (9, 0.6), (9, 1.4)]
    ]
    best = choose_trial(trials)
    assert best["beam_size"] == expected
    assert (expected, best["length_penalty"]) in well_set


# --- mistakes ------------------------------------------------------------------------------------


MISTAKES: list[tuple[str, Callable[[Path, Path], list[str]]]] = [
    ("no arguments", lambda run, at: []),
    ("no validation set", lambda run, at: [str(run), str(at / "dest")]),
    ("one file", lambda run, at: [str(run), str(at / "dest"), "--valid", str(at / "test.de")]),
    (
        "three files",
        lambda run, at: [
            str(run),
            str(at / "dest"),
            "--valid",
            ",".join([str(at / "test.de")] * 3),
        ],
    ),
    (
        "missing file",
        lambda run, at: [str(run), str(at / "dest"), "--valid", f"{at}/none.de,{at}/test.en"],
    ),
    (
        "folder as file",
        lambda run, at: [str(run), str(at / "dest"), "--valid", f"{at},{at}/test.en"],
    ),
    (
        "unequal files",
        lambda run, at: [str(run), str(at / "dest"), "--valid", f"{at}/test.de,{at}/short.en"],
    ),
    (
        "empty files",
        lambda run, at: [str(run), str(at / "dest"), "--valid", f"{at}/empty,{at}/empty"],
    ),
    (
        "no such run",
        lambda run, at: [f"{at}/none", str(at / "dest"), "--valid", f"{at}/test.de,{at}/test.en"],
    ),
    (
        "a file as run",
        lambda run, at: [
            f"{at}/test.de",
            str(at / "dest"),
            "--valid",
            f"{at}/test.de,{at}/test.en",
        ],
    ),
    (
        "missing test file",
        lambda run, at: [
            *(str(run), str(at / "dest"), "--valid", f"{at}/test.de,{at}/test.en"),
            *("--test", f"{at}/none.de,{at}/none.en"),
        ],
    ),
    (
        "a file as destination",
        lambda run, at: [str(run), f"{at}/test.de", "--valid", f"{at}/test.de,{at}/test.en"],
    ),
    (
        "a folder of other files as destination",
        lambda run, at: [str(run), str(at), "--valid", f"{at}/test.de,{at}/test.en"],
    ),
    (
        "unknown option",
        lambda run, at: [str(run), str(at / "dest"), "--valid", f"{at}/a,{at}/b", "--halve"],
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_is_refused_without_a_traceback(
    mistake: tuple[str, Callable[[Path, Path], list[str]]],
    run_dir: Path,
    test_pair: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "short.en").write_text("One line.\n", encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    try:
        status: Any = main(mistake[1](run_dir, tmp_path))
    except SystemExit as error:  # argparse
        status = error.code
    assert status == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "dest").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.json", None),
        ("recipe.json", "{"),
        ("machine.json", None),
        ("cleaning.json", None),
        ("metrics.jsonl", None),
        ("metrics.jsonl", ""),
        ("best/model.safetensors", None),
        ("best/config.json", "{}"),
    ],
)
def test_a_run_folder_that_is_not_whole_is_refused_without_a_traceback(
    name: str, content: str | None, run_dir: Path, test_pair: str, tmp_path: Path
) -> None:
    """As after a run that was stopped before its first validation, or half copied."""
    (run_dir / name).unlink()
    if content is not None:
        (run_dir / name).write_text(content, encoding="utf-8")
    assert main([str(run_dir), str(tmp_path / "dest"), "--valid", test_pair]) == 2
    assert not (tmp_path / "dest").exists()


def test_mistakes_are_found_before_the_work_is_done(
    run_dir: Path, test_pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuning a real model takes many minutes; a missing test file is known at once."""

    def tune(*_: object) -> None:
        raise AssertionError("tuned before it looked at the test files")

    monkeypatch.setattr(finishing, "tune_decoding", tune)
    missing = f"{tmp_path / 'none.de'},{tmp_path / 'none.en'}"
    words = [str(run_dir), str(tmp_path / "dest"), "--valid", test_pair, "--test", missing]
    assert main(words) == 2


def test_the_test_set_is_translated_once_and_last(
    finish_run: Finish, valid_pair: str, test_pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can have been chosen on it."""
    asked: list[str] = []
    search = TorchEngine.search

    def remember(self: TorchEngine, rows: Any, *options: Any, **more: Any) -> Any:
        asked.append({12: "valid", 7: "test"}[len(rows)])
        return search(self, rows, *options, **more)

    monkeypatch.setattr(TorchEngine, "search", remember)
    finish_run()
    assert asked.count("test") == 1
    assert asked[-1] == "test"


def test_several_test_sets_stand_side_by_side(
    finish_run: Finish, valid_pair: str, tmp_path: Path
) -> None:
    more = ("--test", valid_pair, "--test-name", "Other test", *("--test-dataset", "a/b") * 2)
    card = (finish_run(*more) / "README.md").read_text(encoding="utf-8")
    results = yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"]
    assert [each["dataset"]["name"] for each in results] == ["Farm test", "Other test"]
    assert [each["dataset"]["type"] for each in results] == ["a/b", "a/b"]
    assert results[0]["metrics"][0]["value"] != results[1]["metrics"][0]["value"]


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--test-name", "x", "--test-name", "y"), "1 --test and 2 --test-name"),
        (("--test-dataset", "x", "--test-dataset", "y"), "1 --test and 2 --test-dataset"),
        (("--test", "a,b"), "2 --test require one --test-name each"),
        (("--test", "a,b", "--test-name", "x"), "2 --test and 1 --test-name"),
    ],
)
def test_every_test_set_has_its_own_name(
    options: tuple[str, ...],
    answer: str,
    run_dir: Path,
    valid_pair: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = [str(run_dir), str(tmp_path / "dest"), "--valid", valid_pair, "--test", "a,b"]
    assert main([*words, *options]) == 2
    assert answer in caplog.text
    assert not (tmp_path / "dest").exists()


def test_results_do_not_go_to_standard_output(
    finish_run: Finish, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_run()
    assert capsys.readouterr().out == ""


# --- the head that aligns ------------------------------------------------------------------------


def test_the_head_that_aligns_best_is_stored_and_said(
    finish_run: Finish, valid_pair: str, run_dir: Path
) -> None:
    assert load_model(run_dir / "best").model.config.alignment_head is None
    stored = load_model(finish_run())
    best = choose_head(Translator(stored), *read_pair(valid_pair))
    assert best is not None
    assert stored.model.config.alignment_head == best.head
    assert stored.model.config.alignment_shift == best.shift
    layer, head = best.head
    assert f"layer {layer}, head {head} (from 0)" in stored.card
    assert f"{100 * best.accuracy:.1f} % of {best.n_links:,} word links" in stored.card


def test_a_model_without_links_to_measure_with_stores_none(
    finish_run: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finishing, "choose_head", lambda *_: None)
    stored = load_model(finish_run())
    assert stored.model.config.alignment_head is None
    assert "alignment head" not in stored.card
