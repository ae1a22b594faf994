"""Names and protected spans in translations of the bundled models."""

import re

import pytest

from hubnmt.translator import Translator

SOURCES = {
    "en": [
        "I am looking for the office of Pekka Venäläinen.",
        "Pătru is coming back from Heneit tomorrow.",
        "Write to info@vogl.com about LH456. Mr Vachon leaves at 9:30, Kerekes stays.",
    ],
    "de": [
        "Ich suche das Büro von Pekka Venäläinen.",
        "Sørine kommt morgen aus Feldkirch zurück. Schreib an info@vogl.com um 9:30.",
    ],
    "fr": [
        "Je cherche le bureau de Pekka Venäläinen.",
        "Écrivez à info@vogl.com. Mühlböck part à 9:30.",
    ],
}


@pytest.mark.parametrize("name", ["de-en", "en-de", "en-fr", "fr-en", "en-ml", "de-en-multi30k"])
def test_text_tokens_and_probabilities_are_of_one_hypothesis(name: str) -> None:
    translator = Translator.from_pretrained(name, device="cpu")
    sources = SOURCES[translator.config.src_lang]
    for n_best in range(1, 6):
        for found in translator.translate(sources, n_best=n_best, beam_size=max(n_best, 3)):
            first = found.n_best[0]
            assert found.text == first.text
            assert found.score == first.score == max(each.score for each in found.n_best)
            assert found.tgt_log_probs == tuple(p for row in first.tgt_log_probs for p in row)
            joined = "".join("" if token == "<eos>" else token for token in found.tgt_tokens)
            assert joined.split() == found.text.split() or "<" in joined  # parts of characters
            assert len(found.tgt_tokens) == len(found.tgt_log_probs)
            for span in ("info@vogl.com", "9:30", "LH456"):
                if span in found.src and name != "de-en-multi30k":
                    assert all(each.text.count(span) == 1 for each in found.n_best)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("en-de", "My sister lives in Austria.", "Österreich"),
        ("en-de", "She speaks fluent Portuguese with her mother.", "Portugiesisch"),
        ("en-de", "Mrs Müller lives in Munich.", "Frau Müller"),
        ("de-en", "Der Zug nach München hat heute leider 20 Minuten Verspätung.", "Munich"),
        ("de-en", "Wir fahren nach Warschau.", "Warsaw"),
        ("de-en", "Forscher haben einen neuen Planeten entdeckt.", "Researchers "),
        ("en-de", "I am looking for the office of Pekka Venäläinen.", "Pekka Venäläinen"),
        ("en-fr", "Schano and Pacher are playing together on Saturday.", "Schano et Pacher"),
    ],
)
def test_a_name_is_kept_and_a_word_with_another_form_is_translated(
    name: str, text: str, word: str
) -> None:
    translator = Translator.from_pretrained(name, device="cpu")
    for n_best in (1, 3):
        assert word in translator.translate(text, n_best=n_best).text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("de-en", "Der Akku ist leer."),
        ("de-en", "Maschinelle Übersetzung ist nützlich."),
        (
            "en-de",
            "In Acre, you can visit the bath museum Al-Basha, which consists of several rooms of "
            "ancient Turkish baths with models of visitors and bath attendants of the time.",
        ),
        (
            "en-fr",
            "But with time - as promised by the Federal Migration Service - tests will become "
            "mandatory for all non-residents.",
        ),
    ],
)
def test_the_guard_leaves_translated_words(name: str, text: str) -> None:
    """Once the guard made such sentences worse, whose words the models translate."""
    translator = Translator.from_pretrained(name, device="cpu")
    free = translator.translate(text, beam_size=4, guard=False)
    assert translator.translate(text, beam_size=4).text == free.text


def test_malayalam_spells_names_in_its_own_letters() -> None:
    translator = Translator.from_pretrained("en-ml", device="cpu")
    for text in ("My name is Anna Smith.", "We are flying to Berlin tomorrow."):
        found = translator.translate(text).text
        assert not re.search("[A-Za-z]", found), found
