"""What the searches share: the `Step` that they ask, their hypotheses and their operations.

B sentences are decoded together, each with W hypotheses. The step owns the decoder state.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from hubnmt.errors import ModelFolderError


class Step(Protocol):
    """Next-token log-probabilities for all unfinished hypotheses, with the decoder state."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Append the last tokens (B, W) to the state; return log_probs (B, W, V), in nats."""
        ...

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`; parents is (B, W') int64."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Keep only the sentences at these indices; rows is (B',) int64."""
        ...


Constraint = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`(log_probs (B', W, V), tokens so far (B', W, t), sentences (B',)) -> log_probs (B', W, V)`, -inf
where forbidden; `sentences` are the indices of the unfinished sentences in the input batch."""


class Hypothesis(NamedTuple):
    """A finished translation as token ids."""

    ids: list[int]
    """Token ids without bos and eos."""
    log_prob: float
    """Sum over all tokens and eos, in nats."""
    score: float
    """Ranking score: `log_prob / (len(ids) + 1) ** length_penalty`. In beam search with a
    repetition penalty it is computed from the penalized sum."""
    token_log_probs: Sequence[float]
    """Log-probability of each token and eos, in nats; they sum to `log_prob`."""

    @property
    def token_probability(self) -> float:
        """Geometric mean of the probabilities of the tokens and eos."""
        return math.exp(min(self.log_prob / (len(self.ids) + 1), 0.0))


Search = Generator[list[int], None, list[list[Hypothesis]]]
"""A running search. At each step it yields the tokens so far, without bos, of the best hypothesis
of the first unfinished sentence; it returns the hypotheses of each sentence, best first. Closing
the generator stops the search."""

Result = TypeVar("Result")


def run_to_end(steps: Generator[object, None, Result]) -> Result:
    """Run a generator, such as a search, to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def make_hypothesis(
    ids: Sequence[int], token_log_probs: Sequence[float], length_penalty: float
) -> Hypothesis:
    """Create a hypothesis from its tokens and their log-probabilities.

    Args:
        ids: n tokens without bos and eos.
        token_log_probs: n + 1 values, one for each token and eos.
        length_penalty: exponent of the length normalization.
    """
    log_probs = tuple(token_log_probs)
    total = sum(log_probs)
    score = normalize_length(total, len(log_probs), length_penalty)
    return Hypothesis(list(ids), total, score, log_probs)


def normalize_length(log_prob: float, n_tokens: int, length_penalty: float) -> float:
    """Divide a log-probability by `n_tokens ** length_penalty`, for long hypotheses to compete.

    The tokens include eos. An exponent of 0 gives the sum, 1 the mean.

    Source: Wu et al. 2016, section 7, https://arxiv.org/abs/1609.08144, in the simpler form used by
    fairseq and CTranslate2.
    """
    return float(log_prob / n_tokens**length_penalty)


NOT_FINITE = (
    "the model's log-probabilities are not finite because its numbers overflow; "
    "use dtype float32, or pull or save the model again"
)


def count_steps(max_tgt_tokens: Tensor) -> range:
    """Return the steps a search can take at most: those of the longest target, plus eos."""
    return range(1 + max(max_tgt_tokens.tolist(), default=-1))


def compaction_indices(done: Sequence[bool]) -> list[int]:
    """Return the indices of the unfinished sentences, in an order that moves few of them.

    Sentences keep their position where possible; the gaps left by finished ones are filled from
    the end, because moving a sentence copies its cache.
    """
    n_left = len(done) - sum(done)
    movers = (index for index in range(n_left, len(done)) if not done[index])
    return [next(movers) if done[index] else index for index in range(n_left)]


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
        tokens: (B, W, t) so far, without bos; used only with a constraint.
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
        allowed = constraint(log_probs, tokens, rows)
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


def check_finite(log_probs: Iterable[float]) -> None:
    """Check the log-probabilities of chosen tokens: of a NaN, a softmax makes the whole row NaN.

    Raises:
        ModelFolderError: if one of them is not finite.
    """
    if not all(map(math.isfinite, log_probs)):
        raise ModelFolderError(NOT_FINITE)


N_COLUMNS = 256
"""Number of columns into which `best_continuations` arranges a vocabulary."""

MIN_NUMBERS = 2**15
"""Number of elements below which a plain top-k is faster."""


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
    _, width, vocab_size = log_probs.shape
    n_columns = min(N_COLUMNS, vocab_size)
    if log_probs.numel() < MIN_NUMBERS or n_columns * width < n_candidates:
        top, indices = (sums[:, :, None] + log_probs).flatten(1).topk(n_candidates)
        return top, indices
    n_even = vocab_size - vocab_size % n_columns
    table = torch.unflatten(log_probs[..., :n_even], 2, (-1, n_columns))  # (B, W, n, columns)
    maxima = table.amax(2)  # (B, W, columns)
    last_row = maxima[..., : vocab_size - n_even]
    torch.maximum(last_row, log_probs[..., n_even:], out=last_row)
    maxima = (maxima + sums[:, :, None]).flatten(1)  # (B, W columns)
    chosen = maxima.topk(n_candidates, sorted=False).indices  # (B, C)
    parents = chosen // n_columns  # (B, C)
    rows = torch.arange(0, vocab_size, n_columns, device=sums.device)  # (n,)
    tokens = (chosen % n_columns)[:, :, None] + rows  # (B, C, n)
    is_outside = tokens >= vocab_size
    indices = (tokens.clamp_(max=vocab_size - 1) + parents[:, :, None] * vocab_size).flatten(1)
    inside = log_probs.flatten(1).gather(1, indices).view(tokens.shape)  # (B, C, n)
    inside = inside + sums.gather(1, parents)[:, :, None]
    top, index = inside.masked_fill_(is_outside, -torch.inf).flatten(1).topk(n_candidates)
    return top, indices.gather(1, index)
