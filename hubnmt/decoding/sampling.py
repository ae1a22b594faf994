"""Sampling: draw translations instead of searching for the most probable one.

Takes a `Step` and one random generator per sentence, gives samples as `Hypothesis` lists, best
first. Must not know the Transformer or text. Each sentence has its own generator, so its samples do
not depend on which other sentences share the batch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.decoding.protocol import Constraint, Hypothesis, Step, Watch, make_hypothesis
from hubnmt.decoding.scoring import constrain, survivors, warp_for_sampling


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
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
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
        watch: shown the tokens so far, at each step.

    Returns:
        for each sentence its samples; log_prob is the model's, before warping.
    """
    n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
    results: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    rows = torch.arange(n_sentences, device=device)  # (B,) which sentence each live row is
    tokens = torch.full((n_sentences, 1, 1), bos_id, device=device)  # (B, w, t); w is 1, then W
    gains = torch.zeros(n_sentences, 1, 0, device=device)  # (B, w, t - 1) of each token
    ended = torch.zeros(n_sentences, 1, dtype=torch.bool, device=device)  # (B, w)
    while len(rows):
        n_tokens = tokens.shape[2]  # of the candidates: bos stands for the token to come
        if watch is not None:
            watch(tokens)
        log_probs = step(tokens[:, :, -1])  # (B, w, V)
        allowed = constrain(
            log_probs,
            tokens,
            constraint=constraint,
            must_end=n_tokens > max_tgt_tokens[rows],
            eos_id=eos_id,
        )
        warped = warp_for_sampling(allowed, temperature=temperature, top_k=top_k, top_p=top_p)
        if n_tokens == 1:  # all samples share bos; from here on each goes its own way
            parents = torch.zeros(len(rows), n_samples, dtype=torch.int64, device=device)
            step.reorder(parents)
            warped, log_probs = (x.expand(-1, n_samples, -1) for x in (warped, log_probs))
            tokens, gains = (x.expand(-1, n_samples, -1) for x in (tokens, gains))
            ended = ended.expand(-1, n_samples)
        token = _draw(warped, [generators[row] for row in rows.tolist()])  # (B, W)
        token = token.masked_fill(ended, eos_id)
        gains = torch.cat((gains, log_probs.gather(2, token[:, :, None])), dim=2)  # (B, W, t)
        for b, w in ((token == eos_id) & ~ended).nonzero().tolist():
            found = make_hypothesis(tokens[b, w, 1:], gains[b, w], length_penalty)
            results[int(rows[b])].append(found)
        ended = ended | (token == eos_id)
        tokens = torch.cat((tokens, token[:, :, None]), dim=2)  # (B, W, t + 1)
        alive = survivors(ended.all(1))  # (B',)
        if len(alive) < len(rows):
            rows, tokens, gains, ended = (x[alive] for x in (rows, tokens, gains, ended))
            step.keep(alive)
    return [sorted(found, key=lambda each: -each.score) for found in results]


def _draw(log_probs: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Draw one token per hypothesis, (B, W, V) to (B, W), by the exponential race.

    The smallest of E_i / p_i, E_i exponential, is token i with probability p_i.
    """
    noise = torch.stack(
        [
            torch.empty(log_probs.shape[1:]).exponential_(generator=generator)
            for generator in generators
        ]
    ).to(log_probs)  # (B, W, V)
    return (log_probs - noise.log()).argmax(-1)  # (B, W)
