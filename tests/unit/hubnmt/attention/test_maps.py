"""Attention maps: coarser ones stay exact, and no character is torn in any script."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hubnmt.attention.maps import Attention, side_by_side
from hubnmt.attention.replay import locate
from hubnmt.text.characters import number_characters, number_words
from hubnmt.text.tokenizer import Tokenizer

L, H = 2, 3
SRC, TGT = "Zwei Männer, 2026!", "മഞ്ഞിൽ ഒരു നായ 👩\u200d👧."


def rows(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).softmax(-1)


def attention_of(src: str, tgt: str, tokenizer: Tokenizer) -> Attention:
    """Random weights between the tokens of two texts."""
    src_side, tgt_side = (locate(tokenizer.encode(text), tokenizer) for text in (src, tgt))
    S, T = len(src_side.tokens), len(tgt_side.tokens)
    decoder = rows(L, H, T, T).tril()
    return Attention(
        src=src_side,
        tgt=tgt_side,
        cross=rows(L, H, T, S),
        encoder_self=rows(1, H, S, S),
        decoder_self=decoder / decoder.sum(-1, keepdim=True),
        tgt_log_probs=tuple(-0.1 * (t + 1) for t in range(T)),
    )


@pytest.fixture
def attention(tiny_tokenizer: Tokenizer) -> Attention:
    return attention_of(SRC, TGT, tiny_tokenizer)


TEXTS = [SRC, TGT, "€", " a  b ", "e\u0301 ക്ഷ", "", "🇩🇪🇫🇷", "狗跑了。", "\ttab", "<eos>"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("number", [number_characters, number_words])
def test_groups_are_whole_characters_and_words_that_cover_the_text(
    number: Callable[[str], list[int]], text: str, tiny_tokenizer: Tokenizer
) -> None:
    tokens = locate(tiny_tokenizer.encode(text), tiny_tokenizer)
    groups, sizes = tokens.group(number)
    assert sum(sizes) == len(tokens.tokens)
    assert "".join(tokens.text[start:end] for start, end in groups.chars) == tokens.text
    units, raw = number(tokens.text), groups.text.encode()
    borders = {end for _, end in groups.chars} - {0, len(tokens.text)}
    assert all(units[border] != units[border - 1] for border in borders)
    for (start, end), (first, last) in zip(groups.chars, groups.utf8, strict=True):
        assert raw[first:last].decode() == groups.text[start:end]


def by_hand(weights: Tensor, query_sizes: list[int], key_sizes: list[int]) -> Tensor:
    q_ends, k_ends = (list(itertools.accumulate(sizes)) for sizes in (query_sizes, key_sizes))
    pooled = torch.zeros(*weights.shape[:2], len(q_ends), len(k_ends), dtype=weights.dtype)
    for q, k in itertools.product(range(len(q_ends)), range(len(k_ends))):
        for query in range(q_ends[q] - query_sizes[q], q_ends[q]):
            for key in range(k_ends[k] - key_sizes[k], k_ends[k]):
                pooled[:, :, q, k] += weights[:, :, query, key] / query_sizes[q]
    return pooled


@pytest.mark.parametrize("level", ["by_character", "by_word"])
def test_keys_are_summed_and_queries_averaged(level: str, attention: Attention) -> None:
    number = number_characters if level == "by_character" else number_words
    coarse = getattr(attention, level)()
    (_, src), (_, tgt) = attention.src.group(number), attention.tgt.group(number)
    assert max(tgt) > 1
    torch.testing.assert_close(coarse.cross, by_hand(attention.cross, tgt, src))
    torch.testing.assert_close(coarse.encoder_self, by_hand(attention.encoder_self, src, src))
    # Column k of the decoder is what went in at step k: bos, then all but the last.
    inputs = [1, *tgt[:-1]]
    torch.testing.assert_close(coarse.decoder_self, by_hand(attention.decoder_self, tgt, inputs))


def test_a_word_is_linked_to_what_it_looked_at_most(tiny_tokenizer: Tokenizer) -> None:
    attention = attention_of("Ein Hund bellt", "A dog barks!", tiny_tokenizer)
    words = attention.by_word()
    wanted = {0: 0, 1: 1, 2: 2, 3: 3}  # target word to source word; 3 is <eos>
    attention.cross.fill_(0)
    for row, token in enumerate(attention.tgt.chars):
        spans = enumerate(words.tgt.chars)
        word = next((w for w, (a, b) in spans if a <= token[0] and token[1] <= b), 4)
        span = words.src.chars[wanted.get(word, 3)]
        for column, (start, end) in enumerate(attention.src.chars):
            if span[0] <= start and end <= span[1]:
                attention.cross[1, 2, row, column] = 1.0
    links = attention.word_alignment((1, 2))
    said = [(attention.src.text[slice(*a)], attention.tgt.text[slice(*b)]) for a, b, _ in links]
    assert said == [("Ein", "A"), ("Hund", "dog"), ("bellt", "barks")]


def test_sentences_side_by_side_do_not_look_at_each_other(tiny_tokenizer: Tokenizer) -> None:
    first = attention_of("Ein Hund.", "A €.", tiny_tokenizer)
    second = attention_of("Zwei!", "Two men!", tiny_tokenizer)
    both = side_by_side([first, second], ["  ", ""], [" ", ""])
    S, T = len(first.src_tokens), len(first.tgt_tokens)
    assert (both.src.text, both.tgt.text) == ("Ein Hund.  Zwei!", "A €. Two men!")
    torch.testing.assert_close(both.cross[:, :, :T, :S], first.cross, check_dtype=False)
    torch.testing.assert_close(both.cross[:, :, T:, S:], second.cross, check_dtype=False)
    assert both.cross[:, :, :T, S:].abs().sum() == both.cross[:, :, T:, :S].abs().sum() == 0
    assert both.tgt_log_probs == first.tgt_log_probs + second.tgt_log_probs
    for coarse in (both, both.by_character(), both.by_word()):
        for weights in (coarse.cross, coarse.encoder_self, coarse.decoder_self):
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
    assert both.by_word().tgt_tokens == (" A", " €", ".", "<eos>", " Two", " men", "!", "<eos>")
    raw = both.tgt.text.encode()
    for (start, end), (a, b) in zip(both.by_word().tgt.chars, both.by_word().tgt.utf8, strict=True):
        assert raw[a:b].decode() == both.tgt.text[start:end]
