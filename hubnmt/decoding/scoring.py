"""The arithmetic of a search: pure functions on log-probabilities.

Takes tensors, gives tensors. Must not know the model or beams' bookkeeping.
"""

import torch
from torch import Tensor


def normalize_length(log_prob: Tensor, n_tokens: Tensor | int, length_penalty: float) -> Tensor:
    """Divide by length to the power of the penalty, so that long hypotheses can compete.

    Args:
        log_prob: sums of token log-probabilities, any shape.
        n_tokens: tokens behind each sum, eos included.
        length_penalty: exponent a; 0 leaves the sum, 1 gives the mean per token.

    Source: Wu et al. 2016, section 7, https://arxiv.org/abs/1609.08144, in the simpler form that
    fairseq and CTranslate2 use.
    """
    if isinstance(n_tokens, int):
        return log_prob / n_tokens**length_penalty  # type: ignore[no-any-return]  # int ** float
    return log_prob / n_tokens.to(log_prob) ** length_penalty


def best_reachable(
    log_prob: Tensor, *, n_tokens: int, max_tokens: Tensor, length_penalty: float
) -> Tensor:
    """Bound the score that any continuation of a live hypothesis can still reach.

    Log-probabilities only fall, so today's sum is the most a continuation can have; the length that
    flatters it most is the longest allowed for a positive penalty, else the shortest possible.

    Args:
        log_prob: (B, W) sums so far.
        n_tokens: tokens so far.
        max_tokens: (B,) most tokens allowed, eos included.
        length_penalty: exponent of the normalisation.

    Returns:
        (B, W) upper bounds.
    """
    if length_penalty > 0:
        return normalize_length(log_prob, max_tokens[:, None], length_penalty)
    return normalize_length(log_prob, n_tokens + 1, length_penalty)


def only_eos_where(log_probs: Tensor, must_end: Tensor, eos_id: int) -> Tensor:
    """Leave eos as the only choice of some sentences.

    Args:
        log_probs: (B, W, V).
        must_end: (B,) bool.
        eos_id: the token that ends a sentence.

    Returns:
        (B, W, V); a new tensor if any sentence must end.
    """
    if not must_end.any():
        return log_probs
    others = torch.arange(log_probs.shape[-1], device=log_probs.device) != eos_id  # (V,)
    return log_probs.masked_fill(must_end[:, None, None] & others, -torch.inf)
