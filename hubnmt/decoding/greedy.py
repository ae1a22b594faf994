"""Greedy search: choose the most probable token at every step.

Reference implementation that beam search with one hypothesis is tested against.
"""

import dataclasses
import itertools

from torch import Tensor

from hubnmt.decoding.scoring import (
    best_tokens,
    compaction_indices,
    constrain,
    count_steps,
    refuse_nan,
)
from hubnmt.decoding.types import Constraint, Hypothesis, Search, Step, make_hypothesis


@dataclasses.dataclass(frozen=True, slots=True)
class _Active:
    """An unfinished sentence."""

    number: int
    """Its index in the input batch."""
    cap: int
    """Maximum target length, eos not counted."""
    tokens: list[int]
    """Tokens generated so far, bos first."""
    log_probs: list[float] = dataclasses.field(default_factory=list)
    """Log-probability of each token but bos."""


def greedy_search(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
) -> Search:
    """Choose the most probable token until eos; the parameters are those of `beam_search`.

    Returns:
        a search that returns a list with one hypothesis for each sentence.
    """
    results: list[list[Hypothesis]] = [[] for _ in max_tgt_tokens]
    live = [_Active(number, cap, [bos_id]) for number, cap in enumerate(max_tgt_tokens.tolist())]
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B, 1)
    for n_generated in count_steps(max_tgt_tokens):
        yield live[0].tokens[1:]
        tokens = newest
        if constraint is not None:
            tokens = newest.new_tensor([[sentence.tokens] for sentence in live])  # (B', 1, t)
        log_probs = step(newest)  # (B', 1, V)
        allowed = constrain(
            log_probs,
            tokens,
            [sentence.number for sentence in live],
            constraint=constraint,
            must_end=[n_generated >= sentence.cap for sentence in live],
            eos_id=eos_id,
        )
        best, newest = best_tokens(allowed)  # (B, 1) each
        if allowed is not log_probs:  # constraints may have changed the log-probability
            best = log_probs[:, 0].gather(1, newest)
        chosen_log_probs = best.tolist()
        refuse_nan(itertools.chain.from_iterable(chosen_log_probs))
        for sentence, (token,), (log_prob,) in zip(
            live, newest.tolist(), chosen_log_probs, strict=True
        ):
            sentence.tokens.append(token)
            sentence.log_probs.append(log_prob)
        ended = [sentence.tokens[-1] == eos_id for sentence in live]
        if any(ended):
            for sentence in itertools.compress(live, ended):
                results[sentence.number] = [
                    make_hypothesis(sentence.tokens[1:-1], sentence.log_probs, length_penalty)
                ]
            alive = compaction_indices(ended)
            live = [live[place] for place in alive]
            if not live:
                break
            rows = newest.new_tensor(alive)  # (B',)
            newest = newest[rows]
            step.keep(rows)
    return results
