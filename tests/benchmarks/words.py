"""How many words of a dictionary a model translates, and how many it copies or garbles.

    python tests/benchmarks/words.py MODEL --dictionary dict.tsv --known FILE [FILE ...]

The dictionary is a table of two columns whose header names the languages, commonest words first.
Each word is translated alone and in a short frame. The answer is *right* if it contains one of the
word's translations, however written; *copied* if it contains the word itself; *garbled* if one of
its words stands neither in the dictionary nor in the texts of the target language (`--known`); the
others are *other*: synonyms and wrong words. Asserts nothing.
"""

import argparse
import csv
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from hubnmt import Translator

FRAMES = {"de": "Es geht um {}.", "en": "It is about {}.", "fr": "Il s'agit de {}."}
KINDS = ("right", "copied", "garbled", "other")
WORD = re.compile(r"[^\W\d_\u200c\u200d](?:[^\W\d_]|[\u200c\u200d\u0d00-\u0d7f])*")
N_SHOWN = 12


def read_dictionary(path: Path, src: str, tgt: str) -> dict[str, set[str]]:
    """Return the translations of each word, in the order of the file."""
    found: dict[str, set[str]] = defaultdict(set)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            found[row[src]].add(row[tgt].casefold())
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--dictionary", type=Path, required=True)
    parser.add_argument("--known", type=Path, nargs="+", required=True)
    parser.add_argument("--commonest", type=int, default=10_000, help="words to draw from")
    parser.add_argument("--sample", type=int, default=2_000, help="words drawn, with seed 1")
    options = parser.parse_args()
    translator = Translator.from_pretrained(options.model)
    config = translator.config
    translations = read_dictionary(options.dictionary, config.src_lang, config.tgt_lang)
    commonest = list(translations)[: options.commonest]
    words = random.Random(1).sample(commonest, min(options.sample, len(commonest)))
    known = words_of(path.read_text(encoding="utf-8") for path in options.known)
    known |= words_of(text for found in translations.values() for text in found)
    for frame in ("{}", FRAMES[config.src_lang]):
        texts = [each.text for each in translator.translate([frame.format(w) for w in words])]
        kinds = [
            judge(word, translations[word], text, known)
            for word, text in zip(words, texts, strict=True)
        ]
        count = Counter(kinds)
        shares = (f"{kind} {count[kind]} ({count[kind] / len(words):.1%})" for kind in KINDS)
        print(f"{options.model}, {frame.format('...')} of {len(words)}: {', '.join(shares)}")
        for kind in KINDS[1:]:
            answers = [
                f"{w}: {t}" for w, t, k in zip(words, texts, kinds, strict=True) if k == kind
            ]
            print(f"  {kind}: {'; '.join(answers[:N_SHOWN])}")


if __name__ == "__main__":
    main()
