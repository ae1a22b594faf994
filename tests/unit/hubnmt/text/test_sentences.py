"""Sentences: what is cut can be joined again, and nothing is cut inside an abbreviation."""

import random

import pytest

from hubnmt.text.sentences import Segment, halve, split_sentences

LANGUAGES = ["de", "ml", "zh-Hant", "xx", ""]
SEPARATORS = [
    *(" ", "  ", "\n", "\r\n", "\r", "\t", "\n\n", " \n ", "\u2028", "\u2029", "\x0b", "\x0c"),
    *("\x1c", "\x85", "\u00a0", "\u3000", "\u200b", "\ufeff"),
]
WORDS = [
    *("Hund", "läuft", "z. B.", "Dr.", "U.S.", "3.", "1.000,5", "usw.", "»Ja!«", '"Nein?"'),
    *("(so.)", "...", "…", "?!", "Schluss.", "Halt!", "Wer?", "നായ ഓടുന്നു.", "狗跑了。", "कुत्ता।"),
    *("[1]", "e.g.", "a", "", ".", "www.example.org", "👩\u200d👩\u200d👧", "e\u0301"),
]


def random_text(rng: random.Random) -> str:
    n_words = rng.randint(0, 25)
    return "".join(
        rng.choice(SEPARATORS if rng.random() < 0.2 else [" "]) + rng.choice(WORDS)
        for _ in range(n_words)
    )


def join(segments: list[Segment]) -> str:
    return "".join(text + space for text, space in segments)


@pytest.mark.parametrize("language", LANGUAGES)
def test_joined_sentences_are_the_text(language: str) -> None:
    rng = random.Random(f"sentences {language}")
    for text in [" \r\n\t\n", *(random_text(rng) for _ in range(60))]:
        segments = split_sentences(text, language)
        assert join(segments) == text
        assert not any(space.strip() for _, space in segments)
        assert all(text == text.strip() for text, _ in segments)


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("de", "Dr. Müller fährt am Montag nach Bonn."),
        ("de-CH", "Prof. Dr. Huber lacht."),
        ("de-AT", "Auf Höhe des 2. Stocks an einem Haus aus dem 19. Jahrhundert."),
        ("cs", "Dnes je 3. Května."),
        ("en", "Dr. Smith lives in the U.S. with his dog."),
    ],
)
def test_abbreviations_and_numbers_are_not_split(language: str, sentence: str) -> None:
    assert split_sentences(sentence, language) == [Segment(sentence, "")]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ml", "നായ ഓടുന്നു. പൂച്ച ഉറങ്ങുന്നു."),
        ("hi", "कुत्ता दौड़ता है। बिल्ली सोती है।"),
        ("zh", "狗跑了。猫睡了。"),
    ],
)
def test_other_scripts_are_split_too(language: str, text: str) -> None:
    assert len(split_sentences(text, language)) == 2


def test_halving_never_loses_a_character() -> None:
    rng = random.Random("halves")
    for _ in range(200):
        text = random_text(rng)
        halves = halve(text)
        if halves is None:
            assert len(text) < 2
        else:
            left, between, right = halves
            assert left + between + right == text
            assert left
            assert right
            assert not between.strip()
