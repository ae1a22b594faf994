"""Sampling: drawn as often as the model says, the same for the same seed, whoever is near."""

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.decoding import Hypothesis, greedy_search, run_search, sample
from hubnmt.decoding.scoring import warp_for_sampling

BOS, EOS, V = 7, 2, 4
IDS = {"bos_id": BOS, "eos_id": EOS}
PROBABILITIES = {
    (): (0.5, 0.2, 0.05, 0.25),
    (0,): (0.1, 0.1, 0.7, 0.1),
    (1,): (0.0, 0.6, 0.4, 0.0),
    (3,): (0.3, 0.3, 0.2, 0.2),
}
"""What was said to the probabilities of the next token, 2 being eos; anything longer ends."""


def table(prefix: tuple[int, ...]) -> list[float]:
    return torch.tensor(PROBABILITIES.get(prefix, (0.0, 0.0, 1.0, 0.0))).log().tolist()


def draw(
    step: Any,
    caps: list[int],
    *,
    n_samples: int = 1,
    seeds: list[int] | None = None,
    **options: Any,
) -> list[list[Hypothesis]]:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds or range(len(caps))]
    return run_search(
        sample(
            step,
            **IDS,
            max_tgt_tokens=torch.tensor(caps),
            n_samples=n_samples,
            generators=generators,
            **options,
        )
    )


def all_targets(temperature: float = 1.0) -> dict[tuple[int, ...], float]:
    """Every target of the table with its probability, by hand."""
    found: dict[tuple[int, ...], float] = {}

    def grow(said: tuple[int, ...], mass: float) -> None:
        chances = PROBABILITIES.get(said, (0.0, 0.0, 1.0, 0.0))
        powers = [chance ** (1 / temperature) for chance in chances]
        for token, power in enumerate(powers):
            if power and token == EOS:
                found[said] = mass * power / sum(powers)
            elif power:
                grow((*said, token), mass * power / sum(powers))

    grow((), 1.0)
    return found


# --- the distribution ----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_targets_are_drawn_as_often_as_the_table_says(temperature: float, TableStep: Any) -> None:
    """Chi-square over whole targets: 20,000 draws, and nothing outside the table's support."""
    n = 20_000
    (found,) = draw(TableStep([table]), [9], n_samples=n, temperature=temperature)
    counts = Counter(tuple(each.ids) for each in found)
    expected = all_targets(temperature)
    assert sum(expected.values()) == pytest.approx(1)
    assert set(counts) <= set(expected)
    often = {ids: n * mass for ids, mass in expected.items() if n * mass >= 5}
    statistic = sum((counts[ids] - mean) ** 2 / mean for ids, mean in often.items())
    freedom = len(often) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


def test_samples_of_one_sentence_are_drawn_apart_from_each_other(TableStep: Any) -> None:
    """Both of two samples begin with 0 as often as chance wants: 0.5 times 0.5."""
    n = 4000
    results = draw(TableStep([table] * n), [1] * n, n_samples=2)
    both = sum(all(each.ids == [0] for each in found) for found in results)
    assert both == pytest.approx(n / 4, abs=4 * math.sqrt(n * 0.25 * 0.75))


def test_what_a_constraint_forbids_is_never_drawn(TableStep: Any) -> None:
    def forbid_zero(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor([0]), -torch.inf)

    (found,) = draw(TableStep([table]), [9], n_samples=3000, constraint=forbid_zero)
    assert len(found) == 3000
    assert all(0 not in each.ids for each in found)
    empty = sum(not each.ids for each in found) / 3000
    assert empty == pytest.approx(0.05 / 0.5, abs=0.03)  # what is left shares its probability


# --- what is reported ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 3.0}, {"top_k": 2}, {"top_p": 0.6}, {"length_penalty": 0.5}],
    ids=str,
)
def test_log_prob_is_the_models_own(
    options: dict[str, Any], TableStep: Any, random_table: Any
) -> None:
    tables = [random_table(seed, eos_bonus=1.0) for seed in range(5)]
    results = draw(TableStep(tables), [3, 4, 5, 6, 7], n_samples=6, **options)
    for look_up, found in zip(tables, results, strict=True):
        for each in found:
            path = (*each.ids, EOS)
            gains = [look_up(path[:t])[token] for t, token in enumerate(path)]
            assert each.token_log_probs == pytest.approx(gains, rel=1e-5)
            assert each.log_prob == pytest.approx(sum(gains), rel=1e-5)
            penalty = options.get("length_penalty", 1.0)
            assert each.score == pytest.approx(sum(gains) / len(path) ** penalty, rel=1e-5)


def test_as_many_samples_as_asked_for_best_first(TableStep: Any, random_table: Any) -> None:
    tables = [random_table(seed) for seed in range(3)]
    for found in draw(TableStep(tables), [5, 0, 8], n_samples=7):
        scores = [each.score for each in found]
        assert len(scores) == 7
        assert scores == sorted(scores, reverse=True)


def test_each_sentence_has_its_own_cap(TableStep: Any, random_table: Any) -> None:
    caps = [4, 0, 7, 1]
    tables = [random_table(b, eos_bonus=-99) for b in range(4)]
    results = draw(TableStep(tables), caps, n_samples=3)
    assert [{len(each.ids) for each in found} for found in results] == [{cap} for cap in caps]


# --- seeds and company ---------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_and_another_draws_others(
    TableStep: Any, random_table: Any
) -> None:
    def draw_with(seed: int) -> list[list[int]]:
        (found,) = draw(TableStep([random_table(1)]), [12], n_samples=5, seeds=[seed])
        return [each.ids for each in found]

    assert draw_with(3) == draw_with(3)
    assert draw_with(3) != draw_with(4)


def test_global_randomness_is_neither_used_nor_changed(TableStep: Any, random_table: Any) -> None:
    torch.manual_seed(1)
    first = draw(TableStep([random_table(1)]), [12], n_samples=5)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), expected)
    assert draw(TableStep([random_table(1)]), [12], n_samples=5) == first


def test_samples_do_not_depend_on_company_or_order(TableStep: Any, random_table: Any) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(9)]
    caps = [2 + seed % 6 for seed in range(9)]

    def draw_in_order(order: list[int]) -> list[list[Hypothesis]]:
        step = TableStep([tables[b] for b in order])
        return draw(step, [caps[b] for b in order], n_samples=3, seeds=[50 + b for b in order])

    alone = [draw_in_order([b])[0] for b in range(9)]
    assert draw_in_order(list(range(9))) == alone
    mixed = [4, 0, 7, 3, 8, 1, 6, 2, 5]
    assert draw_in_order(mixed) == [alone[b] for b in mixed]


def test_finished_sentences_leave_the_batch(TableStep: Any, random_table: Any) -> None:
    caps = [1, 9, 4]
    step = TableStep([random_table(b, eos_bonus=-99) for b in range(3)])
    draw(step, caps, n_samples=2)
    n_rows = [n for n, _ in step.shapes]
    assert n_rows == [sum(cap >= t for cap in caps) for t in range(max(caps) + 1)]


def test_the_best_so_far_grows_by_a_token_a_step(TableStep: Any, random_table: Any) -> None:
    step = TableStep([random_table(6, eos_bonus=-99)])
    search = sample(
        step,
        **IDS,
        max_tgt_tokens=torch.tensor([5]),
        n_samples=3,
        generators=[torch.Generator().manual_seed(0)],
    )
    seen = list(search)
    assert [len(ids) for ids in seen] == list(range(6))
    for sooner, later in itertools.pairwise(seen):
        assert later[:-1] == sooner


# --- greedy as the limit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"top_k": 1, "temperature": 50.0},
        {"top_p": 1e-6},
        {"temperature": 1e-3},
        {"temperature": 1e-20},
        {"temperature": 1e-40},
    ],
    ids=str,
)
def test_the_narrowest_sampling_is_greedy(
    options: dict[str, Any], TableStep: Any, random_table: Any
) -> None:
    tables = [random_table(seed, eos_bonus=seed % 2) for seed in range(25)]
    caps = [seed % 8 for seed in range(25)]
    drawn = draw(TableStep(tables), caps, n_samples=2, **options)
    greedy = run_search(greedy_search(TableStep(tables), **IDS, max_tgt_tokens=torch.tensor(caps)))
    for found, (expected,) in zip(drawn, greedy, strict=True):
        assert [each.ids for each in found] == [expected.ids] * 2
        assert found[0].log_prob == pytest.approx(expected.log_prob, rel=1e-5)


# --- warping -------------------------------------------------------------------------------------


def warp(probabilities: list[float], **options: Any) -> list[float]:
    settings = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, **options}
    return warp_for_sampling(torch.tensor(probabilities).log(), **settings).exp().tolist()


def warp_slowly(
    probabilities: list[float], *, temperature: float, top_k: int, top_p: float
) -> list[float]:
    """First the temperature, then the k best, then the fewest that reach p; a loop at a time."""
    powers = [p ** (1 / temperature) for p in probabilities]
    ranked = sorted(range(len(powers)), key=lambda i: -powers[i])
    kept = ranked[:top_k] if top_k else ranked
    total, mass, few = sum(powers[i] for i in kept), 0.0, []
    for i in kept:
        few.append(i)
        mass += powers[i] / total
        if mass >= top_p:
            break
    total = sum(powers[i] for i in few)
    return [powers[i] / total if i in few else 0.0 for i in range(len(powers))]


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.9])
@pytest.mark.parametrize("top_k", [0, 1, 3, 6, 7, 40])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.93, 1.0])
def test_warping_agrees_with_a_slow_loop(temperature: float, top_k: int, top_p: float) -> None:
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    for _ in range(5):
        probabilities = (2 * torch.randn(7)).softmax(-1).tolist()
        expected = warp_slowly(probabilities, **options)
        assert warp(probabilities, **options) == pytest.approx(expected, abs=1e-6)


def test_every_row_is_warped_by_itself() -> None:
    log_probs = torch.randn(2, 3, 7).log_softmax(-1)
    options: dict[str, Any] = {"temperature": 1.3, "top_k": 5, "top_p": 0.8}
    warped = warp_for_sampling(log_probs, **options)
    for b, w in itertools.product(range(2), range(3)):
        torch.testing.assert_close(warped[b, w], warp_for_sampling(log_probs[b, w], **options))


def test_warping_with_nothing_asked_changes_nothing() -> None:
    log_probs = torch.randn(2, 3, 7).log_softmax(-1)
    warped = warp_for_sampling(log_probs, temperature=1.0, top_k=0, top_p=1.0)
    torch.testing.assert_close(warped, log_probs)


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_no_more_than_k_are_kept_where_several_are_equal(top_k: int) -> None:
    """Four equal ones: k of them, whichever."""
    kept = [p for p in warp([0.1, 0.2, 0.2, 0.2, 0.2, 0.1], top_k=top_k) if p > 0]
    assert kept == pytest.approx([1 / top_k] * top_k)


@pytest.mark.parametrize(("top_p", "n_kept"), [(0.3, 2), (0.45, 2), (0.55, 3), (0.99, 4)])
def test_no_more_than_reach_p_are_kept_where_several_are_equal(top_p: float, n_kept: int) -> None:
    kept = [p for p in warp([0.25] * 4, top_p=top_p) if p > 0]
    assert kept == pytest.approx([1 / n_kept] * n_kept)


def test_the_best_is_kept_however_small_p_is() -> None:
    assert warp([0.2, 0.5, 0.3], top_p=1e-30) == pytest.approx([0, 1, 0])


def test_the_forbidden_is_not_revived_where_fewer_than_k_are_left() -> None:
    assert warp([0.0, 0.75, 0.0, 0.25, 0.0], top_k=4) == pytest.approx([0, 0.75, 0, 0.25, 0])
    assert warp([0.0, 0.75, 0.0, 0.25, 0.0], top_p=0.999) == pytest.approx([0, 0.75, 0, 0.25, 0])


@pytest.mark.parametrize("temperature", [1e-45, 1e-38, 1e-6, 100.0])
def test_every_temperature_that_is_allowed_gives_probabilities(temperature: float) -> None:
    warped = warp([0.2, 0.5, 0.3], temperature=temperature)
    assert sum(warped) == pytest.approx(1)
    assert max(warped) == warped[1]
