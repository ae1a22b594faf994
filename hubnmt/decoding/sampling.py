"""Sampling: draw translations instead of searching for the most probable one.

Takes a `Step` and one random generator per sentence, gives samples as `Hypothesis` lists, best
first. Must not know the Transformer or text. Each sentence has its own generator, so its samples do
not depend on which other sentences share the batch.
"""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.decoding.scoring import (
    compaction_indices,
    constrain,
    count_steps,
    refuse_nan,
    warp_for_sampling,
)
from hubnmt.decoding.types import Constraint, Hypothesis, Search, Step, make_hypothesis


@dataclasses.dataclass(slots=True)
class _Live:
    """The samples of the sentences that are not done."""

    rows: Tensor
    """(B',) which sentence of the batch each is."""
    caps: Tensor
    """(B',) its longest target, eos not counted."""
    tokens: Tensor
    """(B', w, t), bos first; w is 1, then W. A sample that has ended repeats eos."""
    gains: Tensor
    """(B', w, t - 1), the model's log-probability of each token."""
    ended: Tensor
    """(B', w)"""

    @classmethod
    def begin(cls, max_tgt_tokens: Tensor, bos_id: int) -> "_Live":
        """Start each sentence once: all its samples share bos."""
        n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
        return cls(
            rows=torch.arange(n_sentences, device=device),
            caps=max_tgt_tokens,
            tokens=torch.full((n_sentences, 1, 1), bos_id, device=device),
            gains=torch.zeros(n_sentences, 1, 0, device=device),
            ended=torch.zeros(n_sentences, 1, dtype=torch.bool, device=device),
        )

    @property
    def n_tokens(self) -> int:
        """Tokens with the one to come: bos stands for that."""
        return self.tokens.shape[2]

    def fork(self, n_samples: int) -> Tensor:
        """Let each sample go its own way from here on; returns their parents (B', W)."""
        self.tokens, self.gains = (x.expand(-1, n_samples, -1) for x in (self.tokens, self.gains))
        self.ended = self.ended.expand(-1, n_samples)
        return torch.zeros_like(self.ended, dtype=torch.int64)

    def append(self, token: Tensor, log_probs: Tensor, eos_id: int) -> Tensor:
        """Say one token more.

        Args:
            token: (B', W) drawn.
            log_probs: (B', w, V) of the model.
            eos_id: what ends a sample.

        Returns:
            (B', W), True = it ended with this token.
        """
        token = token.masked_fill(self.ended, eos_id)
        log_probs = log_probs.expand(-1, token.shape[1], -1)
        self.gains = torch.cat((self.gains, log_probs.gather(2, token[:, :, None])), dim=2)
        self.tokens = torch.cat((self.tokens, token[:, :, None]), dim=2)
        has_eos = token == eos_id
        ends = has_eos & ~self.ended
        self.ended = has_eos
        return ends

    def keep(self, alive: Tensor) -> None:
        """Go on with these sentences (B'',) only."""
        self.rows, self.caps, self.tokens, self.gains, self.ended = (
            x[alive] for x in (self.rows, self.caps, self.tokens, self.gains, self.ended)
        )


def sample(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    n_samples: int,
    generators: Sequence[torch.Generator],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
) -> Search:
    """Draw `n_samples` translations of each sentence, token by token.

    Args:
        step: scores of the next token; its B sentences are translated together.
        bos_id: first token of every target.
        eos_id: last token of every target.
        max_tgt_tokens: (B,) longest target of each sentence, eos not counted; eos is forced there.
        n_samples: W.
        generators: B of them, on the CPU.
        temperature: see `scoring.warp_for_sampling`; so are `top_k` and `top_p`.
        top_k: pieces to choose among; 0 means all.
        top_p: probability to choose among.
        length_penalty: exponent of the score that samples are sorted by.
        constraint: forbids tokens.

    Returns:
        a search; it returns for each sentence its samples; log_prob is the model's, before warping.
    """
    results: list[list[Hypothesis]] = [[] for _ in generators]
    live = _Live.begin(max_tgt_tokens, bos_id)
    for _ in count_steps(max_tgt_tokens):
        yield [token for token in live.tokens[0, 0, 1:].tolist() if token != eos_id]
        log_probs = step(live.tokens[:, :, -1])  # (B', w, V)
        refuse_nan(log_probs[:, :, eos_id].flatten().tolist())
        must_end = (live.n_tokens > live.caps).tolist()
        allowed = constrain(
            log_probs, live.tokens, constraint=constraint, must_end=must_end, eos_id=eos_id
        )
        warped = warp_for_sampling(allowed, temperature=temperature, top_k=top_k, top_p=top_p)
        if live.n_tokens == 1:
            step.reorder(live.fork(n_samples))
        token = _draw(warped, n_samples, [generators[row] for row in live.rows.tolist()])
        for b, w in live.append(token, log_probs, eos_id).nonzero().tolist():
            ids, gains = live.tokens[b, w, 1:-1].tolist(), live.gains[b, w].tolist()
            results[int(live.rows[b])].append(make_hypothesis(ids, gains, length_penalty))
        done = live.ended.all(1)  # (B',)
        if done.any():
            alive = live.rows.new_tensor(compaction_indices(done.tolist()))
            live.keep(alive)
            step.keep(alive)
        if not len(live.rows):
            break
    return [sorted(found, key=lambda each: -each.score) for found in results]


def _draw(log_probs: Tensor, n_samples: int, generators: Sequence[torch.Generator]) -> Tensor:
    """Draw one token for each of W samples, (B, 1 or W, V) to (B, W), by the exponential race.

    The smallest of E_i / p_i, E_i exponential, is token i with probability p_i.
    """
    noise = torch.stack(
        [
            torch.empty(n_samples, log_probs.shape[2]).exponential_(generator=generator)
            for generator in generators
        ]
    ).to(log_probs)  # (B, W, V)
    return (log_probs - noise.log()).argmax(-1)  # (B, W)
