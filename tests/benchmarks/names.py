"""How many unseen names and protected spans a model keeps as they are written.

    python tests/benchmarks/names.py MODEL [MODEL ...] [--times 25] [--n-best 1]

Fills the frames of `tests/fixtures/name_frames.tsv` in the model's source language `--times` times:
20 frames, so 500 sentences by default. The names are those of locales of the library `faker` that
`training.augment.synthetic_pairs` does not use, without any that it does, and a fifth is synthetic.
A value is kept if the translation contains it. A language of another script spells names in its
own letters: there "in Latin letters" counts sentences with a name and without a span whose
translation has such letters, which is a fault. Asserts nothing.
"""

import random
import re
from collections import defaultdict

import typer
from faker import Faker
from tables import FIXTURES, read_table, show_table

from hubnmt import Translator
from training.augment.synthetic_pairs import load_values
from training.data.augmentation import make_name

LOCALES = ("da_DK", "fi_FI", "pt_BR", "cs_CZ", "hu_HU", "ro_RO", "en_AU", "de_AT", "fr_CA")
NAMES = ("name", "surname", "city")
SPANS = {"span", "code", "number", "emoji"}
LATIN = re.compile("[A-Za-z]")
N_DRAWS = 300
SYNTHETIC_SHARE = 0.2
N_SHOWN = 10


def load_unseen() -> dict[str, list[str]]:
    """Return single words for each field of a name, none of which is used in training."""
    values = load_values()
    seen = {*values.names, *values.cities}
    found: dict[str, set[str]] = {name: set() for name in NAMES}
    for locale in LOCALES:
        fake = Faker(locale)
        fake.seed_instance(2)
        for _ in range(N_DRAWS):
            for name, draw in zip(NAMES, (fake.first_name, fake.last_name, fake.city), strict=True):
                found[name].add(draw())
    return {
        name: sorted(word for word in words - seen if word.isalpha() and word.istitle())
        for name, words in found.items()
    }


def draw_fields(unseen: dict[str, list[str]], rng: random.Random) -> dict[str, str]:
    """Return a value for each field of a frame."""
    names = {
        field: make_name(rng) if rng.random() < SYNTHETIC_SHARE else rng.choice(words)
        for field, words in unseen.items()
    }
    word = names["surname"].lower()
    spans = (f"https://{word}.org/{rng.randint(1, 99)}", f"info@{word}.com", f"@{word}_{word[:2]}")
    return names | {
        "span": rng.choice(spans),
        "time": f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
        "code": f"`{rng.choice(('rm', 'del', 'git'))} {word}`",
        "number": f"{rng.choice('ABKR')}{rng.randint(1000, 99999)}",
        "year": str(rng.randint(1500, 2040)),
        "amount": str(rng.randint(200, 9999)),
        "emoji": rng.choice("😀🎉🚲🌞❤"),
        "phone": f"0{rng.randint(100000, 9999999)}",
    }


def main(models: list[str], times: int = 25, n_best: int = 1) -> None:
    """Print the shares of what is kept, and some of what is lost."""
    unseen = load_unseen()
    for model in models:
        translator, rng = Translator.from_pretrained(model), random.Random(1)
        filled = [
            (row["frame"], draw_fields(unseen, rng))
            for row in read_table(FIXTURES / "name_frames.tsv")
            if row["lang"] == translator.config.src_lang
            for _ in range(times)
        ]
        sources = [frame.format_map(fields) for frame, fields in filled]
        texts = [each.text for each in translator.translate(sources, n_best=n_best)]
        kept, lost, latin = defaultdict(list), [], []
        for (frame, fields), source, text in zip(filled, sources, texts, strict=True):
            used = [field for field in fields if f"{{{field}}}" in frame]
            for field in used:
                kept["name" if field in NAMES else field].append(fields[field] in text)
                if fields[field] not in text:
                    lost.append(f"{source} | {text}")
            if {*used} & {*NAMES} and not {*used} & SPANS:
                latin.append(LATIN.search(text) is not None)
        spans = [each for field, found in kept.items() if field != "name" for each in found]
        counts = {**kept, "all spans": spans, "in Latin letters": latin}
        print(f"\n{model}: {len(sources)} sentences\n")
        show_table(
            ("kept", "of", "share"),
            (
                (field, f"{sum(found)} of {len(found)}", f"{sum(found) / len(found):.1%}")
                for field, found in counts.items()
            ),
        )
        shown = random.Random(1).sample(lost, min(N_SHOWN, len(lost)))
        print("\nLost, for example:", *shown, sep="\n")


if __name__ == "__main__":
    typer.run(main)
