"""CTranslate2, an engine nobody here wrote: the same translations and scores as ours."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.config import DecodingConfig
from hubnmt.decoding.search import Search, run_to_end
from hubnmt.errors import ConfigError
from hubnmt.inference.ctranslate2_engine import N_POSITIONS, CTranslate2Engine
from hubnmt.inference.ctranslate2_export import export_ctranslate2
from hubnmt.inference.engine import TorchEngine
from hubnmt.translator import Translator

CPU = torch.device("cpu")
TEXT = "Ein Hund rennt.  Zwei Männer stehen am Herd!\nDas Mädchen klettert in ein Haus."


class Refusing(TorchEngine):
    """The reference, where it is not wanted."""

    def search(self, rows: Any, *_: Any, **__: Any) -> Search:
        assert not rows, "CTranslate2 should have searched these"
        yield from ()
        return []


@pytest.fixture(scope="module")
def trained(bundled_model: Path) -> StoredModel:
    return load_model(bundled_model)


@pytest.fixture(scope="module")
def both(trained: StoredModel) -> tuple[Translator, Translator]:
    return Translator(trained), Translator(trained, engine="ctranslate2")


@pytest.fixture(scope="module")
def rows(trained: StoredModel) -> list[list[int]]:
    return [trained.tokenizers.src.encode(line) for line in TEXT.replace("  ", "\n").splitlines()]


def test_every_token_has_the_same_log_probability(stored: StoredModel) -> None:
    """In every architecture that an export has to cover."""
    reference = TorchEngine(stored.model, stored.tokenizers)
    other = CTranslate2Engine(stored, reference, device=CPU, dtype="float32")
    pairs = [([40, 50, 60, 70], [90, 41]), ([90], []), ([55, 66, 77], [88, 99, 44, 33, 22])]
    for mine, theirs in zip(reference.score(pairs), other.score(pairs), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


OPTIONS: list[dict[str, Any]] = [
    {"beam_size": 1, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "n_best": 4},
    {"beam_size": 6, "n_best": 3, "length_penalty": 0.0},
    {"beam_size": 4, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "repetition_penalty": 1.2},
    {"sample": True, "n_best": 3, "seed": 4},
]


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_ctranslate2_itself_searches_what_it_can(
    options: dict[str, Any], trained: StoredModel, rows: list[list[int]]
) -> None:
    decoding = DecodingConfig(**options)
    engines = [kind(trained.model, trained.tokenizers) for kind in (TorchEngine, Refusing)]
    other = CTranslate2Engine(trained, engines[1], device=CPU, dtype="float32")
    expected, found = (run_to_end(each.search(rows, decoding)) for each in (engines[0], other))
    for mine, theirs in zip(expected, found, strict=True):
        assert [each.ids for each in mine] == [each.ids for each in theirs]
        for one, two in zip(mine, theirs, strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
            assert (one.log_prob, one.score) == pytest.approx((two.log_prob, two.score), abs=1e-3)


@pytest.mark.parametrize("options", OPTIONS[3:], ids=str)
def test_what_means_something_else_there_is_left_to_the_reference(
    options: dict[str, Any], trained: StoredModel, rows: list[list[int]]
) -> None:
    refusing = Refusing(trained.model, trained.tokenizers)
    other = CTranslate2Engine(trained, refusing, device=CPU, dtype="float32")
    with pytest.raises(AssertionError, match="should have searched"):
        run_to_end(other.search(rows, DecodingConfig(**options)))


def test_a_source_beyond_the_table_of_positions_is_left_to_the_reference(
    both: tuple[Translator, Translator], rows: list[list[int]]
) -> None:
    decoding = DecodingConfig(max_new_tokens=2, beam_size=1)
    sources = [[40] * N_POSITIONS, rows[0]]
    ours, theirs = (run_to_end(each.engine.search(sources, decoding)) for each in both)
    assert [each[0].ids for each in ours] == [each[0].ids for each in theirs]


@pytest.mark.parametrize("rows", [[[40, 50, 60]], [[40, 50, 60], [90, 80]]])
def test_what_does_not_end_is_cut_at_the_same_length(
    rows: list[list[int]], position_model: StoredModel
) -> None:
    """One piece at every position, alone and in a batch with other limits."""
    model = position_model.model
    wanted = torch.zeros(30, model.config.tgt_vocab_size)  # logits at each position
    wanted[:, 77] = 9
    hidden = model.decoder.final_norm(model.positions.table[:30])  # (T, D)
    model.output_proj.weight = torch.nn.Parameter(torch.linalg.lstsq(hidden, wanted).solution.T)
    reference, refusing = (
        kind(model, position_model.tokenizers) for kind in (TorchEngine, Refusing)
    )
    other = CTranslate2Engine(position_model, refusing, device=CPU, dtype="float32")
    greedy = DecodingConfig(beam_size=1)
    expected, found = (run_to_end(each.search(rows, greedy)) for each in (reference, other))
    for row, (mine, *_), (theirs, *_) in zip(rows, expected, found, strict=True):
        assert mine.ids == theirs.ids == [77] * (2 * len(row) + 10)
        assert mine.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-3)


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
    ours, theirs = (each.translate(TEXT, **options) for each in both)
    assert [each.text for each in ours.n_best] == [each.text for each in theirs.n_best]
    assert ours.tgt_tokens == theirs.tgt_tokens
    assert ours.warnings == theirs.warnings
    sent = pickle.loads(pickle.dumps(theirs))  # before its tokens are scored
    assert ours.tgt_log_probs == pytest.approx(sent.tgt_log_probs, abs=1e-3)


def test_a_greedy_translation_grows_token_by_token(both: tuple[Translator, Translator]) -> None:
    ours, theirs = both
    grown = list(theirs.stream("Ein Hund rennt.", beam_size=1, guard=False))
    assert len(grown) > 3
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(grown))
    assert grown[-1] == ours.translate("Ein Hund rennt.", beam_size=1).text
    assert theirs.alternatives("Ein Hund", k=2) == ours.alternatives("Ein Hund", k=2)


def test_without_the_library_one_line_says_what_to_install(
    tiny_stored: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubnmt.inference.ctranslate2_export.ctranslate2", None)
    with pytest.raises(ConfigError, match=r"pip install 'hubnmt\[fast\]'"):
        Translator(tiny_stored, engine="ctranslate2")


def test_unknown_engines_and_types_are_refused(tiny_stored: StoredModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine = 'fast' must be torch or ctranslate2"):
        Translator(tiny_stored, engine="fast")
    with pytest.raises(ConfigError, match="CTranslate2"):
        export_ctranslate2(tiny_stored, tmp_path / "ct2", quantization="int3")
    assert not (tmp_path / "ct2").exists()
