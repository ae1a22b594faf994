"""Alternatives: ranked by a table that can be checked by hand, and by a trained model."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.inference.engine import TorchEngine, force_tokens
from hubnmt.model import Transformer
from hubnmt.model.batching import batch_sources
from hubnmt.pipeline import alternatives as alternatives_module
from hubnmt.pipeline.alternatives import find_alternatives
from hubnmt.pipeline.assemble import decode_line
from hubnmt.pipeline.segmentation import make_plan
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from hubnmt.types import Alternative


@pytest.fixture
def find(tiny_model: Transformer, tiny_tokenizer: Tokenizer, monkeypatch: Any) -> Any:
    """Rank by a table: (tokens so far) to {token: probability}; all else is impossible."""
    both = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}

    def call(
        table: dict[tuple[int, ...], dict[int, float]], prefix: Any, k: int = 9, src: str = "Ein"
    ) -> list[Alternative]:
        def ask(_model: Any, _src: Any, said: Sequence[int], **_: Any) -> Tensor:
            log_probs = torch.full((tiny_tokenizer.vocab_size,), -math.inf)
            for token_id, probability in table.get(tuple(said), {}).items():
                log_probs[token_id] = math.log(probability)
            return log_probs

        monkeypatch.setattr(alternatives_module, "next_log_probs", ask)
        plan = make_plan(src, tiny_tokenizer, language="de", max_src_tokens=40)
        decoding = DecodingConfig(beam_size=1, max_new_tokens=4)
        return find_alternatives(
            plan, prefix, k, decoding, TorchEngine(tiny_model, **both), tiny_model, **both
        )

    return call


def test_the_end_pays_for_the_open_word(find: Any, tiny_tokenizer: Tokenizer) -> None:
    """ "A" then " dog" in its pieces: 0.5 each; then the end: 0.2."""
    (article, *dog), eos = tiny_tokenizer.encode("A dog"), tiny_tokenizer.eos_id
    table = {(article, *dog[:n]): {piece: 0.5} for n, piece in enumerate(dog)}
    table[article, *dog] = {eos: 0.2, dog[0]: 0.8}
    found = {each.piece: each for each in find(table, "A dog")}
    assert found["<eos>"].probability == pytest.approx(0.2 * 0.5 ** len(dog))
    assert found["<eos>"].text == "A dog"
    assert len(found) == 2


def test_an_end_behind_a_space_costs_itself_alone(find: Any, tiny_tokenizer: Tokenizer) -> None:
    said, eos = tuple(tiny_tokenizer.encode("A dog")), tiny_tokenizer.eos_id
    space = tiny_tokenizer.encode("x x")[2]
    table = {said: {eos: 0.3, space: 0.6, tiny_tokenizer.encode(".")[-1]: 0.1}}
    first, second = find(table, "A dog ")
    assert [first.probability, second.probability] == pytest.approx([0.6, 0.3])
    assert (second.piece, second.text) == ("<eos>", "A dog")
    assert first.text.startswith("A dog ")


def test_tokens_as_a_prefix_leave_no_word_open(find: Any, tiny_tokenizer: Tokenizer) -> None:
    """As text, "A dog" could still become "A dogs"; as tokens it is what was said."""
    said, eos = tiny_tokenizer.encode("A dog"), tiny_tokenizer.eos_id
    stop = tiny_tokenizer.encode(".")[-1]
    found = find({tuple(said): {eos: 0.3, stop: 0.7}}, said)
    assert [each.probability for each in found] == pytest.approx([0.7, 0.3])
    assert found[0].text.startswith("A dog.")
    assert found[1].text == "A dog"


@pytest.mark.parametrize(("beam_size", "n_generated"), [(1, 0), (3, 4)])
def test_all_are_completed_in_one_search_as_they_would_be_alone(
    beam_size: int, n_generated: int, random_model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    src, engine = "Ein Hund rennt.", random_model.engine
    said = random_model.translate(src, max_new_tokens=6).n_best[0].tgt_ids[0][:n_generated]
    searches = []
    search = engine.search

    def count(rows: Any, *args: Any, **options: Any) -> Any:
        searches.append(len(rows))
        return search(rows, *args, **options)

    changes = {"beam_size": beam_size, "max_new_tokens": 9, "n_best": 1}
    decoding = dataclasses.replace(random_model.decoding, **changes)
    monkeypatch.setattr(random_model, "decoding", decoding)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "search", count)
        found = random_model.alternatives(src, said, k=5)
    tokenizer = random_model.tokenizers.tgt
    ends = [each for each in found if each.piece == "<eos>"]
    assert searches == [5 - len(ends)]
    by_text = {tokenizer.piece_bytes(i): i for i in range(3, tokenizer.vocab_size)}
    for each in found:
        if each in ends or each.piece.startswith("<"):
            continue
        prefix = force_tokens([*said, by_text[each.piece.encode()]], tokenizer)
        row = random_model.tokenizers.src.encode(src)
        alone = run_search(search([row], random_model.decoding, prefix=prefix))[0][0]
        assert each.text == decode_line(alone.ids, tokenizer)


@pytest.mark.parametrize("said", ["A woman in bl", (70, 71, 72)])
def test_a_text_that_has_all_the_tokens_asked_for_is_cut(
    said: Any, random_model: Translator
) -> None:
    found = random_model.alternatives("Ein Hund rennt.", said, k=3, max_new_tokens=1)
    whole = random_model.alternatives("Ein Hund rennt.", said, k=3, max_new_tokens=300)
    assert {each.piece for each in found} == {each.piece for each in whole}
    assert not any(each.is_whole for each in found if each.piece != "<eos>")
    for short, long in zip(found, whole, strict=True):
        assert long.is_whole
        assert len(short.text) <= len(long.text)


# --- a trained model ----------------------------------------------------------------------------


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
