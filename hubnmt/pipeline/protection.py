"""Search that keeps the protected spans of sentences, see `hubnmt.text.protected_spans`.

A translation keeps them if it has each placeholder as often as its source. A sentence none of whose
translations does so is translated again, with its spans as text.
"""

from collections.abc import Generator, Sequence
from typing import Protocol

from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.engine import force_prefix
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.tokenizer import Tokenizer, Tokenizers, single_spaced


class StartSearch(Protocol):
    """Start the search for the hypotheses of rows of source ids."""

    def __call__(
        self, rows: Sequence[Sequence[int]], *, prefix: ForcedPrefix | None = None
    ) -> Search:
        """See `hubnmt.pipeline.pipeline.Engine.search`."""
        ...


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


def search_parts(
    parts: Sequence[Part],
    search: StartSearch,
    tokenizers: Tokenizers,
    *,
    prefix: str = "",
    max_src_tokens: int,
) -> Generator[list[int], None, list[tuple[Part, list[Hypothesis]]]]:
    """Translate parts, and those that lost protected spans again.

    Args:
        parts: translatable parts; with a prefix, all have the same protected spans.
        search: decodes their ids.
        tokenizers: source and target tokenizer.
        prefix: forced prefix of every target.
        max_src_tokens: parts that are longer than this without placeholders, eos included, are not
            translated again.

    Yields:
        the steps of the search.

    Returns:
        for each part the part as it was translated, and its hypotheses, best first; only those that
        keep the protected spans if there are any.
    """
    bound = tokenizers.tgt.with_spans(parts[0].protected if prefix else ())
    found = yield from search([part.ids for part in parts], prefix=force_prefix(prefix, bound))
    results = []
    lost: dict[int, Part] = {}
    for number, (part, hypotheses) in enumerate(zip(parts, found, strict=True)):
        kept = [each for each in hypotheses if keeps_spans(part, each.ids, tokenizers)]
        plain = unprotect(part, tokenizers.src)
        if part.protected and not kept and len(plain.ids) < max_src_tokens:
            lost[number] = plain
        results.append((part, kept or hypotheses))
    if lost:
        rows = [part.ids for part in lost.values()]
        again = yield from search(rows, prefix=force_prefix(prefix, tokenizers.tgt.with_spans(())))
        for (number, part), hypotheses in zip(lost.items(), again, strict=True):
            results[number] = part, hypotheses
    return results
