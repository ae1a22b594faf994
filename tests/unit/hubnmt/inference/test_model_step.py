"""ModelStep: step by step it says what the whole forward pass says, whatever the search does."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from hubnmt.attention.replay import score_targets
from hubnmt.decoding import beam_search, greedy_search, run_search
from hubnmt.inference.model_step import ModelStep
from hubnmt.inference.packed_transformer import PackedTransformer
from hubnmt.model import Transformer
from hubnmt.model.batching import SourceBatch, batch_sources
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

PAD, BOS, EOS = 0, 1, 2
IDS = {"bos_id": BOS, "eos_id": EOS}
NEVER = (PAD, BOS)
B, V = 3, 300
CAPS = [6, 3, 9]


@pytest.fixture
def model(tiny_model: Transformer) -> Transformer:
    """Decided enough that no two continuations are nearly equal; eos a little likelier."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
        tiny_model.src_embedding.weight.mul_(2)
    return tiny_model.requires_grad_(False)


@pytest.fixture
def rows() -> list[list[int]]:
    """Three sources of 5, 1 and 8 tokens, without eos."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, V, (n,), generator=generator).tolist() for n in (5, 1, 8)]


def batch_up(rows: Sequence[Sequence[int]]) -> SourceBatch:
    return batch_sources(rows, pad_id=PAD, eos_id=EOS)


def look_up(model: Transformer, row: list[int], prefix: Sequence[int]) -> list[float]:
    """Log-probabilities of the next token, by one forward pass without cache, batch or padding."""
    src_ids, src_pad_mask = batch_up([row])
    logits = model(src_ids, torch.tensor([[BOS, *prefix]]), src_pad_mask)
    log_probs = logits[0, -1].log_softmax(-1)
    log_probs[list(NEVER)] = -torch.inf
    return log_probs.tolist()  # type: ignore[no-any-return]


# --- against the forward pass --------------------------------------------------------------------


def test_steps_agree_with_the_forward_pass_while_beams_fork_and_sentences_leave(
    model: Transformer, rows: list[list[int]]
) -> None:
    step = ModelStep(PackedTransformer(model), *batch_up(rows), never=NEVER)
    sentences = list(range(B))
    prefixes: list[list[list[int]]] = [[[]] for _ in rows]
    last = torch.full((B, 1), BOS)
    for n_next, left in [(4, None), (4, [0, 2]), (2, None), (5, [1]), (3, None)]:
        log_probs = step(last)
        for b, sentence in enumerate(sentences):
            for w, prefix in enumerate(prefixes[b]):
                expected = torch.tensor(look_up(model, rows[sentence], prefix))
                torch.testing.assert_close(log_probs[b, w], expected, rtol=1e-4, atol=1e-5)
        if left is not None:
            step.keep(torch.tensor(left))
            sentences = [sentences[b] for b in left]
            prefixes = [prefixes[b] for b in left]
        parents = torch.randint(len(prefixes[0]), (len(sentences), n_next))
        last = torch.randint(3, V, (len(sentences), n_next))
        step.reorder(parents)
        prefixes = [
            [[*prefixes[b][parent], token] for parent, token in zip(*row, strict=True)]
            for b, row in enumerate(zip(parents.tolist(), last.tolist(), strict=True))
        ]


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_search_over_it_agrees_with_a_slow_search_over_forward_passes(
    length_penalty: float, model: Transformer, rows: list[list[int]], search_slowly: Any
) -> None:
    options = {"beam_size": 3, "length_penalty": length_penalty}
    results = run_search(
        beam_search(
            ModelStep(PackedTransformer(model), *batch_up(rows), never=NEVER),
            **IDS,
            max_tgt_tokens=torch.tensor(CAPS),
            n_best=3,
            **options,
        )
    )
    for row, cap, found in zip(rows, CAPS, results, strict=True):
        expected = search_slowly(
            lambda prefix, row=row: look_up(model, row, prefix), max_tgt_tokens=cap, **options
        )
        assert [each.ids for each in found] == [each.ids for each in expected]
        scores = [each.score for each in expected]
        assert [each.score for each in found] == pytest.approx(scores, rel=1e-4)


def test_beam_of_one_is_greedy(model: Transformer, rows: list[list[int]]) -> None:
    caps = torch.tensor(CAPS)
    greedy = run_search(
        greedy_search(
            ModelStep(PackedTransformer(model), *batch_up(rows)), **IDS, max_tgt_tokens=caps
        )
    )
    beam = run_search(
        beam_search(
            ModelStep(PackedTransformer(model), *batch_up(rows)),
            **IDS,
            max_tgt_tokens=caps,
            beam_size=1,
        )
    )
    for (mine,), (theirs,) in zip(beam, greedy, strict=True):
        assert mine.ids == theirs.ids
        assert mine.log_prob == pytest.approx(theirs.log_prob, rel=1e-5)


def test_search_score_is_replay_score(
    model: Transformer, rows: list[list[int]], tiny_tokenizer: Tokenizer
) -> None:
    results = run_search(
        beam_search(
            ModelStep(PackedTransformer(model), *batch_up(rows), never=NEVER),
            **IDS,
            max_tgt_tokens=torch.tensor(CAPS),
            beam_size=4,
            n_best=4,
        )
    )
    pairs = [(row, each.ids) for row, found in zip(rows, results, strict=True) for each in found]
    replayed = score_targets(model, Tokenizers(tiny_tokenizer, tiny_tokenizer), pairs)
    searched = [each.log_prob for found in results for each in found]
    assert len(searched) == 12
    assert [sum(tokens) for tokens in replayed] == pytest.approx(searched, rel=1e-4)


# --- company and forbidden tokens ----------------------------------------------------------------


def test_batched_is_the_same_as_one_at_a_time_in_any_order(
    model: Transformer, rows: list[list[int]]
) -> None:
    def search(order: list[int]) -> list[Any]:
        step = ModelStep(PackedTransformer(model), *batch_up([rows[b] for b in order]), never=NEVER)
        caps = torch.tensor([CAPS[b] for b in order])
        return run_search(beam_search(step, **IDS, max_tgt_tokens=caps, beam_size=3, n_best=2))

    alone = [search([b])[0] for b in range(B)]
    for order in ([0, 1, 2], [2, 0, 1], [1, 0]):
        for b, found in zip(order, search(order), strict=True):
            assert [each.ids for each in found] == [each.ids for each in alone[b]]
            scores = [each.score for each in alone[b]]
            assert [each.score for each in found] == pytest.approx(scores, rel=1e-4)


def test_never_tokens_are_impossible_and_the_others_as_the_model_gave_them(
    model: Transformer, rows: list[list[int]]
) -> None:
    last = torch.full((B, 1), BOS)
    free = ModelStep(PackedTransformer(model), *batch_up(rows))(last)
    masked = ModelStep(PackedTransformer(model), *batch_up(rows), never=(PAD, BOS, 77))(last)
    assert (masked[..., [PAD, BOS, 77]] == -torch.inf).all()
    others = [token for token in range(V) if token not in (PAD, BOS, 77)]
    assert torch.equal(masked[..., others], free[..., others])
    torch.testing.assert_close(free.exp().sum(-1), torch.ones(B, 1))


def test_a_half_precision_model_gives_float32(model: Transformer, rows: list[list[int]]) -> None:
    step = ModelStep(PackedTransformer(model.bfloat16()), *batch_up(rows))
    log_probs = step(torch.full((B, 1), BOS))
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(B, 1))


def test_shapes(model: Transformer, rows: list[list[int]]) -> None:
    step = ModelStep(PackedTransformer(model), *batch_up(rows))
    assert step(torch.full((B, 1), BOS)).shape == (B, 1, V)
    step.reorder(torch.zeros(B, 4, dtype=torch.int64))
    assert step(torch.full((B, 4), 5)).shape == (B, 4, V)
    step.keep(torch.tensor([2, 0]))
    step.reorder(torch.zeros(2, 5, dtype=torch.int64))
    assert step(torch.full((2, 5), 5)).shape == (2, 5, V)
