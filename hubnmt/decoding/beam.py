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
    n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
    finished = _Finished.none(n_sentences, beam_size, device)
    rows = torch.arange(n_sentences, device=device)  # (B,) which sentence each live row is
    caps = max_tgt_tokens  # (B,) of the live rows
    token = torch.full((n_sentences, 1), bos_id, device=device)  # (B, w); w is 1, then W
    tokens = token[:, :, None]  # (B, w, t)
    # One live hypothesis at the start: W equal ones would grow W equal beams, which is greedy.
    ranks = torch.zeros(n_sentences, 1, device=device)  # (B, w) sums as the constraint sees them
    gains = torch.zeros(n_sentences, 1, 1, device=device)  # (B, w, t) the model's, of each token
    while len(rows):
        n_tokens = tokens.shape[2]  # of the candidates: bos stands for the token to come
        if watch is not None:
            watch(tokens)
        log_probs = step(token)  # (B, w, V)
        allowed = constrain(
            log_probs, tokens, constraint=constraint, must_end=caps < n_tokens, eos_id=eos_id
        )
        n_candidates = min(2 * beam_size, log_probs[0].numel())
        top, parents, token = best_continuations(ranks, allowed, n_candidates)  # (B, C)
        is_eos = token == eos_id  # (B, C)
        place = parents * log_probs.shape[2] + token  # (B, C) among W V continuations
        gain = log_probs.flatten(1).gather(1, place)  # (B, C)

        ended = is_eos & top.isfinite()
        ended[:, beam_size:] = False
        if ended.any():
            score = normalize_length(top, n_tokens, length_penalty)
            score = score.masked_fill(~ended, -torch.inf)
            finished.add(
                rows, score, _extend(tokens, parents, token), _extend(gains, parents, gain)
            )

        order = is_eos.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam_size]  # (B, W)
        ranks = top.gather(1, order).masked_fill(is_eos.gather(1, order), -torch.inf)  # (B, W)
        parents, token, gain = (x.gather(1, order) for x in (parents, token, gain))  # (B, W) each
        tokens = _extend(tokens, parents, token)  # (B, W, t + 1)
        gains = _extend(gains, parents, gain)  # (B, W, t + 1)

        reachable = best_reachable(
            ranks,
            n_tokens=n_tokens,
            max_tokens=caps + 1,
            length_penalty=length_penalty,
        ).amax(1)  # (B,)
        enough = finished.count[rows] >= beam_size
        done = enough | (finished.score[rows, n_best - 1] >= reachable)
        if done.any():
            alive = survivors(done)  # (B',)
            rows, caps, parents, ranks = (x[alive] for x in (rows, caps, parents, ranks))
            token, tokens, gains = (x[alive] for x in (token, tokens, gains))
            step.keep(alive)
        if len(rows):
            step.reorder(parents)
    return finished.to_hypotheses(n_best)


def _take(histories: Tensor, chosen: Tensor) -> Tensor:
    """Pick histories (B, w, t) by number (B, C): (B, C, t)."""
    return histories.gather(1, chosen[:, :, None].expand(-1, -1, histories.shape[2]))


def _extend(histories: Tensor, parents: Tensor, newest: Tensor) -> Tensor:
    """Append one entry (B, C) to the histories (B, w, t) of the parents (B, C): (B, C, t + 1)."""
    return torch.cat((_take(histories, parents), newest[:, :, None]), dim=2)
