"""Decoding options as a user meets them: a model that has learned a little, from text to text.

It knows a few farm sentences after two seconds of training.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.config import DecodingConfig
from hubnmt.errors import HubNMTError
from hubnmt.model.batching import batch_sources
from hubnmt.translator import Translator
from training.train import main

GREEDY = {"beam_size": 1}
BEAM = {"beam_size": 4}
SAMPLE = {"sample": True, "seed": 3}
STRATEGIES = pytest.mark.parametrize("strategy", [GREEDY, BEAM, SAMPLE], ids=str)
SETTINGS = [
    *("run.max_steps=150", "run.eval_every=150", "run.average_last=1", "run.log_every=150"),
    *("model.d_model=32", "model.n_heads=4", "model.d_ff=64", "model.n_decoder_layers=1"),
    *("model.dropout=0.0", "model.attention_dropout=0.0", "model.ff_dropout=0.0"),
    *("optimizer.accumulate=1", "optimizer.warmup_steps=30"),
]


@pytest.fixture(scope="module")
def folder(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, trained here."""
    fixtures, runs = repo / "tests" / "fixtures", tmp_path_factory.mktemp("runs")
    files = [
        f"data.{split}={fixtures / f'farm.{split}.de'},{fixtures / f'farm.{split}.en'}"
        for split in ("train", "valid")
    ]
    words = [f"--set={text}" for text in [f"run.folder={runs}", *files, *SETTINGS]]
    assert main([str(fixtures / "farm.toml"), *words]) == 0
    return runs / "farm" / "best"


@pytest.fixture(scope="module")
def trained(folder: Path) -> Translator:
    """The model without the recipe's own cap on the length."""
    translator = Translator.from_pretrained(folder)
    translator.decoding = DecodingConfig(beam_size=4)
    return translator


@pytest.fixture(scope="module")
def sources(repo: Path) -> list[str]:
    path = repo / "tests" / "fixtures" / "farm.valid.de"
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()


PREFIXES = [
    "The",
    "Th",
    "A frog ",
    "Yesterday, the cow slee",
    "7 Gänse und 1",
    "ഒരു നായ",
    "👩\u200d👧 wa",
    "The cow waits today. And it waits and waits and waits, for ever and ever, until the evenin",
    " ",
    "  ",
    " The",
    " The cow",
    "The  cow\twai",
    "<eos>",
    "The <bos> <pad> c",
]


@STRATEGIES
def test_a_translation_begins_with_the_prefix(
    strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    for prefix in PREFIXES:
        translation = trained.translate(sources[0], prefix=prefix, **strategy)
        assert translation.text.startswith(prefix)
        assert all(each.text.startswith(prefix) for each in translation.n_best)


@pytest.mark.parametrize("prefix", ["The cow\nwai", "The\u2028cow", "\nThe", "The\r\n"], ids=ascii)
def test_a_line_break_in_a_prefix_is_said_or_refused(
    prefix: str, trained: Translator, sources: list[str]
) -> None:
    """A line stays a line, so it cannot be had both ways; but it is not quietly another text."""
    try:
        translation = trained.translate(sources[0], prefix=prefix, beam_size=4)
    except HubNMTError as error:
        said = str(error)
    else:
        said = "prefix" if translation.text.startswith(prefix) else str(translation.warnings)
    assert "prefix" in said


def next_probabilities(translator: Translator, src: str, said: list[int]) -> Tensor:
    """Ask the model itself what comes next."""
    rows = [translator.tokenizers.src.encode(src)]
    src_ids, src_pad_mask = batch_sources(rows, pad_id=0, eos_id=2)
    with torch.inference_mode():
        logits = translator.model(src_ids, torch.tensor([[1, *said]]), src_pad_mask)
    return logits[0, -1].softmax(-1)


def end_probability(translator: Translator, src: str, prefix: str, n_generated: int) -> float:
    """Ask for each piece of the open word, and for the end behind it, one after the other."""
    tokenizer, probability = translator.tokenizers.tgt, 1.0
    ids = [*tokenizer.encode(prefix.rstrip()), tokenizer.eos_id]
    for n in range(n_generated, len(ids)):
        probability *= next_probabilities(translator, src, ids[:n])[ids[n]].item()
    return probability


@pytest.mark.parametrize("prefix", ["", "The cow", "The frog ru"])
def test_alternatives_have_the_probabilities_of_the_model_best_first(
    prefix: str, trained: Translator, sources: list[str]
) -> None:
    """Behind the whole words; the last word may be said in other pieces or go on."""
    tokenizer = trained.tokenizers.tgt
    words = tokenizer.pre_tokens(prefix)
    said = tokenizer.encode("".join(words[:-1]).removeprefix(" "))
    expected = next_probabilities(trained, sources[0], said)
    found = trained.alternatives(sources[0], prefix, k=6)
    probabilities = [each.probability for each in found]
    assert 1 <= len(found) <= 6
    assert probabilities == sorted(probabilities, reverse=True)
    ids = {tokenizer.piece_bytes(i): i for i in range(3, tokenizer.vocab_size)}
    owed = words[-1].encode() if words else b""
    fitting = [
        expected[i].item()
        for piece, i in ids.items()
        if piece.startswith(owed) or owed.startswith(piece)
    ]
    fitting.append(end_probability(trained, sources[0], prefix, len(said)))
    assert probabilities == pytest.approx(sorted(fitting, reverse=True)[:6], rel=1e-4)
    for each in found:
        if "<" not in each.piece:
            piece_id = ids[each.piece.encode()]
            assert each.probability == pytest.approx(expected[piece_id].item(), rel=1e-4)
