"""A text in translation: its sentences with their hypotheses, joined to a `Translation`."""

import collections
import dataclasses
import heapq
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from hubnmt.decoding import Hypothesis, make_hypothesis
from hubnmt.inference.ctranslate2_engine import CTranslate2Engine
from hubnmt.inference.engine import TorchEngine
from hubnmt.inference.scoring import Pairs
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Candidate, SentencePair, Translation

Engine = TorchEngine | CTranslate2Engine
"""Maps rows of source ids to hypotheses; `TorchEngine` is the reference."""

Choice = list[Hypothesis]
"""One hypothesis per sentence."""

CUT = "the translation reached max_new_tokens and was cut"


@dataclasses.dataclass(kw_only=True, slots=True)
class Sentence:
    """A translatable part of a text."""

    part: Part
    tokenizers: Tokenizers
    """Tokenizers that restore the protected spans of the part."""
    prefix: str = ""
    """Forced prefix; empty for none."""
    is_given: bool = False
    """Whether the prefix contains the whole translation."""
    hypotheses: list[Hypothesis] = dataclasses.field(default_factory=list)
    """Best first; empty before the search."""
    is_cut: bool = False
    """Whether the best hypothesis reached the length limit."""
    warning: str = ""
    is_replaced: bool = False
    """Whether the hypotheses are those of fallback decoding."""

    @property
    def src(self) -> str:
        """The source as the model reads it."""
        return self.tokenizers.src.decode(self.part.ids)

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.decode(self.hypotheses[0])

    def decode(self, hypothesis: Hypothesis) -> str:
        """Return the text of a hypothesis."""
        return self.tokenizers.tgt.decode_line(hypothesis.ids)


@dataclasses.dataclass(kw_only=True, slots=True)
class Draft:
    """A text in translation."""

    text: str
    parts: list[Part]
    """All parts of the plan; those that the prefix completes have the white space of the prefix."""
    sentences: list[Sentence]
    """The parts that contain words, in order."""
    warnings: tuple[str, ...] = ()
    """Warnings of the plan."""


def rescore(engine: Engine, pairs: Pairs, *, length_penalty: float) -> list[Hypothesis]:
    """Return the target ids of each pair with the model's scores."""
    scored = engine.score(pairs) if pairs else []
    return [
        make_hypothesis(ids, log_probs, length_penalty)
        for (_, ids), log_probs in zip(pairs, scored, strict=True)
    ]


def join_draft(draft: Draft, *, n_best: int, sample: bool) -> Translation:
    """Join the translations of the sentences with the white space of the source.

    Args:
        draft: a text all of whose sentences have hypotheses.
        n_best: number of translations of the whole text to return.
        sample: whether the hypotheses are samples. Then text n joins the n-th sample of each
            sentence, so that the texts are independent; otherwise the best combinations are
            returned.
    """
    sentences = draft.sentences
    found = [sentence.hypotheses for sentence in sentences]
    # Twice as many as requested, because different token sequences may give the same text.
    choices = _in_rank_order(found) if sample else best_combinations(found, 2 * n_best)
    ranked: dict[str, tuple[Candidate, Choice]] = {}
    for choice in choices:
        candidate = _make_candidate(draft, choice)
        ranked.setdefault(candidate.text, (candidate, choice))
    candidates = tuple(candidate for candidate, _ in ranked.values())[:n_best]
    best = next(choice for _, choice in ranked.values())
    src_tokens: list[str] = []
    tgt_tokens: list[str] = []
    for sentence, hypothesis in zip(sentences, best, strict=True):
        src, tgt = sentence.tokenizers
        src_tokens += src.readable([*sentence.part.ids, src.eos_id])
        tgt_tokens += tgt.readable([*hypothesis.ids, tgt.eos_id])
    return Translation(
        src=draft.text,
        text=candidates[0].text,
        score=candidates[0].score,
        n_best=candidates,
        src_tokens=tuple(src_tokens),
        tgt_tokens=tuple(tgt_tokens),
        sentences=tuple(_link(draft, best)),
        warnings=_list_warnings(draft),
        n_fallbacks=sum(sentence.is_replaced for sentence in sentences),
    )


def _make_candidate(draft: Draft, choice: Choice) -> Candidate:
    n_tokens = sum(len(hypothesis.ids) + 1 for hypothesis in choice)
    log_prob = sum(hypothesis.log_prob for hypothesis in choice)
    return Candidate(
        text="".join(_interleave(draft, choice)),
        score=sum(hypothesis.score for hypothesis in choice) / max(len(choice), 1),
        tgt_ids=tuple(tuple(hypothesis.ids) for hypothesis in choice),
        token_probability=math.exp(min(log_prob / max(n_tokens, 1), 0.0)),
        tgt_log_probs=tuple(hypothesis.token_log_probs for hypothesis in choice),
    )


def _list_warnings(draft: Draft) -> tuple[str, ...]:
    """Return the warnings of a text; equal ones are merged and counted."""
    notes = [*draft.warnings]
    notes += [CUT for sentence in draft.sentences if sentence.is_cut]
    notes += [sentence.warning for sentence in draft.sentences if sentence.warning]
    return tuple(
        note if count == 1 else f"{note} ({count} parts)"
        for note, count in collections.Counter(notes).items()
    )


def best_combinations(found: Sequence[list[Hypothesis]], n: int) -> list[Choice]:
    """Return the n combinations of one hypothesis per part with the highest total scores.

    Keeping the n best after each part is exact: every prefix of one of the n best combinations is
    itself among the n best.
    """
    best: list[tuple[float, Any]] = [(0.0, None)]
    for hypotheses in found:
        longer = (
            (total + hypothesis.score, (hypothesis, before))
            for total, before in best
            for hypothesis in hypotheses
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


def _interleave(draft: Draft, choice: Choice) -> Iterator[str]:
    """Yield text and white space alternately, two strings per part."""
    pairs = zip(draft.sentences, choice, strict=True)
    for part in draft.parts:
        sentence, hypothesis = next(pairs) if part.ids else (None, None)
        yield sentence.decode(hypothesis) if sentence and hypothesis else ""
        yield part.space


def _link(draft: Draft, choice: Choice) -> Iterator[SentencePair]:
    """Yield the character spans of each translated part in source and translation."""
    position, strings = 0, _interleave(draft, choice)
    for part, words, space in zip(draft.parts, strings, strings, strict=True):
        if part.ids:
            yield SentencePair(part.span, (position, position + len(words)))
        position += len(words) + len(space)
