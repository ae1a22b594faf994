"""Translator: each door takes what is promised and refuses what is not."""

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.errors import ConfigError, InputError
from hubnmt.translator import Translator

IN_FORKED_PROCESSES = """
import functools, multiprocessing, sys
import torch
from hubnmt import Translator

torch.set_num_threads(2)
translator = Translator.from_pretrained(sys.argv[1])
translator = functools.partial(translator, beam_size=1, max_new_tokens=3)
texts = [f"Ein Hund rennt im Schnee und spielt mit {n} Kindern." for n in range(20)]
expected = translator(texts)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(translator, [texts, texts]) == [expected, expected]
"""


def test_the_token_probability_can_be_read_whatever_the_length_penalty(
    random_model: Translator,
) -> None:
    """Of two sentences too: the mean over all tokens, eos included."""
    found = [
        random_model.translate("Ein Hund. Wer?", length_penalty=penalty, beam_size=1)
        for penalty in (0.0, 1.0, 2.0)
    ]
    assert len({each.score for each in found}) == 3
    assert len({each.token_probability for each in found}) == 1
    best = found[0]
    mean = math.exp(sum(best.tgt_log_probs) / len(best.tgt_tokens))
    assert best.token_probability == best.n_best[0].token_probability == pytest.approx(mean)
    assert random_model.translate("").token_probability == 1


def test_given_pairs_are_scored_in_order(random_model: Translator) -> None:
    sources, targets = ["Ein Hund", "Zwei. Männer!", "x"], ["A dog.", "Two. Men!", "a woman"]
    together = random_model.score(sources, targets)
    for src, tgt, pair in zip(sources, targets, together, strict=True):
        alone = random_model.score(src, tgt)
        assert pair.tgt_log_probs == pytest.approx(alone.tgt_log_probs, rel=1e-3)
        assert pair.log_prob == pytest.approx(sum(pair.tgt_log_probs))
    assert together[1].tgt_tokens.count("<eos>") == 2


def test_pairs_must_pair_up(random_model: Translator) -> None:
    with pytest.raises(InputError, match="2 sources for 1 targets"):
        random_model.score(["a", "b"], ["c"])
    with pytest.raises(InputError, match="both"):
        random_model.score("a", ["c"])
    for call in (lambda: random_model.score(" ", "c"), lambda: random_model.attend("\n")):
        with pytest.raises(InputError, match="empty"):
            call()


def test_attention_belongs_to_the_translation_if_none_is_given(copying_model: Translator) -> None:
    maps = copying_model.attend("Ein Hund rennt")
    assert maps.tgt_tokens == maps.src_tokens
    given = copying_model.attend("Ein Hund rennt", "A dog")
    assert "".join(given.tgt_tokens) == " A dog<eos>"
    torch.testing.assert_close(given.cross.sum(-1), torch.ones(given.cross.shape[:3]))


def test_a_cap_is_kept_and_reported(random_model: Translator) -> None:
    translation = random_model.translate("Ein Hund rennt im Schnee.", max_new_tokens=3, guard=False)
    assert len(translation.tgt_tokens) == 4
    assert translation.tgt_tokens[-1] == "<eos>"
    (warning,) = translation.warnings
    assert "max_new_tokens" in warning


def test_no_option_is_silently_ignored(random_model: Translator) -> None:
    plain = random_model.translate("Ein Hund rennt.")
    for options in (
        {"beam_size": 9},
        {"length_penalty": -2.0},
        {"sample": True},
        {"max_new_tokens": 2},
        {"prefix": "Two men"},
        {"no_repeat_ngram_size": 1},
        {"repetition_penalty": 9.0},
    ):
        assert random_model.translate(plain.src, **options).n_best != plain.n_best, options
    drawn = random_model.translate(plain.src, sample=True)
    for options in ({"temperature": 0.01}, {"top_k": 1}, {"top_p": 0.01}, {"seed": 1}):
        text = random_model.translate(plain.src, sample=True, **options).text
        assert text != drawn.text, options


TEXTS = ["Ein Hund", "Zwei"]


@pytest.mark.parametrize(
    "texts",
    [tuple(TEXTS), iter(TEXTS), (text for text in TEXTS), np.array(TEXTS), pd.Series(TEXTS)],
    ids=lambda texts: type(texts).__name__,
)
def test_any_iterable_of_strings_is_translated(texts: Any, random_model: Translator) -> None:
    assert random_model(texts) == random_model.translate(TEXTS)
    assert str(random_model(TEXTS[0])) == random_model.translate(TEXTS)[0].text


def test_a_whole_config_replaces_the_models_and_is_checked_for_wrong_names(
    random_model: Translator,
) -> None:
    greedy = random_model.translate("Ein Hund", beam_size=1)
    explicit = random_model.translate("Ein Hund", beam_size=3, n_best=2)
    assert random_model.translate("Ein Hund") == explicit  # as the model's decoding.json says
    config = random_model.decoding.with_options(beam_size=1)
    assert random_model.translate("Ein Hund", decoding=config) == greedy
    with pytest.raises(ConfigError, match=r"unknown key .beam_sizee.*did you mean .beam_size"):
        random_model("Ein Hund", beam_sizee=1)


@pytest.mark.parametrize(
    "text",
    [
        *(None, b"Ein Hund", ["Ein", 5], np.array("x"), pd.Series([math.nan])),
        *({"de": TEXTS}, pd.DataFrame({"de": TEXTS})),
    ],
    ids=lambda text: type(text).__name__,
)
def test_what_is_no_text_is_refused(text: Any, random_model: Translator) -> None:
    with pytest.raises(InputError, match="string"):
        random_model.translate(text)


@pytest.mark.parametrize("config", ['{"model_type": "marian"}', "{torn", None])
def test_another_librarys_folder_is_not_written_over(
    config: str | None, random_model: Translator, tmp_path: Path
) -> None:
    folder = tmp_path / "marian"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights of weeks")
    if config is not None:
        (folder / "config.json").write_text(config)
    before = {path.name: path.read_text() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"marian contains other files .* name an empty or a new"):
        random_model.save_pretrained(folder)
    with pytest.raises(InputError, match="is a file; name a folder"):
        random_model.save_pretrained(str(folder / "model.safetensors"))
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "mps", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(device: str, stored: StoredModel) -> None:
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ConfigError, match=f"device = {device!r}.*'cpu'"):
        Translator(stored, device=device)


def test_a_stored_model_is_not_changed_by_who_wraps_it(stored: StoredModel, tmp_path: Path) -> None:
    save_model(tmp_path / "first", stored)
    wide, narrow = Translator(stored), Translator(stored, dtype="bfloat16")
    expected = Translator(load_model(tmp_path / "first")).translate("Zwei Männer.")
    assert narrow.translate("Zwei Männer.").text
    assert wide.translate("Zwei Männer.") == expected
    for translator in (wide, narrow):
        translator.save_pretrained(tmp_path / "second")
        first, second = (tmp_path / name / "model.safetensors" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_a_pickled_translator_is_the_same(stored: StoredModel) -> None:
    translator = Translator(stored, dtype="bfloat16", name="user/name", commit="abc")
    again = pickle.loads(pickle.dumps(translator))
    assert again.translate("Ein Hund") == translator.translate("Ein Hund")
    assert (again.name, again.commit) == ("user/name", "abc")
    assert next(again.model.parameters()).dtype == torch.bfloat16


def test_forked_processes_translate(bundled_model: Path) -> None:
    """As `num_proc` of datasets starts them: OpenMP's threads do not survive a fork."""
    command = [sys.executable, "-W", "ignore", "-c", IN_FORKED_PROCESSES, str(bundled_model)]
    patient = os.environ | {"OMP_WAIT_POLICY": "passive"}  # on a machine with other work
    subprocess.run(command, check=True, timeout=120, env=patient)
