"""The arithmetic of a search: pure functions on log-probabilities.

Takes tensors, gives tensors. Must not know the model or beams' bookkeeping.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from hubnmt.decoding.types import Constraint
from hubnmt.errors import ModelFolderError


def normalize_length(log_prob: float, n_tokens: int, length_penalty: float) -> float:
    """Divide by length to the power of the penalty, so that long hypotheses can compete.

    Args:
        log_prob: a sum.
        n_tokens: tokens behind it, eos included.
        length_penalty: exponent a; 0 leaves the sum, 1 gives the mean per token.

    Source: Wu et al. 2016, section 7, https://arxiv.org/abs/1609.08144, in the simpler form that
    fairseq and CTranslate2 use.
    """
    return float(log_prob / n_tokens**length_penalty)


def best_reachable(
    log_prob: float, *, n_tokens: int, max_tokens: int, length_penalty: float
) -> float:
    """Bound the score that any continuation of a live hypothesis can still reach.

    Log-probabilities only fall, so today's sum is the most a continuation can have; the length that
    flatters it most is the longest allowed for a positive penalty, else the shortest possible.

    Args:
        log_prob: its sum so far.
        n_tokens: tokens so far.
        max_tokens: most tokens allowed, eos included.
        length_penalty: exponent of the normalisation.
    """
    return normalize_length(
        log_prob, max_tokens if length_penalty > 0 else n_tokens + 1, length_penalty
    )


NOT_FINITE = (
    "the model gives log-probabilities that are not finite: its weights overflow; "
    "try dtype float32, or pull or save the model again"
)

BLOCK_SIZES = (64, 160, 100, *range(32, 257))
"""Pieces whose maximum stands for them in `best_continuations`; the first that divides V counts.
The first three are those that a CPU reduces fastest."""

MIN_BLOCKED_NUMBERS = 2**15
"""Below this many sums a plain top-k is faster than the handful of small steps."""


def best_tokens(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Find the most probable token of each hypothesis.

    Maxima of blocks, and then the place inside the best block, take a CPU a third of the time of
    one search for the place.

    Args:
        log_probs: (B, W, V).

    Returns:
        its log-probability (B, W) and the token itself (B, W).
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
    """Rank all continuations of a sentence's hypotheses and keep the best.

    A plain top-k over W x V sums is the slowest part of a beam step on a CPU. The k best sums lie
    in at most k blocks, those with the largest maxima; taking maxima is cheap, and only the
    elements of those blocks are ranked. The result is exact.

    Args:
        sums: (B, W) log-probability of each hypothesis.
        log_probs: (B, W, V) of its continuations.
        n_candidates: C, at most W V.

    Returns:
        sums (B, C) in falling order, and places (B, C): parent times V plus token.
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
        # With 64 numbers for each that is wanted, torch ranks by a heap, in half the time. What is
        # put behind the maxima must come last, also where all of them are -inf.
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
    """Count the steps that a search may take, whatever the numbers do: the longest target, eos."""
    return range(1 + max(max_tgt_tokens.tolist(), default=-1))


def _block_size(n_pieces: int) -> int:
    return next((size for size in BLOCK_SIZES if n_pieces % size == 0), n_pieces)


def compaction_indices(done: Sequence[bool]) -> list[int]:
    """Number the sentences that go on, in an order that moves few of them.

    Args:
        done: whether each of the B sentences is.

    Returns:
        B' numbers: those that stay in their place, and where one has left, one from behind the new
        end. What a step keeps per sentence is large, and only what moves must be copied.
    """
    n_left = len(done) - sum(done)
    movers = (number for number in range(n_left, len(done)) if not done[number])
    return [next(movers) if done[number] else number for number in range(n_left)]


def constrain(
    log_probs: Tensor,
    tokens: Tensor | None,
    *,
    constraint: Constraint | None,
    must_end: Sequence[bool],
    eos_id: int,
) -> Tensor:
    """Apply a constraint, and make sure that every hypothesis can end when it must.

    Args:
        log_probs: (B, W, V) of the model.
        tokens: (B, W, t) so far, bos first; None if there is no constraint to look at them.
        constraint: forbids tokens; None forbids nothing.
        must_end: of each of the B sentences, whether it has reached its length, so that eos is its
            only choice.
        eos_id: the token that ends a sentence.

    Returns:
        (B, W, V); eos has the model's own log-probability where it is the only choice left, be it
        for the length or because a constraint forbids everything.

    Raises:
        ModelFolderError: if eos is impossible there: such a hypothesis would never end.
    """
    if constraint is None and not any(must_end):
        return log_probs  # as in nearly all steps, and on a small model each call counts
    allowed = log_probs
    ending = log_probs.select(2, eos_id)  # (B, W)
    only_eos = torch.tensor(must_end, device=log_probs.device)[:, None]  # (B, 1)
    if constraint is not None and tokens is not None:
        allowed = constraint(log_probs, tokens[:, :, 1:])
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
    """Look at one log-probability of each hypothesis: one NaN makes a whole softmax NaN.

    Raises:
        ModelFolderError: if one is none: such a hypothesis would go anywhere.
    """
    if any(map(math.isnan, log_probs)):
        raise ModelFolderError(NOT_FINITE)


def block_repeated_ngrams(log_probs: Tensor, tokens: Tensor, n: int) -> Tensor:
    """Forbid every token that would complete an n-gram the hypothesis already contains.

    Args:
        log_probs: (B, W, V).
        tokens: (B, W, t) generated so far, without bos.
        n: length of the n-grams.

    Returns:
        (B, W, V), -inf where forbidden.

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
    """Multiply the log-probability of tokens that were already generated.

    Args:
        log_probs: (B, W, V), all at most 0.
        tokens: (B, W, t) generated so far, without bos.
        penalty: above 1 makes them less likely, below 1 more.

    Returns:
        (B, W, V).

    Source: Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858, on log-probabilities.
    """
    if tokens.shape[2] == 0:
        return log_probs
    return log_probs.scatter(2, tokens, log_probs.gather(2, tokens) * penalty)


def warp_for_sampling(log_probs: Tensor, *, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Sharpen or flatten a distribution and cut off its tail.

    Args:
        log_probs: (..., V).
        temperature: divides the log-probabilities.
        top_k: keep this many; 0 keeps all.
        top_p: keep the fewest whose probability reaches this.

    Returns:
        (..., V) log-probabilities that sum to 1 again, -inf where cut off.

    Source: Fan et al. 2018 (top-k), https://arxiv.org/abs/1805.04833; Holtzman et al. 2020 (top-p),
    https://arxiv.org/abs/1904.09751
    """
    # The largest becomes 0 first, so that no temperature can overflow all of them.
    falls = log_probs - log_probs.amax(-1, keepdim=True)
    warped = torch.where(falls == 0, 0.0, falls / temperature).log_softmax(-1)
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
