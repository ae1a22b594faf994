"""Translation pipeline: segmentation, search, fallback decoding and assembly, with streaming."""

import codecs
import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import Protocol, TypeVar

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig, ModelConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Search, run_search
from hubnmt.inference.engine import force_prefix, is_cut
from hubnmt.inference.scoring import Pairs
from hubnmt.pipeline.align_sentences import match_part
from hubnmt.pipeline.assemble import decode_line, join_parts
from hubnmt.pipeline.checks import check_translation
from hubnmt.pipeline.fallback import fallback_search
from hubnmt.pipeline.names import restore_lost_names, restore_names
from hubnmt.pipeline.prefix import bind_prefix
from hubnmt.pipeline.protection import keeps_spans, rescore, search_parts
from hubnmt.pipeline.segmentation import Part, make_plan
from hubnmt.text.languages import main_tag
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Translation

NOUNS_CAPITALISED = ("de", "lb")
"""Languages in which a capital does not distinguish a name from another noun."""

Result = TypeVar("Result")


class Engine(Protocol):
    """Decoding engine: rows of source ids to hypotheses. `TorchEngine` is the reference."""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Decode rows of source ids without special tokens.

        Args:
            rows: source ids.
            decoding: strategy and options.
            prefix: forced prefix of every target.
            max_batch_tokens: source tokens times hypotheses per batch.

        Returns:
            a search that returns up to `n_best` hypotheses per row, best first, with distinct
            texts. Each has the placeholders of protected spans of its source, as far as the length
            limit allows.
        """
        ...

    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """Map (source ids, target ids) to log-probabilities of each target token and eos, nats."""
        ...


@dataclasses.dataclass(kw_only=True, slots=True)
class _Draft:
    """A text in translation."""

    text: str
    parts: list[Part]
    """Parts of the plan; those that the prefix completes have the white space of the prefix."""
    n_given: int
    """Translatable parts that the prefix completes."""
    open_prefix: str
    """Forced prefix of the part after those; empty for none."""
    found: list[list[Hypothesis]]
    """Hypotheses of the translatable parts decoded so far."""
    warnings: tuple[str, ...]
    n_fallbacks: int = 0
    """Parts that were decoded again."""

    @property
    def translatable(self) -> list[Part]:
        """The parts that contain words."""
        return [part for part in self.parts if part.ids]

    def part_prefix(self, number: int) -> str:
        """Return the forced prefix of a translatable part; empty for none."""
        return self.open_prefix if number == self.n_given else ""

    def replace(self, number: int, part: Part) -> None:
        """Replace a translatable part by the part as it was translated."""
        places = [place for place, each in enumerate(self.parts) if each.ids]
        self.parts[places[number]] = part


class Pipeline:
    """Translate texts with one engine."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        *,
        config: ModelConfig,
    ) -> None:
        """Set up the pipeline.

        Args:
            engine: decodes the parts.
            tokenizers: source and target tokenizer.
            config: gives the languages and the longest source.
        """
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
        """Translate texts, batching all their parts; every translation begins with the prefix."""
        drafts = [self._draft(text, decoding, prefix=prefix, split=split) for text in texts]
        # The prefix constrains one part of each text; parts with the same prefix share a search, if
        # their protected spans are the same.
        places: dict[tuple[str, tuple[str, ...]], list[tuple[_Draft, int]]] = defaultdict(list)
        for draft in drafts:
            for number, part in enumerate(draft.translatable[draft.n_given :], draft.n_given):
                draft.found.append([])
                part_prefix = draft.part_prefix(number)
                places[part_prefix, part.protected if part_prefix else ()].append((draft, number))
        for (part_prefix, _), group in places.items():
            parts = [draft.translatable[number] for draft, number in group]
            search = self._search(
                parts, decoding, prefix=part_prefix, max_batch_tokens=max_batch_tokens
            )
            for (draft, number), found in zip(group, run_search(search), strict=True):
                part, draft.found[number] = found
                draft.replace(number, part)
        return run_search(
            self._finish(drafts, decoding, guard=guard, max_batch_tokens=max_batch_tokens)
        )

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
        first, parts = len(draft.found), draft.translatable
        while first < len(parts):
            prefix = draft.part_prefix(first)
            group = parts[first : first + (1 if prefix else n_together)]
            search = self._search(group, decoding, prefix=prefix)
            # With several sentences, the yielded tokens do not belong to the next part alone.
            results = yield from self._show_steps(draft, search, by_words=len(group) == 1)
            for number, (part, found) in enumerate(results, first):
                draft.replace(number, part)
                draft.found.append(found)
            first += len(group)
        finish = self._finish([draft], decoding, guard=guard, max_batch_tokens=DEFAULT_BATCH_TOKENS)
        (translation,) = yield from self._show_steps(draft, finish, by_words=False)
        yield translation.text
        return translation

    def _search(
        self,
        parts: Sequence[Part],
        decoding: DecodingConfig,
        *,
        prefix: str,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Generator[list[int], None, list[tuple[Part, list[Hypothesis]]]]:
        """Translate parts with the same prefix, see `search_parts`."""
        return search_parts(
            parts,
            functools.partial(
                self.engine.search, decoding=decoding, max_batch_tokens=max_batch_tokens
            ),
            self._tokenizers,
            prefix=prefix,
        )

    def _show_steps(
        self, draft: _Draft, search: Generator[list[int], None, Result], *, by_words: bool
    ) -> Generator[str, None, Result]:
        """Run a search and yield the partial translation at each of its steps.

        Args:
            draft: the text, with the parts decoded before.
            search: the search to run.
            by_words: whether the yielded tokens are those of the next part.
        """
        shown = self._show(draft, [])
        with contextlib.closing(search):
            while True:
                try:
                    ids = next(search)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                yield self._show(draft, ids) if by_words else shown

    def _draft(self, text: str, decoding: DecodingConfig, *, prefix: str, split: bool) -> _Draft:
        """Segment a text and distribute the prefix over its parts."""
        plan = make_plan(
            text,
            self._tokenizers.src,
            language=self._config.src_lang,
            max_src_tokens=self._config.max_src_tokens,
            split=split,
            copy_apart=not prefix,
        )
        bound = bind_prefix(prefix, plan, language=self._config.tgt_lang)
        parts = list(plan.parts)
        places = [place for place, part in enumerate(parts) if part.ids]
        pairs = []
        for place, sentence in zip(places, bound.complete, strict=False):
            part, ids = match_part(parts[place], sentence.text, self._tokenizers)
            parts[place] = part._replace(space=sentence.space)
            pairs.append((part.ids, ids))
        return _Draft(
            text=text,
            parts=parts,
            n_given=len(pairs),
            open_prefix=bound.open,
            found=[
                [each]
                for each in rescore(
                    self.engine.score, pairs, length_penalty=decoding.length_penalty
                )
            ],
            warnings=plan.warnings,
        )

    def _finish(
        self,
        drafts: Sequence[_Draft],
        decoding: DecodingConfig,
        *,
        guard: bool,
        max_batch_tokens: int,
    ) -> Generator[list[int], None, list[Translation]]:
        """Join the parts of each text; with `guard`, repair degenerate ones and check the whole."""
        notes = [[*draft.warnings, *self._caps_reached(draft, decoding)] for draft in drafts]
        if guard:
            yield from self._retry(drafts, decoding, notes, max_batch_tokens=max_batch_tokens)
        joined = [
            self._join(draft, decoding, draft_notes)
            for draft, draft_notes in zip(drafts, notes, strict=True)
        ]
        if not guard:
            return joined
        src_lang = self._config.src_lang
        return [check_translation(each, self._tokenizers, src_lang=src_lang) for each in joined]

    def _join(self, draft: _Draft, decoding: DecodingConfig, notes: Sequence[str]) -> Translation:
        found = join_parts(
            draft.text,
            draft.parts,
            draft.found,
            n_best=decoding.n_best,
            sample=decoding.sample,
            tokenizers=self._tokenizers,
            notes=notes,
        )
        return dataclasses.replace(found, n_fallbacks=draft.n_fallbacks)

    def _retry(
        self,
        drafts: Sequence[_Draft],
        decoding: DecodingConfig,
        notes: Sequence[list[str]],
        *,
        max_batch_tokens: int,
    ) -> Generator[list[int], None, None]:
        """Decode degenerate parts again and restore names, except where a prefix constrains."""
        places = [
            (draft, number, part, draft_notes)
            for draft, draft_notes in zip(drafts, notes, strict=True)
            for number, part in enumerate(draft.translatable)
            if number >= draft.n_given and not draft.part_prefix(number)
        ]
        kept, new_notes = yield from fallback_search(
            [part.ids for _, _, part, _ in places],
            [draft.found[number] for draft, number, _, _ in places],
            decoding,
            functools.partial(self.engine.search, max_batch_tokens=max_batch_tokens),
            tokenizers=self._tokenizers,
        )
        score = functools.partial(
            rescore, self.engine.score, length_penalty=decoding.length_penalty
        )
        results = zip(places, kept, new_notes, strict=True)
        best = []
        for (draft, number, part, draft_notes), hypotheses, note in results:
            if self._keeps_spans(part, hypotheses[0]):
                draft.found[number] = hypotheses
            first = draft.found[number][0]
            best.append(restore_names(part, first, self._tokenizers, score))
            draft_notes.append(note)
            draft.n_fallbacks += bool(note)
        if main_tag(self._config.src_lang) not in NOUNS_CAPITALISED:
            search = functools.partial(
                self.engine.search,
                decoding=dataclasses.replace(decoding, sample=False, n_best=1),
                max_batch_tokens=max_batch_tokens,
            )
            best = yield from restore_lost_names(
                [part for _, _, part, _ in places], best, search, self._tokenizers, score
            )
        for (draft, number, _, _), hypothesis in zip(places, best, strict=True):
            draft.found[number] = [hypothesis, *draft.found[number][1:]]

    def _caps_reached(self, draft: _Draft, decoding: DecodingConfig) -> list[str]:
        """Return one warning per part that was cut at the length limit."""
        warnings = []
        for number, part in enumerate(draft.translatable[draft.n_given :], draft.n_given):
            bound = self._tokenizers.tgt.with_spans(part.protected)
            prefix = force_prefix(draft.part_prefix(number), bound)
            if is_cut(draft.found[number][0].ids, len(part.ids), decoding, prefix):
                warnings.append("the translation reached max_new_tokens and was cut")
        return warnings

    def _keeps_spans(self, part: Part, hypothesis: Hypothesis) -> bool:
        return keeps_spans(part, hypothesis.ids, self._tokenizers)

    def _show(self, draft: _Draft, partial_ids: list[int]) -> str:
        """Return the text of the parts decoded so far, and the partial next one."""
        parts = draft.translatable
        texts = [
            decode_line(best.ids, self._tokenizers.tgt.with_spans(part.protected))
            for part, (best, *_) in zip(parts, draft.found, strict=False)
        ]
        next_protected = parts[len(texts)].protected if len(texts) < len(parts) else ()
        # Incomplete UTF-8 sequences are held back; invalid ones become U+FFFD.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        tokenizer = self._tokenizers.tgt.with_spans(next_protected)
        partial = decoder.decode(tokenizer.decode_bytes(partial_ids))
        texts.append(" ".join(partial.splitlines()))
        shown = ""
        for part in draft.parts:
            if part.ids:
                shown += texts.pop(0)
                if not texts:
                    break
            shown += part.space
        return shown
