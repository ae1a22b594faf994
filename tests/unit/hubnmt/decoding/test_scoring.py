"""Scoring: loops say the same; the bound is never passed and can be reached."""

import itertools
import random

import pytest
import torch

from hubnmt.decoding.scoring import best_reachable, normalize_length, only_eos_where

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
    masked = only_eos_where(log_probs, torch.tensor([False, True, False]), eos_id=3)
    assert torch.equal(masked[0], before[0])
    assert torch.equal(masked[2], before[2])
    assert torch.equal(masked[1, :, 3], before[1, :, 3])
    assert (masked[1, :, [0, 1, 2, 4]] == -torch.inf).all()
    assert torch.equal(log_probs, before)


def test_nothing_is_touched_where_nobody_must_end() -> None:
    log_probs = torch.randn(B, W, V)
    assert only_eos_where(log_probs, torch.zeros(B, dtype=torch.bool), eos_id=3) is log_probs
