"""Explain: a replay, alone and by hand, gives the same numbers; every token can be read."""

import math

import pytest
import torch

from hubnmt.attention.maps import Attention
from hubnmt.attention.replay import attend, readable_pieces, score_targets
from hubnmt.model import Transformer
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

SRC, TGT = "Zwei Männer stehen am Herd.", "Two men, ഒരു നായ."
H = 3


@pytest.fixture
def attention(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Attention:
    return attend(
        tiny_model,
        tiny_tokenizer.encode(SRC),
        tiny_tokenizer.encode(TGT),
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
    )


def score_of(
    model: Transformer, pairs: list[tuple[list[int], list[int]]], tokenizer: Tokenizer
) -> list[tuple[float, ...]]:
    return score_targets(model, Tokenizers(tokenizer, tokenizer), pairs)


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


# --- scores --------------------------------------------------------------------------------------


def test_scores_of_a_batch_are_those_of_each_token_by_hand(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tiny_texts: list[str]
) -> None:
    texts = [("Ein Hund", "A dog is running."), (SRC, ""), ("x", TGT), (tiny_texts[8], "men")]
    pairs = [(tiny_tokenizer.encode(src), tiny_tokenizer.encode(tgt)) for src, tgt in texts]
    scored = score_of(tiny_model, pairs, tiny_tokenizer)
    with torch.no_grad():
        for (src, tgt), log_probs in zip(pairs, scored, strict=True):
            expected = score_by_hand(tiny_model, src, tgt, tiny_tokenizer)
            assert list(log_probs) == pytest.approx(expected, rel=1e-4)


def test_a_model_that_knows_nothing_gives_each_piece_the_same_chance(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    with torch.no_grad():
        tiny_model.tgt_embedding.weight.zero_()
    pair = (tiny_tokenizer.encode(SRC), tiny_tokenizer.encode(TGT))
    (log_probs,) = score_of(tiny_model, [pair], tiny_tokenizer)
    assert log_probs == pytest.approx([-math.log(300)] * (len(pair[1]) + 1))


def test_log_probs_beside_the_maps_equal_the_score(
    attention: Attention, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    pair = (tiny_tokenizer.encode(SRC), tiny_tokenizer.encode(TGT))
    (expected,) = score_of(tiny_model, [pair], tiny_tokenizer)
    assert attention.tgt_log_probs == pytest.approx(expected, rel=1e-4)


# --- maps ----------------------------------------------------------------------------------------


def test_rows_sum_to_one(attention: Attention) -> None:
    for weights in (attention.cross, attention.encoder_self, attention.decoder_self):
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_no_step_looks_at_tokens_to_come(attention: Attention) -> None:
    assert (attention.decoder_self.triu(1) == 0).all()


def test_maps_are_those_of_the_model(
    attention: Attention, tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    pad, bos, eos = tiny_tokenizer.pad_id, tiny_tokenizer.bos_id, tiny_tokenizer.eos_id
    source = batch_sources([tiny_tokenizer.encode(SRC)], pad_id=pad, eos_id=eos)
    target = batch_targets([tiny_tokenizer.encode(TGT)], pad_id=pad, bos_id=bos, eos_id=eos)
    with torch.no_grad():
        _, maps = tiny_model.attend(source.src_ids, target.tgt_in, source.src_pad_mask)
    torch.testing.assert_close(attention.cross, maps.cross_attn[0])
    torch.testing.assert_close(attention.encoder_self, maps.src_self_attn[0])
    torch.testing.assert_close(attention.decoder_self, maps.tgt_self_attn[0])


def test_maps_can_be_drawn_from_any_precision(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer
) -> None:
    attention = attend(
        tiny_model.bfloat16(),
        tiny_tokenizer.encode(SRC),
        tiny_tokenizer.encode(TGT),
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
    )
    assert attention.cross.dtype == attention.decoder_self.dtype == torch.float32
    assert attention.cross.numpy().shape == attention.cross.shape


def test_an_empty_target_is_one_step(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> None:
    attention = attend(
        tiny_model,
        tiny_tokenizer.encode("x"),
        [],
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
    )
    assert attention.tgt_tokens == ("<eos>",)
    assert attention.decoder_self.flatten().tolist() == [1.0] * 2 * H


# --- readable tokens -----------------------------------------------------------------------------


def test_whole_characters_are_shown_as_they_are(tiny_tokenizer: Tokenizer) -> None:
    pieces = readable_pieces(tiny_tokenizer.encode("Ein Hund\trennt"), tiny_tokenizer)
    assert "".join(pieces) == " Ein Hund\trennt"


def test_a_leading_space_marks_the_start_of_a_word(tiny_tokenizer: Tokenizer) -> None:
    pieces = readable_pieces(tiny_tokenizer.encode("Hund Katze Maus"), tiny_tokenizer)
    assert sum(piece.startswith(" ") for piece in pieces) == 3


def test_pieces_of_a_character_are_shown_as_bytes(tiny_tokenizer: Tokenizer) -> None:
    ids = tiny_tokenizer.encode("€")  # three bytes, and no merge joins them
    assert readable_pieces(ids, tiny_tokenizer) == [" ", "<E2>", "<82>", "<AC>"]


def test_every_piece_can_be_read_back(tiny_tokenizer: Tokenizer) -> None:
    for token_id in range(3, tiny_tokenizer.vocab_size):
        (shown,) = readable_pieces([token_id], tiny_tokenizer)
        is_hex = len(shown) > 2 and shown[0] == "<"
        back = bytes.fromhex(shown[1:-1]) if is_hex else shown.encode()
        assert back == tiny_tokenizer.piece_bytes(token_id)
        assert shown


def test_special_tokens_have_names(tiny_tokenizer: Tokenizer) -> None:
    ids = [tiny_tokenizer.bos_id, tiny_tokenizer.eos_id, tiny_tokenizer.pad_id]
    assert readable_pieces(ids, tiny_tokenizer) == ["<bos>", "<eos>", "<pad>"]


def test_tokens_of_the_maps_end_with_eos_and_spell_the_texts(attention: Attention) -> None:
    assert attention.src_tokens[-1] == attention.tgt_tokens[-1] == "<eos>"
    assert "".join(attention.src_tokens[:-1]) == f" {SRC}"
    assert "".join(attention.tgt_tokens[:9]).startswith(" Two men")


def test_shapes(attention: Attention) -> None:
    S, T = len(attention.src_tokens), len(attention.tgt_tokens)
    assert S != T
    assert len(attention.tgt_log_probs) == T
    assert attention.cross.shape == (2, H, T, S)
    assert attention.encoder_self.shape == (1, H, S, S)
    assert attention.decoder_self.shape == (2, H, T, T)
