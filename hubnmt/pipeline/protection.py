"""Search that keeps the protected spans of sentences, see `hubnmt.text.protected_spans`.

A translation keeps them if it has each placeholder as often as its source. A sentence none of whose
translations does so is translated again, with its spans as text. If these are lost as well, the
placeholders are inserted into the first translation where the model gives them the highest
probability.
"""

import functools
import unicodedata
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.engine import force_prefix
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.graphemes import ZWJ, ZWNJ
from hubnmt.text.normalization import normalize, single_spaced
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


def _continues_word(piece: bytes) -> bool:
    """Return whether a piece begins with a letter, mark or digit, or inside a character."""
    first = piece.decode(errors="replace")[:1]
    if not first:
        return False
    is_joined = unicodedata.category(first)[0] in "LMN" or first in (ZWJ, ZWNJ)
    return is_joined or first == "\N{REPLACEMENT CHARACTER}"


def restore_spans(
    part: Part,
    ids: Sequence[int],
    tokenizers: Tokenizers,
    score: Callable[[IdPairs], list[Hypothesis]],
    *,
    prefix: str,
) -> Hypothesis:
    """Insert the placeholders that a translation lost, each at the place that the model prefers.

    Args:
        part: the part, encoded with placeholders.
        ids: target ids; surplus placeholders are removed.
        tokenizers: source and target tokenizer.
        score: scores the candidates, see `rescore`.
        prefix: forced prefix, which is left as it is.
    """
    tokenizer = tokenizers.tgt
    missing = tokenizers.src.count_placeholders(part.ids)
    kept = []
    for token_id in ids:
        mark = tokenizer.count_placeholders([token_id])
        if mark <= missing:
            kept.append(token_id)
            missing -= mark
    bound = tokenizer.with_spans(part.protected)
    (best,) = score([(part.ids, kept)])
    for mark_id in [tokenizer.encode(mark)[0] for mark in missing.elements()]:
        places = [
            place
            for place in range(len(best.ids) + 1)
            if place == len(best.ids) or not _continues_word(bound.piece_bytes(best.ids[place]))
            if bound.decode(best.ids[:place]).startswith(prefix)
        ] or [len(best.ids)]
        candidates = [[*best.ids[:place], mark_id, *best.ids[place:]] for place in places]
        scored = score([(part.ids, candidate) for candidate in candidates])
        best = max(scored, key=lambda hypothesis: hypothesis.log_prob)
    return best


def search_parts(
    parts: Sequence[Part],
    search: StartSearch,
    replay: Replay,
    tokenizers: Tokenizers,
    *,
    length_penalty: float,
    prefix: str = "",
    max_src_tokens: int,
) -> Generator[list[int], None, list[tuple[Part, list[Hypothesis]]]]:
    """Translate parts, and those that lost protected spans again.

    Args:
        parts: translatable parts; with a prefix, all have the same protected spans.
        search: decodes their ids.
        replay: scores translations into which spans are inserted.
        tokenizers: source and target tokenizer.
        length_penalty: that of the scores.
        prefix: forced prefix of every target.
        max_src_tokens: parts that are longer than this without placeholders, eos included, are not
            translated again.

    Yields:
        the steps of the search.

    Returns:
        for each part the part as it was translated, and its hypotheses, best first, which keep the
        protected spans.
    """
    bound = tokenizers.tgt.with_spans(parts[0].protected if prefix else ())
    found = yield from search([part.ids for part in parts], prefix=force_prefix(prefix, bound))
    results = []
    lost: dict[int, Part] = {}
    for number, (part, hypotheses) in enumerate(zip(parts, found, strict=True)):
        kept = [each for each in hypotheses if keeps_spans(part, each.ids, tokenizers)]
        if not kept:
            lost[number] = unprotect(part, tokenizers.src)
        results.append((part, kept or hypotheses))
    again = {number: part for number, part in lost.items() if len(part.ids) < max_src_tokens}
    as_text: dict[int, list[Hypothesis]] = {}
    if again:
        rows = [part.ids for part in again.values()]
        plain = tokenizers.tgt.with_spans(())
        found = yield from search(rows, prefix=force_prefix(prefix, plain))
        as_text = dict(zip(again, found, strict=True))
    score = functools.partial(rescore, replay, length_penalty=length_penalty)
    for number, plain_part in lost.items():
        part, hypotheses = results[number]
        if kept := _with_spans(part, as_text.get(number, []), tokenizers.tgt):
            results[number] = plain_part, kept
        else:
            restored = [
                restore_spans(part, each.ids, tokenizers, score, prefix=prefix)
                for each in hypotheses
            ]
            results[number] = part, restored
    return results


def _with_spans(
    part: Part, hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer
) -> list[Hypothesis]:
    """Return the hypotheses that contain each protected span of a part as text."""
    spans = {normalize(single_spaced(span)) for span in part.protected}
    return [
        each for each in hypotheses if all(span in tokenizer.decode(each.ids) for span in spans)
    ]
