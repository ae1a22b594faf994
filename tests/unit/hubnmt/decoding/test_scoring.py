"""Scoring: loops say the same; the bound is never passed and can be reached."""

import itertools
import random

import pytest
import torch

from hubnmt.decoding.scoring import (
    best_continuations,
    best_reachable,
    best_tokens,
    constrain,
    count_steps,
    normalize_length,
    survivors,
)
from hubnmt.errors import ModelFolderError

PENALTIES = pytest.mark.parametrize("length_penalty", [-2.0, -0.5, 0.0, 0.6, 1.0, 2.0])
B, W, V = 3, 2, 5


@PENALTIES
def test_normalisation_agrees_with_a_loop(length_penalty: float) -> None:
    log_prob = -torch.rand(B, W) * 9
    n_tokens = torch.randint(1, 12, (B, W))
    scores = normalize_length(log_prob, n_tokens, length_penalty)
    for b, w in itertools.product(range(B), range(W)):
        expected = log_prob[b, w].item() / n_tokens[b, w].item() ** length_penalty
        assert scores[b, w].item() == pytest.approx(expected, rel=1e-6)


@PENALTIES
def test_one_length_for_all_is_the_same_as_a_tensor_of_it(length_penalty: float) -> None:
    log_prob = -torch.rand(B, W) * 9
    lengths = torch.full((B, 1), 4)
    expected = normalize_length(log_prob, lengths, length_penalty)
    torch.testing.assert_close(normalize_length(log_prob, 4, length_penalty), expected)


def test_penalty_zero_is_the_sum_and_one_the_mean() -> None:
    log_prob = torch.tensor([-6.0, -3.0])
    assert normalize_length(log_prob, 3, 0.0).tolist() == [-6.0, -3.0]
    assert normalize_length(log_prob, 3, 1.0).tolist() == [-2.0, -1.0]


def test_a_higher_penalty_favours_the_longer_one() -> None:
    short, long = torch.tensor(-2.0), torch.tensor(-3.0)
    wins = [
        bool(normalize_length(long, 6, penalty) > normalize_length(short, 3, penalty))
        for penalty in (-1.0, 0.0, 0.5, 1.0, 2.0)
    ]
    assert wins == [False, False, False, True, True]


@PENALTIES
def test_impossible_stays_impossible(length_penalty: float) -> None:
    nothing = torch.tensor([-torch.inf])
    assert normalize_length(nothing, 3, length_penalty).tolist() == [-torch.inf]


@PENALTIES
def test_no_continuation_passes_the_bound(length_penalty: float) -> None:
    rng = random.Random(5)
    log_prob = -torch.rand(B, W) * 9
    max_tokens = torch.tensor([4, 7, 11])  # eos included
    bounds = best_reachable(
        log_prob, n_tokens=3, max_tokens=max_tokens, length_penalty=length_penalty
    )
    assert bounds.shape == (B, W)
    for b, w in itertools.product(range(B), range(W)):
        for length in range(4, int(max_tokens[b]) + 1):
            total = log_prob[b, w] - rng.choice((0.0, 0.01, 1.0))
            assert total / length**length_penalty <= bounds[b, w] + 1e-6


@PENALTIES
def test_a_continuation_that_costs_nothing_reaches_the_bound(length_penalty: float) -> None:
    log_prob = -torch.rand(1, W) * 9
    bound = best_reachable(
        log_prob, n_tokens=3, max_tokens=torch.tensor([8]), length_penalty=length_penalty
    )
    lengths = torch.arange(4, 9)[:, None]
    best = normalize_length(log_prob.expand(5, W), lengths, length_penalty).amax(0)
    torch.testing.assert_close(bound[0], best)


def test_dead_hypotheses_reach_nothing() -> None:
    dead = torch.full((1, W), -torch.inf)
    for penalty in (-1.0, 0.0, 1.0):
        bound = best_reachable(
            dead, n_tokens=2, max_tokens=torch.tensor([5]), length_penalty=penalty
        )
        assert (bound == -torch.inf).all()


def test_only_eos_is_left_and_only_where_asked() -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    before = log_probs.clone()
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    must_end = torch.tensor([False, True, False])
    masked = constrain(log_probs, tokens, constraint=None, must_end=must_end, eos_id=3)
    assert torch.equal(masked[0], before[0])
    assert torch.equal(masked[2], before[2])
    assert torch.equal(masked[1, :, 3], before[1, :, 3])
    assert (masked[1, :, [0, 1, 2, 4]] == -torch.inf).all()
    assert torch.equal(log_probs, before)


@pytest.mark.parametrize(("value", "must_end"), [(torch.nan, False), (-torch.inf, True)])
def test_a_hypothesis_that_could_never_end_is_refused(value: float, must_end: bool) -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    log_probs[1, 1] = value
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    with pytest.raises(ModelFolderError, match="not finite"):
        constrain(
            log_probs, tokens, constraint=None, must_end=torch.tensor([must_end] * B), eos_id=3
        )


def test_a_search_has_a_step_for_each_token_of_the_longest_target_and_for_eos() -> None:
    assert [len(count_steps(torch.tensor(caps))) for caps in ([2, 5, 0], [0], [])] == [6, 1, 0]


def test_nothing_is_touched_where_nobody_must_end() -> None:
    log_probs = torch.randn(B, W, V)
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    must_end = torch.zeros(B, dtype=torch.bool)
    assert constrain(log_probs, tokens, constraint=None, must_end=must_end, eos_id=3) is log_probs


def test_eos_keeps_the_models_score_where_a_constraint_leaves_nothing() -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    dead = torch.tensor([[True, False], [False, False], [False, True]])  # (B, W)
    allowed = constrain(
        log_probs,
        tokens,
        constraint=lambda lp, _: lp.masked_fill(dead[:, :, None], -torch.inf),
        must_end=torch.zeros(B, dtype=torch.bool),
        eos_id=2,
    )
    assert torch.equal(allowed[~dead], log_probs[~dead])
    assert torch.equal(allowed[dead][:, 2], log_probs[dead][:, 2])
    assert (allowed[dead][:, [0, 1, 3, 4]] == -torch.inf).all()


@pytest.mark.parametrize(
    ("shape", "n_candidates"),
    [
        ((3, 1, 50_001), 7),
        ((3, 1, 50_000), 7),
        ((7, 5, 8000), 10),
        ((2, 5, 130), 6),
        ((1, 2, 5), 10),
        ((5, 7, 9001), 14),
    ],
)
def test_best_continuations_are_those_of_a_plain_top_k(
    shape: tuple[int, int, int], n_candidates: int
) -> None:
    sums, log_probs = torch.randn(shape[:2]), torch.randn(shape)
    log_probs[:, -1, 3:40] = -torch.inf
    top, parents, tokens = best_continuations(sums, log_probs, n_candidates)
    expected, index = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
    assert torch.equal(top, expected)
    assert torch.equal(parents, index // shape[2])
    assert torch.equal(tokens, index % shape[2])


def test_the_only_continuation_is_the_best_of_many_impossible_ones() -> None:
    """As behind a forced prefix: all but one block are impossible, in every sentence."""
    log_probs = torch.full((3, 5, 8000), -torch.inf)
    for b, (parent, token) in enumerate([(0, 7999), (4, 7999), (2, 64)]):
        log_probs[b, parent, token] = -1.0
    top, parents, tokens = best_continuations(torch.zeros(3, 5), log_probs, 10)
    assert top[:, 0].tolist() == [-1.0] * 3
    assert (top[:, 1:] == -torch.inf).all()
    assert parents[:, 0].tolist() == [0, 4, 2]
    assert tokens[:, 0].tolist() == [7999, 7999, 64]
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < 8000
    assert 0 <= int(parents.min()) <= int(parents.max()) < 5


@pytest.mark.parametrize("shape", [(3, 1, 8000), (7, 2, 4801), (2, 3, 9001), (1, 1, 9)])
def test_best_tokens_are_those_of_argmax(shape: tuple[int, int, int]) -> None:
    log_probs = torch.randn(shape)
    log_probs[..., ::3] = -torch.inf
    log_probs[0, 0] = -torch.inf
    log_probs[0, 0, -1] = -50.0
    assert torch.equal(best_tokens(log_probs), log_probs.argmax(-1))


# --- survivors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["1", "0", "0100", "1001", "00011", "11100", "10101", "0000"])
def test_survivors_are_the_others_and_few_of_them_move(pattern: str) -> None:
    done = torch.tensor([letter == "1" for letter in pattern])
    rows = survivors(done).tolist()
    assert sorted(rows) == [number for number, letter in enumerate(pattern) if letter == "0"]
    stay = [number for number in range(len(rows)) if pattern[number] == "0"]
    assert [rows[number] for number in stay] == stay
