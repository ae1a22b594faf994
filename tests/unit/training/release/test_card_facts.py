"""Facts: counted by hand, and no more than the run recorded."""

import shutil
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import load_model, read_json, write_json
from hubnmt.errors import InputError
from hubnmt.text.metrics import sentence_chrf
from hubnmt.translator import Translator
from training.release.measure import add_test, pick_samples
from training.run.card_facts import facts_of_run
from training.run.validation import encode_pairs
from training.train import Run


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
    shutil.rmtree(folder / "best")
    with pytest.raises(InputError, match="no validation yet"):
        facts_of_run(folder, name="run", config=farm_run.model.config)


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
