"""Greedy search and sampling: choose one token after the other."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hubnmt.decoding.search import (
    Constraint,
    Search,
    Step,
    best_continuations,
    check_finite,
    compaction_indices,
    constrain,
    count_steps,
    make_hypothesis,
)

Choose = Callable[[Tensor, Sequence[int]], Tensor]
"""`(log_probs (B', w, V), sentences) -> tokens (B', W)`; w is 1 at the first step, then W."""

MIN_SENTENCES = 16
"""Sentences from which the most probable token is found faster by `best_continuations`."""


def most_probable(log_probs: Tensor, _: Sequence[int]) -> Tensor:
    """Choose the most probable token, which makes `generate` greedy search; see `Choose`."""
    if len(log_probs) < MIN_SENTENCES:
        return log_probs.max(-1).indices  # faster than argmax
    return best_continuations(log_probs.new_zeros(len(log_probs), 1), log_probs, 1)[1]  # (B', 1)


def random_choice(
    generators: Sequence[torch.Generator],
    *,
    n_samples: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Choose:
    """Return a function that draws a token for each of W = `n_samples` samples of each sentence.

    Args:
        generators: on the CPU, one per sentence, so that its samples do not depend on the others'.
        n_samples: W.
        temperature: see `warp_for_sampling`, as for the other two.
        top_k: number of most probable tokens to sample from; 0 means all.
        top_p: probability mass to sample from.
    """

    def draw(log_probs: Tensor, sentences: Sequence[int]) -> Tensor:
        warped = warp_for_sampling(log_probs, temperature=temperature, top_k=top_k, top_p=top_p)
        # The exponential race: with E_i exponential, argmin of E_i / p_i is i with probability p_i.
        noise = [
            torch.empty(n_samples, log_probs.shape[2]).exponential_(generator=generators[sentence])
            for sentence in sentences
        ]
        return (warped - torch.stack(noise).to(warped).log()).argmax(-1)  # (B', W)

    return draw


class _Target(NamedTuple):
    """A target with the log-probability of each of its tokens."""

    tokens: list[int]
    """Without bos; eos last if finished."""
    log_probs: list[float]


def generate(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    choose: Choose = most_probable,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
) -> Search:
    """Choose the tokens of W targets of each sentence one after the other, until eos.

    `choose` selects them: `most_probable` for greedy search, with W = 1, or a `random_choice`. The
    other parameters are those of `beam_search`.

    Returns:
        a search that returns W hypotheses of each sentence, best first.
    """
    caps = max_tgt_tokens.tolist()
    targets = [[_Target([], [])] for _ in caps]
    live = list(range(len(caps)))  # the B' unfinished sentences
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B', w); w is 1, then W
    tokens = newest.new_empty(len(live), 1, 0)  # (B', w, t), kept up to date only with a constraint
    for n_generated in count_steps(max_tgt_tokens):
        yield [token for token in targets[live[0]][0].tokens if token != eos_id]
        # 1. Score all continuations, and forbid some.
        log_probs = step(newest)  # (B', w, V)
        must_end = [n_generated >= caps[index] for index in live]
        allowed = constrain(
            log_probs, tokens, live, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        # 2. Choose one for each target. All targets of a sentence share its first step.
        newest = choose(allowed, live)  # (B', W)
        width = newest.shape[1]
        chosen = log_probs.expand(-1, width, -1).gather(2, newest[:, :, None])[:, :, 0]  # (B', W)
        if n_generated == 0:
            step.reorder(torch.zeros_like(newest))
            targets = [[_Target([], []) for _ in range(width)] for _ in caps]
        for index, ids, values in zip(live, newest.tolist(), chosen.tolist(), strict=True):
            check_finite(values)
            for target, token, log_prob in zip(targets[index], ids, values, strict=True):
                if target.tokens[-1:] != [eos_id]:
                    target.tokens.append(token)
                    target.log_probs.append(log_prob)
        # 3. Remove finished sentences from the batch.
        ended = [all(target.tokens[-1] == eos_id for target in targets[index]) for index in live]
        if constraint is not None:
            tokens = torch.cat((tokens.expand(-1, width, -1), newest[:, :, None]), dim=2)
        if any(ended):
            rows_left = compaction_indices(ended)
            live = [live[row] for row in rows_left]
            if not live:
                break
            rows = newest.new_tensor(rows_left)  # (B'',)
            newest, tokens = newest[rows], tokens[rows]
            step.keep(rows)
    found = [[make_hypothesis(t[:-1], p, length_penalty) for t, p in row] for row in targets]
    return [sorted(row, key=lambda hypothesis: -hypothesis.score) for row in found]


def warp_for_sampling(log_probs: Tensor, *, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Apply temperature, top-k and top-p filtering to log_probs (..., V).

    Of the `top_k` best (0 for all) the smallest set with the probability `top_p` is kept.

    Returns:
        (..., V) renormalized log-probabilities, -inf where filtered.

    Source: Fan et al. 2018 (top-k), https://arxiv.org/abs/1805.04833; Holtzman et al. 2020 (top-p),
    https://arxiv.org/abs/1904.09751
    """
    # Subtract the maximum first, so that no temperature can overflow all values.
    shifted = log_probs - log_probs.amax(-1, keepdim=True)
    warped = torch.where(shifted == 0, 0.0, shifted / temperature).log_softmax(-1)
    if 0 < top_k < warped.shape[-1]:
        kept = warped.topk(top_k).indices  # (..., k)
        cut = torch.ones_like(warped, dtype=torch.bool).scatter(-1, kept, value=False)
        warped = warped.masked_fill(cut, -torch.inf)
    if top_p < 1:
        ranked, order = warped.log_softmax(-1).sort(-1, descending=True)  # (..., V)
        mass_before = ranked.exp().cumsum(-1) - ranked.exp()
        cut = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, mass_before >= top_p)
        warped = warped.masked_fill(cut, -torch.inf)
    return warped.log_softmax(-1)
