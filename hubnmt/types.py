"""Keyword arguments and return types of `Translator`."""

import dataclasses
import html
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hubnmt.config import DecodingConfig, DecodingOptions

UNSURE = 0.5
"""Probability below which the model is unsure of a word."""

CHECK_BELOW = 0.7
"""Mean token probability below which a sentence should be checked, see `Translation.to_check`."""


def mean_probability(log_probs: Sequence[float]) -> float:
    """Return the geometric mean of token probabilities; 1 for no tokens.

    It measures the model's confidence, not correctness. Unlike a score it does not depend on the
    length penalty, so it is comparable across texts.
    """
    return min(math.exp(sum(log_probs) / max(len(log_probs), 1)), 1.0)


class Candidate(NamedTuple):
    """One entry of an n-best list."""

    text: str
    score: float
    """Ranking score: log-probability of all tokens, in nats, divided by their number to the power
    of `length_penalty`. Not comparable across texts."""
    tgt_ids: tuple[tuple[int, ...], ...] = ()
    """Generated token ids without special tokens, one row per entry of `Translation.sentences`;
    `Translator.attend` replays exactly these."""
    token_probability: float = 1.0
    """Mean token probability, 0 to 1; see `mean_probability`."""
    tgt_log_probs: tuple[Sequence[float], ...] = ()
    """Log-probability of each token and eos, in nats, one row per entry of `tgt_ids`; with the
    engine CTranslate2 computed when first read."""


class SentencePair(NamedTuple):
    """Spans of a source sentence and its translation."""

    src: tuple[int, int]
    """(start, end) in `Translation.src`, in characters, without surrounding white space."""
    tgt: tuple[int, int]
    """(start, end) in `Translation.text`, in characters."""


class TranslateOptions(DecodingOptions, total=False):
    """The keyword arguments of `Translator.translate`, for type checkers."""

    decoding: DecodingConfig
    prefix: str
    max_batch_tokens: int
    guard: bool
    split: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """Translation of one text.

    Example:
        >>> translation = translator.translate("Ein Hund rennt.", n_best=2)
        >>> translation.text, [candidate.text for candidate in translation.n_best]
        ('A dog runs.', ['A dog runs.', 'A dog running.'])
        >>> translation.tgt_tokens
        (' A', ' dog', ' runs', '.', '<eos>')
    """

    src: str
    """The input text, unchanged."""
    text: str
    """The best translation."""
    score: float
    """Score of the best translation, see `Candidate`; the mean over `sentences` if several."""
    n_best: tuple[Candidate, ...]
    """Distinct translations, best first."""
    src_tokens: tuple[str, ...]
    """Readable pieces of the source, `<eos>` last."""
    tgt_tokens: tuple[str, ...]
    """Readable pieces of the best translation, `<eos>` last."""
    sentences: tuple[SentencePair, ...] = ()
    """Aligned sentence spans of `src` and `text`, in order."""
    warnings: tuple[str, ...] = ()
    """Warnings such as a source in another language, missing numbers, changed names, split or
    truncated input, and output that reached its maximum length."""
    detected_language: str = ""
    """ISO 639 code of the source's language if it is surely not the model's; else empty."""
    n_fallbacks: int = 0
    """Number of sentences whose translation was degenerate and replaced by a second search."""

    def __str__(self) -> str:
        """Return the best translation."""
        return self.text

    def _repr_html_(self) -> str:
        """Return the translation for notebooks, less probable tokens in a stronger tint."""
        tokens = "".join(
            f'<span style="background: rgba(245, 158, 11, {0.75 * (1 - math.exp(min(p, 0))):.2f})" '
            f'title="{math.exp(min(p, 0)):.0%}">{html.escape(token)}</span>'
            for token, p in zip(self.tgt_tokens, self.tgt_log_probs, strict=True)
            if token != "<eos>"
        )
        notes = [f"token probability {self.token_probability:.0%}", *self.warnings]
        notes += [f"check: {self.text[slice(*pair.tgt)]}" for pair in self.to_check]
        return f"<p>{tokens}</p><p><small>{html.escape('; '.join(notes))}</small></p>"

    @property
    def token_probability(self) -> float:
        """Mean token probability of the best translation, 0 to 1; see `mean_probability`."""
        return self.n_best[0].token_probability

    @property
    def tgt_log_probs(self) -> tuple[float, ...]:
        """Log-probability of each of `tgt_tokens`, in nats."""
        return tuple(itertools.chain.from_iterable(self.n_best[0].tgt_log_probs))

    @property
    def to_check(self) -> tuple[SentencePair, ...]:
        """Sentences of the best translation that are probably wrong: below `CHECK_BELOW`.

        The mean token probability separated wrong translations from right ones better than the
        least one, the length, the coverage of the source by the alignment head and the way back
        (tests/benchmarks/check.py at commit 8573ac9); docs/decoding.md has its present shares.
        """
        rows = self.n_best[0].tgt_log_probs if self.n_best else ()
        return tuple(
            pair
            for pair, row in zip(self.sentences, rows, strict=False)
            if mean_probability(row) < CHECK_BELOW
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object printed by `--json`."""
        names = ("src", "text", "score", "src_tokens", "tgt_tokens", "tgt_log_probs", "warnings")
        values = {name: getattr(self, name) for name in names}
        values["token_probability"] = self.token_probability
        values["to_check"] = [self.text[slice(*pair.tgt)] for pair in self.to_check]
        values["n_best"] = [{"text": best.text, "score": best.score} for best in self.n_best]
        return values


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """An alternative continuation at one position of a translation."""

    piece: str
    """Readable next piece; after a prefix, the piece that completes its last word."""
    probability: float
    """Model probability of the piece given source and prefix."""
    text: str
    """Full translation that continues with this piece."""
    is_whole: bool = True
    """False if `text` was cut off at the requested length."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PairScore:
    """Score of a given translation."""

    log_prob: float
    """Sum over all tokens and eos, in nats."""
    perplexity: float
    """exp(-log_prob / number of tokens), eos included."""
    tgt_tokens: tuple[str, ...]
    """Readable pieces, `<eos>` last."""
    tgt_log_probs: tuple[float, ...]
    """Log-probability of each of `tgt_tokens`, in nats."""
