"""What a translation is: the values that `Translator` returns.

Takes nothing, gives a few values. Must not know how they come about.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple


def mean_probability(log_probs: Sequence[float]) -> float:
    """Average the probabilities of tokens: exp of the mean log-probability, 1 for no token.

    Says how sure the model was, which is no measure of truth; unlike a score it does not depend on
    the length penalty, so texts can be compared.
    """
    return min(math.exp(sum(log_probs) / max(len(log_probs), 1)), 1.0)


class Candidate(NamedTuple):
    """One of the n best translations."""

    text: str
    score: float
    """What translations of one text are ranked by: the log-probability of all tokens, nats, divided
    by their number to the power of `length_penalty`. Means nothing from one text to another."""
    tgt_ids: tuple[tuple[int, ...], ...] = ()
    """The tokens as they were searched, one row per entry of `Translation.sentences`, without
    special ones: `Translator.attend` replays exactly these."""
    token_probability: float | None = None
    """See `mean_probability`: how sure the model was, from 0 to 1."""


class SentencePair(NamedTuple):
    """A stretch of a text that was translated in one go, and what became of it."""

    src: tuple[int, int]
    """(start, end) in `Translation.src`, characters, white space around it not counted."""
    tgt: tuple[int, int]
    """(start, end) in `Translation.text`, characters."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one text."""

    src: str
    """The text as it was given."""
    text: str
    """The best translation."""
    score: float
    """Of the best, see `Candidate`; the mean over `sentences` where there are several."""
    n_best: tuple[Candidate, ...]
    """Best first; no two with the same text."""
    src_tokens: tuple[str, ...]
    """Readable pieces of the source, `<eos>` last."""
    tgt_tokens: tuple[str, ...]
    """Readable pieces of the best translation, `<eos>` last."""
    tgt_log_probs: tuple[float, ...]
    """Log-probability of each of `tgt_tokens`, nats."""
    sentences: tuple[SentencePair, ...] = ()
    """Which stretch of `text` translates which of `src`, in order."""
    warnings: tuple[str, ...] = ()
    """What a careful reader should know: cuts, shortened output, ..."""
    n_fallbacks: int = 0
    """Parts that the guard had searched again, whichever of the two translations was kept."""

    @property
    def token_probability(self) -> float:
        """How sure the model was of the best translation, from 0 to 1; see `mean_probability`."""
        return mean_probability(self.tgt_log_probs)

    def to_dict(self) -> dict[str, Any]:
        """Return the promised JSON object (`--json`)."""
        names = ("src", "text", "score", "src_tokens", "tgt_tokens", "tgt_log_probs", "warnings")
        values = {name: getattr(self, name) for name in names}
        values["n_best"] = [{"text": each.text, "score": each.score} for each in self.n_best]
        return values


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another way to go on at one place of a translation."""

    piece: str
    """The next piece, readable; behind a prefix, the piece that says its last word or more."""
    probability: float
    """The model's, given source and prefix."""
    text: str
    """The whole translation that this piece leads to."""
    is_whole: bool = True
    """False where the text goes on, but no more was asked for."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PairScore:
    """How probable the model finds a given translation."""

    log_prob: float
    """Sum over all tokens and eos, nats."""
    perplexity: float
    """exp(-log_prob / tokens), eos counted."""
    tgt_tokens: tuple[str, ...]
    """Readable pieces, `<eos>` last."""
    tgt_log_probs: tuple[float, ...]
    """One per token, nats."""
