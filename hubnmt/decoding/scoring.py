"""Scores, ranking and logit processing: pure functions on log-probabilities."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from hubnmt.decoding.types import Constraint
from hubnmt.errors import ModelFolderError


def normalize_length(log_prob: float, n_tokens: int, length_penalty: float) -> float:
    """Divide a log-probability by `n_tokens ** length_penalty`, for long hypotheses to compete.

    The tokens include eos. An exponent of 0 gives the sum, 1 the mean.

    Source: Wu et al. 2016, section 7, https://arxiv.org/abs/1609.08144, in the simpler form used by
    fairseq and CTranslate2.
    """
    return float(log_prob / n_tokens**length_penalty)


def best_reachable(
    log_prob: float, *, n_tokens: int, max_tokens: int, length_penalty: float
) -> float:
    """Return an upper bound on the score of any continuation of an unfinished hypothesis.

    Log-probabilities are at most 0, so the current sum bounds that of every continuation. The
    normalized score is highest at the maximum length (eos included) for a positive penalty,
    otherwise at the minimum length.
    """
    return normalize_length(
        log_prob, max_tokens if length_penalty > 0 else n_tokens + 1, length_penalty
    )


NOT_FINITE = (
    "the model's log-probabilities are not finite because its numbers overflow; "
    "use dtype float32, or pull or save the model again"
)

N_COLUMNS = 256
"""Number of columns into which `best_continuations` arranges a vocabulary."""

MIN_NUMBERS = 2**15
"""Number of elements below which a plain top-k is faster."""


def best_tokens(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Map log_probs (B, 1, V) to the best one and its token, (B, 1) each."""
    if log_probs.numel() < MIN_NUMBERS:
        best, tokens = log_probs.max(-1)  # several times faster than argmax
        return best, tokens
    best, tokens = best_continuations(log_probs.new_zeros(len(log_probs), 1), log_probs, 1)
    return best, tokens


def best_continuations(sums: Tensor, log_probs: Tensor, n_candidates: int) -> tuple[Tensor, Tensor]:
    """Return the best continuations of all hypotheses of each sentence.

    A plain top-k over W x V sums is the slowest part of a beam step on a CPU. With the vocabulary
    arranged in columns, the k best sums lie in the k columns with the largest maxima, so only the
    elements of those are ranked. The result is exact.

    Args:
        sums: (B, W) log-probability of each hypothesis.
        log_probs: (B, W, V) next-token log-probabilities.
        n_candidates: C, at most W V.

    Returns:
        sums (B, C) in descending order, and indices (B, C): parent times V plus token.
    """
    _, width, n_pieces = log_probs.shape
    n_columns = min(N_COLUMNS, n_pieces)
    if log_probs.numel() < MIN_NUMBERS or n_columns * width < n_candidates:
        top, places = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
        return top, places
    n_even = n_pieces - n_pieces % n_columns
    table = torch.unflatten(log_probs[..., :n_even], 2, (-1, n_columns))  # (B, W, n, columns)
    maxima = table.amax(2)  # (B, W, columns)
    last_row = maxima[..., : n_pieces - n_even]
    torch.maximum(last_row, log_probs[..., n_even:], out=last_row)
    maxima = (maxima + sums[:, :, None]).flatten(1)  # (B, W columns)
    chosen = maxima.topk(n_candidates, sorted=False).indices  # (B, C)
    parents = chosen // n_columns  # (B, C)
    rows = torch.arange(0, n_pieces, n_columns, device=sums.device)  # (n,)
    tokens = (chosen % n_columns)[:, :, None] + rows  # (B, C, n)
    is_outside = tokens >= n_pieces
    places = (tokens.clamp_(max=n_pieces - 1) + parents[:, :, None] * n_pieces).flatten(1)
    inside = log_probs.flatten(1).gather(1, places).view(tokens.shape)  # (B, C, n)
    inside = inside + sums.gather(1, parents)[:, :, None]
    top, index = inside.masked_fill_(is_outside, -torch.inf).flatten(1).topk(n_candidates)
    return top, places.gather(1, index)


def count_steps(max_tgt_tokens: Tensor) -> range:
    """Return the steps a search can take at most: those of the longest target, plus eos."""
    return range(1 + max(max_tgt_tokens.tolist(), default=-1))


def compaction_indices(done: Sequence[bool]) -> list[int]:
    """Return the indices of the unfinished sentences, in an order that moves few of them.

    Sentences keep their position where possible; the gaps left by finished ones are filled from
    the end, because moving a sentence copies its cache.
    """
    n_left = len(done) - sum(done)
    movers = (number for number in range(n_left, len(done)) if not done[number])
    return [next(movers) if done[number] else number for number in range(n_left)]


def constrain(
    log_probs: Tensor,
    tokens: Tensor,
    sentences: Sequence[int],
    *,
    constraint: Constraint | None,
    must_end: Sequence[bool],
    eos_id: int,
) -> Tensor:
    """Apply a constraint, and force eos for hypotheses that must end.

    Args:
        log_probs: (B, W, V) from the model.
        tokens: (B, W, t) so far, bos first; used only with a constraint.
        sentences: indices of the B unfinished sentences in the input batch.
        constraint: see `Constraint`; None forbids nothing.
        must_end: whether each of the B sentences has reached its maximum length.
        eos_id: end-of-sentence token.

    Returns:
        (B, W, V). Where only eos remains, at the maximum length or because a constraint forbids all
        tokens, it keeps the model's log-probability.

    Raises:
        ModelFolderError: if the log-probability of a forced eos is not finite.
    """
    if constraint is None and not any(must_end):
        return log_probs  # the common case; on small models every call is significant
    allowed = log_probs
    ending = log_probs.select(2, eos_id)  # (B, W)
    only_eos = torch.tensor(must_end, device=log_probs.device)[:, None]  # (B, 1)
    if constraint is not None:
        rows = tokens.new_tensor(sentences)  # (B,)
        allowed = constraint(log_probs, tokens[:, :, 1:], rows)
        only_eos = only_eos | (allowed.amax(-1) == -torch.inf)  # (B, W)
    if not only_eos.any():
        return allowed
    only_eos = only_eos.expand_as(ending)  # (B, W)
    if (only_eos & ~ending.isfinite()).any():
        raise ModelFolderError(NOT_FINITE)
    ending = torch.where(only_eos, ending, allowed[..., eos_id])  # (B, W)
    allowed = allowed.masked_fill(only_eos[:, :, None], -torch.inf)
    allowed[..., eos_id] = ending
    return allowed


def refuse_nan(log_probs: Iterable[float]) -> None:
    """Check one log-probability per hypothesis for NaN; a single NaN makes a whole softmax NaN.

    Raises:
        ModelFolderError: if one of them is NaN.
    """
    if any(map(math.isnan, log_probs)):
        raise ModelFolderError(NOT_FINITE)


def block_repeated_ngrams(log_probs: Tensor, tokens: Tensor, n: int) -> Tensor:
    """Forbid tokens that would complete an n-gram the hypothesis already contains.

    Takes and gives log_probs (B, W, V); `tokens` (B, W, t) are those so far, without bos.

    Source: Paulus et al. 2017, section 2.5, https://arxiv.org/abs/1705.04304
    """
    if tokens.shape[2] < n:
        return log_probs
    windows = tokens.unfold(2, n, 1)  # (B, W, t - n + 1, n)
    latest = tokens[:, :, tokens.shape[2] - n + 1 :]  # (B, W, n - 1)
    is_repeat = (windows[..., :-1] == latest[:, :, None]).all(-1)  # (B, W, t - n + 1)
    penalty = torch.zeros_like(is_repeat, dtype=log_probs.dtype)
    penalty = penalty.masked_fill(is_repeat, -torch.inf)
    return log_probs.scatter_add(2, windows[..., -1], penalty)


def penalize_repetition(log_probs: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """Multiply the log-probabilities of tokens (B, W, t) that a hypothesis contains by a penalty.

    Values above 1 make repetition less likely, below 1 more likely. Takes and gives log_probs
    (B, W, V).

    Source: Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858, on log-probabilities.
    """
    if tokens.shape[2] == 0:
        return log_probs
    return log_probs.scatter(2, tokens, log_probs.gather(2, tokens) * penalty)


def warp_for_sampling(log_probs: Tensor, *, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Apply temperature, top-k and top-p filtering to log_probs (..., V).

    Of the `top_k` best (0 for all) the smallest set with the probability `top_p` is kept.

    Returns:
        (..., V) renormalized log-probabilities, -inf where filtered.

    Source: Fan et al. 2018 (top-k), https://arxiv.org/abs/1805.04833; Holtzman et al. 2020 (top-p),
    https://arxiv.org/abs/1904.09751
    """
    # Subtract the maximum first, so that no temperature can overflow all values.
    shifted = log_probs - log_probs.amax(-1, keepdim=True)
    warped = torch.where(shifted == 0, 0.0, shifted / temperature).log_softmax(-1)
    if 0 < top_k < warped.shape[-1]:
        kept = warped.topk(top_k).indices  # (..., k)
        cut = torch.ones_like(warped, dtype=torch.bool).scatter(-1, kept, value=False)
        warped = warped.masked_fill(cut, -torch.inf)
    if top_p < 1:
        ranked, order = warped.log_softmax(-1).sort(-1, descending=True)  # (..., V)
        mass_before = ranked.exp().cumsum(-1) - ranked.exp()
        cut = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, mass_before >= top_p)
        warped = warped.masked_fill(cut, -torch.inf)
    return warped.log_softmax(-1)
