"""Greedy search: always the most probable next token.

Takes a `Step`, gives one `Hypothesis` per sentence. Must not know the Transformer or text. The
readable reference that beam search with one hypothesis is tested against.
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
class _Growing:
    """A sentence that has not ended."""

    number: int
    """Its place among all that came in."""
    cap: int
    """Its longest target, eos not counted."""
    tokens: list[int]
    """Bos first."""
    gains: list[float] = dataclasses.field(default_factory=list)
    """The log-probability of each token but bos."""


def greedy_search(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
) -> Search:
    """Follow the most probable token until eos.

    Args:
        step: scores of the next token; its B sentences are translated together.
        bos_id: first token of every target.
        eos_id: last token of every target.
        max_tgt_tokens: (B,) longest target of each sentence, eos not counted; eos is forced there.
        length_penalty: exponent for the score; does not change what is found.
        constraint: forbids tokens.

    Returns:
        a search; it returns for each sentence a list with its one hypothesis.
    """
    results: list[list[Hypothesis]] = [[] for _ in max_tgt_tokens]
    live = [_Growing(number, cap, [bos_id]) for number, cap in enumerate(max_tgt_tokens.tolist())]
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B, 1)
    for n_generated in count_steps(max_tgt_tokens):
        yield live[0].tokens[1:]
        tokens = None
        if constraint is not None:
            tokens = newest.new_tensor([[each.tokens] for each in live])
        log_probs = step(newest)  # (B, 1, V)
        must_end = [n_generated >= each.cap for each in live]
        allowed = constrain(
            log_probs, tokens, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        best, newest = best_tokens(allowed)  # (B, 1) each
        if allowed is not log_probs:  # a constraint may have changed the score
            best = log_probs[:, 0].gather(1, newest)
        gains = best.tolist()
        refuse_nan(itertools.chain.from_iterable(gains))
        for each, (token,), (gain,) in zip(live, newest.tolist(), gains, strict=True):
            each.tokens.append(token)
            each.gains.append(gain)
        ended = [each.tokens[-1] == eos_id for each in live]
        if any(ended):
            for each in itertools.compress(live, ended):
                results[each.number] = [
                    make_hypothesis(each.tokens[1:-1], each.gains, length_penalty)
                ]
            alive = compaction_indices(ended)
            live = [live[place] for place in alive]
            if not live:
                break
            rows = newest.new_tensor(alive)  # (B',)
            newest = newest[rows]
            step.keep(rows)
    return results
