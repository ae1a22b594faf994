"""Greedy search: always the most probable next token.

Takes a `Step`, gives one `Hypothesis` per sentence. Must not know the Transformer or text. The
readable reference that beam search with one hypothesis is tested against.
"""

import torch
from torch import Tensor

from hubnmt.decoding.protocol import Constraint, Hypothesis, Step, Watch, make_hypothesis
from hubnmt.decoding.scoring import best_tokens, constrain, count_steps, survivors


def greedy_search(
    step: Step,
    *,
    bos_id: int,
    eos_id: int,
    max_tgt_tokens: Tensor,
    length_penalty: float = 1.0,
    constraint: Constraint | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """Follow the most probable token until eos.

    Args:
        step: scores of the next token; its B sentences are translated together.
        bos_id: first token of every target.
        eos_id: last token of every target.
        max_tgt_tokens: (B,) longest target of each sentence, eos not counted; eos is forced there.
        length_penalty: exponent for the score; does not change what is found.
        constraint: forbids tokens.
        watch: shown the tokens so far, at each step.

    Returns:
        for each sentence a list with its one hypothesis.
    """
    n_sentences, device = len(max_tgt_tokens), max_tgt_tokens.device
    results: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    rows = torch.arange(n_sentences, device=device)  # (B,) which sentence each live row is
    caps = max_tgt_tokens  # (B,)
    token = torch.full((n_sentences, 1), bos_id, device=device)  # (B, 1)
    tokens = token[:, :, None]  # (B, 1, t)
    gains = torch.zeros(n_sentences, 0, device=device)  # (B, t - 1) log-probability of each token
    for _ in count_steps(max_tgt_tokens):
        n_tokens = tokens.shape[2]  # bos stands for the eos to come
        if watch is not None:
            watch(tokens)
        log_probs = step(token)  # (B, 1, V)
        allowed = constrain(
            log_probs, tokens, constraint=constraint, must_end=caps < n_tokens, eos_id=eos_id
        )
        token = best_tokens(allowed)  # (B, 1)
        gains = torch.cat((gains, log_probs[:, 0].gather(1, token)), dim=1)  # (B, t)
        ended = token[:, 0] == eos_id  # (B,)
        if ended.any():
            for index in ended.nonzero()[:, 0].tolist():
                results[int(rows[index])] = [
                    make_hypothesis(tokens[index, 0, 1:], gains[index], length_penalty)
                ]
            alive = survivors(ended)  # (B',)
            rows, caps, gains, token, tokens = (
                x[alive] for x in (rows, caps, gains, token, tokens)
            )
            step.keep(alive)
        if not len(rows):
            break
        tokens = torch.cat((tokens, token[:, :, None]), dim=2)  # (B, 1, t + 1)
    return results
