"""The other engine: the same translations and scores as ours, whoever searches."""

import dataclasses
import itertools
import pickle
from typing import Any

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import Hypothesis, Search, run_search
from hubnmt.errors import ConfigError
from hubnmt.inference.ctranslate2_engine import N_POSITIONS, CTranslate2Engine
from hubnmt.inference.engine import TorchEngine
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator

ROWS = [[40, 50, 60, 70, 80], [90, 41], [55, 66, 77, 88, 99, 44, 33, 22], [90, 42], [11]]
CPU = torch.device("cpu")


class Refusing(TorchEngine):
    """The reference, where it is not wanted."""

    def search(self, rows: Any, *_: Any, **__: Any) -> Search:
        assert not rows, "CTranslate2 should have searched these"
        yield from ()
        return []


@pytest.fixture
def reference(decided: StoredModel) -> TorchEngine:
    return engine_of(TorchEngine, decided)


@pytest.fixture(scope="module")
def decided(tiny_tokenizer: Tokenizer, tiny_config: ModelConfig) -> StoredModel:
    """A model that has just learned when to stop: after as many tokens as it was given."""
    torch.manual_seed(3)
    model = Transformer(dataclasses.replace(tiny_config, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(80):
        length = int(torch.randint(1, 10, ()))
        src = torch.randint(3, 300, (16, length))
        labels = torch.nn.functional.pad(src, (0, 1), value=tiny_tokenizer.eos_id)
        tgt_in = torch.nn.functional.pad(src, (1, 0), value=tiny_tokenizer.bos_id)
        logits = model(labels, tgt_in, torch.zeros_like(labels, dtype=torch.bool))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return StoredModel(
        model=model.eval(),
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(),
    )


def engine_of(cls: type[TorchEngine], stored: StoredModel) -> TorchEngine:
    return cls(stored.model, tokenizers=stored.tokenizers)


def assert_same(mine: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for row, other in zip(mine, theirs, strict=True):
        assert [each.ids for each in row] == [each.ids for each in other]
        for one, two in zip(row, other, strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
            assert one.log_prob == pytest.approx(two.log_prob, abs=1e-3)
            assert one.score == pytest.approx(two.score, abs=1e-3)


OPTIONS: list[dict[str, Any]] = [
    {"beam_size": 1, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "n_best": 4},
    {"beam_size": 6, "n_best": 3, "length_penalty": 0.0},
    {"beam_size": 3, "length_penalty": 1.7},
    {"beam_size": 4, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "repetition_penalty": 1.2},
    {"sample": True, "n_best": 3, "seed": 4},
]


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_ctranslate2_itself_searches_what_it_can(
    options: dict[str, Any], decided: StoredModel, reference: TorchEngine
) -> None:
    """With room enough, nothing is left to the reference, and translations differ in length."""
    decoding = DecodingConfig(**{"max_new_tokens": 300, **options})
    expected = run_search(reference.search(ROWS, decoding))
    lengths = [len(each.ids) for row in expected for each in row]
    assert max(lengths) < 300
    assert len(set(lengths)) > 1
    other = CTranslate2Engine(decided, engine_of(Refusing, decided), device=CPU, dtype="float32")
    assert_same(run_search(other.search(ROWS, decoding)), expected)


@pytest.mark.parametrize("options", OPTIONS[4:], ids=str)
def test_what_means_something_else_there_is_left_to_the_reference(
    options: dict[str, Any], decided: StoredModel
) -> None:
    other = CTranslate2Engine(decided, engine_of(Refusing, decided), device=CPU, dtype="float32")
    with pytest.raises(AssertionError, match="should have searched"):
        run_search(other.search(ROWS, DecodingConfig(**options)))


def test_a_source_beyond_the_table_of_positions_is_left_to_the_reference(
    decided: StoredModel, reference: TorchEngine
) -> None:
    other = CTranslate2Engine(decided, reference, device=CPU, dtype="float32")
    rows, decoding = [[40] * N_POSITIONS, ROWS[0]], DecodingConfig(max_new_tokens=2)
    found = run_search(other.search(rows, decoding))
    assert_same(found, run_search(reference.search(rows, decoding)))


TEXT = "Ein Hund rennt.  Zwei Männer stehen am Herd!\nഒരു നായ."


@pytest.fixture
def both(decided: StoredModel) -> tuple[Translator, Translator]:
    return Translator(decided), Translator(decided, engine="ctranslate2")


@pytest.mark.parametrize(
    "options",
    [
        *({"beam_size": 1, "max_new_tokens": 2}, {"beam_size": 4, "n_best": 3}),
        *({"prefix": "A dog. Two"}, {"sample": True, "seed": 5}, {"guard": False, "split": False}),
    ],
    ids=str,
)
def test_the_same_text_comes_out(
    options: dict[str, Any], both: tuple[Translator, Translator]
) -> None:
    ours, theirs = (each.translate(TEXT, **{"max_new_tokens": 40, **options}) for each in both)
    assert [each.text for each in ours.n_best] == [each.text for each in theirs.n_best]
    assert ours.tgt_tokens == theirs.tgt_tokens
    assert ours.warnings == theirs.warnings
    sent = pickle.loads(pickle.dumps(theirs))  # before its tokens are scored
    assert ours.tgt_log_probs == pytest.approx(sent.tgt_log_probs, abs=1e-3)


def test_every_door_is_open(both: tuple[Translator, Translator]) -> None:
    ours, theirs = both
    for beam_size in (1, 3):
        shown = list(theirs.stream(TEXT, beam_size=beam_size, max_new_tokens=40))
        assert shown[-1] == ours.translate(TEXT, beam_size=beam_size, max_new_tokens=40).text
    grown = list(theirs.stream("Ein Hund", beam_size=1, guard=False))
    assert all(b.startswith(a) for a, b in itertools.pairwise(grown))
    assert theirs.score("Ein Hund", "A dog") == ours.score("Ein Hund", "A dog")
    assert theirs.alternatives("Ein Hund", k=2) == ours.alternatives("Ein Hund", k=2)
    torch.testing.assert_close(theirs.attend("Hund", "dog").cross, ours.attend("Hund", "dog").cross)


def test_an_unknown_engine_is_refused(stored: StoredModel) -> None:
    with pytest.raises(ConfigError, match=r"engine = 'fast' must be torch or ctranslate2"):
        Translator(stored, engine="fast")


def test_without_the_library_one_line_says_what_to_install(
    stored: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubnmt.inference.ctranslate2_export.ctranslate2", None)
    with pytest.raises(ConfigError, match=r"pip install 'hubnmt\[fast\]'"):
        Translator(stored, engine="ctranslate2")
