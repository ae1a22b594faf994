"""From texts to translations: segmentation, search, second search, assembly and checks."""

import codecs
import contextlib
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig, ModelConfig
from hubnmt.decoding import force_prefix, run_search
from hubnmt.inference.engine import is_cut
from hubnmt.pipeline.checks import check_translation
from hubnmt.pipeline.draft import Draft, Engine, Sentence, join_draft, rescore
from hubnmt.pipeline.fallback import retry_degenerate
from hubnmt.pipeline.names import restore_names
from hubnmt.pipeline.segmentation import make_plan
from hubnmt.pipeline.targets import distribute_prefix, match_part, unprotect_for_prefix
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Translation

Result = TypeVar("Result")


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
        """Translate texts, batching all their sentences; every translation begins with the prefix.

        1. Segment each text, and distribute the prefix over its sentences.
        2. Search for the hypotheses of the sentences of all texts.
        3. With `guard`, search again for those that are degenerate or lost names.
        4. Join the sentences of each text, and with `guard` check the whole.
        """
        drafts = [self._draft(text, decoding, prefix=prefix, split=split) for text in texts]
        for group in _group_by_prefix(drafts):
            run_search(self._search(group, decoding, max_batch_tokens=max_batch_tokens))
        finish = self._finish(drafts, decoding, guard=guard, max_batch_tokens=max_batch_tokens)
        return run_search(finish)

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

    def _draft(self, text: str, decoding: DecodingConfig, *, prefix: str, split: bool) -> Draft:
        """Segment a text and distribute the prefix over its sentences."""
        plan = make_plan(
            text,
            self._tokenizers.src,
            language=self._config.src_lang,
            max_src_tokens=self._config.max_src_tokens,
            split=split,
            separate_copied=not prefix,
        )
        given, open_prefix = distribute_prefix(prefix, plan, language=self._config.tgt_lang)
        parts, sentences, pairs = list(plan.parts), [], []
        places = [place for place, part in enumerate(parts) if part.ids]
        for number, place in enumerate(places):
            part, own_prefix = parts[place], ""
            if number < len(given):
                part, ids = match_part(part, given[number].text, self._tokenizers)
                part = part._replace(space=given[number].space)
                pairs.append((part.ids, ids))
            elif number == len(given):
                part = unprotect_for_prefix(part, open_prefix, self._tokenizers)
                own_prefix = open_prefix
            parts[place] = part
            sentences.append(
                Sentence(
                    part=part,
                    tokenizers=self._tokenizers.with_spans(part.protected),
                    prefix=own_prefix,
                    is_given=number < len(given),
                )
            )
        scored = rescore(self.engine, pairs, length_penalty=decoding.length_penalty)
        for sentence, hypothesis in zip(sentences, scored, strict=False):
            sentence.hypotheses = [hypothesis]
        return Draft(text=text, parts=parts, sentences=sentences, warnings=plan.warnings)

    def _search(
        self, sentences: Sequence[Sentence], decoding: DecodingConfig, *, max_batch_tokens: int
    ) -> Generator[list[int], None, None]:
        """Search for the hypotheses of sentences with the same prefix and, with one, same spans."""
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
        """Search again where the guard finds something wrong, join the sentences, and check."""
        if guard:
            sentences = [sentence for draft in drafts for sentence in draft.sentences]
            free = [each for each in sentences if not (each.is_given or each.prefix)]
            sound = yield from retry_degenerate(
                free, decoding, self.engine, max_batch_tokens=max_batch_tokens
            )
            yield from restore_names(
                sound,
                decoding,
                self.engine,
                self._tokenizers,
                src_lang=self._config.src_lang,
                max_batch_tokens=max_batch_tokens,
            )
        joined = [
            join_draft(draft, n_best=decoding.n_best, sample=decoding.sample) for draft in drafts
        ]
        if not guard:
            return joined
        return [check_translation(found, self._tokenizers, self._config) for found in joined]


def _group_by_prefix(drafts: Iterable[Draft]) -> list[list[Sentence]]:
    """Group the sentences that have no hypotheses; those of a group share a search."""
    groups: dict[tuple[str, tuple[str, ...]], list[Sentence]] = defaultdict(list)
    for draft in drafts:
        for sentence in draft.sentences:
            if not sentence.hypotheses:
                spans = sentence.part.protected if sentence.prefix else ()
                groups[sentence.prefix, spans].append(sentence)
    return list(groups.values())


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
