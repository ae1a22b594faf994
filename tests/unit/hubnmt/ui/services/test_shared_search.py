"""Requests that share batches, with the bundled model and threads."""

import contextvars
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.inference.engine import TorchEngine
from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.scheduler import Client, Scheduler, assign
from hubnmt.ui.services.shared_search import SharedEngine, SharedSearches
from hubnmt.ui.services.translate import Handlers, Timed

TEXTS = [
    "Zwei Frauen lachen.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "Ein Mann schläft. Zwei Hunde rennen im Schnee.",
    "Hallo",
    "Eine Gruppe von Menschen steht vor einem Gebäude und wartet auf den Bus.",
] * 3


@pytest.fixture(scope="module")
def translator(bundled_model: Path) -> Translator:
    return Translator.from_pretrained(bundled_model)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sentences of each search."""
    sizes: list[int] = []
    search = TorchEngine.search

    def count(engine: TorchEngine, rows: Any, *values: Any, **options: Any) -> Any:
        sizes.append(len(rows))
        return search(engine, rows, *values, **options)

    monkeypatch.setattr(TorchEngine, "search", count)
    return sizes


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"beam_size": 4, "n_best": 3}])
def test_requests_of_a_moment_share_a_batch_and_get_their_own_answers(
    translator: Translator, batches: list[int], options: dict[str, Any]
):
    expected = [translator.translate(text, **options) for text in TEXTS]
    handlers = Handlers(ModelRegistry(lambda _: translator, {}, opening="captions"))
    scheduler = Scheduler()

    def client(number: int) -> Client:
        return Client(f"address {number}", "", lambda: True, lambda: False)

    def ask(number: int) -> Timed:
        assign(scheduler, client(number))
        if number % 2:
            return handlers.translate_text(TEXTS[number], "", **options)
        *_, last = handlers.stream_text(TEXTS[number], "", **options)
        assert isinstance(last, Timed)
        return last

    handlers.choose("")
    batches.clear()
    with ThreadPoolExecutor(len(TEXTS)) as pool:
        with scheduler.turn(scheduler.submit(client(-1), 0.1)):
            futures = [
                pool.submit(contextvars.copy_context().run, ask, n) for n in range(len(TEXTS))
            ]
            while scheduler.n_waiting < len(TEXTS):
                time.sleep(0.01)
        answers = [future.result().translation for future in futures]
    for answer, one in zip(answers, expected, strict=True):
        assert [each.text for each in answer.n_best] == [each.text for each in one.n_best]
        assert answer.score == pytest.approx(one.score, abs=1e-4)
        assert answer.sentences == one.sentences
        assert answer.warnings == one.warnings
    assert max(batches) > 3
    assert len(batches) < len(TEXTS)


def test_a_request_that_leaves_is_not_searched(translator: Translator, batches: list[int]):
    searches, decoding = SharedSearches(), DecodingConfig(beam_size=1)
    rows = [translator.tokenizers.src.encode(text) for text in TEXTS[:2]]
    leaving, staying = (
        SharedEngine(translator.engine, searches).search([row], decoding) for row in rows
    )
    for each in (leaving, staying):
        next(each)
    leaving.close()
    (found,) = run_search(staying)
    (alone,) = run_search(translator.engine.search(rows[1:], decoding))
    assert found[0].ids == alone[0].ids
    assert batches == [1, 1]


def test_options_and_models_are_kept_apart(translator: Translator, batches: list[int]):
    searches = SharedSearches()
    row = translator.tokenizers.src.encode(TEXTS[0])
    running = [
        SharedEngine(translator.engine, searches).search([row], DecodingConfig(beam_size=size))
        for size in (1, 1, 2)
    ]
    for each in running:
        next(each)
    found = [run_search(each)[0][0].ids for each in running]
    assert found[0] == found[1]
    assert batches == [2, 1]
