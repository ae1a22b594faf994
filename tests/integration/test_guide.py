"""The ten-minute guide, walked from its recipe to a translation.

That its other blocks say what they need, and that its links lead somewhere, is test_readme's.
"""

import itertools
import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubnmt.__main__ import main as command_line
from tests.integration.test_readme import find_snippets
from tests.lexicon import invent_pairs
from training.config.data import DataConfig
from training.train import main

SNIPPETS = find_snippets("training/README.md")
(RECIPE,) = [snippet for snippet in SNIPPETS if snippet.note == "recipe"]


def test_ones_own_files_may_stand_in_place_of_the_dataset() -> None:
    (own,) = [s.text for s in SNIPPETS if s.language == "toml" and s.note != "recipe"]
    whole = tomllib.loads(RECIPE.text)["data"] | tomllib.loads(own)["data"]
    data = DataConfig.from_dict(whole, where="guide")
    assert data.training_corpora()["main"].files == ("train.cy", "train.en")


SETTINGS = {
    "data.train": "train.cy,train.en",
    "data.valid": "valid.cy,valid.en",
    "data.test": "test.cy,test.en",
    "tokenizer.vocab_size": 300,
    "model.d_model": 64,
    "model.d_ff": 128,
    "model.n_encoder_layers": 1,
    "model.n_decoder_layers": 1,
    "optimizer.batch_tokens": 512,
    "run.max_steps": 150,
    "run.n_threads": 1,
    "run.device": "cpu",
}
"""Files in place of the dataset, and sizes for a few seconds in place of six minutes."""
SPLITS = {"train": 3000, "valid": 100, "test": 100}


def commands() -> Iterator[list[str]]:
    """The commands of the guide after the installation, up to the page, without their names."""
    for snippet in SNIPPETS:
        if snippet.language == "sh" and "pip" not in snippet.text:
            for words in map(shlex.split, snippet.text.splitlines()):
                if "training.train" in words or words[0] == "hubnmt":
                    yield words


@pytest.mark.slow
def test_the_guide_leads_to_a_model_that_has_learned_something(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command as it stands, on one thread and 3,000 invented pairs."""
    monkeypatch.chdir(tmp_path)
    Path("cy-en.toml").write_text(RECIPE.text, encoding="utf-8")
    pairs = zip(*invent_pairs(sum(SPLITS.values())), strict=True)
    for split, count in SPLITS.items():
        sides = zip(*itertools.islice(pairs, count), strict=True)
        for side, sentences in zip(("cy", "en"), sides, strict=True):
            lines = "".join(" ".join(words) + "\n" for words in sentences)
            Path(f"{split}.{side}").write_text(lines, encoding="utf-8")
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    train, *uses = commands()
    with caplog.at_level("INFO"):
        assert main([*train[3:], *settings]) == 0
    assert "learned nothing" not in caplog.text  # it surpasses a copy of the source
    assert "hubnmt push runs/cy-en/best" in caplog.text
    assert ["hubnmt", *uses[0][1:2]] == ["hubnmt", "translate"]
    for words in uses:
        assert command_line(words[1:]) == 0
    assert capsys.readouterr().out.strip()
    record = json.loads(Path("runs/cy-en/best/validation.json").read_text(encoding="utf-8"))
    assert record["chrf"] > 40
