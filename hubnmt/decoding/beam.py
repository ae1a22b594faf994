"""Beam search.

Source: Sutskever et al. 2014, section 3.2, https://arxiv.org/abs/1409.3215

Operations over the vocabulary run in torch, for all sentences at once. The few candidates that
remain are handled as Python numbers, because a torch call costs more than the arithmetic.
"""

import bisect
import itertools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hubnmt.decoding.scoring import (
    best_continuations,
    best_reachable,
    compaction_indices,
    constrain,
    count_steps,
    normalize_length,
    refuse_nan,
)
from hubnmt.decoding.types import (
    BeamObserver,
    Constraint,
    Continuation,
    Hypothesis,
    Search,
    Status,
    Step,
)


class _Found(NamedTuple):
    """Continuations of the hypotheses of one sentence, best first."""

    ranks: list[float]
    """Sums of log-probabilities after constraints; -inf = impossible, or padding."""
    parents: list[int]
    """Index of the parent among the hypotheses of the previous step."""
    tokens: list[int]
    log_probs: list[float]
    """The model's log-probability of each token, before constraints."""

    def select(self, numbers: list[int]) -> "_Found":
        """Return the continuations at the given places."""
        columns: Any = ([column[number] for number in numbers] for column in self)
        return _Found(*columns)


class _Beam:
    """The hypotheses of one sentence."""

    def __init__(self, row: int, cap: int) -> None:
        """Start with one hypothesis: W identical ones would all continue alike."""
        self.row = row
        """Index in the input batch."""
        self.ranks = [0.0]
        """Sums of log-probabilities of the unfinished hypotheses, best first."""
        self.finished: list[Hypothesis] = []
        """Finished hypotheses, best first."""
        self.cap = cap
        """Maximum target length, eos not counted."""
        self._steps: list[_Found] = []
        """The continuations that each step kept."""

    def advance(self, found: _Found, beam_size: int, eos_id: int, length_penalty: float) -> None:
        """Finish those of the W best that end; the W best of the others are the next beam."""
        if eos_id in found.tokens[:beam_size]:
            for rank, parent, token, log_prob in zip(*(x[:beam_size] for x in found), strict=True):
                if token == eos_id and rank > -math.inf:
                    ids, before = self.trace(parent)
                    log_probs = (*before, log_prob)
                    score = normalize_length(rank, len(log_probs), length_penalty)
                    hypothesis = Hypothesis(ids, sum(log_probs), score, log_probs)
                    bisect.insort(self.finished, hypothesis, key=lambda each: -each.score)
        ranked = enumerate(zip(found.ranks, found.tokens, strict=True))
        is_open = [n for n, (rank, token) in ranked if token != eos_id and rank > -math.inf]
        kept = found.select(is_open[:beam_size] or [0])
        self.ranks = kept.ranks if is_open else [-math.inf]
        self._steps.append(kept)

    def pad(self, width: int) -> _Found:
        """Pad the beam to `width` hypotheses with copies of rank -inf; return its newest step."""
        n_missing = width - len(self.ranks)
        self.ranks += [-math.inf] * n_missing
        for column in self._steps[-1][1:]:
            column += column[:1] * n_missing
        return self._steps[-1]

    def trace(self, number: int) -> tuple[list[int], list[float]]:
        """Return the tokens of a hypothesis, without bos, and the log-probability of each."""
        tokens, log_probs = list[int](), list[float]()
        for step in reversed(self._steps):
            tokens.append(step.tokens[number])
            log_probs.append(step.log_probs[number])
            number = step.parents[number]
        return tokens[::-1], log_probs[::-1]

    def is_done(self, beam_size: int, n_best: int, length_penalty: float) -> bool:
        """Return whether no unfinished hypothesis can still enter the n best."""
        if len(self.finished) >= beam_size:
            return True
        reachable = best_reachable(
            self.ranks[0],
            n_tokens=len(self._steps),
            max_tokens=self.cap + 1,
            length_penalty=length_penalty,
        )
        enough = self.finished[n_best - 1 :]
        return reachable <= (enough[0].score if enough else -math.inf)


def beam_search(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    beam_size: int,
    n_best: int = 1,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
    observe: BeamObserver | None = None,
) -> Search:
    """Search for the most probable targets with a beam of `beam_size` hypotheses.

    Each step ranks all continuations of a sentence's unfinished hypotheses. Among the W best, those
    that end in eos are finished; the W best without eos form the next beam. A sentence is done when
    W hypotheses have finished, or as soon as no unfinished one can still reach the n-th best
    finished score (see `best_reachable`). Finished sentences are removed from the batch.

    Args:
        step: next-token log-probabilities for a batch of B sentences.
        bos_id: first token of every target.
        eos_id: last token of every target.
        max_tgt_tokens: (B,) maximum target length per sentence, eos not counted; eos is forced at
            this length.
        beam_size: W.
        n_best: hypotheses needed per sentence, at most W; others that finish before these cannot
            change any more are returned as well.
        length_penalty: exponent of the length normalization.
        constraint: applied to the log-probabilities of every step.
        observe: receives the continuations that each step considers, for display.

    Returns:
        a search that returns the hypotheses of each sentence, best first.
    """
    beams = [_Beam(row, cap) for row, cap in enumerate(max_tgt_tokens.tolist())]
    live = list(beams)
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B', w); w is 1, then W
    tokens = newest[:, :, None]  # (B', w, t), kept up to date only with a constraint
    for n_generated in count_steps(max_tgt_tokens):
        yield live[0].trace(0)[0]
        # 1. Score all continuations, and forbid some.
        log_probs = step(newest)  # (B', w, V)
        allowed = constrain(
            log_probs,
            tokens,
            [beam.row for beam in live],
            constraint=constraint,
            must_end=[n_generated >= beam.cap for beam in live],
            eos_id=eos_id,
        )
        # 2. Rank the 2W best. Those of the first W that end are finished; the others go on.
        for beam, found in zip(live, _rank(live, log_probs, allowed, 2 * beam_size), strict=True):
            beam.advance(found, beam_size, eos_id, length_penalty)
            if observe is not None:
                observe(_describe(found, eos_id, beam_size))
        # 3. Remove finished sentences from the batch.
        alive = compaction_indices([b.is_done(beam_size, n_best, length_penalty) for b in live])
        if not alive:
            break
        if len(alive) < len(live):
            rows = newest.new_tensor(alive)  # (B',)
            live, tokens = [live[place] for place in alive], tokens[rows]
            step.keep(rows)
        # 4. Let the state of the step follow the beam.
        # Narrower than W while fewer continuations are possible: a forced prefix is decoded once.
        width = max(len(beam.ranks) for beam in live)
        kept = [beam.pad(width) for beam in live]
        parents = newest.new_tensor([step.parents for step in kept])  # (B', w)
        newest = newest.new_tensor([step.tokens for step in kept])  # (B', w)
        step.reorder(parents)
        if constraint is not None:
            tokens = tokens.gather(1, parents[:, :, None].expand(-1, -1, tokens.shape[2]))
            tokens = torch.cat((tokens, newest[:, :, None]), dim=2)  # (B', w, t + 1)
    return [beam.finished[:beam_size] for beam in beams]


def _rank(live: list[_Beam], log_probs: Tensor, allowed: Tensor, n_candidates: int) -> list[_Found]:
    """Rank the continuations of B' sentences, given (B', w, V) before and after constraints."""
    sums = log_probs.new_tensor([beam.ranks for beam in live])  # (B', w)
    n_candidates = min(n_candidates, log_probs[0].numel())
    ranks, places = best_continuations(sums, allowed, n_candidates)  # (B', C) each
    n_pieces = log_probs.shape[2]
    chosen = log_probs.flatten(1).gather(1, places)  # (B', C)
    columns = [x.tolist() for x in (ranks, places // n_pieces, places % n_pieces, chosen)]
    refuse_nan(itertools.chain.from_iterable(columns[3]))
    return list(itertools.starmap(_Found, zip(*columns, strict=True)))


def _describe(found: _Found, eos_id: int, beam_size: int) -> list[Continuation]:
    """Return the possible continuations of one sentence, with what becomes of each."""
    described: list[Continuation] = []
    n_kept = 0
    for number, (rank, parent, token, log_prob) in enumerate(zip(*found, strict=True)):
        status: Status = "dropped"
        if token != eos_id and n_kept < beam_size:
            status, n_kept = "kept", n_kept + 1
        elif token == eos_id and number < beam_size:
            status = "finished"
        described.append(Continuation(parent, token, log_prob, rank, status))
    return [each for each in described if each.rank > -math.inf]
