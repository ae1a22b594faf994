"""Data for the Learn tab: subwords, network, next token, beam search and training runs."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.model.shape_trace import Stage, dissect, position_pattern
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from hubnmt.ui.services.beam_tree import beam_tree
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.layer_values import Choice, layer_values
from hubnmt.ui.services.next_token import next_token
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import Subject, sentence_state
from hubnmt.ui.services.training_runs import Run, find_run, read_run
from hubnmt.ui.services.translate import Handlers

MAX_PIECES_BYTES = 400
"""Maximum size of a text whose merges are shown step by step."""

N_POSITIONS = 64
"""Number of positions shown: longer than most sentences."""


@dataclasses.dataclass(frozen=True, slots=True)
class Anatomy:
    """Stages and tensor shapes of the network for one sentence pair."""

    config: ModelConfig
    src: str
    n_src_tokens: int
    """S, including eos."""
    n_tgt_tokens: int
    """T, including eos."""
    stages: list[Stage]


@dataclasses.dataclass(frozen=True, slots=True)
class Lessons:
    """Handlers of the Learn tab."""

    registry: ModelRegistry

    def pieces(self, text: str, model: str) -> dict[str, Any]:
        """Return the subwords of each word after every BPE merge, starting from bytes.

        The text is included because the page derives the writing direction from it.

        Raises:
            HubNMTError: if the text is too long, or the model is not available.
        """
        if not isinstance(text, str):
            raise InputError(f"the text must be a string, not {type(text).__name__}")
        limits.check_characters(text, "the text")
        n_bytes = len(text.encode())
        if n_bytes > MAX_PIECES_BYTES:
            raise InputError(
                f"the text has {n_bytes:,} bytes; the limit is {MAX_PIECES_BYTES}; enter a short "
                "sentence"
            )
        tokenizer = self.registry.get(model).tokenizers.src
        words = tokenizer.pre_tokens(text)
        return {
            "words": [
                [list(map(_readable, step)) for step in tokenizer.merge_steps(word)]
                for word in words
            ],
            "vocabulary": tokenizer.vocab_size,
            "text": text,
        }

    def positions(self, model: str) -> dict[str, Any]:
        """Return the positional encodings, quantized to signed bytes: -127 is -1, 127 is 1."""
        d_model = self.registry.get(model).config.d_model
        pattern = np.asarray(position_pattern(N_POSITIONS, d_model), dtype=np.float32)
        packed = np.rint(pattern * 127).astype(np.int8)
        return {
            "rows": N_POSITIONS,
            "columns": d_model,
            "values": base64.b64encode(packed.tobytes()).decode("ascii"),
        }

    def anatomy(self, src: str, tgt: str, model: str) -> Anatomy:
        """Return the network's stages and tensor shapes for a sentence pair.

        Raises:
            HubNMTError: if a text is empty or too long, or the model is not available.
        """
        limits.check_text(src)
        limits.check_characters(tgt, "the translation")
        src, tgt = _first_line(src), _first_line(tgt)  # lines are translated separately
        translator = self.registry.get(model)
        n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
        n_tgt_tokens = len(translator.tokenizers.tgt.encode(tgt)) + 1
        config = translator.config
        stages = dissect(config, n_src_tokens=n_src_tokens, n_tgt_tokens=n_tgt_tokens)
        return Anatomy(config, src, n_src_tokens, n_tgt_tokens, stages)

    def last_anatomy(
        self, handlers: Handlers, model: str, translated: dict[str, Any] | None
    ) -> Anatomy | None:
        """Return the network's stages for the last translation, or for an example sentence.

        Args:
            handlers: the page's handlers, which translate the example.
            model: model reference, used if nothing was translated yet.
            translated: translation state of the page: `src`, `model`, `candidates`, `selected`.

        Returns:
            None if nothing was translated yet and the language has no example.

        Raises:
            HubNMTError: see `anatomy`.
        """
        if translated:
            text = translated["candidates"][translated["selected"]]["text"]
            return self.anatomy(translated["src"], text, translated["model"])
        language = self.registry.get(model).config.src_lang
        src = next(iter(examples(language)), "")
        if not src:
            return None
        return self.anatomy(src, handlers.translate_text(src, model).translation.text, model)

    def subject(
        self, handlers: Handlers, model: str, translated: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """Return the state of a page that holds only the selected sentence, or an example.

        Args:
            handlers: see `last_anatomy`.
            model: see `last_anatomy`.
            translated: see `last_anatomy`.

        Returns:
            None if nothing was translated yet and the language has no example.

        Raises:
            HubNMTError: if the state is malformed, or the model is not available.
        """
        if translated:
            return self._read(translated)[1].alone
        src = next(iter(examples(self.registry.get(model).config.src_lang)), "")
        if not src:
            return None
        found = handlers.translate_text(src, model).translation
        start, end = found.sentences[0].src
        return sentence_state(model, src[start:end], found.n_best[0].tgt_ids[0])

    def values(self, value: Any) -> dict[str, Any]:
        """Return the values of the head that the page chose; see `layer_values`.

        Args:
            value: `subject` and, after a choice, `choice`: `kind`, `layer` and `head`.
        """
        translator, subject = self._read(value["subject"])
        choice = Choice.read(value.get("choice"), translator.config)
        return layer_values(translator, subject, choice)

    def next_token(self, value: Any) -> dict[str, Any]:
        """Return the most probable tokens at a position; see `next_token`.

        Args:
            value: `subject` and, after a choice, `asked`.
        """
        return next_token(*self._read(value["subject"]), value.get("asked"))

    def beam(self, value: Any) -> dict[str, Any]:
        """Return the hypotheses of a beam search; see `beam_tree`.

        Args:
            value: `subject` and, after a choice, `beam_size`.
        """
        return beam_tree(*self._read(value["subject"]), value.get("beam_size"))

    def _read(self, state: Any) -> tuple[Translator, Subject]:
        model = state.get("model") if isinstance(state, dict) else None
        translator = self.registry.get(model)  # type: ignore[arg-type]  # rejects non-strings
        return translator, Subject.read(state, translator)

    def run_of(self, model: str) -> Run | None:
        """Read the training run of a model; None if its folder contains none.

        Raises:
            HubNMTError: if it cannot be read.
        """
        known = self.registry.folder(self.registry.name(model))
        folder = find_run(known or self.registry.cached_folder(model))
        return None if folder is None else read_run(folder)

    def run_at(self, folder: str) -> Run:
        """Read a local run folder, if the page serves a single local user.

        Raises:
            HubNMTError: if local folders are not allowed, or there is no run.
        """
        if not self.registry.allow_local:
            raise InputError("this page does not open local folders: other users can reach it")
        if not folder.strip():
            raise InputError("there is no folder yet: enter the path of a run folder")
        return read_run(Path(folder.strip()).expanduser())


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def _readable(piece: bytes) -> str:
    """Decode a subword; incomplete UTF-8 is shown as hex bytes."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return f"<{piece.hex(' ').upper()}>"
