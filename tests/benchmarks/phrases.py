"""What share of the commonest phrases a model translates as a teacher would accept.

    python tests/benchmarks/phrases.py MODEL LIST.tsv

A list of `tests/fixtures/phrases` names each phrase and the answers that are right, written before
any model was tried on it. Case, the final mark and the kind of apostrophe do not count. Prints each
wrong answer and the share of right ones. Asserts nothing.
"""

import unicodedata
from pathlib import Path

import typer
from tables import read_table

from hubnmt import Translator

MARKS = ".,!?…।:;\"'»“”’ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"


def normalize(text: str) -> str:
    """Bring an answer to the form in which answers are compared."""
    text = unicodedata.normalize("NFC", text).replace("’", "'")
    return text.casefold().rstrip(MARKS).strip()


def main(model: str, phrases: Path) -> None:
    accepted = {row["src"]: row["accepted"].split(" | ") for row in read_table(phrases)}
    found = Translator.from_pretrained(model).translate(list(accepted))
    n_right = 0
    for (src, answers), translation in zip(accepted.items(), found, strict=True):
        if normalize(translation.text) in map(normalize, answers):
            n_right += 1
        else:
            print(f"{src}: {translation.text} (best: {answers[0]})")
    print(f"\n{n_right:,} of {len(accepted):,} right ({n_right / len(accepted):.1%})")


if __name__ == "__main__":
    typer.run(main)
