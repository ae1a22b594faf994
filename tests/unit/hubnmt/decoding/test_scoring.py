"""Scoring: loops say the same; the bound is never passed and can be reached."""

import pytest
import torch

from hubnmt.decoding.scoring import best_continuations, best_tokens, compaction_indices


@pytest.mark.parametrize(
    ("shape", "n_candidates"),
    [
        ((3, 1, 50_001), 7),
        ((3, 1, 50_000), 7),
        ((7, 5, 8000), 10),
        ((2, 5, 130), 6),
        ((1, 2, 5), 10),
        ((3, 1, 20_001), 1),
        ((1, 5, 8000), 10),
        ((5, 7, 9001), 14),
    ],
)
def test_best_continuations_are_those_of_a_plain_top_k(
    shape: tuple[int, int, int], n_candidates: int
) -> None:
    sums, log_probs = torch.randn(shape[:2]), torch.randn(shape)
    log_probs[:, -1, 3:40] = -torch.inf
    log_probs[0, :, 20:] = -torch.inf
    top, places = best_continuations(sums, log_probs, n_candidates)
    expected, index = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
    assert torch.equal(top, expected)
    is_possible = expected > -torch.inf
    assert torch.equal(places[is_possible], index[is_possible])
    assert places.max() < shape[1] * shape[2]


@pytest.mark.parametrize("shape", [(5, 1, 8000), (20, 1, 4801), (1, 1, 9)])
def test_best_tokens_are_those_of_argmax(shape: tuple[int, int, int]) -> None:
    log_probs = torch.randn(shape)
    log_probs[..., ::3] = -torch.inf
    log_probs[0, 0] = -torch.inf
    log_probs[0, 0, -1] = -50.0
    best, tokens = best_tokens(log_probs)
    assert torch.equal(tokens, log_probs.argmax(-1))
    assert torch.equal(best, log_probs.amax(-1))


@pytest.mark.parametrize("pattern", ["1", "0", "0100", "1001", "00011", "11100", "10101", "0000"])
def test_survivors_are_the_others_and_few_of_them_move(pattern: str) -> None:
    rows = compaction_indices([letter == "1" for letter in pattern])
    assert sorted(rows) == [number for number, letter in enumerate(pattern) if letter == "0"]
    stay = [number for number in range(len(rows)) if pattern[number] == "0"]
    assert [rows[number] for number in stay] == stay
