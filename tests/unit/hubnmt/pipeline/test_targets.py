"""Given targets: prefixes over several sentences, and whole translations in pairs."""

from typing import Any

import pytest

from hubnmt.config import ModelConfig
from hubnmt.pipeline.segmentation import segment_text
from hubnmt.pipeline.targets import SentenceIds, distribute_prefix, pair_sentences
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Candidate


@pytest.fixture
def pair(tiny_tokenizer: Tokenizer, tiny_config: ModelConfig) -> Any:
    """Pair two texts and read the ids."""

    def call(src: str, tgt: str | Candidate, **options: bool) -> list[tuple[str, str, str, str]]:
        both = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
        pairs: list[SentenceIds] = pair_sentences(src, tgt, config=tiny_config, **both, **options)
        decode = tiny_tokenizer.decode
        return [(decode(a), space, decode(b), other) for a, space, b, other, _ in pairs]

    return call


def test_sentences_go_in_pairs_with_the_space_behind_them(pair: Any) -> None:
    found = pair(" Ein Hund.  Zwei!\nWer?", "A dog. Two! Who?\n")
    assert found == [
        ("Ein Hund.", "  ", "A dog.", " "),
        ("Zwei!", "\n", "Two!", " "),
        ("Wer?", "", "Who?", "\n"),
    ]


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("Ein Hund. Zwei!", "A dog and two."),
        ("Ein Hund und zwei.", "A dog. Two!"),
        ("Ein Hund. Zwei!", ""),
        ("Ein Hund rennt", "A dog runs"),
    ],
)
def test_texts_of_other_counts_stay_whole(src: str, tgt: str, pair: Any) -> None:
    assert pair(f" {src}\n", f"{tgt} ") == [(src, "", tgt, "")]


@pytest.mark.parametrize("space", ["\u00a0", "\t", "  "], ids=repr)
def test_both_sides_are_spaced_as_in_training(space: str, pair: Any) -> None:
    assert pair(f"Ein{space}Hund", f"A{space}dog") == [("Ein Hund", "", "A dog", "")]
    more = pair(f"Ein{space}Hund. Zwei!", f"A{space}dog. Two!")
    assert more == [("Ein Hund.", " ", "A dog.", " "), ("Zwei!", "", "Two!", "")]


def test_a_candidate_brings_its_own_tokens(pair: Any, tiny_tokenizer: Tokenizer) -> None:
    """Spelled in bytes, which no tokenizer would do."""
    ids = {tiny_tokenizer.piece_bytes(i): i for i in range(3, tiny_tokenizer.vocab_size)}
    spelled = tuple(tuple(ids[bytes([b])] for b in f" {t}".encode()) for t in ("A dog.", "Two!"))
    both = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    config = ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300)
    candidate = Candidate("A dog. Two!", -1.0, spelled)
    pairs = pair_sentences("Ein Hund. Zwei!", candidate, config=config, **both)
    assert [tuple(each.tgt_ids) for each in pairs] == list(spelled)
    without = Candidate("A dog. Two!", -1.0)
    assert pair("Ein Hund. Zwei!", without) == pair("Ein Hund. Zwei!", "A dog. Two!")


@pytest.mark.parametrize(
    ("prefix", "said", "is_open"),
    [
        ("A do", [], "A do"),
        ("A dog runs.", [], "A dog runs."),
        ("A dog runs. ", [("A dog runs.", " ")], ""),
        ("A dog runs.  Two men! ", [("A dog runs.", "  "), ("Two men!", " ")], ""),
        ("A dog. Two! Who? No", [("A dog.", " "), ("Two!", " ")], "Who? No"),
        (" A dog. Two", [(" A dog.", " ")], "Two"),
        ("Dr. Smith lau", [], "Dr. Smith lau"),
        ("  ", [], "  "),
    ],
)
def test_sentences_that_have_ended_are_said_and_the_last_is_open(
    prefix: str, said: list[tuple[str, str]], is_open: str, tiny_tokenizer: Tokenizer
) -> None:
    """Of three source sentences in the first line, and one in the second."""
    text = "Ein Hund rennt. Zwei Männer kochen! Wer lacht?\nNiemand."
    segmented = segment_text(text, tiny_tokenizer, language="de", max_src_tokens=99)
    assert distribute_prefix(prefix, segmented, language="en") == (said, is_open)
