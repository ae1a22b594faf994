"""Measured contents of the card: counted by hand, and no more than the run recorded."""

import pytest

from hubnmt.checkpoint.folder import load_model
from hubnmt.text.metrics import sentence_chrf
from hubnmt.translator import Translator
from training.config.data import CorpusConfig
from training.release.measure import (
    NamedTest,
    add_test,
    explain_failure,
    pick_samples,
    trivial_scores,
)
from training.run.card_facts import facts_of_run
from training.train import Run


@pytest.mark.parametrize(("said", "kept"), [("user/data", "user/data"), ("", "local")])
def test_a_test_set_is_measured_and_named(said: str, kept: str, farm_run: Run) -> None:
    stored = load_model(farm_run.folder / "best")
    translator = Translator(stored)
    sources = ["Der Hund wartet.", "Die Kuh wartet im Garten."]
    said_by_model = [each.text for each in translator.translate(sources, guard=False)]
    facts = facts_of_run(farm_run.folder, name="farm", config=stored.model.config)
    test = NamedTest("perfect", said, CorpusConfig(dataset="user/data"))
    sides = (sources, said_by_model)
    facts = add_test(facts, translator, test, sides, decoding=translator.decoding)
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


VALID = [
    ("Ein Hund rennt in Bonn.", "A dog runs in Bonn."),
    ("Eine Katze schläft in Bonn.", "A cat sleeps in Bonn."),
    ("Ja.", "Yes, of course it is."),
    ("Jawohl.", "Yes, of course it is."),
]


@pytest.mark.parametrize(
    ("bleu", "chrf", "reason"),
    [
        (0.1, 8.0, "'Yes, of course it is.' each time gives BLEU"),
        (90.0, 5.0, "'Yes, of course it is.' each time gives BLEU"),
        (90.0, 90.0, ""),
    ],
)
def test_a_model_must_surpass_what_needs_no_model(bleu: float, chrf: float, reason: str) -> None:
    said = explain_failure({"bleu": bleu, "chrf": chrf}, trivial_scores(VALID))
    assert reason in said
    assert bool(said) == bool(reason)
