"""Beam search.

Source: Sutskever et al. 2014, section 3.2, https://arxiv.org/abs/1409.3215

Operations over the vocabulary run in torch, for all sentences at once. The few candidates that
remain are handled as Python numbers, because a torch call costs more than the arithmetic.
"""

import bisect
import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hubnmt.decoding.search import (
    Constraint,
    Hypothesis,
    Search,
    Step,
    best_continuations,
    check_finite,
    compaction_indices,
    constrain,
    count_steps,
    normalize_length,
)

Status = Literal["kept", "finished", "dropped"]
"""What beam search does with a continuation: `finished` ends in eos and is one of the W best,
`kept` is part of the next beam."""


class Continuation(NamedTuple):
    """A continuation that a step of beam search considered."""

    parent: int
    """Index of its parent among the hypotheses that the previous step kept, best first."""
    token: int
    log_prob: float
    """The model's log-probability of `token`, before constraints."""
    total: float
    """Sum of the log-probabilities of the hypothesis, after constraints."""
    status: Status


BeamObserver = Callable[[list[Continuation]], None]
"""Called after each step of a beam search, for each unfinished sentence, with the possible ones
among the 2W best continuations, best first."""


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
    finished score. Finished sentences are removed from the batch.

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
    beams = [_Beam(index, cap, bos_id) for index, cap in enumerate(max_tgt_tokens.tolist())]
    live = list(beams)
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B', w); w is 1, then W
    tokens = newest.new_empty(len(live), 1, 0)  # (B', w, t), kept up to date only with a constraint
    for n_generated in count_steps(max_tgt_tokens):
        yield [made.token for made in live[0].trace(0)]
        # 1. Score all continuations, and forbid some.
        log_probs = step(newest)  # (B', w, V)
        sentences = [beam.sentence for beam in live]
        must_end = [n_generated >= beam.cap for beam in live]
        allowed = constrain(
            log_probs, tokens, sentences, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        # 2. Rank the 2W best. Those of the first W that end are finished; the others go on.
        ranked = _rank(
            live, log_probs, allowed, beam_size, eos_id, with_dropped=observe is not None
        )
        for beam, continuations in zip(live, ranked, strict=True):
            beam.advance(continuations, length_penalty)
            if observe is not None:
                observe(continuations)
        # 3. Remove finished sentences from the batch.
        rows_left = compaction_indices([b.is_done(beam_size, n_best, length_penalty) for b in live])
        if not rows_left:
            break
        if len(rows_left) < len(live):
            rows = newest.new_tensor(rows_left)  # (B',)
            live, tokens = [live[row] for row in rows_left], tokens[rows]
            step.keep(rows)
        # 4. Let the state of the step follow the beam.
        # Narrower than W while fewer continuations are possible: a forced prefix is decoded once.
        width = max(len(beam.live) for beam in live)
        kept = [beam.pad(width) for beam in live]
        parents = newest.new_tensor([[made.parent for made in row] for row in kept])  # (B', w)
        newest = newest.new_tensor([[made.token for made in row] for row in kept])  # (B', w)
        step.reorder(parents)
        if constraint is not None:
            tokens = tokens.gather(1, parents[:, :, None].expand(-1, -1, tokens.shape[2]))
            tokens = torch.cat((tokens, newest[:, :, None]), dim=2)  # (B', w, t + 1)
    return [beam.finished[:beam_size] for beam in beams]


class _Beam:
    """The hypotheses of one sentence."""

    def __init__(self, sentence: int, cap: int, bos_id: int) -> None:
        """Start with one hypothesis: W identical ones would all continue alike."""
        self.sentence = sentence
        """Index in the input batch."""
        self.cap = cap
        """Maximum target length, eos not counted."""
        self.live = [Continuation(0, bos_id, 0.0, 0.0, "kept")]
        """The unfinished hypotheses, by their newest tokens, best first."""
        self.finished: list[Hypothesis] = []
        """Finished hypotheses, best first."""
        self._history: list[list[Continuation]] = []
        """What `live` was after each step."""

    def advance(self, continuations: list[Continuation], length_penalty: float) -> None:
        """Finish the hypotheses that end; those that are kept are the next beam."""
        for last in continuations:
            if last.status == "finished":
                path = [*self.trace(last.parent), last]
                log_probs = tuple(made.log_prob for made in path)
                score = normalize_length(last.total, len(path), length_penalty)
                ids = [made.token for made in path[:-1]]
                hypothesis = Hypothesis(ids, sum(log_probs), score, log_probs)
                bisect.insort(self.finished, hypothesis, key=lambda each: -each.score)
        self.live = [made for made in continuations if made.status == "kept"]
        self._history.append(self.live)

    def pad(self, width: int) -> list[Continuation]:
        """Pad the beam with copies of total -inf; return the newest token of each hypothesis."""
        n_missing = width - len(self.live)
        # In place: the copies stand in the history too, where the next step may refer to them.
        self.live += [self.live[0]._replace(total=-math.inf)] * n_missing
        return self.live

    def trace(self, index: int) -> list[Continuation]:
        """Return the tokens of a hypothesis, without bos."""
        path = []
        for live in reversed(self._history):
            path.append(live[index])
            index = live[index].parent
        return path[::-1]

    def is_done(self, beam_size: int, n_best: int, length_penalty: float) -> bool:
        """Return whether no unfinished hypothesis can still enter the n best.

        Log-probabilities are at most 0, so the sum of a hypothesis bounds that of what it becomes.
        The normalized score is highest at the maximum length for a positive penalty, otherwise at
        the minimum length; both include eos.
        """
        if len(self.finished) >= beam_size or not self.live:
            return True
        n_tokens = 1 + (self.cap if length_penalty > 0 else len(self._history))
        reachable = normalize_length(self.live[0].total, n_tokens, length_penalty)
        return len(self.finished) >= n_best and reachable <= self.finished[n_best - 1].score


def _rank(
    live: list[_Beam],
    log_probs: Tensor,
    allowed: Tensor,
    beam_size: int,
    eos_id: int,
    *,
    with_dropped: bool,
) -> Iterator[list[Continuation]]:
    """Yield the possible ones of the 2W best continuations of each of B' sentences, best first.

    Takes the log-probabilities (B', w, V) before and after constraints. Those that are dropped are
    of interest for display only. All are ranked before the first is yielded.
    """
    vocab_size = log_probs.shape[2]
    sums = log_probs.new_tensor([[made.total for made in beam.live] for beam in live])  # (B', w)
    n_candidates = min(2 * beam_size, log_probs[0].numel())
    totals, indices = best_continuations(sums, allowed, n_candidates)  # (B', C) each
    chosen = log_probs.flatten(1).gather(1, indices)  # (B', C)
    columns = [x.tolist() for x in (indices // vocab_size, indices % vocab_size, chosen, totals)]
    for row in zip(*columns, strict=True):
        continuations: list[Continuation] = []
        n_kept = 0
        for rank, (parent, token, log_prob, total) in enumerate(zip(*row, strict=True)):
            is_full = n_kept == beam_size and rank >= beam_size
            if total == -math.inf or (is_full and not with_dropped):
                break
            status: Status = "dropped"
            if token != eos_id and n_kept < beam_size:
                status, n_kept = "kept", n_kept + 1
            elif token == eos_id and rank < beam_size:
                status = "finished"
            continuations.append(Continuation(parent, token, log_prob, total, status))
        check_finite(row[3][:1])
        yield continuations
