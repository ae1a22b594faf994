"""Sampling with temperature, top-k and top-p.

Each sentence has its own random generator, so its samples do not depend on the rest of the batch.
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
    """Samples of the unfinished sentences."""

    rows: Tensor
    """(B',) index of each sentence in the input batch."""
    caps: Tensor
    """(B',) maximum target length, eos not counted."""
    tokens: Tensor
    """(B', w, t), bos first; w is 1, then W. Finished samples repeat eos."""
    log_probs: Tensor
    """(B', w, t - 1), the model's log-probability of each token."""
    ended: Tensor
    """(B', w) bool, True = finished."""

    @classmethod
    def begin(cls, max_tgt_tokens: Tensor, bos_id: int) -> "_Live":
        """Start with one row per sentence: all its samples share bos."""
        n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
        return cls(
            rows=torch.arange(n_sentences, device=device),
            caps=max_tgt_tokens,
            tokens=torch.full((n_sentences, 1, 1), bos_id, device=device),
            log_probs=torch.zeros(n_sentences, 1, 0, device=device),
            ended=torch.zeros(n_sentences, 1, dtype=torch.bool, device=device),
        )

    @property
    def n_tokens(self) -> int:
        """Number of tokens including the next one: bos takes its place in the count."""
        return self.tokens.shape[2]

    def fork(self, n_samples: int) -> Tensor:
        """Expand each sentence to W samples; return their parents (B', W)."""
        self.tokens = self.tokens.expand(-1, n_samples, -1)
        self.log_probs = self.log_probs.expand(-1, n_samples, -1)
        self.ended = self.ended.expand(-1, n_samples)
        return torch.zeros_like(self.ended, dtype=torch.int64)

    def append(self, token: Tensor, log_probs: Tensor, eos_id: int) -> Tensor:
        """Append the sampled tokens (B', W), given the model's log_probs (B', w, V).

        Returns:
            (B', W) bool, True = finished by this token.
        """
        token = token.masked_fill(self.ended, eos_id)
        log_probs = log_probs.expand(-1, token.shape[1], -1)
        self.log_probs = torch.cat((self.log_probs, log_probs.gather(2, token[:, :, None])), dim=2)
        self.tokens = torch.cat((self.tokens, token[:, :, None]), dim=2)
        has_eos = token == eos_id
        ends = has_eos & ~self.ended
        self.ended = has_eos
        return ends

    def keep(self, alive: Tensor) -> None:
        """Keep only the sentences with these indices (B'',)."""
        self.rows, self.caps, self.tokens, self.log_probs, self.ended = (
            x[alive] for x in (self.rows, self.caps, self.tokens, self.log_probs, self.ended)
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
    """Sample W = `n_samples` translations of each sentence.

    Args, beside those of `beam_search`:
        generators: B random generators on the CPU, one per sentence.
        temperature: see `scoring.warp_for_sampling`.
        top_k: number of most probable tokens to sample from; 0 means all.
        top_p: probability mass to sample from.

    Returns:
        a search that returns the samples of each sentence, best first; `log_prob` is the model's,
        before warping.
    """
    results: list[list[Hypothesis]] = [[] for _ in generators]
    live = _Live.begin(max_tgt_tokens, bos_id)
    for _ in count_steps(max_tgt_tokens):
        yield [token for token in live.tokens[0, 0, 1:].tolist() if token != eos_id]
        log_probs = step(live.tokens[:, :, -1])  # (B', w, V)
        refuse_nan(log_probs[:, :, eos_id].flatten().tolist())
        must_end = (live.n_tokens > live.caps).tolist()
        allowed = constrain(
            log_probs,
            live.tokens,
            live.rows.tolist(),
            constraint=constraint,
            must_end=must_end,
            eos_id=eos_id,
        )
        warped = warp_for_sampling(allowed, temperature=temperature, top_k=top_k, top_p=top_p)
        if live.n_tokens == 1:
            step.reorder(live.fork(n_samples))
        token = _draw(warped, n_samples, [generators[row] for row in live.rows.tolist()])
        for b, w in live.append(token, log_probs, eos_id).nonzero().tolist():
            ids = live.tokens[b, w, 1:-1].tolist()
            token_log_probs = live.log_probs[b, w].tolist()
            results[int(live.rows[b])].append(make_hypothesis(ids, token_log_probs, length_penalty))
        done = live.ended.all(1)  # (B',)
        if done.any():
            alive = live.rows.new_tensor(compaction_indices(done.tolist()))
            live.keep(alive)
            step.keep(alive)
        if not len(live.rows):
            break
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in results]


def _draw(log_probs: Tensor, n_samples: int, generators: Sequence[torch.Generator]) -> Tensor:
    """Draw one token for each of W samples: (B, 1 or W, V) to (B, W).

    Uses the exponential race: the argmin of E_i / p_i, with E_i exponential, is i with
    probability p_i.
    """
    noise = torch.stack(
        [
            torch.empty(n_samples, log_probs.shape[2]).exponential_(generator=generator)
            for generator in generators
        ]
    ).to(log_probs)  # (B, W, V)
    return (log_probs - noise.log()).argmax(-1)  # (B, W)
