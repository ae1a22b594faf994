"""`Translator`: the public API for loading, translating, scoring, saving and publishing models."""

import functools
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack, overload

import torch

from hubnmt.attention.maps import Attention, side_by_side
from hubnmt.attention.replay import attend, summarize_score
from hubnmt.checkpoint.files import check_destination
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import (
    DEFAULT_BATCH_TOKENS,
    ENGINES,
    DecodingConfig,
    DecodingOptions,
    ModelConfig,
)
from hubnmt.errors import ConfigError, InputError
from hubnmt.hub.pull import locate_model
from hubnmt.hub.push import Pushed, push
from hubnmt.inference import Engine
from hubnmt.inference.ctranslate2_engine import CTranslate2Engine
from hubnmt.inference.dtypes import DTYPES, INT8, check_dtype, convert, get_device, resolve_dtype
from hubnmt.inference.engine import TorchEngine
from hubnmt.pipeline.alternatives import find_alternatives
from hubnmt.pipeline.pipeline import Pipeline
from hubnmt.pipeline.segmentation import check_prefix
from hubnmt.pipeline.targets import SentenceIds, pair_sentences
from hubnmt.types import Alternative, Candidate, PairScore, TranslateOptions, Translation


class Translator:
    """A translation model with its tokenizers; create one with `from_pretrained`.

    Example:
        >>> translator = Translator.from_pretrained("de-en-multi30k")
        >>> translator
        <Translator de-en-multi30k: de to en, 2,349,568 parameters>
    """

    def __init__(
        self,
        stored: StoredModel,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        engine: str = "torch",
        name: str = "",
        commit: str | None = None,
    ) -> None:
        """Place a stored model on a device; the stored model itself is not modified.

        Args:
            stored: as returned by `load_model`.
            device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one.
            dtype: of weights and matrix products, one of `DTYPES`, or `auto`: the faster of float32
                and bfloat16 for this model on this machine; or `int8` with CTranslate2.
            engine: one of `ENGINES`. `ctranslate2` (extra `hubnmt[fast]`) decodes with that
                library; what it does not do uses this model in float32.
            name: shown by `repr`.
            commit: commit hash on the Hub.

        Raises:
            ConfigError: if the device is not available, or the dtype or engine is unknown or not
                installed.
        """
        # 1. Check the options.
        if engine not in ENGINES:
            raise ConfigError(f"engine = {engine!r} must be {' or '.join(ENGINES)}")
        is_torch = engine == "torch"
        check_dtype(dtype)
        if is_torch and dtype == INT8:
            raise ConfigError(
                "dtype = 'int8' needs engine = 'ctranslate2' (pip install 'hubnmt[fast]')"
            )
        # 2. Keep the stored model, and how to place it again.
        _use_one_thread_in_forks()
        self._stored = stored
        self._place = functools.partial(
            type(self), device=device, dtype=dtype, engine=engine, name=name, commit=commit
        )
        self.name = name
        self.commit = commit
        self.tokenizers = stored.tokenizers
        self.decoding = stored.decoding
        # 3. Place the model on the device in its dtype.
        self.device = get_device(device)
        dtype = resolve_dtype(dtype, self.device, stored.model.config)
        own_dtype = DTYPES.get(dtype, torch.float32) if is_torch else torch.float32
        self.model = convert(stored.model, self.device, own_dtype)
        # 4. Create the engine and the pipeline.
        reference = TorchEngine(self.model, self.tokenizers)
        self._reference = reference
        self.engine: Engine = reference
        """Maps source ids to hypotheses, without any text processing."""
        if not is_torch:
            self.engine = CTranslate2Engine(stored, reference, device=self.device, dtype=dtype)
        self._pipeline = Pipeline(self.engine, self.tokenizers, config=self.config)

    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike[str],
        *,
        device: str = "cpu",
        dtype: str = "float32",
        engine: str = "torch",
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        cache_dir: str | Path | None = None,
    ) -> Self:
        """Load a bundled model by name, a local model folder, or a model from the Hub.

        Args, beside those of `Translator` and of `huggingface_hub.snapshot_download`:
            model: `de-en`, a folder, `user/name` or `user/name@revision`.
            revision: branch, tag or commit on the Hub; `translator.commit` holds the commit.

        Raises:
            ModelNotFoundError: if there is no such model.
            ModelFolderError: if its folder is incomplete or invalid.
            HubError: if the Hub has no such model, or cannot be reached.
            ConfigError: if the device is not available or the engine is not installed.

        Example:
            >>> Translator.from_pretrained("de-en-multi30k", device="auto").config.src_lang
            'de'
        """
        folder, commit = locate_model(
            model,
            revision=revision,
            token=token,
            local_files_only=local_files_only,
            cache_dir=cache_dir,
        )
        return cls(
            load_model(folder),
            device=device,
            dtype=dtype,
            engine=engine,
            name=str(model),
            commit=commit,
        )

    def __repr__(self) -> str:
        """Return the model's name, languages and number of parameters."""
        name = f"{self.name}: " if self.name else ""
        pair = f"{self.config.src_lang} to {self.config.tgt_lang}"
        return f"<Translator {name}{pair}, {self.config.n_parameters:,} parameters>"

    def __reduce__(self) -> tuple[Callable[[StoredModel], Any], tuple[StoredModel]]:
        """Pickle the stored model; unpickling places it as this one was."""
        return self._place, (self._stored,)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model folder in its stored dtype; an existing one is replaced atomically.

        Raises:
            InputError: if the folder contains other files but no hubnmt model, or is a file.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     translator.save_pretrained(folder)
            ...     sorted(path.name for path in pathlib.Path(folder).iterdir())
            ['README.md', 'config.json', 'decoding.json', 'model.safetensors', 'tokenizer.json']
        """
        check_destination(Path(folder))
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
        """Publish the model on the Hub as `user/name`; see `hubnmt.hub.push`.

        Example:
            >>> translator.push_to_hub("user/name", private=True)  # doctest: +SKIP
        """
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
    def stored_dtype(self) -> torch.dtype:
        """Type of the weights in the model folder; int8 has a scale for each row of a matrix."""
        return self._stored.dtype

    @property
    def card(self) -> str:
        """The model card, Markdown with a YAML head."""
        return self._stored.card

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is an iterable of strings
        self, text: str, **options: Unpack[TranslateOptions]
    ) -> Translation: ...

    @overload
    def translate(
        self, text: Iterable[str], **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        decoding: DecodingConfig | None = None,
        prefix: str = "",
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
        guard: bool = True,
        split: bool = True,
        **options: Unpack[DecodingOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or many in the same order; `translator(text)` does the same.

        Args:
            text: a string, or a list, iterator, array or series of strings. Line breaks are
                preserved; an empty text gives an empty translation.
            decoding: decoding options; default: this model's.
            prefix: one line that every translation must begin with; its last word may be
                incomplete.
            max_batch_tokens: source tokens times hypotheses per batch; lower it if memory is short.
            guard: search again if the output repeats itself, does not end, copies the source or is
                far too short, restore names, and report this and doubtful numbers and names in
                `warnings`.
            split: translate each sentence of a line separately; otherwise each line as a whole.
            options: fields of `DecodingConfig` that differ from `decoding`.

        Raises:
            ConfigError: if an option is unknown or has an invalid value.
            InputError: if a text or the prefix is not a string, a text is too long, or the prefix
                has several lines.

        Example:
            >>> translator.translate("Ein Hund rennt im Schnee.").text
            'A dog runs in the snow.'
            >>> for translation in translator(["Ein Hund.", "Zwei Kinder spielen."], beam_size=2):
            ...     print(translation)
            A dog.
            Two children are playing.
        """
        check_prefix(prefix)
        if max_batch_tokens < 1:
            raise ConfigError(f"max_batch_tokens = {max_batch_tokens} must be at least 1")
        found = self._pipeline.translate(
            [text] if isinstance(text, str) else _list_texts(text),
            (decoding or self.decoding).with_options(**options),
            prefix=prefix,
            guard=guard,
            split=split,
            max_batch_tokens=max_batch_tokens,
        )
        return found[0] if isinstance(text, str) else found

    __call__ = translate

    def stream(
        self,
        text: str,
        *,
        decoding: DecodingConfig | None = None,
        prefix: str = "",
        guard: bool = True,
        split: bool = True,
        n_together: int = 1,
        **options: Unpack[DecodingOptions],
    ) -> Generator[str, None, Translation]:
        """Translate one text and yield partial translations as they are generated.

        Each value is the text so far; with beam search, later values may revise earlier words. The
        last value is the final text, and the generator returns the same `Translation` as
        `translate`. Closing the generator stops the search at its next step.

        Args, beside those of `translate`:
            n_together: sentences decoded in one batch, which is faster; the partial text then grows
                by this many sentences instead of by words.

        Example:
            >>> list(translator.stream("Ein Hund rennt.", beam_size=1))
            ['', 'A', 'A dog', 'A dog runs', 'A dog runs.', 'A dog runs.']
        """
        if n_together < 1:
            raise ConfigError(f"n_together = {n_together} must be at least 1")
        check_prefix(prefix)
        decoding = (decoding or self.decoding).with_options(**options)
        return self._pipeline.stream(
            text, decoding, prefix=prefix, guard=guard, split=split, n_together=n_together
        )

    def alternatives(
        self,
        src: str,
        prefix: str | Sequence[int] = "",
        k: int = 5,
        *,
        max_new_tokens: int | None = None,
    ) -> list[Alternative]:
        """Return the k most probable next pieces after a prefix, each with its completed text.

        Args:
            src: one sentence or several; the prefix then determines which is being translated.
            prefix: the translation so far, whose last word may be incomplete; or the exact target
                ids of the first sentence.
            k: number of alternatives; the prefix may allow fewer.
            max_new_tokens: limit of each completion, because completing k long sentences is slow;
                `is_whole` is False where it was reached.

        Raises:
            InputError: if the source is empty.

        Example:
            >>> for each in translator.alternatives("Ein Hund rennt im Schnee.", "A dog ", k=2):
            ...     print(f"{each.probability:.1f}", each.piece, each.text)
            0.4  runs A dog runs in the snow.
            0.2  running A dog running in the snow.
        """
        for name, value in (("k", k), ("max_new_tokens", max_new_tokens)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} must be at least 1")
        return find_alternatives(
            src.strip(),
            prefix,
            k,
            self.decoding.with_options(n_best=1, sample=False),
            self.engine,
            self.model,
            tokenizers=self.tokenizers,
            max_new_tokens=max_new_tokens,
        )

    @overload
    def score(self, src: str, tgt: str | Candidate, *, split: bool = True) -> PairScore: ...

    @overload
    def score(
        self, src: list[str], tgt: Sequence[str | Candidate], *, split: bool = True
    ) -> list[PairScore]: ...

    def score(
        self,
        src: str | Sequence[str],
        tgt: str | Candidate | Sequence[str | Candidate],
        *,
        split: bool = True,
    ) -> PairScore | list[PairScore]:
        """Score given translations by their log-probability under the model.

        Args:
            src: one source, or many.
            tgt: their translations, scored sentence by sentence if both sides have the same number
                of sentences. For a `Candidate`, exactly its `tgt_ids` are scored.
            split: see `translate`.

        Raises:
            InputError: if strings and lists are mixed, the counts differ, or a source is empty.

        Example:
            >>> scored = translator.score("Ein Hund rennt.", "A dog is running.")
            >>> print(f"{scored.log_prob:.1f} nats, perplexity {scored.perplexity:.1f}")
            -2.1 nats, perplexity 1.4
        """
        if isinstance(src, str) != isinstance(tgt, (str, Candidate)):
            raise InputError("src and tgt must both be strings, or both lists of strings")
        sources = [src] if isinstance(src, str) else src
        targets = [tgt] if isinstance(tgt, (str, Candidate)) else tgt
        if len(sources) != len(targets):
            raise InputError(
                f"{len(sources)} sources for {len(targets)} targets; give one target per source"
            )
        texts = [self._pair(*texts, split=split) for texts in zip(sources, targets, strict=True)]
        rows = iter(self.replay([(each.src_ids, each.tgt_ids) for text in texts for each in text]))
        scores = [
            summarize_score([(each.tgt_pieces(self.tokenizers), next(rows)) for each in text])
            for text in texts
        ]
        return scores[0] if isinstance(src, str) else scores

    def attend(
        self, src: str, tgt: str | Candidate | None = None, *, split: bool = True
    ) -> Attention:
        """Return the attention weights of every head for a translation, replayed per sentence.

        Args:
            src: the source.
            tgt: any text, or one of `Translation.n_best`, whose exact `tgt_ids` are replayed; by
                default the best translation.
            split: see `translate`.

        Example:
            >>> maps = translator.attend("Ein Hund rennt.", "A dog is running.")
            >>> maps.cross.shape  # layers, heads, target tokens, source tokens
            torch.Size([4, 4, 6, 5])
        """
        if tgt is None:
            tgt = self.translate(src, split=split).n_best[0]
        pairs = self._pair(src, tgt, split=split)
        maps = [
            attend(
                self.model,
                each.src_ids,
                each.tgt_ids,
                tokenizers=self.tokenizers.with_spans(each.protected),
            )
            for each in pairs
        ]
        return side_by_side(
            maps, [each.src_space for each in pairs], [each.tgt_space for each in pairs]
        )

    def replay(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[tuple[float, ...]]:
        """Return the log-probabilities of the target tokens and eos of any number of id pairs.

        Example:
            >>> src, tgt = translator.tokenizers
            >>> (log_probs,) = translator.replay([(src.encode("Ein Hund."), tgt.encode("A dog."))])
            >>> len(log_probs)  # of 3 pieces and eos
            4
        """
        return self._reference.score(pairs)

    def _pair(self, src: str, tgt: str | Candidate, *, split: bool) -> list[SentenceIds]:
        return pair_sentences(src, tgt, self.tokenizers, config=self.config, split=split)


def _list_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts of any iterable as a list.

    Raises:
        InputError: if it is not iterable, or bytes, or a table, which iterates over column names.
    """
    is_table = isinstance(texts, Mapping) or getattr(texts, "ndim", 1) > 1
    try:
        if not (isinstance(texts, bytes) or is_table):
            return list(texts)
    except TypeError:  # also an array without dimensions
        pass
    raise InputError(f"text must be a string or several strings, not {type(texts).__name__}")


@functools.cache
def _use_one_thread_in_forks() -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
