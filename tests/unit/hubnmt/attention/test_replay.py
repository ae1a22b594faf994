"""Explain: a replay, alone and by hand, gives the same numbers; every token can be read."""

import pytest
import torch

from hubnmt.attention.replay import attend
from hubnmt.inference.scoring import score_targets
from hubnmt.model import Transformer
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

SRC, TGT = "Zwei Männer stehen am Herd.", "Two men, ഒരു നായ."


@pytest.fixture
def tokenizers(tiny_tokenizer: Tokenizer) -> Tokenizers:
    return Tokenizers(tiny_tokenizer, tiny_tokenizer)


def score_by_hand(
    model: Transformer, src: list[int], tgt: list[int], tokenizer: Tokenizer
) -> list[float]:
    """One forward pass per target token."""
    eos = tokenizer.eos_id
    source = batch_sources([src], pad_id=tokenizer.pad_id, eos_id=eos)
    log_probs = []
    for t, token in enumerate([*tgt, eos]):
        tgt_in = torch.tensor([[tokenizer.bos_id, *tgt[:t]]])
        logits = model(source.src_ids, tgt_in, source.src_pad_mask)[0, -1]
        log_probs.append(float(logits.log_softmax(-1)[token]))
    return log_probs


def test_scores_of_a_batch_are_those_of_each_token_by_hand(
    tiny_model: Transformer, tokenizers: Tokenizers, tiny_texts: list[str]
) -> None:
    texts = [("Ein Hund", "A dog is running."), (SRC, ""), ("x", TGT), (tiny_texts[8], "men")]
    encode = tokenizers.src.encode
    pairs = [(encode(src), encode(tgt)) for src, tgt in texts]
    scored = score_targets(tiny_model, tokenizers, pairs)
    with torch.no_grad():
        for (src, tgt), log_probs in zip(pairs, scored, strict=True):
            expected = score_by_hand(tiny_model, src, tgt, tokenizers.tgt)
            assert list(log_probs) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("tgt", [TGT, ""])
def test_maps_and_log_probs_are_those_of_the_model(
    tgt: str, tiny_model: Transformer, tokenizers: Tokenizers
) -> None:
    tokenizer = tokenizers.src
    src_ids, tgt_ids = tokenizer.encode(SRC), tokenizer.encode(tgt) if tgt else []
    attention = attend(tiny_model, src_ids, tgt_ids, tokenizers=tokenizers)
    pad, bos, eos = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    source = batch_sources([src_ids], pad_id=pad, eos_id=eos)
    target = batch_targets([tgt_ids], pad_id=pad, bos_id=bos, eos_id=eos)
    with torch.no_grad():
        _, maps = tiny_model.attend(source.src_ids, target.tgt_in, source.src_pad_mask)
    torch.testing.assert_close(attention.cross, maps.cross_attn[0])
    torch.testing.assert_close(attention.encoder_self, maps.src_self_attn[0])
    torch.testing.assert_close(attention.decoder_self, maps.tgt_self_attn[0])
    (expected,) = score_targets(tiny_model, tokenizers, [(src_ids, tgt_ids)])
    assert attention.tgt_log_probs == pytest.approx(expected, rel=1e-4)
    assert attention.src_tokens[-1] == attention.tgt_tokens[-1] == "<eos>"
    assert "".join(attention.src_tokens[:-1]) == f" {SRC}"
