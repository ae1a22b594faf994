"""The engine: company, order and memory change nothing, and every option reaches the search."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis, Search, run_search
from hubnmt.errors import ModelFolderError
from hubnmt.inference.engine import TorchEngine, force_prefix, is_cut, max_tgt_tokens
from hubnmt.inference.packed_transformer import PackedTransformer
from hubnmt.model import Transformer
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

GREEDY = {"beam_size": 1}
BEAM = {"beam_size": 4}
SAMPLE = {"sample": True, "n_best": 3, "temperature": 1.5}
STRATEGIES = pytest.mark.parametrize("strategy", [GREEDY, BEAM, SAMPLE], ids=str)


@pytest.fixture
def engine(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> TorchEngine:
    """Random but decided weights: no two continuations are nearly equal."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
        tiny_model.src_embedding.weight.mul_(2)
    return TorchEngine(tiny_model, tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))


@pytest.fixture(scope="module")
def rows() -> list[list[int]]:
    """Eleven sources of 1 to 9 tokens."""
    rng = random.Random(8)
    return [[rng.randrange(3, 300) for _ in range(1 + n * 5 % 9)] for n in range(11)]


def options(**values: Any) -> DecodingConfig:
    return DecodingConfig(**{"max_new_tokens": 7, "length_penalty": 0.7, **values})


def replay(engine: TorchEngine, src: list[int], tgt: list[int]) -> list[float]:
    """Ask the model for each token of one pair, all at once."""
    src_ids, src_pad_mask = batch_sources([src], pad_id=0, eos_id=2)
    target = batch_targets([tgt], pad_id=0, bos_id=1, eos_id=2)
    with torch.inference_mode():
        logits = engine.model(src_ids, target.tgt_in, src_pad_mask)
    log_probs = logits[0].float().log_softmax(-1)
    return log_probs.gather(1, target.tgt_out[0, :, None])[:, 0].tolist()


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [each.ids for each in found] == [each.ids for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.score == pytest.approx(theirs.score, rel=1e-4)


# --- the model says the same ---------------------------------------------------------------------


@STRATEGIES
def test_log_probs_are_those_of_a_replay(
    strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    found = run_search(engine.search(rows, options(**strategy)))
    for src, hypotheses in zip(rows, found, strict=True):
        for each in hypotheses:
            expected = replay(engine, src, each.ids)
            assert each.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert each.log_prob == pytest.approx(sum(expected), rel=1e-4)
            assert each.score == pytest.approx(sum(expected) / len(expected) ** 0.7, rel=1e-4)


def test_greedy_is_the_likeliest_piece_at_each_step(
    engine: TorchEngine, rows: list[list[int]]
) -> None:
    found = run_search(engine.search(rows[:3], options(**GREEDY)))
    for src, (best,) in zip(rows, found, strict=False):
        said: list[int] = []
        src_ids, src_pad_mask = batch_sources([src], pad_id=0, eos_id=2)
        while len(said) < 7:
            with torch.inference_mode():
                logits = engine.model(src_ids, torch.tensor([[1, *said]]), src_pad_mask)[0, -1]
            likeliest = 2 + int(logits[2:].argmax())  # never pad, never bos
            if likeliest == 2:
                break
            said.append(likeliest)
        assert best.ids == said


# --- company and order ---------------------------------------------------------------------------


@STRATEGIES
@pytest.mark.parametrize("max_batch_tokens", [1, 37, 4096])
def test_batched_is_the_same_as_one_at_a_time_in_any_order(
    max_batch_tokens: int, strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    decoding = options(**strategy)
    alone = [run_search(engine.search([row], decoding))[0] for row in rows]
    for order in (list(range(11)), [4, 9, 0, 7, 3, 10, 1, 8, 2, 6, 5]):
        found = run_search(
            engine.search([rows[b] for b in order], decoding, max_batch_tokens=max_batch_tokens)
        )
        for b, hypotheses in zip(order, found, strict=True):
            assert_same(hypotheses, alone[b])


def test_a_batch_holds_no_more_than_its_budget(
    engine: TorchEngine, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padded source tokens times hypotheses; a row that is longer stands alone."""
    shapes: list[tuple[int, ...]] = []
    encode = PackedTransformer.encode

    def measure(model: PackedTransformer, src_ids: Tensor, src_pad_mask: Tensor) -> Tensor:
        shapes.append(tuple(src_ids.shape))
        return encode(model, src_ids, src_pad_mask)

    monkeypatch.setattr(PackedTransformer, "encode", measure)
    for strategy, width in ((GREEDY, 1), (BEAM, 4), (SAMPLE, 3)):
        shapes.clear()
        run_search(engine.search(rows, options(**strategy), max_batch_tokens=60))
        assert all(n * s * width <= 60 or n == 1 for n, s in shapes)
        assert len(shapes) < len(rows)
        assert sum(n for n, _ in shapes) == len(rows)


def test_nothing_to_translate_gives_nothing(engine: TorchEngine) -> None:
    assert run_search(engine.search([], options())) == []


def test_a_source_without_tokens_is_translated_too(engine: TorchEngine) -> None:
    ((best,),) = run_search(engine.search([[]], options(**BEAM)))
    assert best.ids
    assert best.token_log_probs == pytest.approx(replay(engine, [], best.ids), rel=1e-4)


def test_equal_sources_have_equal_translations(engine: TorchEngine, rows: list[list[int]]) -> None:
    """Also where they are drawn at random: the seed belongs to the sentence."""
    for strategy in (GREEDY, BEAM, SAMPLE):
        first, _, third = run_search(
            engine.search([rows[1], rows[4], rows[1]], options(**strategy))
        )
        assert_same(first, third)


# --- n best --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_best", [1, 2, 5, 6])
def test_n_best_are_distinct_texts_best_first(
    n_best: int, engine: TorchEngine, rows: list[list[int]], tiny_tokenizer: Tokenizer
) -> None:
    found = run_search(engine.search(rows, options(beam_size=6, n_best=n_best)))
    for hypotheses in found:
        texts = [tiny_tokenizer.decode(each.ids) for each in hypotheses]
        scores = [each.score for each in hypotheses]
        assert len(set(texts)) == len(texts)
        assert 1 <= len(texts) <= n_best
        assert scores == sorted(scores, reverse=True)
    assert max(map(len, found)) == n_best


def test_the_best_one_does_not_depend_on_how_many_are_returned(
    engine: TorchEngine, rows: list[list[int]]
) -> None:
    one = run_search(engine.search(rows, options(beam_size=6, n_best=1)))
    many = run_search(engine.search(rows, options(beam_size=6, n_best=6)))
    for (alone,), first in zip(one, many, strict=True):
        assert first[0].score >= alone.score - 1e-5


def test_samples_that_read_the_same_are_one(
    engine: TorchEngine, rows: list[list[int]], tiny_tokenizer: Tokenizer
) -> None:
    """With top_k = 1 all samples are equal."""
    ((only,),) = run_search(engine.search(rows[:1], options(sample=True, n_best=5, top_k=1)))
    ((greedy,),) = run_search(engine.search(rows[:1], options(**GREEDY)))
    assert only.ids == greedy.ids


# --- options -------------------------------------------------------------------------------------


@STRATEGIES
def test_no_translation_is_longer_than_allowed(
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = PackedTransformer.project
    eos = torch.tensor([2])  # never likely, so that no sentence ends by itself
    monkeypatch.setattr(
        PackedTransformer,
        "project",
        lambda model, hidden: project(model, hidden).index_fill(-1, eos, -1e4),
    )
    for cap in (1, 5, None):
        found = run_search(engine.search(rows, options(**strategy, max_new_tokens=cap)))
        for src, hypotheses in zip(rows, found, strict=True):
            assert {len(each.ids) for each in hypotheses} == {cap or 2 * len(src) + 10}


def test_the_cap_follows_source_option_and_prefix(tiny_tokenizer: Tokenizer) -> None:
    prefix = force_prefix("A dog", tiny_tokenizer)
    assert prefix is not None
    n_prefix = len(tiny_tokenizer.encode("A")) + len(b" dog")
    assert max_tgt_tokens(6, DecodingConfig()) == 22
    assert max_tgt_tokens(0, DecodingConfig()) == 10
    assert max_tgt_tokens(6, DecodingConfig(max_new_tokens=3)) == 3
    assert max_tgt_tokens(6, DecodingConfig(), prefix) == 22 + n_prefix
    assert max_tgt_tokens(6, DecodingConfig(max_new_tokens=3), prefix) == 3 + n_prefix


@pytest.mark.parametrize("text", ["A dog", "A do", "A dog ", "Two mén st", "xqzxq"])
@STRATEGIES
def test_the_cap_counts_the_tokens_beyond_the_prefix(
    text: str,
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that never ends by itself says exactly as many."""
    eos = torch.tensor([tiny_tokenizer.eos_id])
    project = PackedTransformer.project
    monkeypatch.setattr(
        PackedTransformer,
        "project",
        lambda model, hidden: project(model, hidden).index_fill(-1, eos, -1e4),
    )
    prefix = force_prefix(text, tiny_tokenizer)
    assert prefix is not None
    for cap in (1, 4):
        decoding = options(**strategy, max_new_tokens=cap)
        for src, hypotheses in zip(
            rows, run_search(engine.search(rows, decoding, prefix=prefix)), strict=True
        ):
            for each in hypotheses:
                begun = [tiny_tokenizer.decode_bytes(each.ids[:t]) for t in range(len(each.ids))]
                n_within = sum(len(said) <= len(text.encode()) for said in begun[1:])
                n_within += tiny_tokenizer.decode_bytes(each.ids) == text.encode()
                assert len(each.ids) - n_within == cap
                assert is_cut(each.ids, len(src), decoding, prefix)
                assert not is_cut(each.ids[:-1], len(src), decoding, prefix)


@pytest.mark.parametrize("n", [1, 2, 3])
@STRATEGIES
def test_no_ngram_comes_twice_if_that_was_asked(
    n: int, strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    decoding = options(**strategy, no_repeat_ngram_size=n, max_new_tokens=30)
    for hypotheses in run_search(engine.search(rows, decoding)):
        for each in hypotheses:
            grams = list(zip(*(each.ids[k:] for k in range(n)), strict=False))
            assert len(set(grams)) == len(grams)


@pytest.mark.parametrize("n", [1, 2])
@STRATEGIES
def test_a_prefix_may_repeat_itself_but_what_follows_may_not(
    n: int,
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last word is one piece of four bytes, and the model would say it for ever."""
    text = "snow snow snow in the"
    prefix = force_prefix(text, tiny_tokenizer)
    project, likely = engine.model.project, torch.zeros(300)
    likely[tiny_tokenizer.encode("the")] = 40.0
    monkeypatch.setattr(engine.model, "project", lambda hidden: project(hidden) + likely)
    decoding = options(**strategy, no_repeat_ngram_size=n, max_new_tokens=30)
    for hypotheses in run_search(engine.search(rows, decoding, prefix=prefix)):
        for each in hypotheses:
            ends = (t for t in range(40) if tiny_tokenizer.decode(each.ids[:t]).startswith(text))
            for t in range(next(ends), len(each.ids)):
                grams = list(zip(*(each.ids[k : t + 1] for k in range(n)), strict=False))
                assert grams[-1] not in grams[:-1]


def test_pad_and_bos_are_never_said(engine: TorchEngine, rows: list[list[int]]) -> None:
    decoding = options(sample=True, n_best=20, temperature=9.0, max_new_tokens=40)
    for hypotheses in run_search(engine.search(rows[:4], decoding)):
        assert all({0, 1, 2}.isdisjoint(each.ids) for each in hypotheses)


def test_the_seed_decides_what_is_drawn(engine: TorchEngine, rows: list[list[int]]) -> None:
    found = {
        seed: [
            [each.ids for each in row]
            for row in run_search(engine.search(rows, options(**SAMPLE, seed=seed)))
        ]
        for seed in (0, 1, 2**63 - 1)
    }
    assert found[0] == [
        [each.ids for each in row]
        for row in run_search(engine.search(rows, options(**SAMPLE, seed=0)))
    ]
    for one, other in itertools.combinations(found.values(), 2):
        assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))


@STRATEGIES
def test_every_row_begins_with_the_prefix(
    strategy: dict[str, Any],
    engine: TorchEngine,
    rows: list[list[int]],
    tiny_tokenizer: Tokenizer,
) -> None:
    prefix = force_prefix("Two mén st", tiny_tokenizer)
    for hypotheses in run_search(engine.search(rows, options(**strategy), prefix=prefix)):
        for each in hypotheses:
            assert tiny_tokenizer.decode(each.ids).startswith("Two mén st")


@STRATEGIES
def test_a_forced_target_has_the_score_of_a_replay(
    strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]], tiny_tokenizer: Tokenizer
) -> None:
    """What is forced costs what the model says, not what is left after forbidding the rest."""
    prefix = force_prefix("A dog is running", tiny_tokenizer)
    found = run_search(engine.search(rows[:3], options(**strategy), prefix=prefix))
    for src, hypotheses in zip(rows, found, strict=False):
        for each in hypotheses:
            expected = replay(engine, src, each.ids)
            assert each.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)


# --- step by step --------------------------------------------------------------------------------


def follow(search: Search) -> tuple[list[list[int]], list[list[Hypothesis]]]:
    """Run a search; return what it yielded and what it found."""
    seen: list[list[int]] = []

    def remember() -> Search:
        while True:
            try:
                seen.append(next(search))
            except StopIteration as end:
                return end.value
            yield seen[-1]

    found = run_search(remember())
    return seen, found


@STRATEGIES
def test_a_search_yields_the_tokens_so_far_at_each_step(
    strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    seen, (found,) = follow(engine.search(rows[3:4], options(**strategy)))
    assert seen[0] == []
    assert max(len(each.ids) for each in found) <= len(seen)
    if strategy is not SAMPLE:  # a sample that has ended waits for the others
        assert [len(ids) for ids in seen] == list(range(len(seen)))


def test_a_greedy_search_yields_exactly_what_is_found(
    engine: TorchEngine, rows: list[list[int]]
) -> None:
    seen, ((best,),) = follow(engine.search(rows[3:4], options(**GREEDY)))
    assert seen == [best.ids[:t] for t in range(len(best.ids) + 1)]


def test_every_batch_is_shown_from_its_beginning(
    engine: TorchEngine, rows: list[list[int]]
) -> None:
    seen, found = follow(engine.search(rows, options(**BEAM), max_batch_tokens=60))
    for mine, theirs in zip(found, run_search(engine.search(rows, options(**BEAM))), strict=True):
        assert_same(mine, theirs)
    assert seen.count([]) > 1


def test_a_search_under_way_leaves_the_callers_mode_alone(
    engine: TorchEngine, rows: list[list[int]]
) -> None:
    search = engine.search(rows[:2], options(**BEAM))
    next(search)
    assert not torch.is_inference_mode_enabled()
    search.close()
    assert list(search) == []


# --- prefixes ------------------------------------------------------------------------------------


def test_an_empty_text_forces_nothing(tiny_tokenizer: Tokenizer) -> None:
    assert force_prefix("", tiny_tokenizer) is None


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("A", ""),
        ("A dog", "A"),
        ("A dog ", "A dog"),
        ("A dog.", "A dog"),
        ("Zwei Män", "Zwei"),
        ("12", "1"),
    ],
)
def test_all_words_but_the_last_are_forced(
    text: str, whole: str, tiny_tokenizer: Tokenizer
) -> None:
    prefix = force_prefix(text, tiny_tokenizer)
    assert prefix is not None
    assert list(prefix.forced_ids) == tiny_tokenizer.encode(whole)


# --- numbers that overflow -----------------------------------------------------------------------


@STRATEGIES
@pytest.mark.parametrize("weight", [torch.nan, torch.inf, 3e38])
def test_a_model_that_overflows_is_refused_at_once(
    weight: float, strategy: dict[str, Any], engine: TorchEngine, rows: list[list[int]]
) -> None:
    with torch.no_grad():
        engine.model.decoder.final_norm.weight.fill_(weight)
    broken = TorchEngine(engine.model, tokenizers=engine._tokenizers)
    search, steps = broken.search(rows[:2], options(**strategy)), []
    with pytest.raises(ModelFolderError, match="not finite"):
        steps.extend(search)
    assert len(steps) == 1


def test_sums_that_overflow_end_at_the_longest_target(
    engine: TorchEngine, rows: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log-probability is a number, but no sum of them is: nothing can be ranked."""

    def log_softmax(_: Tensor, __: int, *, out: Tensor) -> Tensor:
        return out.fill_(-3e38)

    monkeypatch.setattr(torch, "log_softmax", log_softmax)
    search, steps = engine.search(rows[:2], options(**BEAM)), []
    with pytest.raises(ModelFolderError, match="not finite"):
        steps.extend(search)
    assert len(steps) <= 8  # 7 tokens and eos
