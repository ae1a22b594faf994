"""Sampling: drawn as often as the model says, the same for the same seed, whoever is near."""

import math
from collections import Counter
from typing import Any

import pytest
import torch

from hubnmt.decoding.sampling import generate, random_choice, warp_for_sampling
from hubnmt.decoding.search import Hypothesis, run_to_end
from tests.tables import TableStep, random_table, search_exhaustively

BOS, EOS = 7, 2
IDS = {"bos_id": BOS, "eos_id": EOS}
PROBABILITIES = {
    (): (0.5, 0.2, 0.05, 0.25),
    (0,): (0.1, 0.1, 0.7, 0.1),
    (1,): (0.0, 0.6, 0.4, 0.0),
    (3,): (0.3, 0.3, 0.2, 0.2),
}
"""What was said to the probabilities of the next token, 2 being eos; anything longer ends."""


def table(prefix: tuple[int, ...], temperature: float = 1.0) -> list[float]:
    log_probs = torch.tensor(PROBABILITIES.get(prefix, (0.0, 0.0, 1.0, 0.0))).log()
    return (log_probs / temperature).log_softmax(0).tolist()


def draw(
    step: Any,
    caps: list[int],
    *,
    n_samples: int = 1,
    seeds: list[int] | None = None,
    **options: Any,
) -> list[list[Hypothesis]]:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds or range(len(caps))]
    choose = random_choice(generators, n_samples=n_samples, **options)
    return run_to_end(generate(step, **IDS, max_tgt_tokens=torch.tensor(caps), choose=choose))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_targets_are_drawn_as_often_as_the_table_says(temperature: float) -> None:
    """Chi-square over whole targets, and nothing outside the table's support."""
    n = 5000
    (found,) = draw(TableStep([table]), [9], n_samples=n, temperature=temperature)
    counts = Counter(tuple(each.ids) for each in found)
    targets = search_exhaustively(lambda said: table(said, temperature), 2, 0.0)
    expected = {tuple(each.ids): math.exp(each.log_prob) for each in targets}
    assert sum(expected.values()) == pytest.approx(1)
    assert set(counts) <= set(expected)
    often = {ids: n * mass for ids, mass in expected.items() if n * mass >= 5}
    statistic = sum((counts[ids] - mean) ** 2 / mean for ids, mean in often.items())
    freedom = len(often) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


def test_global_randomness_is_neither_used_nor_changed() -> None:
    torch.manual_seed(1)
    first = draw(TableStep([random_table(1)]), [12], n_samples=5)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), expected)
    assert draw(TableStep([random_table(1)]), [12], n_samples=5) == first


@pytest.mark.parametrize(
    "options",
    [{"top_k": 1, "temperature": 50.0}, {"top_p": 1e-6}, {"temperature": 1e-40}],
    ids=str,
)
def test_the_narrowest_sampling_is_greedy(options: dict[str, Any]) -> None:
    tables = [random_table(seed, eos_bonus=seed % 2) for seed in range(25)]
    caps = [seed % 8 for seed in range(25)]
    drawn = draw(TableStep(tables), caps, n_samples=2, **options)
    greedy = run_to_end(generate(TableStep(tables), **IDS, max_tgt_tokens=torch.tensor(caps)))
    for found, (expected,) in zip(drawn, greedy, strict=True):
        assert [each.ids for each in found] == [expected.ids] * 2
        assert found[0].log_prob == pytest.approx(expected.log_prob, rel=1e-5)


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
@pytest.mark.parametrize("top_k", [0, 1, 6, 40])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 1.0])
def test_warping_agrees_with_a_slow_loop(temperature: float, top_k: int, top_p: float) -> None:
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    for _ in range(5):
        probabilities = (2 * torch.randn(7)).softmax(-1).tolist()
        expected = warp_slowly(probabilities, **options)
        assert warp(probabilities, **options) == pytest.approx(expected, abs=1e-6)
