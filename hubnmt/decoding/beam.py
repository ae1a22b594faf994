"""Beam search: the W most probable beginnings of each sentence grow side by side.

Takes a `Step`, gives the best `Hypothesis` list of each sentence. Must not know the Transformer or
text. Every operation works on all hypotheses of all sentences at once; a sentence that is done
leaves the batch. Source: Sutskever et al. 2014, section 3.2, https://arxiv.org/abs/1409.3215
"""

import dataclasses

import torch
from torch import Tensor

from hubnmt.decoding.protocol import Constraint, Hypothesis, Step, Watch
from hubnmt.decoding.scoring import (
    best_continuations,
    best_reachable,
    constrain,
    count_steps,
    normalize_length,
    survivors,
)


@dataclasses.dataclass(slots=True)
class _Finished:
    """The W best ended hypotheses of each sentence, kept in sentence order to the end."""

    score: Tensor
    """(B, W), -inf where there is none yet."""
    tokens: Tensor
    """(B, W, t), bos first, eos last, zeros behind."""
    gains: Tensor
    """(B, W, t), the model's log-probability of each token; 0 at bos."""
    length: Tensor
    """(B, W), tokens without bos and eos."""
    count: Tensor
    """(B,), how many have ended, those that dropped out of the best W included."""

    @classmethod
    def none(cls, n_sentences: int, beam_size: int, device: torch.device) -> "_Finished":
        shape = (n_sentences, beam_size)
        return cls(
            score=torch.full(shape, -torch.inf, device=device),
            tokens=torch.zeros((*shape, 0), dtype=torch.int64, device=device),
            gains=torch.zeros((*shape, 0), device=device),
            length=torch.zeros(shape, dtype=torch.int64, device=device),
            count=torch.zeros(n_sentences, dtype=torch.int64, device=device),
        )

    def add(self, rows: Tensor, score: Tensor, tokens: Tensor, gains: Tensor) -> None:
        """Merge candidates of some sentences and keep the best W.

        Args:
            rows: (B',) sentence numbers.
            score: (B', C), -inf for candidates that did not end.
            tokens: (B', C, t) with bos and eos.
            gains: (B', C, t).
        """
        n_new = tokens.shape[2] - self.tokens.shape[2]
        self.tokens = torch.nn.functional.pad(self.tokens, (0, n_new))
        self.gains = torch.nn.functional.pad(self.gains, (0, n_new))
        beam_size = self.score.shape[1]
        self.score[rows], best = torch.cat((self.score[rows], score), dim=1).topk(beam_size)
        new_length = torch.full_like(score, tokens.shape[2] - 2, dtype=torch.int64)
        self.length[rows] = torch.cat((self.length[rows], new_length), dim=1).gather(1, best)
        self.tokens[rows] = _take(torch.cat((self.tokens[rows], tokens), dim=1), best)
        self.gains[rows] = _take(torch.cat((self.gains[rows], gains), dim=1), best)
        self.count[rows] += score.isfinite().sum(1)

    def to_hypotheses(self, n_best: int) -> list[list[Hypothesis]]:
        """Read out the n best of each sentence, best first."""
        columns = (self.tokens, self.gains[:, :, 1:], self.length, self.score)
        return [
            [
                Hypothesis(ids[1 : n + 1], sum(gains[: n + 1]), score, tuple(gains[: n + 1]))
                for ids, gains, n, score in zip(*sentence, strict=True)
                if score != -torch.inf
            ][:n_best]
            for sentence in zip(*(column.tolist() for column in columns), strict=True)
        ]


@dataclasses.dataclass(slots=True)
class _Candidates:
    """The best 2W continuations of each live sentence, best first."""

    ranks: Tensor
    """(B', C) sums as the constraint sees them."""
    parents: Tensor
    """(B', C) the hypothesis that each continues."""
    token: Tensor
    """(B', C) the newest token."""
    gain: Tensor
    """(B', C) the model's own log-probability of it."""
    is_eos: Tensor
    """(B', C)"""

    def pick(self, order: Tensor) -> "_Candidates":
        """Take some of each sentence, by number (B', w)."""
        columns = (self.ranks, self.parents, self.token, self.gain, self.is_eos)
        return _Candidates(*(column.gather(1, order) for column in columns))


@dataclasses.dataclass(slots=True)
class _Live:
    """The hypotheses that still grow, of the sentences that are not done."""

    rows: Tensor
    """(B',) which sentence of the batch each is."""
    caps: Tensor
    """(B',) its longest target, eos not counted."""
    ranks: Tensor
    """(B', w) sums as the constraint sees them; w is 1, then W."""
    tokens: Tensor
    """(B', w, t), bos first."""
    gains: Tensor
    """(B', w, t), the model's log-probability of each token; 0 at bos."""

    @classmethod
    def begin(cls, max_tgt_tokens: Tensor, bos_id: int) -> "_Live":
        """Start each sentence with one hypothesis: W equal ones would grow alike, as in greedy."""
        n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
        return cls(
            rows=torch.arange(n_sentences, device=device),
            caps=max_tgt_tokens,
            ranks=torch.zeros(n_sentences, 1, device=device),
            tokens=torch.full((n_sentences, 1, 1), bos_id, device=device),
            gains=torch.zeros(n_sentences, 1, 1, device=device),
        )

    @property
    def n_tokens(self) -> int:
        """Tokens of the candidates: bos stands for the one to come."""
        return self.tokens.shape[2]

    def rank(
        self, log_probs: Tensor, n_candidates: int, *, eos_id: int, constraint: Constraint | None
    ) -> _Candidates:
        """Find the best continuations by log-probabilities (B', w, V)."""
        must_end = self.caps < self.n_tokens
        allowed = constrain(
            log_probs, self.tokens, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        n_candidates = min(n_candidates, log_probs[0].numel())
        ranks, parents, token = best_continuations(self.ranks, allowed, n_candidates)
        place = parents * log_probs.shape[2] + token  # among w V continuations
        gain = log_probs.flatten(1).gather(1, place)
        return _Candidates(ranks, parents, token, gain, token == eos_id)

    def grow(self, found: _Candidates, beam_size: int) -> Tensor:
        """Live on with the best W that have not ended; returns their parents (B', w).

        Fewer, as long as fewer are possible: a forced beginning is said once, not W times.
        """
        is_out = found.is_eos | found.ranks.isneginf()
        order = is_out.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam_size]
        n_possible = int((~is_out).sum(1).amax())
        best = found.pick(order[:, : max(n_possible, 1)])
        self.ranks = best.ranks.masked_fill(best.is_eos, -torch.inf)
        self.tokens = _extend(self.tokens, best.parents, best.token)
        self.gains = _extend(self.gains, best.parents, best.gain)
        return best.parents

    def keep(self, alive: Tensor) -> None:
        """Go on with these sentences (B'',) only."""
        self.rows, self.caps, self.ranks = (x[alive] for x in (self.rows, self.caps, self.ranks))
        self.tokens, self.gains = self.tokens[alive], self.gains[alive]


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
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
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
        watch: shown the tokens so far, at each step.

    Returns:
        for each sentence its hypotheses, best first.
    """
    live = _Live.begin(max_tgt_tokens, bos_id)
    finished = _Finished.none(len(live.rows), beam_size, max_tgt_tokens.device)
    for _ in count_steps(max_tgt_tokens):
        if watch is not None:
            watch(live.tokens)
        log_probs = step(live.tokens[:, :, -1])  # (B', w, V)
        found = live.rank(log_probs, 2 * beam_size, eos_id=eos_id, constraint=constraint)
        _end(found, live, finished, length_penalty)
        n_tokens = live.n_tokens
        parents = live.grow(found, beam_size)
        reachable = best_reachable(
            live.ranks, n_tokens=n_tokens, max_tokens=live.caps + 1, length_penalty=length_penalty
        ).amax(1)  # (B',)
        has_enough = finished.count[live.rows] >= beam_size
        done = has_enough | (finished.score[live.rows, n_best - 1] >= reachable)
        if done.any():
            alive = survivors(done)
            live.keep(alive)
            parents = parents[alive]
            step.keep(alive)
        if not len(live.rows):
            break
        step.reorder(parents)
    return finished.to_hypotheses(n_best)


def _end(found: _Candidates, live: _Live, finished: _Finished, length_penalty: float) -> None:
    """Add those of the best W candidates that have ended to the finished hypotheses."""
    beam_size = finished.score.shape[1]
    ended = found.is_eos & found.ranks.isfinite()
    ended[:, beam_size:] = False
    if not ended.any():
        return
    score = normalize_length(found.ranks, live.n_tokens, length_penalty)
    finished.add(
        live.rows,
        score.masked_fill(~ended, -torch.inf),
        _extend(live.tokens, found.parents, found.token),
        _extend(live.gains, found.parents, found.gain),
    )


def _take(histories: Tensor, chosen: Tensor) -> Tensor:
    """Pick histories (B, w, t) by number (B, C): (B, C, t)."""
    return histories.gather(1, chosen[:, :, None].expand(-1, -1, histories.shape[2]))


def _extend(histories: Tensor, parents: Tensor, newest: Tensor) -> Tensor:
    """Append one entry (B, C) to the histories (B, w, t) of the parents (B, C): (B, C, t + 1)."""
    return torch.cat((_take(histories, parents), newest[:, :, None]), dim=2)
