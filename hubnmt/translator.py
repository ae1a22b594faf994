"""`Translator`: text in, `Translation` out.

Takes strings, gives strings with scores and tokens. Must not know Gradio or training.
"""

import codecs
import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, overload

import torch

from hubnmt.checkpoint import StoredModel, bundled_models, load_model, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Watch
from hubnmt.engine import DEFAULT_BATCH_TOKENS, TorchEngine, force_prefix, max_tgt_tokens
from hubnmt.errors import ConfigError, HubUnreachableError, InputError, ModelNotFoundError
from hubnmt.explain import Attention, attend, next_log_probs, readable_pieces, score_targets
from hubnmt.guard import find_suspicions
from hubnmt.hub import Pushed, parse_reference, pull, push
from hubnmt.plan import Part, Plan, make_plan
from hubnmt.tokenizer import Tokenizer, normalize
from hubnmt.translation import Alternative, Candidate, PairScore, Translation
from hubnmt.watched import Watched

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Search = Callable[..., list[list[Hypothesis]]]
"""`TorchEngine.search` with its batch size bound."""
RETRY_BEAM_SIZE = 8
RETRY_NGRAM_SIZE = 3
"""A second try looks wider and forbids what loops are made of; all else is as the user set it."""
SCORE_BATCH_PAIRS = 32
"""Pairs scored at once; the logits of 32 long sentences stay under a gigabyte."""


class Translator:
    """A model ready to translate. See `from_pretrained`."""

    def __init__(
        self,
        stored: StoredModel,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        revision: str | None = None,
    ) -> None:
        """Wrap a stored model and move it to a device.

        Args:
            stored: as `load_model` gives it.
            device: `cpu`, `cuda`, `cuda:1`, ...
            dtype: of weights and products, one of `DTYPES`.
            revision: hash of the commit that the model came with, if it came from the Hub.

        Raises:
            ConfigError: if the device is not there, or the dtype unknown.
        """
        if dtype not in DTYPES:
            raise ConfigError(f"dtype = {dtype!r} must be {' or '.join(sorted(DTYPES))}")
        self._stored = stored
        self.revision = revision
        try:
            self.device = torch.device(device)
            self.model = stored.model.to(self.device, DTYPES[dtype]).eval()
        except (RuntimeError, AssertionError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"device = {device!r} cannot be used ({first}); try 'cpu'") from None
        self.src_tokenizer = stored.src_tokenizer
        self.tgt_tokenizer = stored.tgt_tokenizer
        self.decoding = stored.decoding
        self._engine = TorchEngine(
            self.model, src_tokenizer=self.src_tokenizer, tgt_tokenizer=self.tgt_tokenizer
        )

    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike[str],
        *,
        device: str = "cpu",
        dtype: str = "float32",
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        cache_dir: str | Path | None = None,
    ) -> Self:
        """Load a bundled model by name, a local model folder, or a model from the Hub.

        Args:
            model: `de-en-multi30k`, a folder, `user/name` or `user/name@revision`.
            device: see `__init__`.
            dtype: see `__init__`.
            revision: branch, tag or commit on the Hub; `translator.revision` says which it was.
            token: for a private model; None takes `HF_TOKEN` or the login.
            local_files_only: take a Hub model from the cache only.
            cache_dir: in place of the cache of `huggingface_hub`.

        Raises:
            ModelNotFoundError: if there is no such model.
            ModelFolderError: if its folder is not whole.
            HubError: if the Hub has no such model, or cannot be reached.
            ConfigError: if the device is not there.
        """
        folder, commit = _locate(
            model,
            revision=revision,
            token=token,
            local_files_only=local_files_only,
            cache_dir=cache_dir,
        )
        return cls(load_model(folder), device=device, dtype=dtype, revision=commit)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model folder; see `hubnmt.checkpoint.save_model`."""
        save_model(folder, self._stored)

    def push_to_hub(
        self,
        repo: str,
        *,
        private: bool = False,
        revision: str | None = None,
        create_pr: bool = False,
        message: str | None = None,
        token: str | None = None,
    ) -> Pushed:
        """Publish the model on the Hub as `user/name`; see `hubnmt.hub.push`."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "model")
            self.save_pretrained(folder)
            return push(
                folder,
                repo,
                private=private,
                revision=revision,
                create_pr=create_pr,
                message=message,
                token=token,
            )

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
        guard: bool = True,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate one text, or many in the same order.

        Args:
            text: a line break stays where it was; an empty text stays empty.
            batch_tokens: source tokens times hypotheses per batch; lower it if memory is short.
            guard: retry once what repeats itself, copies the source or is far too short, and say
                so in `warnings`; see `hubnmt.guard`.
            options: fields of `DecodingConfig` that differ from this model's defaults.

        Raises:
            ConfigError: for an unknown or impossible option.
            InputError: for text that is no string, or far too long.
        """
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens = {batch_tokens} must be at least 1")
        if not isinstance(text, (str, list, tuple)) or isinstance(text, bytes):
            raise InputError(
                f"text must be a string or a list of strings, not {type(text).__name__}"
            )
        decoding = self._decoding(options)
        search = functools.partial(self._engine.search, batch_tokens=batch_tokens)
        if isinstance(text, str):
            return self._translate_many([text], decoding, search, guard=guard)[0]
        return self._translate_many(list(text), decoding, search, guard=guard)

    def stream(self, text: str, *, guard: bool = True, **options: Any) -> Iterator[str]:
        """Translate one text and show it growing.

        Each value is the text as far as it is known; with a beam, later words may revise earlier
        ones. Bytes that are no whole character yet are held back. The last value is what
        `translate` returns.

        Args:
            text: any text.
            guard: see `translate`.
            options: see `translate`.
        """
        decoding = self._decoding(options)
        plan = self._plan(text)
        prefix = force_prefix(normalize(decoding.prefix), self.tgt_tokenizer)
        found: list[list[Hypothesis]] = []
        for part in plan.spoken:
            bound = None if found else prefix
            run = functools.partial(self._search_watched, part.ids, decoding, bound)
            with Watched(run) as search:
                for tokens in search:
                    yield self._partial(plan, found, tokens[0, 0, 1:].tolist())
                found += search.result
        (translation,) = self._finish([text], [plan], found, decoding, guard=guard)
        yield translation.text

    def _search_watched(
        self, ids: list[int], decoding: DecodingConfig, prefix: ForcedPrefix | None, watch: Watch
    ) -> list[list[Hypothesis]]:
        return self._engine.search([ids], decoding, prefix=prefix, watch=watch)

    def _partial(self, plan: Plan, found: list[list[Hypothesis]], said: list[int]) -> str:
        """Show a text whose later parts are not translated yet, up to the last word said."""
        texts = [self._decode(hypotheses[0].ids) for hypotheses in found]
        # Bytes that may become a character are held back; those that never can are shown as such.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        partial = decoder.decode(self.tgt_tokenizer.decode_bytes(said))
        texts.append(" ".join(partial.splitlines()))
        shown = ""
        for part in plan.parts:
            if part.ids:
                shown += texts.pop(0)
                if not texts:
                    break
            shown += part.space
        return shown

    def alternatives(self, src: str, prefix: str = "", k: int = 5) -> list[Alternative]:
        """Show the k most probable next pieces behind a prefix, and where each would lead.

        Args:
            src: one sentence.
            prefix: the translation so far; a word that it ends in the middle of may go on.
            k: how many.

        Returns:
            most probable first; fewer than k if the prefix leaves fewer choices.

        Raises:
            InputError: if the source is empty.
        """
        if k < 1:
            raise ConfigError(f"k = {k} must be at least 1")
        src_ids = self.src_tokenizer.encode(_one_line(src))
        forced = force_prefix(normalize(prefix), self.tgt_tokenizer)
        said = self._tokens_of_prefix(forced)
        log_probs = next_log_probs(
            self.model, src_ids, said, self.src_tokenizer, self.tgt_tokenizer
        )
        if forced is not None:
            tokens = torch.tensor([[said]], dtype=torch.int64)
            log_probs = forced(log_probs[None, None], tokens)[0, 0]  # (V,)
        top = log_probs.topk(min(k, len(log_probs)))
        found = []
        for log_prob, token_id in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            if log_prob == -math.inf:
                break
            ids = [*said, token_id]
            if token_id == self.tgt_tokenizer.eos_id:
                text = self.tgt_tokenizer.decode(said)
            else:
                text = self._complete(src_ids, ids, b"" if forced is None else forced.open_bytes)
            piece = readable_pieces([token_id], self.tgt_tokenizer)[0]
            found.append(Alternative(piece=piece, probability=math.exp(log_prob), text=text))
        return found

    @overload
    def score(self, src: str, tgt: str) -> PairScore: ...

    @overload
    def score(self, src: list[str], tgt: list[str]) -> list[PairScore]: ...

    def score(
        self, src: str | Sequence[str], tgt: str | Sequence[str]
    ) -> PairScore | list[PairScore]:
        """Measure how probable the model finds given translations.

        Raises:
            InputError: if texts and lists are mixed, the counts differ, or a source is empty.
        """
        if isinstance(src, str) != isinstance(tgt, str):
            raise InputError("src and tgt must both be texts, or both lists of texts")
        if isinstance(src, str) and isinstance(tgt, str):
            return self._score_many([src], [tgt])[0]
        return self._score_many(list(src), list(tgt))

    def attend(self, src: str, tgt: str | None = None) -> Attention:
        """Show what every head looks at while saying `tgt` (by default the best translation)."""
        line = _one_line(src)
        if tgt is None:
            tgt = self.translate(line).text
        return attend(
            self.model,
            self.src_tokenizer.encode(line),
            self.tgt_tokenizer.encode(tgt.strip()),
            src_tokenizer=self.src_tokenizer,
            tgt_tokenizer=self.tgt_tokenizer,
        )

    def _decoding(self, options: dict[str, Any]) -> DecodingConfig:
        values = {**self.decoding.to_dict(), **options}
        if "n_best" not in options:  # a default of the folder must not forbid a narrower beam
            width = values["beam_size"]
            values["n_best"] = min(values["n_best"], width if isinstance(width, int) else 1)
        return DecodingConfig.from_dict(values, where="decoding options")

    def _plan(self, text: str) -> Plan:
        return make_plan(
            text,
            self.src_tokenizer,
            language=self.config.src_lang,
            max_src_tokens=self.config.max_src_tokens,
        )

    def _translate_many(
        self, texts: list[str], decoding: DecodingConfig, search: Search, *, guard: bool
    ) -> list[Translation]:
        plans = [self._plan(text) for text in texts]
        prefix = force_prefix(normalize(decoding.prefix), self.tgt_tokenizer)
        # The prefix begins the text, so only the first part of each is bound by it.
        first = [plan.spoken[0].ids for plan in plans if plan.spoken]
        later = [part.ids for plan in plans for part in plan.spoken[1:]]
        if prefix is None:
            both = iter(search([*first, *later], decoding))
            opening, following = list(itertools.islice(both, len(first))), both
        else:
            opening = search(first, decoding, prefix=prefix)
            following = iter(search(later, decoding))
        openings = iter(opening)
        found = [
            next(following if rank else openings)
            for plan in plans
            for rank in range(len(plan.spoken))
        ]
        return self._finish(texts, plans, found, decoding, guard=guard)

    def _finish(
        self,
        texts: list[str],
        plans: list[Plan],
        found: list[list[Hypothesis]],
        decoding: DecodingConfig,
        *,
        guard: bool,
    ) -> list[Translation]:
        """Look at every part with suspicion, then join the parts of each text."""
        parts = [part for plan in plans for part in plan.spoken]
        notes: dict[int, str] = {}
        if guard and not decoding.prefix:
            found, notes = self._guard(parts, found, decoding)
        numbered = enumerate(found)
        translations = []
        for text, plan in zip(texts, plans, strict=True):
            chosen = [next(numbered) for _ in plan.spoken]
            mine = [hypotheses for _, hypotheses in chosen]
            counts = collections.Counter(notes[n] for n, _ in chosen if n in notes)
            warnings = [
                note if count == 1 else f"{note} ({count} parts)" for note, count in counts.items()
            ]
            prefix = force_prefix(normalize(decoding.prefix), self.tgt_tokenizer)
            caps = [max_tgt_tokens(len(part.ids), decoding, prefix) for part in plan.spoken]
            translations.append(self._join(text, plan, mine, caps=caps, warnings=warnings))
        return translations

    def _guard(
        self, parts: list[Part], found: list[list[Hypothesis]], decoding: DecodingConfig
    ) -> tuple[list[list[Hypothesis]], dict[int, str]]:
        """Retry what looks wrong once, with other settings; keep whichever looks less wrong.

        Returns:
            hypotheses of all parts, and what to say about some of them, by number.
        """
        first = [
            self._suspect(part, hypotheses[0], decoding)
            for part, hypotheses in zip(parts, found, strict=True)
        ]
        doubtful = [number for number, suspicions in enumerate(first) if suspicions]
        if not doubtful:
            return found, {}
        retry = dataclasses.replace(
            decoding,
            sample=False,
            beam_size=max(decoding.beam_size, decoding.n_best, RETRY_BEAM_SIZE),
            no_repeat_ngram_size=decoding.no_repeat_ngram_size or RETRY_NGRAM_SIZE,
        )
        found, notes = list(found), {}
        retried = self._engine.search([parts[number].ids for number in doubtful], retry)
        for number, second in zip(doubtful, retried, strict=True):
            said = " and ".join(first[number])
            if len(self._suspect(parts[number], second[0], decoding)) < len(first[number]):
                found[number] = second
                notes[number] = f"the first try {said}: translated again with other settings"
            else:
                notes[number] = f"the translation {said}"
        return found, notes

    def _suspect(self, part: Part, hypothesis: Hypothesis, decoding: DecodingConfig) -> list[str]:
        return find_suspicions(
            src=self.src_tokenizer.decode(part.ids),
            src_ids=part.ids,
            text=self._decode(hypothesis.ids),
            tgt_ids=hypothesis.ids,
            is_cut=len(hypothesis.ids) >= (decoding.max_new_tokens or math.inf),
        )

    def _join(
        self,
        text: str,
        plan: Plan,
        found: list[list[Hypothesis]],
        *,
        caps: list[int],
        warnings: list[str],
    ) -> Translation:
        """Put the parts' translations back between the white space of the text."""
        candidates: dict[str, float] = {}
        for rank in range(max(map(len, found), default=1)):
            chosen = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in found]
            queue = iter(chosen)
            pieces = [
                (self._decode(next(queue).ids) if part.ids else "") + part.space
                for part in plan.parts
            ]
            score = sum(each.score for each in chosen) / max(len(chosen), 1)
            candidates.setdefault("".join(pieces), score)
        ranked = tuple(Candidate(each, score) for each, score in candidates.items())
        best = [hypotheses[0] for hypotheses in found]
        n_capped = sum(len(each.ids) >= cap for each, cap in zip(best, caps, strict=True))
        capped = [f"{n_capped} part(s) reached max_new_tokens and were ended there"]
        return Translation(
            src=text,
            text=ranked[0].text,
            score=ranked[0].score,
            n_best=ranked,
            src_tokens=_readable((part.ids for part in plan.spoken), self.src_tokenizer),
            tgt_tokens=_readable((each.ids for each in best), self.tgt_tokenizer),
            tgt_log_probs=tuple(value for each in best for value in each.token_log_probs),
            warnings=(*plan.warnings, *warnings, *(capped if n_capped else [])),
        )

    def _decode(self, ids: list[int]) -> str:
        """Return the text of a part; a source without line breaks gets a translation without."""
        return " ".join(self.tgt_tokenizer.decode(ids).splitlines())

    def _tokens_of_prefix(self, forced: ForcedPrefix | None) -> list[int]:
        """Tokens that the prefix fixes; its last, open word is left to the next piece."""
        return [] if forced is None else list(forced.forced_ids)

    def _complete(self, src_ids: list[int], ids: list[int], open_bytes: bytes) -> str:
        """Translate on from exactly these target tokens; the last of them opens the open word."""
        prefix = ForcedPrefix(
            ids,
            open_bytes[len(self.tgt_tokenizer.piece_bytes(ids[-1])) :],
            vocab_size=self.tgt_tokenizer.vocab_size,
            piece_bytes=self.tgt_tokenizer.piece_bytes,
        )
        decoding = self._decoding({"n_best": 1, "sample": False})
        return self._decode(self._engine.search([src_ids], decoding, prefix=prefix)[0][0].ids)

    def _score_many(self, sources: list[str], targets: list[str]) -> list[PairScore]:
        if len(sources) != len(targets):
            raise InputError(
                f"{len(sources)} sources for {len(targets)} targets; they must pair up"
            )
        pairs = [
            (self.src_tokenizer.encode(_one_line(src)), self.tgt_tokenizer.encode(tgt.strip()))
            for src, tgt in zip(sources, targets, strict=True)
        ]
        scores = []
        for start in range(0, len(pairs), SCORE_BATCH_PAIRS):
            batch = pairs[start : start + SCORE_BATCH_PAIRS]
            rows = score_targets(self.model, batch, self.src_tokenizer, self.tgt_tokenizer)
            for (_, tgt_ids), log_probs in zip(batch, rows, strict=True):
                total = sum(log_probs)
                scores.append(
                    PairScore(
                        log_prob=total,
                        perplexity=math.exp(min(-total / len(log_probs), 700)),
                        tgt_tokens=_readable([tgt_ids], self.tgt_tokenizer),
                        tgt_log_probs=log_probs,
                    )
                )
        return scores


def _one_line(text: str) -> str:
    """Return the text as one line; a line break is a space to these functions.

    Raises:
        InputError: if there is nothing but white space.
    """
    line = " ".join(text.split())
    if not line:
        raise InputError("the source is empty; give at least one word")
    return line


def _readable(parts: Iterable[Sequence[int]], tokenizer: Tokenizer) -> tuple[str, ...]:
    return tuple(
        piece for ids in parts for piece in readable_pieces([*ids, tokenizer.eos_id], tokenizer)
    )


def find_model(model: str | os.PathLike[str]) -> Path:
    """Resolve a bundled name, a local folder or a Hub reference to a folder.

    Raises:
        ModelNotFoundError: naming what there is.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    return _locate(model)[0]


def _locate(
    model: str | os.PathLike[str], *, revision: str | None = None, **hub: Any
) -> tuple[Path, str | None]:
    """Find a model's folder, and its commit if it is from the Hub; `hub`: options of `pull`."""
    name = os.fspath(model)
    folder = _find_here(name)
    if folder is not None:
        if revision is not None:
            raise ConfigError(f"{name!r} is on this machine and has no revisions; leave it out")
        return folder, None
    reference = parse_reference(name, revision=revision)
    if reference is not None:
        try:
            pulled = pull(reference, **hub)
        except HubUnreachableError as error:
            raise HubUnreachableError(f"no folder {name!r} here, and {error}") from None
        return pulled.folder, pulled.commit
    known = ", ".join(bundled_models()) or "none"
    raise ModelNotFoundError(
        f"no model {name!r}: not a bundled model (there are: {known}), not a local folder, and not "
        "user/name on the Hub"
    )


def _find_here(name: str) -> Path | None:
    bundled = bundled_models()
    if name in bundled:
        return bundled[name]
    with contextlib.suppress(RuntimeError, OSError, ValueError):  # no home, too long, a zero byte
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder
    return None
