"""What a search needs from a model, and what it gives back.

Takes nothing, gives two protocols and a value. Must not know the model or text. B sentences are
searched at once, each with W hypotheses; the state (keys and values of a Transformer, or a prefix
in a test) belongs to the step.
"""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor


class Step(Protocol):
    """Next-token log-probabilities for every live hypothesis, and the bookkeeping of its state."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Extend the state by the newest tokens (B, W) and give log_probs (B, W, V), in nats."""
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w of sentence b continue `parents[b, w]`; parents is (B, W') int64."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Drop all sentences but these; rows is (B',) int64."""
        ...


Constraint = Callable[[Tensor, Tensor], Tensor]
"""`(log_probs (B, W, V), tokens so far (B, W, t)) -> log_probs (B, W, V)`, -inf where forbidden."""


class Hypothesis(NamedTuple):
    """One finished translation, in ids."""

    ids: list[int]
    """Without bos and eos."""
    log_prob: float
    """Sum over all tokens and eos, in nats."""
    score: float
    """What hypotheses are ranked by: `log_prob / (len(ids) + 1) ** length_penalty`, with log_prob
    after a repetition penalty where a beam search applied one."""
    token_log_probs: tuple[float, ...]
    """Of each token and eos, nats; they sum to `log_prob`."""


Search = Generator[list[int], None, list[list[Hypothesis]]]
"""A search under way. Yields at each step the tokens so far, without bos, of the best hypothesis of
the first sentence that has not ended; returns the hypotheses of each sentence, best first. Closing
it ends the search."""

Result = TypeVar("Result")


def run_search(search: Generator[object, None, Result]) -> Result:
    """Run a search to its end and return what it found."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: Result = end.value
            return result


def make_hypothesis(
    ids: Sequence[int], token_log_probs: Sequence[float], length_penalty: float
) -> Hypothesis:
    """Sum up a finished hypothesis.

    Args:
        ids: n tokens without bos and eos.
        token_log_probs: n + 1, of each token and eos.
        length_penalty: exponent of the normalisation.
    """
    gains = tuple(token_log_probs)
    total = sum(gains)
    return Hypothesis(list(ids), total, total / len(gains) ** length_penalty, gains)
