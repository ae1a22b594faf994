"""Facts: counted by hand, and no more than the run recorded."""

import json
import shutil
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import load_model
from hubnmt.text.metrics import sentence_chrf
from hubnmt.translator import Translator
from training.release.measure import add_test, pick_samples
from training.run.card_facts import facts_of_run
from training.run.validation import encode_pairs
from training.train import Run


@pytest.mark.parametrize(("said", "kept"), [("user/data", "user/data"), ("", "local")])
def test_a_test_set_is_measured_and_named(said: str, kept: str, farm_run: Run) -> None:
    stored = load_model(farm_run.folder / "best")
    translator = Translator(stored)
    sources = ["Der Hund wartet.", "Die Kuh wartet im Garten."]
    said_by_model = [each.text for each in translator.translate(sources, guard=False)]
    facts = facts_of_run(farm_run.folder, name="farm", config=stored.model.config)
    pairs = encode_pairs(translator, sources, said_by_model)
    named = {"name": "perfect", "dataset": said}
    facts = add_test(facts, translator, pairs, **named, decoding=translator.decoding)
    (result,) = facts.results
    assert (result.name, result.dataset, result.scores.n) == ("perfect", kept, 2)
    assert result.scores.chrf == pytest.approx(100)


def test_corpora_of_files_and_of_the_hub_name_the_datasets(farm_run: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(farm_run.folder, tmp_path / "run")
    recipe = json.loads((folder / "recipe.json").read_text())
    recipe["data"]["corpora"] = {
        "files": {"files": ["train.de", "train.en"], "weight": 0.5},
        "hub": {"dataset": "user/data"},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    config = load_model(folder / "best").model.config
    assert facts_of_run(folder, name="farm", config=config).datasets == ("user/data",)


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
