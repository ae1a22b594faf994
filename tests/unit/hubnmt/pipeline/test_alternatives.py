"""Alternatives: ranked by a table that can be checked by hand, and by a trained model."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hubnmt.decoding.constraints import ForcedPrefix
from hubnmt.decoding.search import run_to_end
from hubnmt.model.batching import batch_sources
from hubnmt.translator import Translator


@pytest.mark.parametrize(("beam_size", "n_generated"), [(1, 0), (3, 4)])
def test_each_is_completed_as_it_would_be_alone(
    beam_size: int, n_generated: int, random_model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = "Ein Hund rennt."
    said = random_model.translate(src, max_new_tokens=6).n_best[0].tgt_ids[0][:n_generated]
    changes = {"beam_size": beam_size, "max_new_tokens": 9, "n_best": 1}
    decoding = dataclasses.replace(random_model.decoding, **changes)
    monkeypatch.setattr(random_model, "decoding", decoding)
    tokenizer = random_model.tokenizers.tgt
    by_text = {tokenizer.piece_bytes(i): i for i in range(3, tokenizer.vocab_size)}
    for found in random_model.alternatives(src, said, k=5):
        if not found.piece.startswith("<"):
            prefix = ForcedPrefix(tokenizer, [[*said, by_text[found.piece.encode()]]])
            rows = [random_model.tokenizers.src.encode(src)]
            alone = run_to_end(random_model.engine.search(rows, decoding, prefix=prefix))[0][0]
            assert found.text == tokenizer.decode_line(alone.ids)


SRC = "Ein Hund rennt im Schnee."


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


@pytest.mark.parametrize("prefix", ["", "A dog", "A dog ru"])
def test_alternatives_have_the_probabilities_of_the_model_best_first(
    prefix: str, bundled_model: Path
) -> None:
    """Behind the whole words; the last word may be said in other pieces or go on."""
    trained = Translator.from_pretrained(bundled_model)
    tokenizer = trained.tokenizers.tgt
    words = tokenizer.pre_tokens(prefix)
    said = tokenizer.encode("".join(words[:-1]).removeprefix(" "))
    expected = next_probabilities(trained, SRC, said)
    found = trained.alternatives(SRC, prefix, k=6)
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
    fitting.append(end_probability(trained, SRC, prefix, len(said)))
    assert probabilities == pytest.approx(sorted(fitting, reverse=True)[:6], rel=1e-4)
    for each in found:
        if "<" not in each.piece:
            piece_id = ids[each.piece.encode()]
            assert each.probability == pytest.approx(expected[piece_id].item(), rel=1e-4)
