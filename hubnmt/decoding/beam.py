"""Beam search.

Source: Sutskever et al. 2014, section 3.2, https://arxiv.org/abs/1409.3215

Operations over the vocabulary run in torch, for all sentences at once. The few candidates that
remain are handled as Python numbers, because a torch call costs more than the arithmetic.
"""

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

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


class _Path(NamedTuple):
    """An unfinished hypothesis, as a linked list of tokens."""

    rank: float
    """Sum of log-probabilities after constraints; -inf marks padding."""
    parent: int
    """Index of the parent hypothesis in the previous step."""
    token: int
    """The last token; bos at first."""
    log_prob: float
    """The model's log-probability of `token`, before constraints."""
    previous: "_Path | None"
    """The parent path, shared by all its continuations, so that extending copies nothing."""

    def walk(self) -> tuple[list[int], list[float]]:
        """Return all tokens, bos first, and the log-probability of each token but bos."""
        tokens, log_probs, path = [self.token], [self.log_prob], self.previous
        while path is not None:
            tokens.append(path.token)
            log_probs.append(path.log_prob)
            path = path.previous
        return tokens[::-1], log_probs[-2::-1]


class _Sentence:
    """The beam of one sentence."""

    def __init__(
        self,
        number: int,
        cap: int,
        bos_id: int,
        eos_id: int,
        beam_size: int,
        n_best: int,
        penalty: float,
    ) -> None:
        """Start with one hypothesis: W identical ones would all continue alike."""
        self.number = number
        """Index in the input batch."""
        self.cap = cap
        """Maximum target length, eos not counted."""
        self.paths = [_Path(0.0, 0, bos_id, 0.0, None)]
        """Unfinished hypotheses, best first."""
        self.finished: list[Hypothesis] = []
        """The W best finished hypotheses, best first."""
        self._n_tokens = 0
        self._padding: list[_Path] = []
        """Finished or impossible continuations, used by `pad`."""
        self._n_finished = 0
        """Number of finished hypotheses, including those no longer among the W best."""
        self._eos_id = eos_id
        self._beam_size = beam_size
        self._n_best = n_best
        self._penalty = penalty

    def advance(self, found: Iterable[tuple[float, int, int, float]]) -> list[Status]:
        """Extend the beam by one token.

        Args:
            found: rank, parent, token and log-probability of each of the 2W best continuations (or
                all, if there are fewer), best first.

        Returns:
            status of each of `found`; those behind the end of the list are dropped.
        """
        self._n_tokens += 1
        old, ended, statuses = self.paths, list[Hypothesis](), list[Status]()
        self.paths, self._padding = [], []
        for number, (rank, parent, token, log_prob) in enumerate(found):
            if len(self.paths) == self._beam_size:
                break
            path = _Path(rank, parent, token, log_prob, old[parent])
            if token != self._eos_id and rank != -math.inf:
                self.paths.append(path)
                statuses.append("kept")
                continue
            is_finished = number < self._beam_size and math.isfinite(rank)
            if is_finished:
                ended.append(self._end(path))
            statuses.append("finished" if is_finished else "dropped")
            self._padding.append(path._replace(rank=-math.inf))
        if ended:
            self._n_finished += len(ended)
            self.finished += ended
            self.finished.sort(key=lambda hypothesis: -hypothesis.score)
            del self.finished[self._beam_size :]
        return statuses

    def pad(self, width: int) -> None:
        """Pad the beam to `width` paths with continuations of rank -inf."""
        self.paths += self._padding[: width - len(self.paths)]

    def _end(self, path: _Path) -> Hypothesis:
        tokens, log_probs = path.walk()
        score = normalize_length(path.rank, len(log_probs), self._penalty)
        return Hypothesis(tokens[1:-1], sum(log_probs), score, tuple(log_probs))

    def is_done(self) -> bool:
        """Return whether no unfinished path can still enter the n best."""
        if self._n_finished >= self._beam_size:
            return True
        enough = self.finished[self._n_best - 1 :]
        reachable = best_reachable(
            self.paths[0].rank,
            n_tokens=self._n_tokens,
            max_tokens=self.cap + 1,
            length_penalty=self._penalty,
        )
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
    sentences = [
        _Sentence(number, cap, bos_id, eos_id, beam_size, n_best, length_penalty)
        for number, cap in enumerate(max_tgt_tokens.tolist())
    ]
    live = list(sentences)
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B', w); w is 1, then W
    tokens = newest[:, :, None]  # (B', w, t), kept up to date only with a constraint
    for n_generated in count_steps(max_tgt_tokens):
        yield live[0].paths[0].walk()[0][1:]
        # 1. Score all continuations, and forbid some.
        log_probs = step(newest)  # (B', w, V)
        allowed = constrain(
            log_probs,
            tokens,
            [sentence.number for sentence in live],
            constraint=constraint,
            must_end=[n_generated >= sentence.cap for sentence in live],
            eos_id=eos_id,
        )
        # 2. Choose the next beam of each sentence among the 2W best.
        _advance(live, log_probs, allowed, 2 * beam_size, observe)
        # 3. Remove finished sentences from the batch.
        alive = compaction_indices([sentence.is_done() for sentence in live])
        if not alive:
            break
        if len(alive) < len(live):
            rows = newest.new_tensor(alive)  # (B',)
            live, tokens = [live[place] for place in alive], tokens[rows]
            step.keep(rows)
        # 4. Let the state of the step follow the beam.
        parents = newest.new_tensor([[path.parent for path in s.paths] for s in live])  # (B', w)
        newest = newest.new_tensor([[path.token for path in s.paths] for s in live])  # (B', w)
        step.reorder(parents)
        if constraint is not None:
            tokens = tokens.gather(1, parents[:, :, None].expand(-1, -1, tokens.shape[2]))
            tokens = torch.cat((tokens, newest[:, :, None]), dim=2)  # (B', w, t + 1)
    return [sentence.finished for sentence in sentences]


def _describe(
    found: list[tuple[float, int, int, float]], statuses: list[Status]
) -> list[Continuation]:
    """Return the possible ones of the continuations that `_Sentence.advance` was given."""
    dropped: list[Status] = ["dropped"] * (len(found) - len(statuses))
    return [
        Continuation(parent, token, log_prob, rank, status)
        for (rank, parent, token, log_prob), status in zip(found, statuses + dropped, strict=True)
        if rank != -math.inf
    ]


def _advance(
    live: list[_Sentence],
    log_probs: Tensor,
    allowed: Tensor,
    n_candidates: int,
    observe: BeamObserver | None,
) -> None:
    """Extend the beam of each of B' sentences by one token.

    Args:
        live: the unfinished sentences.
        log_probs: (B', w, V) from the model.
        allowed: (B', w, V) after constraints.
        n_candidates: continuations considered per sentence.
        observe: see `beam_search`.
    """
    n_pieces = log_probs.shape[2]
    sums = log_probs.new_tensor([[path.rank for path in s.paths] for s in live])  # (B', w)
    n_candidates = min(n_candidates, log_probs[0].numel())
    ranks, places = best_continuations(sums, allowed, n_candidates)  # (B', C) each
    token_log_probs = log_probs.flatten(1).gather(1, places).tolist()
    refuse_nan(itertools.chain.from_iterable(token_log_probs))
    columns = zip(ranks.tolist(), places.tolist(), token_log_probs, strict=True)
    for sentence, row in zip(live, columns, strict=True):
        found = [
            (rank, *divmod(place, n_pieces), log_prob)
            for rank, place, log_prob in zip(*row, strict=True)
        ]
        statuses = sentence.advance(found)
        if observe is not None:
            observe(_describe(found, statuses))
    # Narrower than W while fewer continuations are possible: a forced prefix is decoded once.
    width = max(1, *(len(sentence.paths) for sentence in live))
    for sentence in live:
        sentence.pad(width)
