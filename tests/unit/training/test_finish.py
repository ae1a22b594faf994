"""Finishing: what is stored is what was measured, and the card says no more than that."""

import copy
import dataclasses
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.config import DecodingConfig
from hubnmt.hub.push import push
from hubnmt.text.metrics import score_corpus
from hubnmt.translator import Translator
from hubnmt.ui.services.learn import find_model_run
from hubnmt.ui.services.registry import ModelRegistry
from tests.hub import REPO
from tests.hub_server import HubServer
from tests.lexicon import LEXICON, invent_pairs
from tests.runs import RunFarm
from training import finish as finishing
from training.finish import choose_decoding, choose_head, link_words, main
from training.run.final_evaluation import evaluate_best
from training.run.report import copy_records
from training.run.validation import encode_pairs
from training.train import Trainer

Finish = Callable[..., Path]


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three trials are enough to choose from."""
    monkeypatch.setattr(finishing, "BEAM_SIZES", (1, 3))
    monkeypatch.setattr(finishing, "LENGTH_PENALTIES", (0.6, 1.4))


@pytest.fixture
def run_dir(farm_run: Trainer, tmp_path: Path, test_pair: str) -> Path:
    """A copy of a finished run whose recipe has a test set; it may be changed."""
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "run"))
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    recipe["data"]["test"] = test_pair.split(",")
    (folder / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    return folder


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
def finish_run(run_dir: Path, tmp_path: Path) -> Finish:
    """Call the command and return DEST."""

    def call(*options: str) -> Path:
        dest = tmp_path / "models" / "de-en-farm"
        assert main([str(run_dir), str(dest), *options]) == 0
        return dest

    return call


def read_pair(pair: str) -> list[list[str]]:
    return [Path(name).read_text(encoding="utf-8").splitlines() for name in pair.split(",")]


def metrics_of(card: str) -> dict[str, float]:
    head = yaml.safe_load(card.split("---\n")[1])
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["name"] == "test"
    return {each["type"]: each["value"] for each in result["metrics"]}


@pytest.mark.parametrize("options", [[], ["--half"]], ids=str)
def test_the_folder_is_the_best_of_validation_and_scores_what_its_card_says(
    options: list[str], finish_run: Finish, test_pair: str, valid_pair: str, run_dir: Path
) -> None:
    """As it comes out of the box: with its own defaults, from the weights as they are stored."""
    translator = Translator.from_pretrained(finish_run(*options))
    card, config = translator.card, translator.config
    # 1. The scores are those of the stored weights and settings.
    sources, references = read_pair(test_pair)
    texts = [each.text for each in translator.translate(sources, guard=False, split=False)]
    scores = score_corpus(texts, references)
    expected = {"bleu": scores.bleu, "chrf": scores.chrf}
    assert metrics_of(card) == pytest.approx(expected, abs=0.0051)
    assert f"| test | {len(sources)} | {scores.bleu:.2f}" in card
    assert scores.bleu_signature in card
    # 2. The settings are the best of those tried.
    trials = json.loads((run_dir / "tuning.json").read_text(encoding="utf-8"))
    bleu = {(trial["beam_size"], trial["length_penalty"]): trial["bleu"] for trial in trials}
    assert [*bleu] == [(1, 1.0), (3, 0.6), (3, 1.4)]
    chosen = (translator.decoding.beam_size, translator.decoding.length_penalty)
    assert bleu[chosen] >= max(bleu.values()) - finishing.NOISE
    assert "beam {}, length penalty {}".format(*chosen) in card
    # 3. The head is the best.
    assert load_model(run_dir / "best").model.config.alignment_head is None
    pairs = [*zip(*read_pair(valid_pair), strict=True)]
    head = choose_head(translator, encode_pairs(translator, pairs))
    assert head is not None
    assert (config.alignment_head, config.alignment_shift) == (head.head, head.shift)
    assert "layer {}, head {} (from 0)".format(*head.head) in card
    assert f"{100 * head.accuracy:.1f} % of {head.n_links:,} word links" in card


def test_a_share_of_the_weights_is_averaged_with_the_model_before(
    run_farm: RunFarm, farm_run: Trainer, test_pair: str, tmp_path: Path
) -> None:
    before = farm_run.folder / "best"
    run_farm(tmp_path, f"run.pretrained={before}")
    run_dir, dest = tmp_path / "farm", tmp_path / "model"
    words = [str(run_dir), str(dest), "--weights", "last", "--share", "0.25", "--max-beam", "1"]
    assert main([*words, "--set", f"data.test={test_pair}"]) == 0
    old, run, new = (load_model(x).model.state_dict() for x in (before, run_dir / "last", dest))
    for name, weight in new.items():
        torch.testing.assert_close(weight, 0.75 * old[name] + 0.25 * run[name])
    assert not all(torch.equal(old[name], run[name]) for name in new)
    assert "averaged: 0.25 of these weights and 0.75 of those that the run started from" in (
        dest / "README.md"
    ).read_text(encoding="utf-8")
    assert len(json.loads((run_dir / "tuning.json").read_text(encoding="utf-8"))) == 1


def test_of_equal_bleu_the_smallest_beam_and_the_middle_length_penalty_are_chosen() -> None:
    found = {(8, 1.0): 20.3, (4, 0.6): 20.1, (4, 1.0): 20.29, (4, 1.4): 20.22, (4, 2.0): 20.21}
    trials = {DecodingConfig(beam_size=b, length_penalty=p): x for (b, p), x in found.items()}
    assert choose_decoding(trials) == DecodingConfig(beam_size=4, length_penalty=1.4)


MISTAKES = {
    "unequal files": "{run} {at}/dest --set data.test={at}/test.de,{at}/short.en",
    "no such run": "{at}/none {at}/dest",
    "a file as destination": "{run} {at}/test.de",
    "a folder of other files as destination": "{run} {at}",
    "a share of a run from scratch": "{run} {at}/dest --share 0.5",
    "a share above 1": "{run} {at}/dest --share 1.5",
    "a share of an encoder": "{run} {at}/dest --share 0.5 --set run.pretrained={run}/best "
    "--set run.pretrained_part=encoder",
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
@pytest.mark.usefixtures("test_pair")
def test_a_mistake_is_refused_without_a_traceback(
    words: str, run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.en").write_text("One line.\n", encoding="utf-8")
    assert main(words.format(run=run_dir, at=tmp_path).split()) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "dest").exists()


def test_a_model_that_has_learned_nothing_is_not_offered(
    farm_run: Trainer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = copy.copy(farm_run)
    ended.folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    (tmp_path / "long.tsv").write_text("de\ten\n" + 999 * "a " + "\tb\n", encoding="utf-8")
    data = dataclasses.replace(ended.recipe.data, test=(str(tmp_path / "long.tsv"),))
    ended.recipe = dataclasses.replace(ended.recipe, data=data)
    with caplog.at_level(logging.INFO, logger="training"):
        evaluate_best(ended)
    assert "This model has learned nothing yet: on the validation set it has BLEU" in caplog.text
    assert "training.train --resume" in caplog.text
    assert "no test scores: " in caplog.text
    assert "hubnmt push" not in caplog.text
    card = load_model(ended.folder / "best").card
    assert "## Limits\n\nThis model has learned nothing yet" in card


def test_the_page_shows_how_a_model_of_the_hub_was_trained(
    farm_run: Trainer, hub: HubServer, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    copy_records(folder, folder / "best")
    push(folder / "best", REPO)
    board = hub.repo(REPO).files()["runs/events.out.tfevents.hubnmt"]
    assert b"valid/bleu" in board
    best = {"best": folder / "best"}
    registry = ModelRegistry(Translator.from_pretrained, best, opening=REPO)
    assert find_model_run(registry, "") is None  # not downloaded for this alone
    registry.get("")
    found = find_model_run(registry, "")
    assert found is not None
    assert [step for step, name, _ in found.points if name == "BLEU"] == [4, 8]
    assert [len(each["samples"]) for each in found.validations] == [3, 3]
    own = find_model_run(registry, "best")  # that of the run's folder
    assert own is not None
    assert own.points == found.points
    assert own.validations[-1]["attention"]["layers"]


@pytest.mark.parametrize("swap", [False, True])
def test_every_word_is_linked_to_its_translation(swap: bool) -> None:
    sources, targets = invent_pairs(150, swap=swap)
    found = link_words(sources, targets)
    assert sum(map(len, found)) > 0.95 * sum(map(len, targets))
    for src, tgt, links in zip(sources, targets, found, strict=True):
        assert all(LEXICON[src[s]] == tgt[t] for t, s in links)


def test_the_accuracy_of_a_head_is_that_of_its_map(tiny_stored: StoredModel) -> None:
    words = invent_pairs(40)
    texts = [[" ".join(each) for each in side] for side in words]
    translator = Translator(tiny_stored)
    pairs = [("", ""), *zip(*texts, strict=True)]
    best = choose_head(translator, encode_pairs(translator, pairs))
    assert best is not None
    n_right = n_links = 0
    for src, tgt, links in zip(*texts, link_words(*words), strict=True):
        maps = translator.attend(src, tgt, split=False).shifted(best.shift)
        looked_at = maps.by_word().cross[best.head].argmax(-1)
        n_right += sum(int(looked_at[target]) == source for target, source in links)
        n_links += len(links)
    assert best.n_links == n_links > 100
    assert best.accuracy == pytest.approx(n_right / n_links)
