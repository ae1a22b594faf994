"""Models whose output is known: one that follows a script, one that copies, a random one.

Where the words of a translation matter, a script takes the place of the decoder step. Everything
else, from segmentation to beam search and back, is as in use.
"""

import dataclasses
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.inference import engine
from hubnmt.pipeline import fallback
from hubnmt.translator import Translator

BOS, EOS, V = 1, 2, 300
Script = Callable[[list[int], tuple[int, ...]], dict[int, float]]
"""(source ids, what was said) to the log-probabilities of what may come; the rest is hopeless."""


def make_scripted_step(script: Script) -> type:
    """Build a stand-in for `ModelStep` that follows a script."""

    class ScriptedStep:
        def __init__(
            self, model: object, src_ids: Tensor, src_pad_mask: Tensor, *, never: Sequence[int]
        ) -> None:
            lengths = (~src_pad_mask).sum(1).tolist()
            rows = zip(src_ids.tolist(), lengths, strict=True)
            self._sources = [row[: n - 1] for row, n in rows]
            self._said: list[list[tuple[int, ...]]] = [[()] for _ in self._sources]

        def __call__(self, last_ids: Tensor) -> Tensor:
            log_probs = torch.full((*last_ids.shape, V), -40.0)
            log_probs[:, :, EOS] = -90.0
            for b, last in enumerate(last_ids.tolist()):
                for w, token in enumerate(last):
                    said = () if token == BOS else (*self._said[b][w], token)
                    self._said[b][w] = said
                    for token_id, log_prob in script(self._sources[b], said).items():
                        log_probs[b, w, token_id] = log_prob
            return log_probs

        def reorder(self, parents: Tensor) -> None:
            pairs = zip(self._said, parents.tolist(), strict=True)
            self._said = [[said[parent] for parent in row] for said, row in pairs]

        def keep(self, rows: Tensor) -> None:
            self._sources = [self._sources[row] for row in rows.tolist()]
            self._said = [list(self._said[row]) for row in rows.tolist()]

    return ScriptedStep


def copy_source(src: list[int], said: tuple[int, ...]) -> dict[int, float]:
    return {[*src, EOS][min(len(said), len(src))]: -0.01}


@pytest.fixture
def stored(tiny_stored: StoredModel) -> StoredModel:
    """Random but decided weights: no two continuations are nearly equal."""
    model = tiny_stored.model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
        model.src_embedding.weight.mul_(2)
    return dataclasses.replace(tiny_stored, decoding=DecodingConfig(beam_size=3, n_best=2))


@pytest.fixture
def accept_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the detection of copies and loops, which are intended here."""
    monkeypatch.setattr(fallback, "find_degenerate", lambda **_: [])


@pytest.fixture
def random_model(stored: StoredModel, accept_any_text: None) -> Translator:
    """A model with random weights: the same meaningless text each time."""
    return Translator(stored)


@pytest.fixture
def copying_model(
    stored: StoredModel, accept_any_text: None, monkeypatch: pytest.MonkeyPatch
) -> Translator:
    """A model that copies its source."""
    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(copy_source))
    return Translator(stored)


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], None]:
    """Replace the decoder step by a script."""

    def exchange(script: Script) -> None:
        monkeypatch.setattr(engine, "ModelStep", make_scripted_step(script))

    return exchange
