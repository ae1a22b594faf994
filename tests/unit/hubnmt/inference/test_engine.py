"""The engine: company, order and memory change nothing, and every option reaches the search."""

import copy
import dataclasses
import itertools
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.decoding.constraints import force_prefix, is_cut
from hubnmt.decoding.search import run_to_end
from hubnmt.errors import ModelFolderError
from hubnmt.inference.engine import TorchEngine
from hubnmt.model.layers import ACTIVATIONS
from hubnmt.model.transformer import Transformer
from hubnmt.text.tokenizer import Tokenizer

GREEDY = {"beam_size": 1}
BEAM = {"beam_size": 4}
SAMPLE = {"sample": True, "n_best": 3, "temperature": 1.5}
STRATEGIES = pytest.mark.parametrize("strategy", [GREEDY, BEAM, SAMPLE], ids=str)


@pytest.fixture
def engine(stored: StoredModel) -> TorchEngine:
    return TorchEngine(stored.model, tokenizers=stored.tokenizers)


@pytest.fixture(scope="module")
def rows() -> list[list[int]]:
    """Seven sources of 0 to 8 tokens."""
    rng = random.Random(8)
    return [[rng.randrange(3, 300) for _ in range(n * 5 % 9)] for n in range(7)]


def options(**values: Any) -> DecodingConfig:
    return DecodingConfig(**{"max_new_tokens": 7, "length_penalty": 0.7, **values})


@STRATEGIES
@pytest.mark.parametrize("forced", ["", "A dog is running"])
def test_log_probs_are_those_of_a_replay(
    forced: str,
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    tiny_tokenizer: Tokenizer,
) -> None:
    """What is forced costs what the model says, not what is left after forbidding the rest."""
    prefix = force_prefix(forced, tiny_tokenizer)
    found = run_to_end(engine.search(rows, options(**strategy), prefix=prefix))
    for src, hypotheses in zip(rows, found, strict=True):
        for each in hypotheses:
            assert tiny_tokenizer.decode(each.ids).startswith(forced)
            (expected,) = engine.score([(src, each.ids)])
            assert each.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert each.log_prob == pytest.approx(sum(expected), rel=1e-4)
            assert each.score == pytest.approx(sum(expected) / len(expected) ** 0.7, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_nearly_the_same_log_probs(
    dtype: torch.dtype, engine: TorchEngine, stored: StoredModel, rows: list[list[int]]
) -> None:
    exact = run_to_end(engine.search(rows, options(**GREEDY)))
    half = TorchEngine(copy.deepcopy(stored.model).to(dtype), tokenizers=stored.tokenizers)
    for (found,), (expected,) in zip(
        run_to_end(half.search(rows, options(**GREEDY))), exact, strict=True
    ):
        first, *_ = found.token_log_probs
        assert first == pytest.approx(expected.token_log_probs[0], abs=0.2)


def test_a_batch_holds_no_more_than_its_budget(
    engine: TorchEngine, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padded source tokens times hypotheses; a row that is longer stands alone."""
    shapes: list[tuple[int, ...]] = []
    encode = Transformer.encode

    def measure(model: Transformer, src_ids: Tensor, src_pad_mask: Tensor | None) -> Tensor:
        shapes.append(tuple(src_ids.shape))
        return encode(model, src_ids, src_pad_mask)

    monkeypatch.setattr(Transformer, "encode", measure)
    for strategy, width in ((GREEDY, 1), (BEAM, 4), (SAMPLE, 3)):
        shapes.clear()
        run_to_end(engine.search(rows, options(**strategy), max_batch_tokens=60))
        assert all(n * s * width <= 60 or n == 1 for n, s in shapes)
        assert len(shapes) < len(rows)
        assert sum(n for n, _ in shapes) == len(rows)


@pytest.mark.parametrize("text", ["", "A do", "A dog ", "xqzxq"])
@STRATEGIES
def test_no_translation_is_longer_than_allowed_beyond_its_prefix(
    text: str,
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that never ends by itself says exactly as many."""
    eos = torch.tensor([tiny_tokenizer.eos_id])
    project = Transformer.project
    monkeypatch.setattr(
        Transformer,
        "project",
        lambda model, hidden: project(model, hidden).index_fill(-1, eos, -1e4),
    )
    prefix = force_prefix(text, tiny_tokenizer)
    for cap in (1, 4) if text else (5, None):
        decoding = options(**strategy, max_new_tokens=cap)
        for src, hypotheses in zip(
            rows, run_to_end(engine.search(rows, decoding, prefix=prefix)), strict=True
        ):
            for each in hypotheses:
                begun = [tiny_tokenizer.decode_bytes(each.ids[:t]) for t in range(len(each.ids))]
                n_within = sum(len(said) <= len(text.encode()) for said in begun[1:] if text)
                n_within += tiny_tokenizer.decode_bytes(each.ids) == text.encode() != b""
                assert len(each.ids) - n_within == (cap or 2 * len(src) + 10)
                assert is_cut(each.ids, len(src), decoding, prefix)
                assert not is_cut(each.ids[:-1], len(src), decoding, prefix)


@pytest.mark.parametrize("n", [1, 2])
@STRATEGIES
def test_no_ngram_comes_twice_if_that_was_asked(
    n: int, strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    decoding = options(**strategy, no_repeat_ngram_size=n, max_new_tokens=30)
    for hypotheses in run_to_end(engine.search(rows, decoding)):
        for each in hypotheses:
            grams = list(zip(*(each.ids[k:] for k in range(n)), strict=False))
            assert len(set(grams)) == len(grams)


def test_the_seed_decides_what_is_drawn(engine: TorchEngine, rows: list[list[int]]) -> None:
    def draw(seed: int) -> list[list[list[int]]]:
        found = run_to_end(engine.search(rows, options(**SAMPLE, seed=seed)))
        return [[each.ids for each in row] for row in found]

    assert draw(0) == draw(0)
    for one, other in itertools.combinations((draw(0), draw(1), draw(2**63 - 1)), 2):
        assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))


@STRATEGIES
@pytest.mark.parametrize("weight", [torch.nan, 3e38])
def test_a_model_that_overflows_is_refused_at_once(
    weight: float, strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    *_, last = (each for each in engine.model.decoder.modules() if isinstance(each, nn.LayerNorm))
    with torch.no_grad():
        last.weight.fill_(weight)
    broken = TorchEngine(engine.model, tokenizers=engine._tokenizers)
    search, steps = broken.search(rows[:2], options(**strategy)), []
    with pytest.raises(ModelFolderError, match="not finite"):
        steps.extend(search)
    assert len(steps) == 1


def test_an_activation_of_the_table_is_searched_with(
    stored: StoredModel, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added in the two places that mypy names, table and configuration, is all it takes."""
    monkeypatch.setitem(ACTIVATIONS, "silu", functional.silu)
    model = Transformer(dataclasses.replace(stored.model.config, activation="silu")).eval()
    model.load_state_dict(stored.model.state_dict())
    changed = TorchEngine(model, tokenizers=stored.tokenizers)
    for src, (found,) in zip(
        rows, run_to_end(changed.search(rows, options(**GREEDY))), strict=True
    ):
        (expected,) = changed.score([(src, found.ids)])
        assert found.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)
