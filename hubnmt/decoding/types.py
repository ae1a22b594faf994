"""Interfaces of decoding: the `Step` protocol, `Constraint`, `Hypothesis` and `Search`.

B sentences are decoded together, each with W hypotheses. The step owns the decoder state.
"""

import math
from collections.abc import Callable, Generator, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

from torch import Tensor


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
    repetition penalty, `log_prob` is the penalized sum."""
    token_log_probs: Sequence[float]
    """Log-probability of each token and eos, in nats; they sum to `log_prob`."""

    @property
    def token_probability(self) -> float:
        """Geometric mean of the probabilities of the tokens and eos."""
        return math.exp(min(self.log_prob / (len(self.ids) + 1), 0.0))


Status = Literal["kept", "finished", "dropped"]
"""What beam search does with a continuation: `finished` ends in eos and is one of the W best,
`kept` is part of the next beam."""


class Continuation(NamedTuple):
    """A continuation that a step of beam search considered."""

    parent: int
    """Index of its parent among the hypotheses that the previous step kept, best first."""
    token: int
    log_prob: float
    """The model's log-probability of `token`, before constraints."""
    rank: float
    """Sum of the log-probabilities of the hypothesis, after constraints."""
    status: Status


BeamObserver = Callable[[list[Continuation]], None]
"""Called after each step of a beam search, for each unfinished sentence, with the possible ones
among the 2W best continuations, best first."""

Search = Generator[list[int], None, list[list[Hypothesis]]]
"""A running search. At each step it yields the tokens so far, without bos, of the best hypothesis
of the first unfinished sentence; it returns the hypotheses of each sentence, best first. Closing
the generator stops the search."""

Result = TypeVar("Result")


def run_search(search: Generator[object, None, Result]) -> Result:
    """Run a search to completion and return its result."""
    while True:
        try:
            next(search)
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
    return Hypothesis(list(ids), total, total / len(log_probs) ** length_penalty, log_probs)
