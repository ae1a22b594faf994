"""Beam search: the W most probable beginnings of each sentence grow side by side.

Takes a `Step`, gives the best `Hypothesis` list of each sentence. Must not know the Transformer or
text. What has V numbers is ranked at once for all hypotheses of all sentences; the few that are
left are plain numbers, since a call of torch costs more than they do. A sentence that is done
leaves the batch. Source: Sutskever et al. 2014, section 3.2, https://arxiv.org/abs/1409.3215
"""

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

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
from hubnmt.decoding.types import Constraint, Hypothesis, Search, Step


class _Path(NamedTuple):
    """A hypothesis that still grows."""

    rank: float
    """The sum as the constraint sees it; -inf only fills a place."""
    parent: int
    """The one among the last step's that it continues."""
    token: int
    """The newest; bos at first."""
    gain: float
    """The model's log-probability of it."""
    past: "_Path | None"
    """What it continues; paths that fork share it, so that growing copies nothing."""

    def walk(self) -> tuple[list[int], list[float]]:
        """Give all tokens, bos first, and the gains of all but bos."""
        tokens, gains, path = [self.token], [self.gain], self.past
        while path is not None:
            tokens.append(path.token)
            gains.append(path.gain)
            path = path.past
        return tokens[::-1], gains[-2::-1]


class _Sentence:
    """One sentence on its way."""

    def __init__(
        self, cap: int, *, bos_id: int, eos_id: int, beam_size: int, n_best: int, penalty: float
    ) -> None:
        """Start with one hypothesis: W equal ones would grow alike, as in greedy search."""
        self.cap = cap
        """Its longest target, eos not counted."""
        self.paths = [_Path(0.0, 0, bos_id, 0.0, None)]
        """Best first."""
        self.finished: list[Hypothesis] = []
        """The W best that have ended, best first."""
        self._n_tokens = 0
        self._spare: list[_Path] = []
        """Continuations that cannot grow."""
        self._n_finished = 0
        """How many have ended, those that dropped out of the best W included."""
        self._eos_id = eos_id
        self._beam_size = beam_size
        self._n_best = n_best
        self._penalty = penalty

    def grow(self, found: Iterable[tuple[float, int, int, float]]) -> None:
        """Go on with the best continuations.

        Args:
            found: rank, parent, token and gain of each of the best 2W (or all there are), best
                first.
        """
        self._n_tokens += 1
        old, ended = self.paths, list[Hypothesis]()
        self.paths, self._spare = [], []
        for number, (rank, parent, token, gain) in enumerate(found):
            if len(self.paths) == self._beam_size:
                break
            path = _Path(rank, parent, token, gain, old[parent])
            if token != self._eos_id and rank != -math.inf:
                self.paths.append(path)
                continue
            if number < self._beam_size and math.isfinite(rank):
                ended.append(self._end(path))
            self._spare.append(path._replace(rank=-math.inf))
        if ended:
            self._n_finished += len(ended)
            self.finished += ended
            self.finished.sort(key=lambda each: -each.score)
            del self.finished[self._beam_size :]

    def fill(self, width: int) -> None:
        """Have as many paths as the sentence with most of them, possible or not."""
        self.paths += self._spare[: width - len(self.paths)]

    def _end(self, path: _Path) -> Hypothesis:
        tokens, gains = path.walk()
        score = normalize_length(path.rank, len(gains), self._penalty)
        return Hypothesis(tokens[1:-1], sum(gains), score, tuple(gains))

    def is_done(self) -> bool:
        """Say whether no path can still reach what is asked for."""
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
) -> Search:
    """Search the most probable targets, `beam_size` hypotheses wide.

    Each step ranks all continuations of a sentence's live hypotheses; of the best W those with eos
    have ended, and the best W without eos live on. A sentence is done when W hypotheses have ended,
    or as soon as no live one can still reach the n-th best ended score (see `best_reachable`).

    Args:
        step: scores of the next token; its B sentences are translated together.
        bos_id: first token of every target.
        eos_id: last token of every target.
        max_tgt_tokens: (B,) longest target of each sentence, eos not counted; eos is forced there.
        beam_size: W.
        n_best: hypotheses returned per sentence, at most W.
        length_penalty: exponent of the length normalisation.
        constraint: forbids tokens.

    Returns:
        a search; it returns for each sentence its hypotheses, best first.
    """
    sentences = [
        _Sentence(
            cap,
            bos_id=bos_id,
            eos_id=eos_id,
            beam_size=beam_size,
            n_best=n_best,
            penalty=length_penalty,
        )
        for cap in max_tgt_tokens.tolist()
    ]
    live = list(sentences)
    newest = max_tgt_tokens.new_full((len(live), 1), bos_id)  # (B', w); w is 1, then W
    for n_generated in count_steps(max_tgt_tokens):
        yield live[0].paths[0].walk()[0][1:]
        tokens = None
        if constraint is not None:
            tokens = newest.new_tensor([[path.walk()[0] for path in each.paths] for each in live])
        log_probs = step(newest)  # (B', w, V)
        must_end = [n_generated >= each.cap for each in live]
        allowed = constrain(
            log_probs, tokens, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        _grow(live, log_probs, allowed, 2 * beam_size)
        done = [each.is_done() for each in live]
        if any(done):
            alive = compaction_indices(done)
            live = [live[place] for place in alive]
            if not live:
                break
            step.keep(newest.new_tensor(alive))
        step.reorder(newest.new_tensor([[path.parent for path in each.paths] for each in live]))
        newest = newest.new_tensor([[path.token for path in each.paths] for each in live])
    return [each.finished[:n_best] for each in sentences]


def _grow(live: list[_Sentence], log_probs: Tensor, allowed: Tensor, n_candidates: int) -> None:
    """Let each sentence go on with its best continuations.

    Args:
        live: B' sentences.
        log_probs: (B', w, V) of the model.
        allowed: (B', w, V) as the constraint sees them.
        n_candidates: how many of each sentence to look at.
    """
    n_pieces = log_probs.shape[2]
    sums = log_probs.new_tensor([[path.rank for path in each.paths] for each in live])  # (B', w)
    n_candidates = min(n_candidates, log_probs[0].numel())
    ranks, places = best_continuations(sums, allowed, n_candidates)  # (B', C) each
    gains = log_probs.flatten(1).gather(1, places).tolist()
    refuse_nan(itertools.chain.from_iterable(gains))
    for each, *columns in zip(live, ranks.tolist(), places.tolist(), gains, strict=True):
        each.grow(
            (rank, *divmod(place, n_pieces), gain)
            for rank, place, gain in zip(*columns, strict=True)
        )
    # Fewer than W, as long as fewer are possible: a forced beginning is said once, not W times.
    width = max(1, *(len(each.paths) for each in live))
    for each in live:
        each.fill(width)
