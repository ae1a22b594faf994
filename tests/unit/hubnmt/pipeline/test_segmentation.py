"""Plans: nothing of a text is lost, every part fits, and every cut is reported."""

import random

import pytest

from hubnmt.errors import InputError
from hubnmt.pipeline import segmentation as plan_module
from hubnmt.pipeline.segmentation import SegmentedText, encode_whole, segment_text
from hubnmt.text.characters import normalize, single_spaced
from hubnmt.text.tokenizer import Tokenizer

LINE_BREAKS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]
LINE_BREAKS += ["\x85", "\u2028", "\u2029"]
WORDS = ["Hund", "läuft,", "z. B.", "Ende.", "Wer?", "നായ", "狗跑了。", "a" * 70, "e\u0301", "<eos>"]
WORDS += ["1,5", "🍕", "👨‍👩‍👧", "❤️🎉"]
SPACES = [" "] * 25 + ["  ", "\t", "\u00a0", "\u3000", *LINE_BREAKS, "\n\n"]


def plan_of(
    text: str, tokenizer: Tokenizer, max_src_tokens: int = 40, *, split: bool = True
) -> SegmentedText:
    return segment_text(text, tokenizer, language="de", max_src_tokens=max_src_tokens, split=split)


def join(segmented: SegmentedText, tokenizer: Tokenizer) -> str:
    return "".join(tokenizer.decode(part.ids) + part.space for part in segmented.parts)


def random_text(seed: int, n_words: int) -> str:
    rng = random.Random(seed)
    text = "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(n_words))
    return rng.choice(["", " ", "\n", "\t "]) + text


def words_of(segmented: SegmentedText, text: str) -> list[str]:
    return [text[slice(*part.span)] for part in segmented.translatable]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("🎉 Wer? 🍕🎉\nHund läuft. ❤️", ["Wer?", "Hund läuft."]),
        ("👨‍👩‍👧👍🏽 Ende.", ["Ende."]),
        ("Ende.🍕 \n", ["Ende."]),
        ("🍕 🍕\n🎉", []),
        ("Ich 🍕 dich.", ["Ich 🍕 dich."]),
        ("വീട്\u200d 5 ° ©", ["വീട്\u200d 5 ° ©"]),
    ],
)
def test_emoji_around_a_sentence_are_kept_from_the_model(
    text: str, words: list[str], tiny_tokenizer: Tokenizer
) -> None:
    segmented = plan_of(text, tiny_tokenizer)
    assert words_of(segmented, text) == words
    assert join(segmented, tiny_tokenizer) == normalize(text)


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("max_src_tokens", [5, 17, 5000])
def test_spans_say_where_each_part_stands_in_the_text_as_given(
    max_src_tokens: int, split: bool, tiny_tokenizer: Tokenizer
) -> None:
    for seed in range(6):
        text = random_text(seed, 3 + 6 * seed)
        segmented, position = plan_of(text, tiny_tokenizer, max_src_tokens, split=split), 0
        for part in segmented.parts:
            assert part.span[0] == position
            seen = normalize(single_spaced(text[slice(*part.span)]))
            assert seen == tiny_tokenizer.decode(part.ids)
            is_one_character = len(tiny_tokenizer.decode(part.ids)) == 1
            assert len(part.ids) + 1 <= max_src_tokens or is_one_character
            position = part.span[1] + len(part.space)
            assert text[part.span[1] : position] == part.space
        assert position == len(text)


@pytest.mark.parametrize(
    "parts",
    [
        ["Ein kleiner Hund rennt im Schnee.", "Zwei Männer stehen am Herd.", "Wer?"],
        ["Ein Hund rennt im Schnee,", "weil er eine Katze sieht."],
    ],
    ids=["sentences", "clauses"],
)
def test_an_over_long_line_is_cut_between_sentences_or_clauses_where_that_is_enough(
    parts: list[str], tiny_tokenizer: Tokenizer
) -> None:
    longest = max(len(tiny_tokenizer.encode(part)) for part in parts)
    segmented = plan_of("  ".join(parts), tiny_tokenizer, longest + 1)
    assert [tiny_tokenizer.decode(part.ids) for part in segmented.parts] == parts


def test_a_text_at_the_limit_is_taken_and_one_beyond_is_refused(
    tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_module.MAX_TEXT_CHARS == 1_000_000
    monkeypatch.setattr(plan_module, "MAX_TEXT_CHARS", 1_200)
    assert plan_of("\n" * 1_200, tiny_tokenizer).translatable == []
    with pytest.raises(InputError, match=r"1,201 characters.*1,200.*give it as a file"):
        plan_of("\n" * 1_201, tiny_tokenizer)


@pytest.mark.parametrize(
    ("text", "is_foreign"),
    [
        ("Ein Hund.", False),
        ("", False),
        ("123 !?", False),
        ("Grüße aus Köln", False),
        ("Ich liebe Pizza 🍕🎉 und dich ❤️!", False),
        ("ഒരു നായ മഞ്ഞിൽ.", True),
        ("Ein Hund heißt auf Malayalam നായ.", False),
        ("Ja.\nكلب يركض في الثلج.", True),
    ],
)
def test_a_text_in_characters_the_vocabulary_does_not_know_is_told(
    text: str, is_foreign: bool, tiny_tokenizer: Tokenizer
) -> None:
    """The model answers all the same, and nothing in the answer shows that it read nothing."""
    segmented = segment_text(text, tiny_tokenizer, language="de", max_src_tokens=200)
    told = [each for each in segmented.warnings if "are not in the model's vocabulary" in each]
    assert len(told) == is_foreign


@pytest.fixture(scope="module")
def quiet_tokenizer() -> Tokenizer:
    """It has met words in small letters, "USA", and hardly another capital."""
    words = "wo bist du ich liebe dich groß die katze schläft wohnt in den USA"
    return Tokenizer.train([words] * 9, 400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WO BIST DU?", "wo bist du?"),
        (" DIE\u00a0KATZE  SCHLÄFT ", "die katze schläft"),
        ("GROß", "groß"),
        ("Wo BIST DU", "Wo BIST DU"),
        ("USA", "USA"),
        ("12 + 3", "12 + 3"),
        ("ß", "ß"),
        ("നായ", "നായ"),
        ("", ""),
    ],
)
def test_capitals_that_fall_to_pieces_are_read_in_small_letters(
    text: str, expected: str, quiet_tokenizer: Tokenizer
) -> None:
    assert quiet_tokenizer.decode(encode_whole(text, quiet_tokenizer).ids) == expected


def test_capitals_are_told_and_only_of_a_source(quiet_tokenizer: Tokenizer) -> None:
    text = "WO BIST DU?  Die Katze schläft.\nICH LIEBE DICH"
    segmented = plan_of(text, quiet_tokenizer)
    assert join(segmented, quiet_tokenizer) == "wo bist du?  Die Katze schläft.\nich liebe dich"
    assert [text[slice(*part.span)] for part in segmented.parts] == [
        "WO BIST DU?",
        "Die Katze schläft.",
        "ICH LIEBE DICH",
    ]
    (warning,) = segmented.warnings
    assert warning.startswith("2 sentence(s) in capitals")
    whole = segment_text(text, quiet_tokenizer, language="de", max_src_tokens=200, is_lowered=False)
    assert join(whole, quiet_tokenizer) == text
    assert not whole.warnings
