"""A lexicon of ten words, and sentences made of it whose translation is known word by word."""

import random

LEXICON = {
    **{"ein": "a", "hund": "dog", "rennt": "runs", "zwei": "two", "frau": "woman"},
    **{"schnee": "snow", "rot": "red", "katze": "cat", "sieht": "sees", "heute": "today"},
}


def invent_pairs(n_pairs: int, *, swap: bool = False) -> tuple[list[list[str]], list[list[str]]]:
    """Draw sentences of different words, translated word by word; the last two change places."""
    rng = random.Random(5)
    sources = [rng.sample(sorted(LEXICON), rng.randint(3, 7)) for _ in range(n_pairs)]
    targets = [[LEXICON[word] for word in words] for words in sources]
    if swap:
        targets = [[*words[:-2], words[-1], words[-2]] for words in targets]
    return sources, targets
