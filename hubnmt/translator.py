"""`Translator`: text in, `Translation` out.

Takes strings, gives strings with scores and tokens. Must not know Gradio or training. A text is
translated line by line; a line too long for the model is cut into sentences, then clauses, and the
cut is reported in `warnings`.
"""

import dataclasses
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import torch

from hubnmt.batching import batch_sources, group_by_length
from hubnmt.checkpoint import StoredModel, bundled_models, load_model, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import (
    ForcedPrefix,
    Hypothesis,
    ModelStep,
    beam_search,
    combine,
    greedy_search,
    repetition_control,
    sample,
)
from hubnmt.errors import ConfigError, InputError, ModelNotFoundError
from hubnmt.explain import Attention, attend, readable_pieces, score_targets
from hubnmt.segment import halve, split_sentences
from hubnmt.tokenizer import normalize

DEFAULT_BATCH_TOKENS = 4096
"""Padded source tokens times beam per batch."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
MAX_TEXT_CHARS = 1_000_000
"""A single text longer than this is refused; translate a file line by line instead."""


class Candidate(NamedTuple):
    """One of the n best translations."""

    text: str
    score: float
    """Length-normalised log-probability, nats per token ** length_penalty."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one text."""

    src: str
    """The text as it was given."""
    text: str
    """The best translation."""
    score: float
    """Of the best; the mean over its parts where the text was cut."""
    n_best: tuple[Candidate, ...]
    """Best first; no two with the same text."""
    src_tokens: tuple[str, ...]
    """Readable pieces of the source, `<eos>` last."""
    tgt_tokens: tuple[str, ...]
    """Readable pieces of the best translation, `<eos>` last."""
    tgt_log_probs: tuple[float, ...]
    """Log-probability of each of `tgt_tokens`, nats."""
    warnings: tuple[str, ...] = ()
    """What a careful reader should know: cuts, shortened output, ..."""


class _Part(NamedTuple):
    """A stretch of source that is translated in one go."""

    ids: list[int]
    space: str
    """White space that follows it in the text."""
    is_first: bool = True
    """Whether it opens its text: a forced prefix belongs there."""


class _Found(NamedTuple):
    """The search result of one part."""

    hypotheses: list[Hypothesis]
    tgt_log_probs: list[float]
    max_tgt_tokens: int


class Translator:
    """A model ready to translate. See `from_pretrained`."""

    def __init__(self, stored: StoredModel, *, device: str = "cpu", dtype: str = "float32") -> None:
        """Wrap a stored model and move it to a device.

        Args:
            stored: as `load_model` gives it.
            device: `cpu`, `cuda`, `cuda:1`, ...
            dtype: of weights and products, one of `DTYPES`.

        Raises:
            ConfigError: if the device is not there, or the dtype unknown.
        """
        if dtype not in DTYPES:
            raise ConfigError(f"dtype = {dtype!r} must be {' or '.join(sorted(DTYPES))}")
        self._stored = stored
        try:
            self.device = torch.device(device)
            self.model = stored.model.to(self.device, DTYPES[dtype]).eval()
        except (RuntimeError, AssertionError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"device = {device!r} cannot be used ({first}); try 'cpu'") from None
        self.src_tokenizer = stored.src_tokenizer
        self.tgt_tokenizer = stored.tgt_tokenizer
        self.decoding = stored.decoding

    @classmethod
    def from_pretrained(
        cls, model: str | os.PathLike[str], *, device: str = "cpu", dtype: str = "float32"
    ) -> Self:
        """Load a bundled model by name, or a local model folder.

        Raises:
            ModelNotFoundError: if there is no such model.
            ModelFolderError: if its folder is not whole.
            ConfigError: if the device is not there.
        """
        return cls(load_model(find_model(model)), device=device, dtype=dtype)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model folder; see `hubnmt.checkpoint.save_model`."""
        save_model(folder, self._stored)

    @property
    def config(self) -> ModelConfig:
        """The architecture and the language pair."""
        return self.model.config

    @property
    def card(self) -> str:
        """The model card, Markdown with a YAML head."""
        return self._stored.card

    @overload
    def translate(self, text: str, **options: Any) -> Translation: ...

    @overload
    def translate(self, text: Sequence[str], **options: Any) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate one text, or many in the same order.

        Args:
            text: a line break stays where it was; an empty text stays empty.
            batch_tokens: source tokens times hypotheses per batch; lower it if memory is short.
            options: fields of `DecodingConfig` that differ from this model's defaults.

        Raises:
            ConfigError: for an unknown or impossible option.
            InputError: for text that is no string, or far too long.
        """
        if isinstance(text, str):
            return self._translate_many([text], batch_tokens, self._decoding(options))[0]
        return self._translate_many(list(text), batch_tokens, self._decoding(options))

    def score(
        self, src: str | Sequence[str], tgt: str | Sequence[str]
    ) -> list[tuple[float, ...]] | tuple[float, ...]:
        """Log-probability of each token of given translations, eos last; see also `attend`."""
        if isinstance(src, str) != isinstance(tgt, str):
            raise InputError("src and tgt must both be texts, or both lists of texts")
        if isinstance(src, str) and isinstance(tgt, str):
            return self.score([src], [tgt])[0]  # type: ignore[return-value]  # a list in, a list out
        if len(src) != len(tgt):
            raise InputError(f"{len(src)} sources for {len(tgt)} targets; the two must pair up")
        pairs = [
            (self.src_tokenizer.encode(s), self.tgt_tokenizer.encode(t))
            for s, t in zip(src, tgt, strict=True)
        ]
        return score_targets(self.model, pairs, self.src_tokenizer, self.tgt_tokenizer)

    def attend(self, src: str, tgt: str | None = None) -> Attention:
        """Show what every head looks at while saying `tgt` (by default the best translation)."""
        if not src.strip():
            raise InputError("the text is empty; attention needs at least one word")
        if tgt is None:
            tgt = self.translate(src).text
        return attend(
            self.model,
            self.src_tokenizer.encode(src.strip()),
            self.tgt_tokenizer.encode(tgt),
            src_tokenizer=self.src_tokenizer,
            tgt_tokenizer=self.tgt_tokenizer,
        )

    def _decoding(self, options: dict[str, Any]) -> DecodingConfig:
        values = {**self.decoding.to_dict(), **options}
        if "n_best" not in options:  # a default of the folder must not forbid a narrower beam
            values["n_best"] = min(values["n_best"], values["beam_size"])
        return DecodingConfig.from_dict(values, where="decoding options")

    def _translate_many(
        self, texts: list[str], batch_tokens: int, decoding: DecodingConfig
    ) -> list[Translation]:
        plans = [self._plan(text) for text in texts]
        plans = [(_mark_first(plan), warnings) for plan, warnings in plans]
        parts = [part for plan, _ in plans for part in plan if part.ids]
        found = iter(self._search(parts, batch_tokens, decoding))
        return [
            self._join(text, plan, [next(found) for part in plan if part.ids], warnings)
            for text, (plan, warnings) in zip(texts, plans, strict=True)
        ]

    def _plan(self, text: str) -> tuple[list[_Part], list[str]]:
        """Cut a text into parts that the model can take, keeping the white space between."""
        if not isinstance(text, str):
            raise InputError(f"a text must be a string, not {type(text).__name__}")
        if len(text) > MAX_TEXT_CHARS:
            raise InputError(
                f"a text of {len(text):,} characters is over the limit of {MAX_TEXT_CHARS:,}; "
                "give it as a file, one sentence or paragraph a line"
            )
        parts: list[_Part] = []
        n_cut = 0
        for line in normalize(text).splitlines(keepends=True):
            body = line.strip()
            lead, tail = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]
            if not body:
                parts.append(_Part([], line))
                continue
            if lead:
                parts.append(_Part([], lead))
            ids = self.src_tokenizer.encode(body)
            if len(ids) < self.config.max_src_tokens:
                parts.append(_Part(ids, tail))
                continue
            n_cut += 1
            parts += self._cut(body, tail)
        if not n_cut:
            return parts, []
        longest = self.config.max_src_tokens
        return parts, [
            f"{n_cut} line(s) longer than the {longest} tokens this model was trained on: "
            f"translated in {sum(bool(part.ids) for part in parts)} parts"
        ]

    def _cut(self, body: str, tail: str) -> list[_Part]:
        """Cut an over-long line into sentences, and those into clauses where needed."""
        stack = [(s.text, s.space) for s in reversed(split_sentences(body, self.config.src_lang))]
        parts = []
        while stack:
            text, space = stack.pop()
            ids = self.src_tokenizer.encode(text)
            halves = halve(text) if len(ids) >= self.config.max_src_tokens else None
            if halves is None:
                parts.append(_Part(ids, space))
            else:
                left, between, right = halves
                stack += [(right, space), (left, between)]
        parts[-1] = _Part(parts[-1].ids, parts[-1].space + tail)
        return parts

    @torch.inference_mode()
    def _search(
        self, parts: Sequence[_Part], batch_tokens: int, decoding: DecodingConfig
    ) -> list[_Found]:
        found: list[_Found | None] = [None] * len(parts)
        width = decoding.n_best if decoding.sample else decoding.beam_size
        prefix = self._forced_prefix(decoding.prefix)
        for forced in [None] if prefix is None else [prefix, None]:
            chosen = [
                index
                for index, part in enumerate(parts)
                if prefix is None or part.is_first == (forced is not None)
            ]
            lengths = [len(parts[index].ids) + 1 for index in chosen]
            for batch in group_by_length(lengths, max(1, batch_tokens // width)):
                rows = [parts[chosen[index]].ids for index in batch]
                results = self._search_batch(rows, decoding, forced)
                for index, result in zip(batch, results, strict=True):
                    found[chosen[index]] = result
        return [result for result in found if result is not None]

    def _forced_prefix(self, prefix: str) -> ForcedPrefix | None:
        """Force the prefix's whole words; its last word may go on."""
        if not prefix:
            return None
        tokenizer = self.tgt_tokenizer
        words = tokenizer.pre_tokens(prefix)
        whole, last = "".join(words[:-1]).removeprefix(" "), words[-1]
        return ForcedPrefix(
            tokenizer.encode(whole) if len(words) > 1 else [],
            last.encode(),
            vocab_size=tokenizer.vocab_size,
            piece_bytes=tokenizer.piece_bytes,
        )

    def _search_batch(
        self, rows: list[list[int]], decoding: DecodingConfig, prefix: ForcedPrefix | None
    ) -> list[_Found]:
        tokenizer = self.tgt_tokenizer
        src = batch_sources(
            rows, pad_id=self.src_tokenizer.pad_id, eos_id=self.src_tokenizer.eos_id
        )
        src_ids, src_pad_mask = (tensor.to(self.device) for tensor in src)
        step = ModelStep(
            self.model, src_ids, src_pad_mask, never=(tokenizer.pad_id, tokenizer.bos_id)
        )
        n_forced = prefix.max_tokens if prefix else 0
        caps = [n_forced + (decoding.max_new_tokens or default_max_tokens(len(r))) for r in rows]
        hypotheses = self._run_search(step, rows, caps, decoding, prefix)
        hypotheses = [self._distinct(each)[: decoding.n_best] for each in hypotheses]
        pairs = [(row, each[0].ids) for row, each in zip(rows, hypotheses, strict=True)]
        log_probs = score_targets(self.model, pairs, self.src_tokenizer, tokenizer)
        return [
            _Found(each, list(token_log_probs), cap)
            for each, token_log_probs, cap in zip(hypotheses, log_probs, caps, strict=True)
        ]

    def _run_search(
        self,
        step: ModelStep,
        rows: list[list[int]],
        caps: list[int],
        decoding: DecodingConfig,
        prefix: ForcedPrefix | None,
    ) -> list[list[Hypothesis]]:
        """Choose the strategy that the options ask for."""
        constraints = repetition_control(
            no_repeat_ngram_size=decoding.no_repeat_ngram_size,
            repetition_penalty=decoding.repetition_penalty,
        )
        constraint = combine([*constraints, *([prefix] if prefix else [])])
        shared: dict[str, Any] = {
            "bos_id": self.tgt_tokenizer.bos_id,
            "eos_id": self.tgt_tokenizer.eos_id,
            "max_tgt_tokens": torch.tensor(caps, device=self.device),
            "length_penalty": decoding.length_penalty,
            "constraint": constraint,
        }
        if decoding.sample:
            return sample(
                step,
                **shared,
                n_samples=decoding.n_best,
                generators=[_generator(decoding.seed, row) for row in rows],
                temperature=decoding.temperature,
                top_k=decoding.top_k,
                top_p=decoding.top_p,
            )
        if decoding.beam_size == 1:
            return greedy_search(step, **shared)
        # All W are asked for: some may spell the same text, and `_distinct` drops those.
        width = decoding.beam_size
        return beam_search(step, **shared, beam_size=width, n_best=width)

    def _decode(self, ids: list[int]) -> str:
        """Return the text of a part; a source without line breaks gets a translation without."""
        return " ".join(self.tgt_tokenizer.decode(ids).splitlines())

    def _distinct(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Keep the best hypothesis of each surface text: BPE can spell one text in many ways."""
        best: dict[str, Hypothesis] = {}
        for hypothesis in hypotheses:
            best.setdefault(self._decode(hypothesis.ids), hypothesis)
        return list(best.values())

    def _join(
        self, text: str, plan: list[_Part], found: list[_Found], warnings: list[str]
    ) -> Translation:
        """Put the parts' translations back between the white space of the text."""
        n_best = max((len(each.hypotheses) for each in found), default=1)
        candidates: dict[str, float] = {}
        for rank in range(n_best):
            chosen = [each.hypotheses[min(rank, len(each.hypotheses) - 1)] for each in found]
            queue = iter(chosen)
            pieces = [
                (self._decode(next(queue).ids) if part.ids else "") + part.space for part in plan
            ]
            score = sum(h.score for h in chosen) / max(len(chosen), 1)
            candidates.setdefault("".join(pieces), score)
        ranked = tuple(Candidate(each, score) for each, score in candidates.items())
        n_capped = sum(len(each.hypotheses[0].ids) >= each.max_tgt_tokens for each in found)
        if n_capped:
            warnings = [
                *warnings,
                f"{n_capped} part(s) reached max_new_tokens and were ended there",
            ]
        best_ids = [each.hypotheses[0].ids for each in found]
        src_ids = [part.ids for part in plan if part.ids]
        return Translation(
            src=text,
            text=ranked[0].text,
            score=ranked[0].score,
            n_best=ranked,
            src_tokens=tuple(self._readable(src_ids, self.src_tokenizer)),
            tgt_tokens=tuple(self._readable(best_ids, self.tgt_tokenizer)),
            tgt_log_probs=tuple(value for each in found for value in each.tgt_log_probs),
            warnings=tuple(warnings),
        )

    @staticmethod
    def _readable(parts: Iterable[list[int]], tokenizer: Any) -> list[str]:
        return [
            piece for ids in parts for piece in readable_pieces([*ids, tokenizer.eos_id], tokenizer)
        ]


def _mark_first(plan: list[_Part]) -> list[_Part]:
    """Tell the part that opens a text from the others."""
    first = next((index for index, part in enumerate(plan) if part.ids), 0)
    return [part._replace(is_first=index == first) for index, part in enumerate(plan)]


def _generator(seed: int, row: list[int]) -> torch.Generator:
    """Seed a generator by the user's seed and the sentence, so that neighbours do not matter."""
    digest = zlib.crc32(repr((seed, row)).encode())
    return torch.Generator().manual_seed((seed * 0x9E3779B1 + digest) % 2**63)


def default_max_tokens(n_src_tokens: int) -> int:
    """Cap the target length by the source's: generous for any pair, yet no endless loop."""
    return 2 * n_src_tokens + 10


def find_model(model: str | os.PathLike[str]) -> Path:
    """Resolve a bundled name or a local folder to a folder.

    Raises:
        ModelNotFoundError: naming what there is.
    """
    name = os.fspath(model)
    bundled = bundled_models()
    if name in bundled:
        return bundled[name]
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    known = ", ".join(bundled) or "none"
    raise ModelNotFoundError(
        f"no model {name!r}: not a bundled model (there are: {known}) and not a local folder"
    )
