"""How many names and numbers a model copies that it has never met.

    python tests/benchmarks/names.py --src valid.de --ref valid.en MODEL [MODEL ...]

Exchanges names and numbers of the pairs for made-up ones, as `data.vary_names` does in training,
and counts how many of them stand in the translations. Asserts nothing.
"""

import argparse
import re
from pathlib import Path

from hubnmt import Translator
from hubnmt.text.metrics import score_corpus
from hubnmt.text.textfile import read_aligned
from training.data.synthetic_names import exchange_names

WORD = re.compile(r"\w+")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    options = parser.parse_args()
    sources, references, made_up = [], [], []
    for pair in zip(*read_aligned(options.src, options.ref), strict=True):
        src, ref = exchange_names(*pair, share=1.0)
        if (src, ref) != pair:
            sources.append(src)
            references.append(ref)
            known = {word for side in pair for word in WORD.findall(side)}
            both = set(WORD.findall(src)) & set(WORD.findall(ref))
            made_up.append(sorted(both - known))
    print(f"{len(sources)} pairs, {sum(map(len, made_up))} names and numbers")
    print("| model | names copied | numbers copied | BLEU |\n|---|---|---|---|")
    for model in options.models:
        translator = Translator.from_pretrained(model)
        texts = [each.text for each in translator.translate(sources, split=False)]
        cells = [share(texts, made_up, is_number) for is_number in (False, True)]
        bleu = score_corpus(texts, references).bleu
        print(f"| {model} | {' | '.join(cells)} | {bleu:.2f} |", flush=True)


def share(texts: list[str], made_up: list[list[str]], is_number: bool) -> str:
    """Say how many of the words stand in the translations."""
    found = [
        word in WORD.findall(text)
        for text, words in zip(texts, made_up, strict=True)
        for word in words
        if word.isdigit() is is_number
    ]
    return f"{sum(found)} of {len(found)}"


if __name__ == "__main__":
    main()
