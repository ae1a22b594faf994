"""Search that keeps the protected spans of sentences, see `hubnmt.text.protected_spans`.

A translation keeps them if it has each placeholder as often as its source, which the search
requires, see `hubnmt.decoding.RequiredTokens`.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.engine import force_prefix
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.normalization import single_spaced
from hubnmt.text.tokenizer import Tokenizer, Tokenizers


class StartSearch(Protocol):
    """Start the search for the hypotheses of rows of source ids."""

    def __call__(
        self, rows: Sequence[Sequence[int]], *, prefix: ForcedPrefix | None = None
    ) -> Search:
        """See `hubnmt.pipeline.pipeline.Engine.search`."""
        ...


IdPairs = Sequence[tuple[Sequence[int], Sequence[int]]]
Replay = Callable[[IdPairs], list[tuple[float, ...]]]
"""Map (source ids, target ids) pairs to log-probabilities of each target token and eos, nats."""


def rescore(replay: Replay, pairs: IdPairs, *, length_penalty: float) -> list[Hypothesis]:
    """Return the target ids of each pair with the model's scores."""
    found = []
    for (_, ids), log_probs in zip(pairs, replay(pairs) if pairs else [], strict=True):
        total = sum(log_probs)
        score = total / len(log_probs) ** length_penalty
        found.append(Hypothesis(list(ids), total, score, log_probs))
    return found


def keeps_spans(part: Part, tgt_ids: Sequence[int], tokenizers: Tokenizers) -> bool:
    """Return whether a translation has each placeholder as often as its source."""
    wanted = tokenizers.src.count_placeholders(part.ids)
    return wanted == tokenizers.tgt.count_placeholders(tgt_ids)


def unprotect(part: Part, tokenizer: Tokenizer) -> Part:
    """Return a part with its protected spans as text."""
    if not part.protected:
        return part
    text = tokenizer.with_spans(part.protected).decode(part.ids)
    return part._replace(ids=tokenizer.encode(single_spaced(text)), protected=())


def spell_spans(part: Part, prefix: str, tokenizers: Tokenizers) -> Part:
    """Return the part to be translated with a prefix.

    Its spans are text if the prefix ends within one, or has one more often than the source.
    """
    if not (prefix and part.protected):
        return part
    ids = tokenizers.tgt.with_spans(part.protected).encode(prefix)
    counts = tokenizers.tgt.count_placeholders(ids)
    is_surplus = not counts <= tokenizers.src.count_placeholders(part.ids)
    ends_within = any(
        prefix.endswith(span[:length]) for span in part.protected for length in range(1, len(span))
    )
    return unprotect(part, tokenizers.src) if is_surplus or ends_within else part


def search_parts(
    parts: Sequence[Part],
    search: StartSearch,
    tokenizers: Tokenizers,
    *,
    prefix: str = "",
) -> Generator[list[int], None, list[tuple[Part, list[Hypothesis]]]]:
    """Translate parts.

    Args:
        parts: translatable parts; with a prefix, all have the same protected spans.
        search: decodes their ids.
        tokenizers: source and target tokenizer.
        prefix: forced prefix of every target.

    Yields:
        the steps of the search.

    Returns:
        for each part the part as it was translated, and its hypotheses, best first, which keep the
        protected spans.
    """
    parts = [spell_spans(part, prefix, tokenizers) for part in parts]
    bound = tokenizers.tgt.with_spans(parts[0].protected if prefix else ())
    found = yield from search([part.ids for part in parts], prefix=force_prefix(prefix, bound))
    return list(zip(parts, found, strict=True))
