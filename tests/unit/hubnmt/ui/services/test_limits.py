import dataclasses
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from tests.page import FakeTranslator

TEXT = "ein hund rennt im schnee"


@pytest.fixture
def translator() -> Any:
    translator = FakeTranslator("stand-in")
    limits.measure_speed(translator)  # as the page does when it opens a model
    return translator


@pytest.mark.parametrize(
    "text", ["", " \n\t ", None, 3, ["a"], "a \ud800 b", "x" * (limits.MAX_TEXT_CHARS + 1)]
)
def test_what_is_no_text_or_too_much_is_refused(translator: Any, text: Any):
    for call in (
        lambda: limits.check_text(text),
        lambda: limits.attend(translator, text, "a"),
        lambda: limits.score(translator, text, "a"),
        lambda: limits.score(translator, TEXT, text),
    ):
        with pytest.raises(InputError):
            call()


def test_a_beginning_is_bounded_and_counted(translator: Any):
    limits.check_work(translator, TEXT, translator.decoding, "a" * limits.MAX_PREFIX_CHARS)
    with pytest.raises(InputError, match="the forced prefix has 301 characters"):
        limits.check_work(
            translator, TEXT, translator.decoding, "a" * (limits.MAX_PREFIX_CHARS + 1)
        )
    with pytest.raises(InputError, match="must be one line"):
        limits.check_work(translator, TEXT, translator.decoding, "a\nb")
    with pytest.raises(InputError, match="must be a string"):
        limits.check_work(translator, TEXT, translator.decoding, 5)
    with pytest.raises(InputError, match=r"may take 3[0-9][0-9] source and target tokens"):
        limits.check_work(translator, TEXT, DecodingConfig(beam_size=256), "a" * 300)


def test_a_pair_too_long_to_score_is_refused_before_the_model_runs(
    translator: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translator, "score", None)
    with pytest.raises(InputError, match=r"too long to score: 1,[0-9]+ tokens; the limit is 1,000"):
        limits.score(translator, TEXT, "ab " * 600)


ORDINARY = "Gestern ging ein Mann mit seinem Hund im Park spazieren, obwohl es regnete. " * 66


@pytest.mark.parametrize(
    "options",
    [{}, {"beam_size": 16, "n_best": 16}, {"sample": True, "n_best": 3}, {"max_new_tokens": 100}],
)
def test_ordinary_text_passes(options: dict[str, Any]):
    bundled = Translator.from_pretrained("de-en")
    assert len(ORDINARY) > 5000
    limits.check_work(bundled, ORDINARY, bundled.decoding.with_options(**options))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Ja.\n" * 2500, {"sample": True, "temperature": 100.0, "max_new_tokens": 512}),
        ("Ja.\n" * 2500, {"sample": True, "temperature": 100.0, "n_best": 9}),
        ("Ja.\n" * 2500, {"max_new_tokens": 512}),
        ("ab " * 3000, {"beam_size": 16}),
    ],
)
def test_what_would_keep_the_model_busy_is_refused(
    translator: Any, text: str, options: dict[str, Any]
):
    decoding = DecodingConfig(**options)
    limits.check_work(translator, "Ja.\nNein.", decoding)
    with pytest.raises(InputError, match=r"with [0-9]+ hypotheses the limit"):
        limits.check_work(translator, text, decoding)


def test_the_rows_of_a_file_are_bounded_together(translator: Any, monkeypatch: pytest.MonkeyPatch):
    rows = ["a b c"] * 100
    limits.check_rows(translator, rows, translator.decoding)
    monkeypatch.setattr(limits, "MAX_FILE_WORK", 1000)
    with pytest.raises(InputError, match=r"the column may take [0-9]+ source and target tokens"):
        limits.check_rows(translator, rows, translator.decoding)


class CountHypotheses(TorchFunctionMode):
    """Counts what a search runs: a row of log-probabilities for each hypothesis at each step."""

    n = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.log_softmax:
            self.n += args[0].shape[:-1].numel()
        return func(*args, **(kwargs or {}))


@pytest.fixture
def untrained(stored: StoredModel) -> Translator:
    return Translator(dataclasses.replace(stored, decoding=DecodingConfig()))


@pytest.mark.parametrize(
    "options",
    [{"beam_size": 1}, {"sample": True, "n_best": 3, "temperature": 0.01}],
    ids=str,
)
def test_what_is_admitted_is_what_may_run(options: dict[str, Any], untrained: Translator):
    """Untrained, a model repeats itself, so all is searched a second time and more widely."""
    options |= {"max_new_tokens": 40}
    with CountHypotheses() as steps:
        found = untrained.translate(TEXT, **options)
    assert any(
        "the first translation" in each or "repeats itself" in each for each in found.warnings
    )
    n_src = len(found.src_tokens) - 1
    width = limits.count_hypotheses(untrained.decoding.with_options(**options))
    assert 40 * 5 < steps.n <= (n_src + 40) * width
