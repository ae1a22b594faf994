"""Explain: a replay, alone and by hand, gives the same numbers; every token can be read."""

import pytest
import torch

from hubnmt.attention.replay import attend
from hubnmt.inference.engine import TorchEngine
from hubnmt.model.batching import batch_sources
from hubnmt.model.transformer import Transformer
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
    scored = TorchEngine(tiny_model, tokenizers).score(pairs)
    with torch.no_grad():
        for (src, tgt), log_probs in zip(pairs, scored, strict=True):
            expected = score_by_hand(tiny_model, src, tgt, tokenizers.tgt)
            assert list(log_probs) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("tgt", [TGT, ""])
def test_a_replay_gives_the_scores_of_the_search_and_every_token(
    tgt: str, tiny_model: Transformer, tokenizers: Tokenizers
) -> None:
    src_ids, tgt_ids = tokenizers.src.encode(SRC), tokenizers.src.encode(tgt) if tgt else []
    attention = attend(tiny_model, src_ids, tgt_ids, tokenizers=tokenizers)
    (expected,) = TorchEngine(tiny_model, tokenizers).score([(src_ids, tgt_ids)])
    assert attention.tgt_log_probs == pytest.approx(expected, rel=1e-4)
    for weights in (attention.cross, attention.encoder_self, attention.decoder_self):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert attention.src_tokens[-1] == attention.tgt_tokens[-1] == "<eos>"
    assert "".join(attention.src_tokens[:-1]) == f" {SRC}"
