"""Translation pipeline: segmentation, search, fallback decoding and assembly, with streaming."""

import codecs
import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Search, run_search
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS, force_prefix, is_cut
from hubnmt.pipeline.assemble import decode_line, join_parts
from hubnmt.pipeline.fallback import fallback_search
from hubnmt.pipeline.prefix import bind_prefix
from hubnmt.pipeline.segmentation import Part, make_plan
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Translation

Result = TypeVar("Result")

Replay = Callable[[Sequence[tuple[Sequence[int], Sequence[int]]]], list[tuple[float, ...]]]
"""Map (source ids, target ids) pairs to log-probabilities of each target token and eos, nats."""


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
            texts.
        """
        ...


@dataclasses.dataclass(kw_only=True, slots=True)
class _Draft:
    """A text in translation."""

    text: str
    parts: tuple[Part, ...]
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
    def rows(self) -> list[list[int]]:
        """Source ids of the translatable parts."""
        return [part.ids for part in self.parts if part.ids]


class Pipeline:
    """Translate texts with one engine."""

    def __init__(
        self,
        engine: Engine,
        replay: Replay,
        tokenizers: Tokenizers,
        *,
        config: ModelConfig,
    ) -> None:
        """Set up the pipeline.

        Args:
            engine: decodes the parts.
            replay: scores the sentences that a prefix completes.
            tokenizers: source and target tokenizer.
            config: gives the languages and the longest source.
        """
        self.engine = engine
        self._replay = replay
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
        # The prefix constrains one part of each text; parts with the same prefix share a search.
        places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, draft in enumerate(drafts):
            for part in range(draft.n_given, len(draft.rows)):
                draft.found.append([])
                part_prefix = draft.open_prefix if part == draft.n_given else ""
                places[part_prefix].append((number, part))
        for part_prefix, group in places.items():
            search = self.engine.search(
                [drafts[number].rows[part] for number, part in group],
                decoding,
                prefix=force_prefix(part_prefix, self._tokenizers.tgt),
                max_batch_tokens=max_batch_tokens,
            )
            for (number, part), found in zip(group, run_search(search), strict=True):
                drafts[number].found[part] = found
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
        forced = force_prefix(draft.open_prefix, self._tokenizers.tgt)
        first, rows = len(draft.found), draft.rows
        while first < len(rows):
            group = rows[first : first + (1 if forced else n_together)]
            search = self.engine.search(group, decoding, prefix=forced)
            # With several sentences, the yielded tokens do not belong to the next part alone.
            draft.found += yield from self._show_steps(draft, search, by_words=len(group) == 1)
            first += len(group)
            forced = None
        finish = self._finish([draft], decoding, guard=guard, max_batch_tokens=DEFAULT_BATCH_TOKENS)
        (translation,) = yield from self._show_steps(draft, finish, by_words=False)
        yield translation.text
        return translation

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
            emoji_apart=not prefix,
        )
        bound = bind_prefix(prefix, plan, language=self._config.tgt_lang)
        complete = iter(bound.complete)
        parts = []
        for part in plan.parts:
            sentence = next(complete, None) if part.ids else None
            parts.append(part._replace(space=sentence.space) if sentence else part)
        given = [self._tokenizers.tgt.encode(sentence.text) for sentence in bound.complete]
        pairs = [(part.ids, ids) for part, ids in zip(plan.translatable, given, strict=False)]
        scored = zip(given, self._replay(pairs) if pairs else [], strict=True)
        return _Draft(
            text=text,
            parts=tuple(parts),
            n_given=len(given),
            open_prefix=bound.open,
            found=[
                [_to_hypothesis(ids, log_probs, decoding.length_penalty)]
                for ids, log_probs in scored
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
        """Apply fallback decoding, then join the parts of each text."""
        notes = [[*draft.warnings, *self._caps_reached(draft, decoding)] for draft in drafts]
        if guard:
            yield from self._retry(drafts, decoding, notes, max_batch_tokens=max_batch_tokens)
        return [
            dataclasses.replace(
                join_parts(
                    draft.text,
                    draft.parts,
                    draft.found,
                    n_best=decoding.n_best,
                    sample=decoding.sample,
                    tokenizers=self._tokenizers,
                    notes=draft_notes,
                ),
                n_fallbacks=draft.n_fallbacks,
            )
            for draft, draft_notes in zip(drafts, notes, strict=True)
        ]

    def _retry(
        self,
        drafts: Sequence[_Draft],
        decoding: DecodingConfig,
        notes: Sequence[list[str]],
        *,
        max_batch_tokens: int,
    ) -> Generator[list[int], None, None]:
        """Decode degenerate parts again, except those that the user's prefix constrains."""
        places = [
            (number, part)
            for number, draft in enumerate(drafts)
            for part in range(draft.n_given + bool(draft.open_prefix), len(draft.rows))
        ]
        kept, new_notes = yield from fallback_search(
            [drafts[number].rows[part] for number, part in places],
            [drafts[number].found[part] for number, part in places],
            decoding,
            functools.partial(self.engine.search, max_batch_tokens=max_batch_tokens),
            tokenizers=self._tokenizers,
        )
        for (number, part), hypotheses, note in zip(places, kept, new_notes, strict=True):
            drafts[number].found[part] = hypotheses
            notes[number].append(note)
            drafts[number].n_fallbacks += bool(note)

    def _caps_reached(self, draft: _Draft, decoding: DecodingConfig) -> list[str]:
        """Return one warning per part that was cut at the length limit."""
        warnings = []
        for part in range(draft.n_given, len(draft.rows)):
            text = draft.open_prefix if part == draft.n_given else ""
            prefix = force_prefix(text, self._tokenizers.tgt)
            if is_cut(draft.found[part][0].ids, len(draft.rows[part]), decoding, prefix):
                warnings.append("the translation reached max_new_tokens and was cut")
        return warnings

    def _show(self, draft: _Draft, partial_ids: list[int]) -> str:
        """Return the text of the parts decoded so far, and the partial next one."""
        texts = [decode_line(each[0].ids, self._tokenizers.tgt) for each in draft.found]
        # Incomplete UTF-8 sequences are held back; invalid ones become U+FFFD.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        partial = decoder.decode(self._tokenizers.tgt.decode_bytes(partial_ids))
        texts.append(" ".join(partial.splitlines()))
        shown = ""
        for part in draft.parts:
            if part.ids:
                shown += texts.pop(0)
                if not texts:
                    break
            shown += part.space
        return shown


def _to_hypothesis(
    ids: Sequence[int], log_probs: tuple[float, ...], length_penalty: float
) -> Hypothesis:
    """Return a given translation as a hypothesis with the model's scores."""
    total = sum(log_probs)
    return Hypothesis(list(ids), total, total / len(log_probs) ** length_penalty, log_probs)
