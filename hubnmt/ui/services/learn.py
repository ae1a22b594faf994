"""What the page explains, as functions that need no server.

Takes a model and a text, gives pieces step by step, the network's stages with the shapes of their
tensors, the pattern of positions, and the run a model came from. A request that cannot be met
raises `HubNMTError`. Must not know Gradio or HTML.
"""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.model.shape_trace import Stage, dissect, position_pattern
from hubnmt.ui.services import limits
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.training_runs import Run, find_run, read_run
from hubnmt.ui.services.translate import Handlers

MAX_PIECES_BYTES = 400
"""Longest text that is taken apart: each merge is a picture of its own."""

N_POSITIONS = 64
"""Positions in the picture: longer than most sentences."""


@dataclasses.dataclass(frozen=True, slots=True)
class Anatomy:
    """The network, as it worked on one sentence."""

    config: ModelConfig
    src: str
    n_src_tokens: int
    """S, eos counted."""
    n_tgt_tokens: int
    """T, eos counted."""
    stages: list[Stage]


@dataclasses.dataclass(frozen=True, slots=True)
class Lessons:
    """Everything a visitor can be shown."""

    registry: ModelRegistry

    def pieces(self, text: str, model: str) -> dict[str, Any]:
        """Take a text apart: for each word its pieces after every merge, the bytes first.

        The text comes with them: bytes alone do not tell in which direction it runs.

        Raises:
            HubNMTError: if the text is too long to watch, or the model is refused.
        """
        if not isinstance(text, str):
            raise InputError(f"the text must be a string, not {type(text).__name__}")
        limits.check_characters(text, "the text")
        n_bytes = len(text.encode())
        if n_bytes > MAX_PIECES_BYTES:
            raise InputError(
                f"this text has {n_bytes:,} bytes; up to {MAX_PIECES_BYTES} can be watched, "
                "a short sentence"
            )
        tokenizer = self.registry.get(model).src_tokenizer
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
        """Give the pattern that tells positions apart, as signed bytes: -127 is -1, 127 is 1."""
        d_model = self.registry.get(model).config.d_model
        pattern = np.asarray(position_pattern(N_POSITIONS, d_model), dtype=np.float32)
        packed = np.rint(pattern * 127).astype(np.int8)
        return {
            "rows": N_POSITIONS,
            "columns": d_model,
            "values": base64.b64encode(packed.tobytes()).decode("ascii"),
        }

    def anatomy(self, src: str, tgt: str, model: str) -> Anatomy:
        """Open the network up, as it works on this pair.

        Raises:
            HubNMTError: if there is no text, too much of it, or the model is refused.
        """
        limits.check_text(src)
        limits.check_characters(tgt, "the translation")
        src, tgt = _first_line(src), _first_line(tgt)  # lines are translated apart
        translator = self.registry.get(model)
        n_src_tokens = len(translator.src_tokenizer.encode(src)) + 1
        n_tgt_tokens = len(translator.tgt_tokenizer.encode(tgt)) + 1
        config = translator.config
        stages = dissect(config, n_src_tokens=n_src_tokens, n_tgt_tokens=n_tgt_tokens)
        return Anatomy(config, src, n_src_tokens, n_tgt_tokens, stages)

    def last_anatomy(
        self, handlers: Handlers, model: str, translated: dict[str, Any] | None
    ) -> Anatomy | None:
        """Open the network up for what was translated last, or else for an example.

        Args:
            handlers: of the page; they translate the example.
            model: which model, if nothing was translated yet.
            translated: what the page shows as alternatives: `src`, `model`, `candidates`,
                `selected`.

        Returns:
            None if nothing was translated yet, and there is no example in this language.

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

    def run_of(self, model: str) -> Run | None:
        """Read the run that a model came from, where its folder tells of one.

        Raises:
            HubNMTError: if it cannot be read.
        """
        folder = find_run(self.registry.folder(self.registry.name(model)))
        return None if folder is None else read_run(folder)

    def run_at(self, folder: str) -> Run:
        """Read a run folder of this machine, where the page serves only the person who owns it.

        Raises:
            HubNMTError: if this page opens no folders, or there is no run.
        """
        if not self.registry.allow_local:
            raise InputError("this page opens no folders: others can reach it")
        if not folder.strip():
            raise InputError("there is no folder yet: type the path of a run folder")
        return read_run(Path(folder.strip()).expanduser())


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def _readable(piece: bytes) -> str:
    """Show a piece: text where it is whole characters, hex bytes where it is not."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return f"<{piece.hex(' ').upper()}>"
