"""How many words of a dictionary a model translates, and how many it copies or garbles.

    python tests/benchmarks/words.py MODEL --dictionary dict.tsv --known FILE [--known FILE ...]

The dictionary is a table of two columns whose header names the languages, commonest words first.
Each word is translated alone and in a short frame. The answer is *right* if it contains one of the
word's translations, however written; *copied* if it contains the word itself; *garbled* if one of
its words stands neither in the dictionary nor in the texts of the target language (`--known`); the
others are *other*: synonyms and wrong words. Asserts nothing.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from tables import read_table

from hubnmt import Translator

FRAMES = {"de": "Es geht um {}.", "en": "It is about {}.", "fr": "Il s'agit de {}."}
KINDS = ("right", "copied", "garbled", "other")
WORD = re.compile(r"[^\W\d_\u200c\u200d](?:[^\W\d_]|[\u200c\u200d\u0d00-\u0d7f])*")
N_SHOWN = 12


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in WORD.findall(text.casefold())}


def judge(word: str, translations: set[str], text: str, known: set[str]) -> str:
    """Return the kind of an answer."""
    folded = text.casefold()
    if any(translation in folded for translation in translations):
        return "right"
    found = words_of([folded])
    if word.casefold() in found:
        return "copied"
    return "other" if found and found <= known else "garbled"


def main(
    model: str,
    dictionary: Annotated[Path, typer.Option()],
    known: Annotated[list[Path], typer.Option()],
    commonest: int = 10_000,
    sample: int = 2_000,
) -> None:
    """Draw a sample, with seed 1, from the commonest words, and translate it."""
    translator = Translator.from_pretrained(model)
    src, tgt = translator.config.src_lang, translator.config.tgt_lang
    translations: dict[str, set[str]] = defaultdict(set)
    for row in read_table(dictionary):
        translations[row[src]].add(row[tgt].casefold())
    drawn_from = list(translations)[:commonest]
    words = random.Random(1).sample(drawn_from, min(sample, len(drawn_from)))
    known_words = words_of(path.read_text(encoding="utf-8") for path in known)
    known_words |= words_of(text for found in translations.values() for text in found)
    for frame in ("{}", FRAMES[src]):
        texts = [each.text for each in translator.translate([frame.format(w) for w in words])]
        kinds = [
            judge(word, translations[word], text, known_words)
            for word, text in zip(words, texts, strict=True)
        ]
        count = Counter(kinds)
        shares = (f"{kind} {count[kind]} ({count[kind] / len(words):.1%})" for kind in KINDS)
        print(f"{model}, {frame.format('...')} of {len(words)}: {', '.join(shares)}")
        for kind in KINDS[1:]:
            rows = zip(words, texts, kinds, strict=True)
            answers = [f"{word}: {text}" for word, text, found in rows if found == kind]
            print(f"  {kind}: {'; '.join(answers[:N_SHOWN])}")


if __name__ == "__main__":
    typer.run(main)
