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

BLOCK_SIZES = (64, 160, 100, *range(32, 257))
"""Candidate block sizes of `best_continuations`; the first that divides V is used. The first three
are the fastest to reduce on a CPU."""

MIN_BLOCKED_NUMBERS = 2**15
"""Number of elements below which a plain top-k is faster than the blocked one."""


def best_tokens(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Map log_probs (B, W, V) to the best one and its token, (B, W) each.

    Reducing blocks first and then searching the best block takes a third of the time of a plain
    argmax on a CPU.
    """
    if log_probs.numel() < MIN_BLOCKED_NUMBERS:
        best, tokens = log_probs.max(-1)  # several times faster than argmax
        return best, tokens
    size = _block_size(log_probs.shape[2])
    blocks = log_probs.view(-1, log_probs.shape[2] // size, size)  # (B W, n, size)
    chosen = blocks.amax(-1).max(-1).indices  # (B W,)
    rows = torch.arange(chosen.shape[0], device=chosen.device)
    best, inside = blocks[rows, chosen].max(-1)  # (B W,) each
    shape = log_probs.shape[:2]
    return best.view(shape), (chosen * size + inside).view(shape)


def best_continuations(sums: Tensor, log_probs: Tensor, n_candidates: int) -> tuple[Tensor, Tensor]:
    """Return the best continuations of all hypotheses of each sentence.

    A plain top-k over W x V sums is the slowest part of a beam step on a CPU. The k best sums lie
    in the k blocks with the largest maxima, so only the elements of those blocks are ranked. The
    result is exact.

    Args:
        sums: (B, W) log-probability of each hypothesis.
        log_probs: (B, W, V) next-token log-probabilities.
        n_candidates: C, at most W V.

    Returns:
        sums (B, C) in descending order, and indices (B, C): parent times V plus token.
    """
    n_rows, width, n_pieces = log_probs.shape
    size = _block_size(n_pieces)
    n_blocks = n_pieces // size
    if n_blocks * width <= 2 * n_candidates or log_probs.numel() < MIN_BLOCKED_NUMBERS:
        top, places = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
        return top, places
    blocks = log_probs.reshape(n_rows, width * n_blocks, size)
    maxima = blocks.amax(-1).view(n_rows, width, n_blocks) + sums[:, :, None]  # (B, W, n)
    maxima = maxima.flatten(1)  # (B, W n)
    if n_rows > 1:
        # From 64 elements per candidate, torch.topk uses a heap, which takes half the time. The
        # padding must rank last even where all maxima are -inf.
        maxima = maxima.clamp_(min=torch.finfo(maxima.dtype).min)
        n_more = max(0, 64 * n_candidates - maxima.shape[1])
        maxima = torch.nn.functional.pad(maxima, (0, n_more), value=-torch.inf)
    chosen = places = maxima.topk(n_candidates, sorted=False).indices  # (B, C) among W n blocks
    if n_rows > 1:
        first = torch.arange(0, n_rows * width * n_blocks, width * n_blocks, device=chosen.device)
        places = chosen + first[:, None]  # (B, C) among B W n blocks
    inside = torch.embedding(blocks.flatten(0, 1), places)  # (B, C, size)
    inside = inside + sums.gather(1, chosen // n_blocks)[:, :, None]
    top, index = inside.flatten(1).topk(n_candidates)  # (B, C) among C x size elements
    return top, chosen.gather(1, index // size) * size + index % size


def count_steps(max_tgt_tokens: Tensor) -> range:
    """Return the steps a search can take at most: those of the longest target, plus eos."""
    return range(1 + max(max_tgt_tokens.tolist(), default=-1))


def _block_size(n_pieces: int) -> int:
    return next((size for size in BLOCK_SIZES if n_pieces % size == 0), n_pieces)


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
