"""Assemble a `Translation` from the hypotheses of its parts, with the white space of the source."""

import collections
import heapq
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from hubnmt.attention.replay import readable_pieces
from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Candidate, SentencePair, Translation, mean_probability

Choice = list[Hypothesis]
"""One hypothesis per translated part."""


def decode_line(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Decode the ids of a part; line breaks become spaces, as a part of the source has none."""
    return " ".join(tokenizer.decode(ids).splitlines())


def join_parts(
    text: str,
    parts: Sequence[Part],
    found: Sequence[list[Hypothesis]],
    *,
    n_best: int,
    sample: bool,
    tokenizers: Tokenizers,
    notes: Sequence[str] = (),
) -> Translation:
    """Join the translations of the parts with the white space of the source.

    Args:
        text: the source text.
        parts: all parts of the plan.
        found: hypotheses of each part that has ids, best first.
        n_best: number of translations of the whole text to return.
        sample: whether the hypotheses are samples. Then text n joins the n-th sample of each part,
            so that the texts are independent; otherwise the best combinations are returned.
        tokenizers: source and target tokenizer.
        notes: warnings; equal ones are merged and counted.
    """
    candidates: dict[str, Candidate] = {}
    # Twice as many as requested, because different token sequences may give the same text.
    choices = _in_rank_order(found) if sample else best_combinations(found, 2 * n_best)
    for choice in choices:
        score = sum(each.score for each in choice) / max(len(choice), 1)
        joined = "".join(_interleave(parts, choice, tokenizers.tgt))
        ids = tuple(tuple(each.ids) for each in choice)
        log_probs = tuple(each.token_log_probs for each in choice)
        sure = mean_probability(list(itertools.chain.from_iterable(log_probs)))
        candidates.setdefault(joined, Candidate(joined, score, ids, sure, log_probs))
    ranked = tuple(candidates.values())[:n_best]
    best = [hypotheses[0] for hypotheses in found]
    counts = collections.Counter(note for note in notes if note)
    return Translation(
        src=text,
        text=ranked[0].text,
        score=ranked[0].score,
        n_best=ranked,
        src_tokens=_readable(parts, [part.ids for part in parts if part.ids], tokenizers.src),
        tgt_tokens=_readable(parts, [each.ids for each in best], tokenizers.tgt),
        tgt_log_probs=tuple(value for each in best for value in each.token_log_probs),
        sentences=tuple(_link(parts, best, tokenizers.tgt)),
        warnings=tuple(
            note if count == 1 else f"{note} ({count} parts)" for note, count in counts.items()
        ),
    )


def best_combinations(found: Sequence[list[Hypothesis]], n: int) -> list[Choice]:
    """Return the n combinations of one hypothesis per part with the highest total scores.

    Keeping the n best after each part is exact: every prefix of one of the n best combinations is
    itself among the n best.
    """
    best: list[tuple[float, Any]] = [(0.0, None)]
    for hypotheses in found:
        longer = (
            (total + each.score, (each, before)) for total, before in best for each in hypotheses
        )
        best = heapq.nlargest(n, longer, key=operator.itemgetter(0))
    choices = []
    for _, chain in best:
        choice = []
        while chain:
            hypothesis, chain = chain
            choice.append(hypothesis)
        choices.append(choice[::-1])
    return choices


def _in_rank_order(found: Sequence[list[Hypothesis]]) -> list[Choice]:
    n_ranks = max(map(len, found), default=1)
    return [[row[min(rank, len(row) - 1)] for row in found] for rank in range(n_ranks)]


def _interleave(parts: Sequence[Part], choice: Choice, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield text and white space alternately, two strings per part."""
    queue = iter(choice)
    for part in parts:
        bound = tokenizer.with_spans(part.protected)
        yield decode_line(next(queue).ids, bound) if part.ids else ""
        yield part.space


def _link(parts: Sequence[Part], choice: Choice, tokenizer: Tokenizer) -> Iterator[SentencePair]:
    """Yield the character spans of each translated part in source and translation."""
    position, strings = 0, _interleave(parts, choice, tokenizer)
    for part, words, space in zip(parts, strings, strings, strict=True):
        if part.ids:
            yield SentencePair(part.span, (position, position + len(words)))
        position += len(words) + len(space)


def _readable(
    parts: Sequence[Part], rows: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> tuple[str, ...]:
    """Return the readable pieces of one row of ids for each part that has ids."""
    bound = (tokenizer.with_spans(part.protected) for part in parts if part.ids)
    return tuple(
        piece
        for ids, each in zip(rows, bound, strict=True)
        for piece in readable_pieces([*ids, each.eos_id], each)
    )
