"""How many words a model translates that stand alone, as people type them into a page.

    python tests/benchmarks/words.py --src valid.de --ref valid.en [--lowercase] MODEL [MODEL ...]

Links the words of the pairs, takes each pair of linked words of four letters or more once, and
counts how many of the words, given alone, come out as one of the words they were linked to, however
written; with `--lowercase` they are given in small letters. A synonym counts as wrong, so the
numbers compare models and are no accuracy. The ten wrong answers show what a wrong one is like.
Asserts nothing.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from hubnmt import Translator
from hubnmt.text.textfile import read_aligned
from training.augment.phrase_table import find_words
from training.augment.word_alignment import align

MIN_LETTERS = 4
N_SHOWN = 10


def find_pairs(src: Path, ref: Path) -> dict[str, set[str]]:
    """Find the words of the sources, as they are written, and what stands for them."""
    lines = read_aligned(src, ref)
    words = [[[word.text for word in find_words(line)] for line in side] for side in lines]
    folded = [[[word.casefold() for word in line] for line in side] for side in words]
    found = defaultdict(set)
    for src_words, tgt_words, links in zip(*words, align(*folded), strict=True):
        for t, s in links:
            if src_words[s].isalpha() and len(src_words[s]) >= MIN_LETTERS:
                found[src_words[s]].add(tgt_words[t].casefold())
    return found


def merge_lowercase(pairs: dict[str, set[str]]) -> dict[str, set[str]]:
    """Give "weg" what stands for "weg" and for "Weg"."""
    merged = defaultdict(set)
    for word, meanings in pairs.items():
        merged[word.lower()] |= meanings
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--lowercase", action="store_true")
    options = parser.parse_args()
    pairs = find_pairs(options.src, options.ref)
    if options.lowercase:
        pairs = merge_lowercase(pairs)
    words = sorted(pairs)
    rows = []
    for model in options.models:
        found = [each.text for each in Translator.from_pretrained(model).translate(words)]
        is_right = [
            text.strip(".!?").casefold() in pairs[word]
            for word, text in zip(words, found, strict=True)
        ]
        n_words = sum(len(text.split()) for text in found) / len(words)
        rows.append(f"| {model} | {sum(is_right):,} of {len(words):,} | {n_words:.2f} |")
        wrong = [
            f"{w}: {f}" for w, f, right in zip(words, found, is_right, strict=True) if not right
        ]
        print(f"{model}, wrong: {'; '.join(wrong[:: max(1, len(wrong) // N_SHOWN)][:N_SHOWN])}")
    print("\n| model | right words | words per answer |\n|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
