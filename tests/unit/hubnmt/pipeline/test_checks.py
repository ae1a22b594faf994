"""Signs that a translation is wrong, found with the bundled model's vocabulary."""

import math
from pathlib import Path

import pytest

from hubnmt.config import ModelConfig
from hubnmt.pipeline.checks import check_translation
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from hubnmt.types import Candidate, SentencePair, Translation


@pytest.fixture(scope="module")
def tokenizers(bundled_model: Path) -> Tokenizers:
    tokenizer = Tokenizer.load(bundled_model / "tokenizer.json")
    return Tokenizers(tokenizer, tokenizer)


def warn(tokenizers: Tokenizers, src: str, text: str, probability: float = 0.9) -> list[str]:
    tokens = text.replace(" ", "\n ").split("\n")
    log_probs = (math.log(probability),) * (len(tokens) + 1)
    translation = Translation(
        src=src,
        text=text,
        score=0.0,
        n_best=(Candidate(text, 0.0, tgt_log_probs=(log_probs,)),),
        src_tokens=(),
        sentences=(SentencePair((0, len(src)), (0, len(text))),),
        tgt_tokens=(*tokens, "<eos>"),
    )
    sizes = {
        "src_vocab_size": tokenizers.src.vocab_size,
        "tgt_vocab_size": tokenizers.src.vocab_size,
    }
    config = ModelConfig(src_lang="de", tgt_lang="en", **sizes)
    return list(check_translation(translation, tokenizers, config).warnings)


@pytest.mark.parametrize(
    ("src", "text", "said"),
    [
        ("The dog runs in the snow.", "The dog.", "the source looks like English, not German"),
        ("Il fait très froid ce matin.", "Cold.", "the source looks like French, not German"),
        ("Ein Hund rennt im Schnee.", "A dog runs in the snow.", ""),
        ("Links!", "Left!", ""),
        (f"Die Zahl {4400 * '1'}.", f"The number {4400 * '1'}.", ""),
        ("Er kam um 8:45 Uhr.", "He came at 8.", "numbers of the source are missing: 8:45 Uhr"),
        ("Es kostet 1.000.000 Euro.", "It costs 1,000,000 euros.", ""),
        ("Das kostet 1.250,50 Euro.", "That costs 1,250.50 euros.", ""),
        ("Die Stadt hat 1.250.000 Einwohner.", "The city has 12,50,000 inhabitants.", ""),
        ("Wir treffen uns um 15 Uhr.", "We meet at 3 p.m.", ""),
        ("Wir treffen uns um 15:30 Uhr.", "We meet at 3:30 PM.", ""),
        ("Wir treffen uns um 15 Uhr 30.", "We meet at half past 3, at 15.30.", ""),
        ("Wir treffen uns um 8.15 Uhr.", "We meet at 8h15.", ""),
        ("Wir treffen uns um 0:10 Uhr.", "We meet at 12:10 a.m.", ""),
        ("Wir treffen uns um 3 Uhr.", "We meet at 3 o'clock.", ""),
        (
            "Wir treffen uns um 15 Uhr.",
            "We meet at 3 a.m.",
            "numbers of the source are missing: 15 Uhr",
        ),
        (
            "Wir treffen uns um 15 Uhr.",
            "We meet at 4 p.m.",
            "numbers of the source are missing: 15 Uhr",
        ),
        ("Wir haben 15 Hunde gesehen.", "We saw dogs at 15:30.", ""),
        ("ich hab 2 Fragen", "I have two questions", ""),
        ("Am 3. März 1969.", "On March 3, 196969.", "numbers of the source are missing: 1969"),
    ],
)
def test_a_wrong_translation_shows(tokenizers: Tokenizers, src: str, text: str, said: str):
    assert warn(tokenizers, src, text) == ([said] if said else [])


def test_a_changed_name_shows_where_the_model_is_unsure(tokenizers: Tokenizers):
    src, text = "Meine Schwester heißt Jonathine.", "My sister is called Jathonine."
    said = "names or rare words may have been changed: Jonathine to Jathonine"
    assert warn(tokenizers, src, text, 0.3) == [said]
    assert warn(tokenizers, src, "My sister is called Jathon-ine.", 0.3) != []
    assert warn(tokenizers, src, text, 0.9) == []
    assert warn(tokenizers, src, "My sister is called Jonathine.", 0.3) == []
    assert warn(tokenizers, src, "My sister is called Someone.", 0.3) == []


def test_warnings_reach_python_and_json(bundled_model: Path):
    found = Translator.from_pretrained(bundled_model).translate("A dog runs in the snow.")
    assert found.detected_language == "en"
    assert "the source looks like English, not German" in found.to_dict()["warnings"]
    assert found.to_dict()["token_probability"] == found.token_probability
    assert found.to_dict()["to_check"] == [found.text[slice(*pair.tgt)] for pair in found.to_check]
