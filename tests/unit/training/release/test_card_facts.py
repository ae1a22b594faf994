"""Facts: counted by hand, and no more than the run recorded."""

import re
import shutil
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import load_model, read_json, write_json
from hubnmt.errors import InputError
from hubnmt.text.metrics import sentence_chrf
from hubnmt.translator import Translator
from tests.runs import read_metrics
from training.release.card_facts import add_test, facts_of_run, pick_samples
from training.train import Run


def test_a_run_tells_what_it_recorded(farm_run: Run) -> None:
    config = farm_run.model.config
    facts = facts_of_run(farm_run.folder, name="a-name", config=config)
    best = max(read_metrics(farm_run.folder, "valid"), key=lambda record: record["bleu"])
    assert (facts.name, facts.title, facts.config) == ("a-name", "Farm", config)
    assert facts.training["steps until the best weights"] == best["step"]
    assert f"BLEU {best['bleu']:.2f}" in facts.training["validation, greedy"]
    assert re.search(r" CPU, \d+ threads?, float32$", facts.training["machine"])
    assert facts.training["seed"] == 5
    assert "\n[optimizer]\nlr = 0.01\n" in facts.recipe
    assert facts.results == ()


def test_a_score_on_altered_text_says_so(farm_run: Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "run"))
    recipe = read_json(folder / "recipe.json")
    recipe["data"]["valid_as_typed"] = True
    write_json(folder / "recipe.json", recipe)
    facts = facts_of_run(folder, name="a-name", config=farm_run.model.config)
    assert "validation, as people type, greedy" in facts.training
    assert "validation, greedy" not in facts.training


@pytest.mark.parametrize(
    ("name", "commit", "said", "base"),
    [
        ("user/name", None, "user/name", ""),
        ("user/name", "abc", "user/name at commit abc", "user/name"),
        ("run", None, "an earlier run", ""),
    ],
)
def test_a_run_that_started_from_a_model_names_it(
    name: str, commit: str | None, said: str, base: str, farm_run: Run, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "run"))
    machine = read_json(folder / "machine.json")
    record = {"name": name, "commit": commit}
    write_json(folder / "machine.json", machine | {"pretrained": record})
    facts = facts_of_run(folder, name="run", config=farm_run.model.config)
    assert facts.training["started from"] == facts.started_from == said
    assert facts.base_model == base
    before = facts_of_run(farm_run.folder, name="run", config=farm_run.model.config)
    assert (before.started_from, before.base_model) == ("", "")


def test_a_run_without_a_validation_has_nothing_to_tell(farm_run: Run, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "run"))
    (folder / "metrics.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"no validation in metrics\.jsonl yet"):
        facts_of_run(folder, name="run", config=farm_run.model.config)


@pytest.mark.parametrize(("said", "kept"), [("user/data", "user/data"), ("", "local")])
def test_a_test_set_is_measured_and_named(said: str, kept: str, farm_run: Run) -> None:
    stored = load_model(farm_run.folder / "best")
    translator = Translator(stored)
    sources = ["Der Hund wartet.", "Die Kuh wartet im Garten."]
    said_by_model = [each.text for each in translator.translate(sources, guard=False)]
    facts = facts_of_run(farm_run.folder, name="farm", config=stored.model.config)
    facts = add_test(
        facts,
        translator,
        sources,
        said_by_model,
        name="perfect",
        dataset=said,
        decoding=translator.decoding,
    )
    (result,) = facts.results
    assert (result.name, result.dataset, result.scores.n) == ("perfect", kept, 2)
    assert result.scores.chrf == pytest.approx(100)


def test_samples_are_from_both_ends_but_not_the_very_ends() -> None:
    """100 translations, each good to another degree, in no order."""
    reference = "the quick brown fox jumps over the lazy dog and runs on and on for ever more " * 3
    texts = [reference[: 1 + (n * 37 % 100) * 2] for n in range(100)]
    sources = [str(n) for n in range(100)]
    good, bad = pick_samples(sources, [reference] * 100, texts, n=5)
    ranked = sorted(texts, key=lambda text: sentence_chrf(text, reference))
    assert [row[2] for row in good] == ranked[90:95]
    assert [row[2] for row in bad] == ranked[5:10]
    assert all(texts[int(src)] == text for src, _, text in [*good, *bad])
