"""The way of a text through the model: plan, search, second try, join.

Takes texts and decoding options, gives `Translation`s, at once or growing. Must not know which
engine searches, nor how a model is loaded.
"""

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
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.types import Translation

Result = TypeVar("Result")

Replay = Callable[[Sequence[tuple[Sequence[int], Sequence[int]]]], list[tuple[float, ...]]]
"""Pairs of source and target ids to the log-probability of each target token and of eos, nats."""


class Engine(Protocol):
    """What runs a model: rows of source ids to hypotheses. `TorchEngine` is the reference."""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Translate rows of ids (no special tokens).

        Args:
            rows: sources.
            decoding: strategy and options.
            prefix: what every target begins with.
            batch_tokens: source tokens times hypotheses per batch.

        Returns:
            a search; it returns for each row up to `n_best` hypotheses, best first, no two with
            the same text.
        """
        ...


@dataclasses.dataclass(kw_only=True, slots=True)
class _Draft:
    """A text on its way."""

    text: str
    parts: tuple[Part, ...]
    """Of the plan; behind what a prefix says in full stands the white space of the prefix."""
    n_given: int
    """Spoken parts that the prefix says in full."""
    open_prefix: str
    """What the part behind those must begin with; empty binds nothing."""
    found: list[list[Hypothesis]]
    """Of each spoken part, as far as they are known."""
    warnings: tuple[str, ...]
    n_fallbacks: int = 0
    """Parts that were searched again."""

    @property
    def rows(self) -> list[list[int]]:
        """The spoken parts."""
        return [part.ids for part in self.parts if part.ids]


class Pipeline:
    """Texts to translations, through one engine."""

    def __init__(
        self,
        engine: Engine,
        replay: Replay,
        *,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        config: ModelConfig,
    ) -> None:
        """Bind what every text needs.

        Args:
            engine: searches.
            replay: scores what a prefix says in full.
            src_tokenizer: of the source.
            tgt_tokenizer: of the target.
            config: languages, and how long a source may be.
        """
        self.engine = engine
        self._replay = replay
        self._src_tokenizer = src_tokenizer
        self._tgt_tokenizer = tgt_tokenizer
        self._config = config

    def translate(
        self,
        texts: Sequence[str],
        decoding: DecodingConfig,
        *,
        prefix: str,
        guard: bool,
        split: bool,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> list[Translation]:
        """Translate texts, all their parts together; each begins with the prefix."""
        drafts = [self._draft(text, decoding, prefix=prefix, split=split) for text in texts]
        # The prefix binds one part of each text; all parts that begin alike are searched at once.
        places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, draft in enumerate(drafts):
            for part in range(draft.n_given, len(draft.rows)):
                draft.found.append([])
                beginning = draft.open_prefix if part == draft.n_given else ""
                places[beginning].append((number, part))
        for beginning, group in places.items():
            search = self.engine.search(
                [drafts[number].rows[part] for number, part in group],
                decoding,
                prefix=force_prefix(beginning, self._tgt_tokenizer),
                batch_tokens=batch_tokens,
            )
            for (number, part), found in zip(group, run_search(search), strict=True):
                drafts[number].found[part] = found
        return run_search(self._finish(drafts, decoding, guard=guard, batch_tokens=batch_tokens))

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
        """Translate one text and yield it as it grows; return what `translate` does."""
        draft = self._draft(text, decoding, prefix=prefix, split=split)
        forced = force_prefix(draft.open_prefix, self._tgt_tokenizer)
        first, rows = len(draft.found), draft.rows
        while first < len(rows):
            group = rows[first : first + (1 if forced else n_together)]
            search = self.engine.search(group, decoding, prefix=forced)
            # Of several sentences, the tokens are those of one after the other.
            draft.found += yield from self._show_steps(draft, search, by_words=len(group) == 1)
            first += len(group)
            forced = None
        finish = self._finish([draft], decoding, guard=guard, batch_tokens=DEFAULT_BATCH_TOKENS)
        (translation,) = yield from self._show_steps(draft, finish, by_words=False)
        yield translation.text
        return translation

    def _show_steps(
        self, draft: _Draft, search: Generator[list[int], None, Result], *, by_words: bool
    ) -> Generator[str, None, Result]:
        """Run a search and show the text at each of its steps.

        Args:
            draft: the text, with the parts found before.
            search: what goes on behind them.
            by_words: whether the search's tokens are those of the next part.
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
        """Plan a text and share out the prefix."""
        plan = make_plan(
            text,
            self._src_tokenizer,
            language=self._config.src_lang,
            max_src_tokens=self._config.max_src_tokens,
            split=split,
            emoji_apart=not prefix,
        )
        bound = bind_prefix(prefix, plan, language=self._config.tgt_lang)
        said = iter(bound.said)
        parts = []
        for part in plan.parts:
            sentence = next(said, None) if part.ids else None
            parts.append(part._replace(space=sentence.space) if sentence else part)
        given = [self._tgt_tokenizer.encode(sentence.text) for sentence in bound.said]
        pairs = [(part.ids, ids) for part, ids in zip(plan.translatable, given, strict=False)]
        scored = zip(given, self._replay(pairs) if pairs else [], strict=True)
        return _Draft(
            text=text,
            parts=tuple(parts),
            n_given=len(given),
            open_prefix=bound.open,
            found=[
                [_take_as_said(ids, log_probs, decoding.length_penalty)]
                for ids, log_probs in scored
            ],
            warnings=plan.warnings,
        )

    def _finish(
        self, drafts: Sequence[_Draft], decoding: DecodingConfig, *, guard: bool, batch_tokens: int
    ) -> Generator[list[int], None, list[Translation]]:
        """Look at every part with suspicion, then join the parts of each text."""
        notes = [[*draft.warnings, *self._caps_reached(draft, decoding)] for draft in drafts]
        if guard:
            yield from self._retry(drafts, decoding, notes, batch_tokens=batch_tokens)
        return [
            dataclasses.replace(
                join_parts(
                    draft.text,
                    draft.parts,
                    draft.found,
                    n_best=decoding.n_best,
                    sample=decoding.sample,
                    src_tokenizer=self._src_tokenizer,
                    tgt_tokenizer=self._tgt_tokenizer,
                    notes=said,
                ),
                n_fallbacks=draft.n_fallbacks,
            )
            for draft, said in zip(drafts, notes, strict=True)
        ]

    def _retry(
        self,
        drafts: Sequence[_Draft],
        decoding: DecodingConfig,
        notes: Sequence[list[str]],
        *,
        batch_tokens: int,
    ) -> Generator[list[int], None, None]:
        """Retry suspicious parts once and note it; what a prefix binds is as the user wants it."""
        places = [
            (number, part)
            for number, draft in enumerate(drafts)
            for part in range(draft.n_given + bool(draft.open_prefix), len(draft.rows))
        ]
        kept, said = yield from fallback_search(
            [drafts[number].rows[part] for number, part in places],
            [drafts[number].found[part] for number, part in places],
            decoding,
            functools.partial(self.engine.search, batch_tokens=batch_tokens),
            src_tokenizer=self._src_tokenizer,
            tgt_tokenizer=self._tgt_tokenizer,
        )
        for (number, part), hypotheses, note in zip(places, kept, said, strict=True):
            drafts[number].found[part] = hypotheses
            notes[number].append(note)
            drafts[number].n_fallbacks += bool(note)

    def _caps_reached(self, draft: _Draft, decoding: DecodingConfig) -> list[str]:
        """Say of each part whose translation was ended by its length that it was."""
        said = []
        for part in range(draft.n_given, len(draft.rows)):
            text = draft.open_prefix if part == draft.n_given else ""
            prefix = force_prefix(text, self._tgt_tokenizer)
            if is_cut(draft.found[part][0].ids, len(draft.rows[part]), decoding, prefix):
                said.append("the translation reached max_new_tokens and was ended there")
        return said

    def _show(self, draft: _Draft, said: list[int]) -> str:
        """Show a text whose later parts are not translated yet, up to the last word said."""
        texts = [decode_line(each[0].ids, self._tgt_tokenizer) for each in draft.found]
        # Bytes that may become a character are held back; those that never can are shown as such.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        partial = decoder.decode(self._tgt_tokenizer.decode_bytes(said))
        texts.append(" ".join(partial.splitlines()))
        shown = ""
        for part in draft.parts:
            if part.ids:
                shown += texts.pop(0)
                if not texts:
                    break
            shown += part.space
        return shown


def _take_as_said(
    ids: Sequence[int], log_probs: tuple[float, ...], length_penalty: float
) -> Hypothesis:
    """Make a hypothesis of a translation that was given, with what the model thinks of it."""
    total = sum(log_probs)
    return Hypothesis(list(ids), total, total / len(log_probs) ** length_penalty, log_probs)
