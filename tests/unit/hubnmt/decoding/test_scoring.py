"""Scoring: loops say the same; the bound is never passed and can be reached."""

import math
import random

import pytest
import torch

from hubnmt.decoding.scoring import (
    best_continuations,
    best_reachable,
    best_tokens,
    compaction_indices,
    constrain,
    count_steps,
    normalize_length,
    refuse_nan,
)
from hubnmt.errors import ModelFolderError

PENALTIES = pytest.mark.parametrize("length_penalty", [-2.0, -0.5, 0.0, 0.6, 1.0, 2.0])
B, W, V = 3, 2, 5


def test_a_sum_is_divided_by_a_power_of_its_length() -> None:
    assert normalize_length(-6.0, 3, 0.0) == -6.0
    assert normalize_length(-6.0, 3, 1.0) == -2.0
    assert normalize_length(-6.0, 4, 0.5) == -3.0
    assert normalize_length(-6.0, 2, -2.0) == -24.0


def test_a_higher_penalty_favours_the_longer_one() -> None:
    wins = [
        normalize_length(-3.0, 6, penalty) > normalize_length(-2.0, 3, penalty)
        for penalty in (-1.0, 0.0, 0.5, 1.0, 2.0)
    ]
    assert wins == [False, False, False, True, True]


@PENALTIES
def test_impossible_stays_impossible(length_penalty: float) -> None:
    assert normalize_length(-math.inf, 3, length_penalty) == -math.inf


@PENALTIES
def test_no_continuation_passes_the_bound_and_the_luckiest_reaches_it(
    length_penalty: float,
) -> None:
    rng = random.Random(5)
    for max_tokens in (4, 7, 11):  # eos included
        log_prob = -9 * rng.random()
        bound = best_reachable(
            log_prob, n_tokens=3, max_tokens=max_tokens, length_penalty=length_penalty
        )
        lengths = range(4, max_tokens + 1)
        free = [normalize_length(log_prob, length, length_penalty) for length in lengths]
        dear = [normalize_length(log_prob - 1, length, length_penalty) for length in lengths]
        assert bound == pytest.approx(max(free))
        assert max(dear) < bound


def test_dead_hypotheses_reach_nothing() -> None:
    for penalty in (-1.0, 0.0, 1.0):
        bound = best_reachable(-math.inf, n_tokens=2, max_tokens=5, length_penalty=penalty)
        assert bound == -math.inf


def test_only_eos_is_left_and_only_where_asked() -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    before = log_probs.clone()
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    must_end = [False, True, False]
    masked = constrain(log_probs, tokens, constraint=None, must_end=must_end, eos_id=3)
    assert torch.equal(masked[0], before[0])
    assert torch.equal(masked[2], before[2])
    assert torch.equal(masked[1, :, 3], before[1, :, 3])
    assert (masked[1, :, [0, 1, 2, 4]] == -torch.inf).all()
    assert torch.equal(log_probs, before)


def test_a_hypothesis_that_could_never_end_is_refused() -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    log_probs[1, 1] = -torch.inf
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    with pytest.raises(ModelFolderError, match="not finite"):
        constrain(log_probs, tokens, constraint=None, must_end=[True] * B, eos_id=3)


def test_what_is_no_number_is_refused() -> None:
    refuse_nan([-1.0, -math.inf, 0.0])
    with pytest.raises(ModelFolderError, match="not finite"):
        refuse_nan([-1.0, math.nan, 0.0])


def test_a_search_has_a_step_for_each_token_of_the_longest_target_and_for_eos() -> None:
    assert [len(count_steps(torch.tensor(caps))) for caps in ([2, 5, 0], [0], [])] == [6, 1, 0]


def test_nothing_is_touched_where_nobody_must_end() -> None:
    log_probs = torch.randn(B, W, V)
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    must_end = [False] * B
    assert constrain(log_probs, tokens, constraint=None, must_end=must_end, eos_id=3) is log_probs


def test_eos_keeps_the_models_score_where_a_constraint_leaves_nothing() -> None:
    log_probs = torch.randn(B, W, V).log_softmax(-1)
    tokens = torch.ones(B, W, 4, dtype=torch.int64)
    dead = torch.tensor([[True, False], [False, False], [False, True]])  # (B, W)
    allowed = constrain(
        log_probs,
        tokens,
        constraint=lambda lp, _: lp.masked_fill(dead[:, :, None], -torch.inf),
        must_end=[False] * B,
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
        ((1, 5, 8000), 10),
        ((5, 7, 9001), 14),
    ],
)
def test_best_continuations_are_those_of_a_plain_top_k(
    shape: tuple[int, int, int], n_candidates: int
) -> None:
    sums, log_probs = torch.randn(shape[:2]), torch.randn(shape)
    log_probs[:, -1, 3:40] = -torch.inf
    top, places = best_continuations(sums, log_probs, n_candidates)
    expected, index = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
    assert torch.equal(top, expected)
    assert torch.equal(places, index)


def test_the_only_continuation_is_the_best_of_many_impossible_ones() -> None:
    """As behind a forced prefix: all but one block are impossible, in every sentence."""
    log_probs = torch.full((3, 5, 8000), -torch.inf)
    for b, (parent, token) in enumerate([(0, 7999), (4, 7999), (2, 64)]):
        log_probs[b, parent, token] = -1.0
    top, places = best_continuations(torch.zeros(3, 5), log_probs, 10)
    assert top[:, 0].tolist() == [-1.0] * 3
    assert (top[:, 1:] == -torch.inf).all()
    assert places[:, 0].tolist() == [7999, 4 * 8000 + 7999, 2 * 8000 + 64]
    assert 0 <= int(places.min()) <= int(places.max()) < 5 * 8000


@pytest.mark.parametrize("shape", [(3, 1, 8000), (7, 2, 4801), (2, 3, 9001), (1, 1, 9)])
def test_best_tokens_are_those_of_argmax(shape: tuple[int, int, int]) -> None:
    log_probs = torch.randn(shape)
    log_probs[..., ::3] = -torch.inf
    log_probs[0, 0] = -torch.inf
    log_probs[0, 0, -1] = -50.0
    best, tokens = best_tokens(log_probs)
    assert torch.equal(tokens, log_probs.argmax(-1))
    assert torch.equal(best, log_probs.amax(-1))


# --- compaction_indices ----------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["1", "0", "0100", "1001", "00011", "11100", "10101", "0000"])
def test_survivors_are_the_others_and_few_of_them_move(pattern: str) -> None:
    rows = compaction_indices([letter == "1" for letter in pattern])
    assert sorted(rows) == [number for number, letter in enumerate(pattern) if letter == "0"]
    stay = [number for number in range(len(rows)) if pattern[number] == "0"]
    assert [rows[number] for number in stay] == stay
