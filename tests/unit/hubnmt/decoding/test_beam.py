"""Beam search: wide enough it tries everything, narrow it is greedy, and stopping early is free."""

from typing import Any

import pytest
import torch

from hubnmt.decoding.beam import beam_search
from hubnmt.decoding.sampling import generate
from hubnmt.decoding.search import Hypothesis, best_continuations, run_to_end
from tests.tables import TableStep, random_table, search_exhaustively, search_slowly

BOS, EOS, V = 7, 2, 4
IDS = {"bos_id": BOS, "eos_id": EOS}
PENALTIES = pytest.mark.parametrize("length_penalty", [-1.5, 0.0, 0.7, 1.0, 2.0])


def search(step: Any, caps: list[int], **options: Any) -> list[list[Hypothesis]]:
    return run_to_end(beam_search(step, **IDS, max_tgt_tokens=torch.tensor(caps), **options))


def assert_same(found: list[Hypothesis], expected: Any) -> None:
    assert [each.ids for each in found] == [each.ids for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, rel=1e-5)
        assert mine.score == pytest.approx(theirs.score, rel=1e-5)


@PENALTIES
@pytest.mark.parametrize("seed", range(2))
def test_full_width_ranks_every_target_as_exhaustive_search_does(
    seed: int, length_penalty: float
) -> None:
    """Up to 3 tokens from 3 words: 40 targets; 36 continuations at most have to be kept at once."""
    table = random_table(seed)
    (found,) = search(
        TableStep([table]), [3], beam_size=41, n_best=41, length_penalty=length_penalty
    )
    expected = search_exhaustively(table, 3, length_penalty)
    assert len(expected) == 40
    assert_same(found, expected)


@PENALTIES
@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 1), (2, 1), (3, 2), (5, 1)])
def test_stopping_early_finds_what_never_stopping_finds(
    beam_size: int, n_best: int, length_penalty: float
) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(15)]
    caps = [4 + seed % 7 for seed in range(15)]
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    results = search(TableStep(tables), caps, n_best=n_best, **options)
    for table, cap, found in zip(tables, caps, results, strict=True):
        expected = search_slowly(table, max_tgt_tokens=cap, **options)
        assert_same(found[:n_best], expected[:n_best])


@PENALTIES
def test_beam_of_one_is_greedy(length_penalty: float) -> None:
    tables = [random_table(seed, eos_bonus=seed % 2) for seed in range(40)]
    caps = [seed % 9 for seed in range(40)]
    found = search(TableStep(tables), caps, beam_size=1, length_penalty=length_penalty)
    options = {"max_tgt_tokens": torch.tensor(caps), "length_penalty": length_penalty}
    expected = run_to_end(generate(TableStep(tables), **IDS, **options))
    for mine, theirs in zip(found, expected, strict=True):
        assert_same(mine, theirs)


@pytest.mark.parametrize(
    ("shape", "n_candidates"),
    [
        ((3, 1, 50_001), 7),
        ((7, 5, 8000), 10),
        ((2, 5, 130), 6),
        ((1, 2, 5), 10),
        ((3, 1, 20_001), 1),
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
