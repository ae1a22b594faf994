"""Translations are chosen by a model of the opposite direction."""

from pathlib import Path

import pytest

from hubnmt import Translator
from training.augment.rerank import main, rerank

LINES = ["Der Zug ist heute zu spät.", "Ich trinke gerne Tee."]


@pytest.fixture(scope="module")
def models() -> list[Translator]:
    return [Translator.from_pretrained(name) for name in ("de-en", "en-de")]


def test_the_way_back_chooses_and_rejects(models: list[Translator]) -> None:
    """A high weight chooses what the way back finds most probable."""
    assert [line for line, _ in rerank(LINES, *models, n_best=4)] == LINES
    assert not list(rerank(LINES, *models, n_best=4, least=0.0))
    ((line, best),) = rerank(LINES[:1], *models, n_best=4, weight=100.0)
    candidates = [each.text for each in models[0](line, n_best=4, beam_size=4, guard=False).n_best]
    scores = {text: models[1].score(text, line, split=False).log_prob for text in candidates}
    assert scores[best] == max(scores.values())


def test_the_command_writes_a_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text, output = tmp_path / "text.txt", tmp_path / "new.tsv"
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    arguments = [str(text), "--model", "de-en", "--output", str(output)]
    assert main([*arguments, "--back", "de-en"]) == 2
    assert "not of the opposite direction" in caplog.text
    assert main([*arguments, "--back", "en-de", "--n-best", "2"]) == 0
    assert output.read_text(encoding="utf-8").splitlines()[0] == "de\ten"
