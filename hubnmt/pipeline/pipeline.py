"""From texts to translations: segmentation, search, second search, assembly and checks."""

import codecs
import collections
import contextlib
import dataclasses
import heapq
import math
import operator
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig, ModelConfig
from hubnmt.decoding.constraints import force_prefix, is_cut
from hubnmt.decoding.search import Hypothesis, make_hypothesis, run_to_end
from hubnmt.inference import Engine
from hubnmt.pipeline.checks import check_translation
from hubnmt.pipeline.repair import repair_sentences
from hubnmt.pipeline.segmentation import Part, Sentence, segment_text
from hubnmt.pipeline.targets import distribute_prefix, match_part, unprotect_for_prefix
from hubnmt.text.sentences import Segment
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Candidate, SentencePair, Translation

Result = TypeVar("Result")

Combination = list[Hypothesis]
"""One hypothesis per sentence."""

CUT = "the translation reached its length limit (max_new_tokens) and was cut"


@dataclasses.dataclass(kw_only=True, slots=True)
class Draft:
    """A text in translation."""

    text: str
    parts: list[Part]
    """All parts of the text; those that the prefix completes have the white space of the prefix."""
    sentences: list[Sentence]
    """The parts that contain words, in order."""
    warnings: tuple[str, ...] = ()
    """Warnings of the segmentation."""


class Pipeline:
    """Translate texts with one engine."""

    def __init__(self, engine: Engine, tokenizers: Tokenizers, *, config: ModelConfig) -> None:
        """Keep the engine, the tokenizers, and the languages and longest source of the config."""
        self.engine = engine
        self._tokenizers = tokenizers
        self._config = config

    def translate(
        self,
        texts: Sequence[str],
        decoding: DecodingConfig,
        *,
        prefix: str,
        guard: bool,
        split: bool,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> list[Translation]:
        """Translate texts, batching their sentences; every translation begins with the prefix."""
        # 1. Segment each text, and distribute the prefix over its sentences.
        drafts = [self._draft(text, decoding, prefix=prefix, split=split) for text in texts]
        # 2. Search for the hypotheses of the sentences of all texts.
        for group in _group_by_prefix(drafts):
            run_to_end(self._search(group, decoding, max_batch_tokens=max_batch_tokens))
        finish = self._finish(drafts, decoding, guard=guard, max_batch_tokens=max_batch_tokens)
        return run_to_end(finish)

    def _draft(self, text: str, decoding: DecodingConfig, *, prefix: str, split: bool) -> Draft:
        """Segment a text, distribute the prefix over its sentences, and score what it gives."""
        # 1. Segment, and find the sentences that the prefix completes.
        segmented = segment_text(
            text,
            self._tokenizers.src,
            language=self._config.src_lang,
            max_src_tokens=self._config.max_src_tokens,
            split=split,
            separate_copied=not prefix,
        )
        given: list[Segment] = []
        if prefix:
            given, prefix = distribute_prefix(prefix, segmented, language=self._config.tgt_lang)
        # 2. Give each sentence its translation, the rest of the prefix, or neither.
        parts, sentences, pairs = list(segmented.parts), [], []
        indices = [index for index, part in enumerate(parts) if part.ids]
        for sentence_index, part_index in enumerate(indices):
            part, beginning = parts[part_index], ""
            if sentence_index < len(given):
                beginning, space = given[sentence_index]
                part, ids = match_part(part._replace(space=space), beginning, self._tokenizers)
                pairs.append((part.ids, ids))
            elif sentence_index == len(given) and prefix:
                beginning = prefix
                part = unprotect_for_prefix(part, prefix, self._tokenizers)
            parts[part_index] = part
            span_tokenizers = self._tokenizers.with_spans(part.protected)
            sentences.append(Sentence(part=part, tokenizers=span_tokenizers, prefix=beginning))
        # 3. Score the given translations.
        scored = self.engine.score(pairs) if pairs else []
        for sentence, (_, ids), log_probs in zip(sentences, pairs, scored, strict=False):
            sentence.hypotheses = [make_hypothesis(ids, log_probs, decoding.length_penalty)]
        return Draft(text=text, parts=parts, sentences=sentences, warnings=segmented.warnings)

    def _search(
        self, sentences: Sequence[Sentence], decoding: DecodingConfig, *, max_batch_tokens: int
    ) -> Generator[list[int], None, None]:
        """Set the hypotheses of sentences with the same prefix and, with one, the same spans."""
        prefix = force_prefix(sentences[0].prefix, sentences[0].tokenizers.tgt)
        rows = [sentence.part.ids for sentence in sentences]
        found = yield from self.engine.search(
            rows, decoding, prefix=prefix, max_batch_tokens=max_batch_tokens
        )
        for sentence, hypotheses in zip(sentences, found, strict=True):
            sentence.hypotheses = hypotheses
            sentence.is_cut = is_cut(hypotheses[0].ids, len(sentence.part.ids), decoding, prefix)

    def _finish(
        self,
        drafts: Sequence[Draft],
        decoding: DecodingConfig,
        *,
        guard: bool,
        max_batch_tokens: int,
    ) -> Generator[list[int], None, list[Translation]]:
        """Take steps 3 and 4 of `translate`: search where something is wrong, join and check."""
        # 3. Search again for sentences that are degenerate or lost names.
        if guard:
            sentences = [sentence for draft in drafts for sentence in draft.sentences]
            yield from repair_sentences(
                [sentence for sentence in sentences if not sentence.prefix],
                decoding,
                self.engine,
                self._tokenizers,
                src_lang=self._config.src_lang,
                max_batch_tokens=max_batch_tokens,
            )
        # 4. Join the sentences of each text, and check the whole.
        joined = [
            join_draft(draft, n_best=decoding.n_best, sample=decoding.sample) for draft in drafts
        ]
        if not guard:
            return joined
        return [check_translation(found, self._tokenizers, self._config) for found in joined]

    def stream(
        self,
        text: str,
        decoding: DecodingConfig,
        *,
        prefix: str,
        guard: bool,
        split: bool,
        n_together: int,
    ) -> Generator[str, None, Translation]:
        """Translate one text, yielding partial translations; return the `Translation`."""
        draft = self._draft(text, decoding, prefix=prefix, split=split)
        waiting = [sentence for sentence in draft.sentences if not sentence.hypotheses]
        while waiting:
            n_next = 1 if waiting[0].prefix else n_together
            group, waiting = waiting[:n_next], waiting[n_next:]
            search = self._search(group, decoding, max_batch_tokens=DEFAULT_BATCH_TOKENS)
            # With several sentences, the yielded tokens do not belong to the next one alone.
            yield from _show_steps(draft, search, by_words=len(group) == 1)
        finish = self._finish([draft], decoding, guard=guard, max_batch_tokens=DEFAULT_BATCH_TOKENS)
        (translation,) = yield from _show_steps(draft, finish, by_words=False)
        yield translation.text
        return translation


def _group_by_prefix(drafts: Iterable[Draft]) -> list[list[Sentence]]:
    """Group the sentences that have no hypotheses; those of a group share a search."""
    groups: dict[tuple[str, tuple[str, ...]], list[Sentence]] = collections.defaultdict(list)
    for draft in drafts:
        for sentence in draft.sentences:
            if not sentence.hypotheses:
                spans = sentence.part.protected if sentence.prefix else ()
                groups[sentence.prefix, spans].append(sentence)
    return list(groups.values())


def join_draft(draft: Draft, *, n_best: int, sample: bool) -> Translation:
    """Join the translations of the sentences with the white space of the source.

    Args:
        draft: a text all of whose sentences have hypotheses.
        n_best: number of translations of the whole text to return.
        sample: whether the hypotheses are samples. Then text n joins the n-th sample of each
            sentence, so that the texts are independent; otherwise the best combinations are
            returned.
    """
    # 1. Combine the hypotheses of the sentences to the n best texts.
    sentences = draft.sentences
    found = [sentence.hypotheses for sentence in sentences]
    # Twice as many as requested, because different token sequences may give the same text.
    combinations = _in_rank_order(found) if sample else best_combinations(found, 2 * n_best)
    ranked: dict[str, tuple[Candidate, Combination]] = {}
    for combination in combinations:
        candidate = _make_candidate(draft, combination)
        ranked.setdefault(candidate.text, (candidate, combination))
    candidates = tuple(candidate for candidate, _ in ranked.values())[:n_best]
    best = next(combination for _, combination in ranked.values())
    # 2. Join the tokens of the best.
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
        sentences=tuple(_sentence_spans(draft, best)),
        warnings=_list_warnings(draft),
        n_fallbacks=sum(sentence.is_replaced for sentence in sentences),
    )


def _in_rank_order(found: Sequence[list[Hypothesis]]) -> list[Combination]:
    n_ranks = max(map(len, found), default=1)
    return [[row[min(rank, len(row) - 1)] for row in found] for rank in range(n_ranks)]


def best_combinations(found: Sequence[list[Hypothesis]], n: int) -> list[Combination]:
    """Return the n combinations of one hypothesis per part with the highest total scores.

    Keeping the n best after each part is exact: every prefix of one of the n best combinations is
    itself among the n best.
    """
    best: list[tuple[float, Combination]] = [(0.0, [])]
    for hypotheses in found:
        longer = [
            (total + each.score, combination, each)
            for total, combination in best
            for each in hypotheses
        ]
        best = [
            (total, [*combination, last])
            for total, combination, last in heapq.nlargest(n, longer, key=operator.itemgetter(0))
        ]
    return [combination for _, combination in best]


def _make_candidate(draft: Draft, combination: Combination) -> Candidate:
    n_tokens = sum(len(hypothesis.ids) + 1 for hypothesis in combination)
    log_prob = sum(hypothesis.log_prob for hypothesis in combination)
    return Candidate(
        text="".join(text + part.space for part, text in _part_texts(draft, combination)),
        score=sum(hypothesis.score for hypothesis in combination) / max(len(combination), 1),
        tgt_ids=tuple(tuple(hypothesis.ids) for hypothesis in combination),
        token_probability=math.exp(min(log_prob / max(n_tokens, 1), 0.0)),
        tgt_log_probs=tuple(hypothesis.token_log_probs for hypothesis in combination),
    )


def _part_texts(draft: Draft, combination: Combination) -> list[tuple[Part, str]]:
    """Return each part with its translation, which is empty without words."""
    pairs = zip(draft.sentences, combination, strict=True)
    texts = (sentence.decode(hypothesis) for sentence, hypothesis in pairs)
    return [(part, next(texts) if part.ids else "") for part in draft.parts]


def _sentence_spans(draft: Draft, combination: Combination) -> Iterator[SentencePair]:
    """Yield the character spans of each translated part in source and translation."""
    position = 0
    for part, text in _part_texts(draft, combination):
        if part.ids:
            yield SentencePair(part.span, (position, position + len(text)))
        position += len(text) + len(part.space)


def _list_warnings(draft: Draft) -> tuple[str, ...]:
    """Return the warnings of a text; equal ones are merged and counted."""
    notes = [*draft.warnings]
    notes += [CUT for sentence in draft.sentences if sentence.is_cut]
    notes += [sentence.warning for sentence in draft.sentences if sentence.warning]
    return tuple(
        note if count == 1 else f"{note} ({count} parts)"
        for note, count in collections.Counter(notes).items()
    )


def _show_steps(
    draft: Draft, search: Generator[list[int], None, Result], *, by_words: bool
) -> Generator[str, None, Result]:
    """Run a search and yield the partial translation at each of its steps.

    `by_words` says that the tokens which the search yields are those of the next sentence.
    """
    shown = _show(draft, [])
    with contextlib.closing(search):
        while True:
            try:
                ids = next(search)
            except StopIteration as end:
                result: Result = end.value
                return result
            yield _show(draft, ids) if by_words else shown


def _show(draft: Draft, partial_ids: Sequence[int]) -> str:
    """Return the text of the sentences decoded so far, and the partial next one."""
    shown, sentences = "", iter(draft.sentences)
    for part in draft.parts:
        if part.ids:
            sentence = next(sentences)
            if not sentence.hypotheses:
                # Incomplete UTF-8 sequences are held back; invalid ones become U+FFFD.
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                partial = decoder.decode(sentence.tokenizers.tgt.decode_bytes(partial_ids))
                return shown + " ".join(partial.splitlines())
            shown += sentence.decode(sentence.hypotheses[0])
        shown += part.space
    return shown
