"""Constraints: slow loops forbid the same; every search over random scores says the prefix."""

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hubnmt.decoding.constraints import (
    ForcedPrefix,
    block_repeated_ngrams,
    force_prefix,
    penalize_repetition,
)
from hubnmt.decoding.search import Search, run_to_end
from hubnmt.text.tokenizer import Tokenizer
from tests.tables import SEARCHES

B, W, V = 2, 3, 5
BOS, EOS = 1, 2


def random_history(n_tokens: int) -> Tensor:
    return torch.randint(0, V, (B, W, n_tokens))


def random_log_probs(*shape: int) -> Tensor:
    return torch.randn(*shape).log_softmax(-1)


def completes_a_repeat(said: list[int], token: int, n: int) -> bool:
    """Tell by looking at every n-gram."""
    grown = [*said, token]
    grams = [tuple(grown[start : start + n]) for start in range(len(grown) - n + 1)]
    return bool(grams) and grams[-1] in grams[:-1]


@pytest.mark.parametrize("n_tokens", [0, 2, 4, 11, 30])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_exactly_what_would_repeat_an_ngram_is_forbidden(n: int, n_tokens: int) -> None:
    for _ in range(10):
        tokens, before = random_history(n_tokens), random_log_probs(B, W, V)
        after = block_repeated_ngrams(before, tokens, n)
        for b, w, token in itertools.product(range(B), range(W), range(V)):
            forbidden = completes_a_repeat(tokens[b, w].tolist(), token, n)
            expected = -torch.inf if forbidden else before[b, w, token].item()
            assert after[b, w, token].item() == expected


@pytest.mark.parametrize("penalty", [0.5, 1.3])
@pytest.mark.parametrize("n_tokens", [0, 1, 9])
def test_what_was_said_costs_as_many_times_more(n_tokens: int, penalty: float) -> None:
    tokens, before = random_history(n_tokens), random_log_probs(B, W, V)
    after = penalize_repetition(before, tokens, penalty)
    for b, w, token in itertools.product(range(B), range(W), range(V)):
        factor = penalty if token in tokens[b, w].tolist() else 1.0
        assert after[b, w, token].item() == pytest.approx(before[b, w, token].item() * factor)


class NoiseStep:
    """Random scores, new ones at each call; pad and bos are impossible, as in a model."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._vocab_size = vocab_size

    def __call__(self, last_ids: Tensor) -> Tensor:
        shape = (*last_ids.shape, self._vocab_size)
        logits = 3 * torch.randn(shape, generator=self._generator)
        log_probs = logits.log_softmax(-1)
        log_probs[..., :EOS] = -torch.inf
        return log_probs

    def reorder(self, parents: Tensor) -> None:
        pass

    def keep(self, rows: Tensor) -> None:
        pass


Start = Callable[..., Search]
STRATEGIES = pytest.mark.parametrize("start", SEARCHES)


def search(start: Start, prefix: ForcedPrefix, seed: int) -> list[list[int]]:
    """Search B sentences and list the ids of everything found."""
    caps = [prefix.max_tokens + 6, prefix.max_tokens + 7]
    options = {"bos_id": BOS, "length_penalty": 0.0, "constraint": prefix}
    found = run_to_end(start(NoiseStep(seed, 300), caps, range(B), **options))
    assert all(found)
    return [each.ids for hypotheses in found for each in hypotheses]


@STRATEGIES
@pytest.mark.parametrize("text", ["Männer", "ഞി"])
def test_every_byte_of_a_word_can_be_the_last_one_forced(
    start: Start, text: str, tiny_tokenizer: Tokenizer
) -> None:
    """Also inside a piece, and inside a character."""
    raw = f" {text}".encode()
    for cut in range(1, len(raw) + 1):
        prefix = ForcedPrefix(tiny_tokenizer, [[]], raw[:cut])
        for ids in search(start, prefix, seed=cut):
            assert tiny_tokenizer.decode_bytes(ids).startswith(raw[1:cut])


ODD = ["7 Gänse und 1", "👩\u200d👧 wa", "<eos>", "The <bos> <pad> c", "A dog ", " A", "  A dog"]
ODD += [" ", "A  dog", "A\n dog", "\nA", "\u3000A\u00a0dog", "A\u2028d"]


@STRATEGIES
def test_a_translation_begins_with_the_prefix_wherever_it_is_cut(
    start: Start, tiny_texts: list[str], tiny_tokenizer: Tokenizer
) -> None:
    rng = random.Random(5)
    cut = [text[: rng.randint(1, len(text))] for text in tiny_texts]
    for seed, text in enumerate([*cut, *ODD]):
        prefix = force_prefix(text, tiny_tokenizer)
        assert prefix is not None
        for ids in search(start, prefix, seed):
            assert tiny_tokenizer.decode_bytes(ids).startswith(text.encode())


@pytest.mark.parametrize("n_spaced", [0, 40])
def test_whole_words_are_cut_as_the_tokenizer_cuts_them(
    n_spaced: int, tiny_texts: list[str]
) -> None:
    """The model has seen no other pieces; with many such lines " \\n" becomes a piece as well."""
    tokenizer = Tokenizer.train([*tiny_texts, *["a \n"] * n_spaced], 300)
    rng = random.Random(3)
    words = ["A", "dog", "is", "Männer", "ഞിൽ,", "(so)", "7", "a", "b"]
    borders = [" "] * 6 + ["  ", " \n", "\n"]
    for _ in range(60):
        text = "".join(rng.choice(words) + rng.choice(borders) for _ in range(4)) + "end"
        prefix = force_prefix(text, tokenizer)
        assert prefix is not None
        (forced,) = prefix.forced_ids.tolist()
        assert tokenizer.decode(forced) == text.removesuffix(" end").removesuffix("end")
        assert forced == tokenizer.encode(text)[: len(forced)]


def test_any_cut_of_the_last_word_is_left_to_the_model(tiny_tokenizer: Tokenizer) -> None:
    """All pieces that agree with the bytes still owed are open, all others closed."""
    raw = b" in"
    forced = tiny_tokenizer.encode("A dog")
    prefix = ForcedPrefix(tiny_tokenizer, [forced], raw)
    log_probs = random_log_probs(1, 1, 300)
    for said in (b"", b" ", b" i"):
        tail = [
            next(i for i in range(300) if tiny_tokenizer.piece_bytes(i) == bytes([byte]))
            for byte in said
        ]
        after = prefix(log_probs, torch.tensor([[[*forced, *tail]]]), torch.tensor([0]))
        owed = raw[len(said) :]
        for token_id in range(300):
            piece = tiny_tokenizer.piece_bytes(token_id)
            agrees = piece != b"" and all(x == y for x, y in zip(piece, owed, strict=False))
            expected = log_probs[0, 0, token_id].item() if agrees else -torch.inf
            assert after[0, 0, token_id].item() == expected, (said, piece)
