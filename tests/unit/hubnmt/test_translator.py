"""Translator: each door takes what is promised and refuses what is not."""

import contextlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.errors import ConfigError, InputError
from hubnmt.translator import Translator
from hubnmt.types import Translation

# --- scores and tokens ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1},
        {"beam_size": 4},
        {"sample": True, "temperature": 1.5},
        {"no_repeat_ngram_size": 2},
        {"repetition_penalty": 1.05},
        {"prefix": "A dog"},
    ],
    ids=str,
)
def test_token_log_probs_are_those_of_a_replay(
    options: dict[str, Any], random_model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[list[int], list[int]]] = []
    decode = random_model.tokenizers.tgt.decode
    search = random_model.engine.search

    def remember(rows: Any, *args: Any, **kwargs: Any) -> Any:
        found = yield from search(rows, *args, **kwargs)
        said.extend((list(row), each[0].ids) for row, each in zip(rows, found, strict=True))
        return found

    monkeypatch.setattr(random_model.engine, "search", remember)
    translation = random_model.translate("Zwei Männer stehen.", length_penalty=1.0, **options)
    ((src, tgt),) = said
    (replayed,) = random_model.replay([(src, tgt)])
    assert " ".join(decode(tgt).splitlines()) == translation.text
    assert translation.tgt_log_probs == pytest.approx(replayed, rel=1e-3, abs=1e-4)
    assert len(translation.tgt_tokens) == len(translation.tgt_log_probs)


def test_the_score_is_the_normalised_sum_of_the_token_log_probs(random_model: Translator) -> None:
    for penalty in (0.0, 1.0, 2.0):
        translation = random_model.translate("Ein Hund", length_penalty=penalty)
        total, n = sum(translation.tgt_log_probs), len(translation.tgt_log_probs)
        assert translation.score == pytest.approx(total / n**penalty, rel=1e-3)


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


def test_tokens_can_be_read_and_end_with_eos(parrot: Translator) -> None:
    translation = parrot.translate("Ein Hund\nrennt")
    assert "".join(translation.src_tokens) == " Ein Hund<eos> rennt<eos>"
    assert translation.tgt_tokens == translation.src_tokens


def test_given_pairs_are_scored_in_order(random_model: Translator) -> None:
    sources, targets = ["Ein Hund", "Zwei Männer stehen", "x"], ["A dog.", "Two", "a woman in blue"]
    together = random_model.score(sources, targets)
    for src, tgt, pair in zip(sources, targets, together, strict=True):
        alone = random_model.score(src, tgt)
        assert pair.tgt_log_probs == pytest.approx(alone.tgt_log_probs, rel=1e-3)
        assert pair.log_prob == pytest.approx(sum(pair.tgt_log_probs))
        assert "".join(pair.tgt_tokens) == f" {tgt}<eos>"
        assert len(pair.tgt_tokens) == len(pair.tgt_log_probs)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}], ids=str)
def test_a_paragraph_is_scored_as_it_was_searched(
    options: dict[str, Any], random_model: Translator
) -> None:
    """Sentence by sentence; a candidate brings its tokens, so its spelling does not matter."""
    src = "Ein Hund.  Zwei Männer stehen!\nWer?"
    found = random_model.translate(src, max_new_tokens=9, **options)
    pairs = random_model._pair(src, found.n_best[0], split=True)
    replayed = random_model.replay([(each.src_ids, each.tgt_ids) for each in pairs])
    flat = [value for row in replayed for value in row]
    assert flat == pytest.approx(found.tgt_log_probs, rel=1e-3, abs=1e-4)
    score = sum(sum(row) / len(row) for row in replayed) / 3
    assert found.score == pytest.approx(score, rel=1e-3)
    scored = random_model.score("Ein Hund. Zwei!", "A dog. Two!")
    alone = random_model.score(["Ein Hund.", "Zwei!"], ["A dog.", "Two!"])
    assert scored.log_prob == pytest.approx(sum(each.log_prob for each in alone), rel=1e-3)
    assert scored.tgt_tokens.count("<eos>") == 2


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_any_of_the_n_best_is_replayed_as_it_was_searched(
    rank: int, random_model: Translator
) -> None:
    found = random_model.translate("Ein Hund. Zwei!", beam_size=4, n_best=3, max_new_tokens=9)
    maps = random_model.attend("Ein Hund. Zwei!", found.n_best[rank])
    assert [n for n, token in enumerate(maps.tgt_tokens) if maps.tgt.is_special(n)] == [
        len(found.n_best[rank].tgt_ids[0]),
        sum(len(ids) + 1 for ids in found.n_best[rank].tgt_ids) - 1,
    ]
    mean, start = 0.0, 0
    for ids in found.n_best[rank].tgt_ids:
        n_tokens = len(ids) + 1
        mean += sum(maps.tgt_log_probs[start : start + n_tokens]) / n_tokens / 2
        start += n_tokens
    assert found.n_best[rank].score == pytest.approx(mean, rel=1e-3)


def test_pairs_must_pair_up(random_model: Translator) -> None:
    with pytest.raises(InputError, match="2 sources for 1 targets"):
        random_model.score(["a", "b"], ["c"])
    with pytest.raises(InputError, match="both"):
        random_model.score("a", ["c"])
    with pytest.raises(InputError, match="empty"):
        random_model.score(" ", "c")


def test_attention_belongs_to_the_translation_if_none_is_given(parrot: Translator) -> None:
    maps = parrot.attend("Ein Hund rennt")
    assert maps.tgt_tokens == maps.src_tokens
    given = parrot.attend("Ein Hund rennt", "A dog")
    assert "".join(given.tgt_tokens) == " A dog<eos>"
    torch.testing.assert_close(given.cross.sum(-1), torch.ones(given.cross.shape[:3]))


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_attention_of_nothing_is_refused(text: str, random_model: Translator) -> None:
    with pytest.raises(InputError, match="empty"):
        random_model.attend(text)


# --- options -------------------------------------------------------------------------------------


def test_a_cap_is_kept_and_reported(random_model: Translator) -> None:
    translation = random_model.translate("Ein Hund rennt im Schnee.", max_new_tokens=3)
    assert len(translation.tgt_tokens) == 4
    assert translation.tgt_tokens[-1] == "<eos>"
    (warning,) = translation.warnings
    assert "max_new_tokens" in warning


def test_no_option_is_silently_ignored(random_model: Translator) -> None:
    plain = random_model.translate("Ein Hund rennt im Schnee.")
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


def test_the_same_seed_gives_the_same_text(random_model: Translator) -> None:
    texts = [
        random_model.translate("Ein Hund", sample=True, seed=seed).text for seed in (5, 6, 5, 6)
    ]
    assert texts[:2] == texts[2:]
    assert texts[0] != texts[1]


@pytest.mark.parametrize("prefix", ["Two men", "A do", "മഞ്ഞ", "Two men, "])
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_a_translation_begins_with_its_prefix(
    prefix: str, options: dict[str, Any], random_model: Translator
) -> None:
    for text in ("Ein Hund", "Ja! " * 30):
        assert random_model.translate(text, prefix=prefix, **options).text.startswith(prefix)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}], ids=str)
def test_a_prefix_that_repeats_itself_and_no_repetition_have_an_answer(
    options: dict[str, Any], random_model: Translator
) -> None:
    """Both cannot be had: an error or a warning will do, a crash or an endless search will not."""
    asked = {"prefix": "dog dog dog dog", "no_repeat_ngram_size": 1, **options}
    with contextlib.suppress(ConfigError, InputError):
        translation = random_model.translate("Ein Hund", **asked)
        assert translation.text.startswith("dog dog dog dog") or translation.warnings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_sise": 3}, ["'beam_sise'", "did you mean 'beam_size'"]),
        ({"beam": 3}, ["'beam'", "beam_size"]),
        ({"beam_size": 0}, ["beam_size = 0", "1 to 256"]),
        ({"beam_size": "5"}, ["beam_size = '5'", "int"]),
        ({"beam_size": None}, ["beam_size = None", "int"]),
        ({"beam_size": 2.5}, ["beam_size = 2.5", "int"]),
        ({"length_penalty": float("nan")}, ["length_penalty"]),
        ({"length_penalty": 10**400}, ["length_penalty"]),
        ({"n_best": 4, "beam_size": 3}, ["n_best = 4", "beam_size = 3"]),
        ({"n_best": 2, "beam_size": 1}, ["n_best = 2", "beam_size = 1"]),
        ({"max_new_tokens": 0}, ["max_new_tokens = 0"]),
        ({"temperature": 0}, ["temperature = 0"]),
        ({"beam_size": -1, "top_p": 2.0}, ["beam_size = -1", "top_p = 2.0"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_options_are_refused_by_name(
    options: dict[str, Any], words: list[str], random_model: Translator
) -> None:
    with pytest.raises(ConfigError) as caught:
        random_model.translate("Ein Hund", **options)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("prefix", "said"), [(5, "must be a string, not int"), ("A\ndog", "must be one line")]
)
def test_a_bad_prefix_is_refused_whoever_takes_it(
    prefix: Any, said: str, random_model: Translator
) -> None:
    for call in (random_model.translate, random_model.stream):
        with pytest.raises(InputError, match=f"prefix {said}"):
            call("Ein Hund", prefix=prefix)


def test_bad_options_are_refused_even_without_a_text(random_model: Translator) -> None:
    with pytest.raises(ConfigError, match="beam_size"):
        random_model.translate([], beam_size=0)


def test_options_left_out_come_with_the_model(stored: StoredModel) -> None:
    wide = Translator(stored)
    assert wide.decoding.beam_size == 3
    explicit = wide.translate("Ein Hund rennt.", beam_size=3, n_best=2, length_penalty=1.0)
    assert wide.translate("Ein Hund rennt.") == explicit


# --- bad input -----------------------------------------------------------------------------------


TEXTS = ["Ein Hund", "Zwei"]


@pytest.mark.parametrize(
    "texts",
    [tuple(TEXTS), iter(TEXTS), (text for text in TEXTS), np.array(TEXTS), pd.Series(TEXTS)],
    ids=lambda texts: type(texts).__name__,
)
def test_any_iterable_of_strings_is_translated(texts: Any, random_model: Translator) -> None:
    assert random_model(texts) == random_model.translate(TEXTS)
    assert str(random_model(TEXTS[0])) == random_model.translate(TEXTS)[0].text


def test_a_translator_is_named_by_model_languages_and_size() -> None:
    shown = repr(Translator.from_pretrained("de-en-multi30k"))
    assert re.fullmatch(r"<Translator de-en-multi30k: de to en, [\d,]+ parameters>", shown)


def test_a_whole_config_replaces_the_models_and_is_checked_for_wrong_names(
    random_model: Translator,
) -> None:
    greedy = random_model.translate("Ein Hund", beam_size=1)
    config = random_model.decoding.with_options(beam_size=1)
    assert random_model.translate("Ein Hund", decoding=config) == greedy
    with pytest.raises(ConfigError, match=r"unknown key .beam_sizee.*did you mean .beam_size"):
        random_model("Ein Hund", beam_sizee=1)


@pytest.mark.parametrize(
    "text",
    [5, None, b"Ein Hund", ["Ein", 5], ["a", None], [b"x"], np.array("x"), pd.Series([math.nan])],
    ids=str,
)
def test_what_is_no_text_is_refused(text: Any, random_model: Translator) -> None:
    with pytest.raises(InputError, match="string"):
        random_model.translate(text)


def test_half_a_character_is_refused(random_model: Translator) -> None:
    """A lone surrogate is how Python carries bytes that were not UTF-8; it has no UTF-8 itself."""
    with pytest.raises(InputError):
        random_model.translate("Ein H\udcfcnd")


def test_a_text_beyond_the_limit_is_refused(random_model: Translator) -> None:
    with pytest.raises(InputError, match=r"1,000,001 characters.*limit of 1,000,000"):
        random_model.translate("x" * 1_000_001)


# --- models and devices --------------------------------------------------------------------------


def test_save_and_load_translate_alike(random_model: Translator, tmp_path: Path) -> None:
    random_model.save_pretrained(tmp_path / "model")
    loaded = Translator.from_pretrained(tmp_path / "model")
    texts = ["Ein Hund rennt.", "", "Zwei Männer stehen.", "Ja! " * 15]
    assert loaded.translate(texts) == random_model.translate(texts)
    assert loaded.config == random_model.config
    assert loaded.card == random_model.card
    assert Translator.from_pretrained(str(tmp_path / "model")).translate("x").text


@pytest.mark.parametrize("config", ['{"model_type": "marian"}', "[]", "{torn", None])
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


def test_a_model_of_ours_is_replaced_and_what_a_user_put_beside_it_stays(
    random_model: Translator, tmp_path: Path
) -> None:
    random_model.save_pretrained(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "config.json").write_text('{"library": "hubnmt", "format_version": 99}')
    random_model.save_pretrained(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert Translator.from_pretrained(tmp_path).config == random_model.config


@pytest.mark.parametrize("device", ["gpu", "", "cuda:99", "mps", "xpu", "vulkan", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(device: str, stored: StoredModel) -> None:
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ConfigError, match=f"device = {device!r}.*'cpu'"):
        Translator(stored, device=device)


def test_an_unknown_precision_is_refused(stored: StoredModel) -> None:
    with pytest.raises(ConfigError, match=r"float64.*bfloat16"):
        Translator(stored, dtype="float64")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_stored_model_is_not_changed_by_who_wraps_it(
    dtype: str, stored: StoredModel, tmp_path: Path
) -> None:
    save_model(tmp_path / "first", stored)
    text = "Zwei Männer stehen am Herd."

    def fresh(of: str) -> Translation:
        return Translator(load_model(tmp_path / "first"), dtype=of).translate(text)

    stored = load_model(tmp_path / "first")
    wide = Translator(stored)
    narrow = Translator(stored, dtype=dtype)
    for mine, of in ((wide, "float32"), (narrow, dtype)):
        assert mine.translate(text) == fresh(of)
        assert mine.score(text, "A dog") == Translator(
            load_model(tmp_path / "first"), dtype=of
        ).score(text, "A dog")
        mine.save_pretrained(tmp_path / "second")
        weights = [
            (tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second")
        ]
        assert weights[0] == weights[1]
    assert {each.dtype for each in stored.model.parameters()} == {torch.float32}


def test_weights_that_fit_are_not_copied(stored: StoredModel) -> None:
    model = Translator(stored).model
    assert model.output_proj.weight.data_ptr() == stored.model.output_proj.weight.data_ptr()


def test_a_stored_model_stays_in_its_mode(stored: StoredModel) -> None:
    stored.model.train()
    assert not Translator(stored).model.training
    assert stored.model.training


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_half_precision_scores_nearly_the_same(
    dtype: str, error: float, stored: StoredModel
) -> None:
    exact = Translator(stored).score("Ein Hund rennt.", "A dog is running.")
    half = Translator(stored, dtype=dtype).score("Ein Hund rennt.", "A dog is running.")
    assert half.log_prob == pytest.approx(exact.log_prob, rel=error)
    assert Translator(stored, dtype=dtype).translate("Ein Hund rennt.").text
