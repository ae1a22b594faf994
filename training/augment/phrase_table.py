"""A phrase book made of sentence pairs: words and short sentences, each with its translation.

    python -m training.augment.phrase_table RECIPE --output FOLDER/phrases.tsv [--lowercase]
        [--set SECTION.KEY=VALUE ...]

Takes a recipe, reads the pairs it would train on, gives a table of phrases that the recipe, or one
that goes on from its model, takes as one more corpus:

    [data.corpora.phrases]
    files = ["FOLDER/phrases.tsv"]

A corpus of sentences has few pairs like "Hund" and "dog", and a model of it answers a single word
with half a sentence. A phrase is a run of words within a sentence, without punctuation and without
contractions, for "kann" would be linked to "can't". Its translation is the run of words linked to
it and to nothing else, as in phrase-based translation (Koehn et al. 2003, section 3.1,
https://aclanthology.org/N03-1017), but without words at the ends of either side that are linked to
none. Of several the most frequent one is kept, if it is frequent enough: what is translated in
another way by every sentence has no translation of its own. Short sentences, such as "Danke!",
stand here without their mark and with the translation they have. With `--lowercase` what has
capitals stands here a second time without them, as it is typed in a hurry. Words are found between
spaces; scripts that write none give few. Must not know the model.
"""

import argparse
import contextlib
import dataclasses
import itertools
import logging
import re
import sys
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tqdm import tqdm

from hubnmt.errors import ConfigError, HubNMTError, InputError
from training.augment.word_alignment import PASSES, Link, align
from training.config.data import DataConfig
from training.config.recipe import load_recipe
from training.data.casing import as_typed
from training.data.cleaning import CleaningReport, comparable
from training.data.corpora import read_clean

log = logging.getLogger("training")

_TOKEN: Final = re.compile(r"\S+")
_APOSTROPHE: Final = re.compile(r"['’]")

LONGEST = 1
"""Words in a phrase, unless asked otherwise; as many may be in its translation. With two a model
learned from fragments, "wohnst du" and "you live", to leave out the ends of short questions."""
LONGEST_SENTENCE = 3
"""Words in a sentence that stands here whole."""
MIN_COUNT = 3
"""Sentences that must translate a phrase alike."""
MIN_SHARE = 0.3
"""Part of its occurrences that must be translated like that."""
LIMIT = 300_000
"""Pairs read, unless asked otherwise: their words are kept in memory."""


class Word(NamedTuple):
    """A word of a sentence, and where it stands."""

    text: str
    start: int
    end: int

    @property
    def is_one(self) -> bool:
        """Tell whether it is a word and no more: no mark, and not two as in "can't"."""
        return not all(map(_is_mark, self.text)) and not _APOSTROPHE.search(self.text)


Sentence = Sequence[Word]


class Phrase(NamedTuple):
    """A row of the table."""

    src: str
    tgt: str
    n_times: int


def find_words(text: str) -> list[Word]:
    """Find the words of a text, and the marks around them; "don't" and "T-shirt" are words."""
    words = []
    for token in _TOKEN.finditer(text):
        core = token.group().strip("".join(char for char in token.group() if _is_mark(char)))
        start = token.start() + token.group().find(core)
        borders = (token.start(), start, start + len(core), token.end())
        words += [Word(text[a:b], a, b) for a, b in itertools.pairwise(borders) if a < b]
    return words


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"


def find_phrases(
    src: Sentence, tgt: Sentence, links: Iterable[Link], *, longest: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the phrases of a pair with their translations, as (first, last) words of each side."""
    of_src = {s: t for t, s in links}
    of_tgt = {t: s for s, t in of_src.items()}
    for first, last in find_runs(src, longest=longest):
        if first not in of_src or last not in of_src:
            continue
        linked = [of_src[place] for place in range(first, last + 1) if place in of_src]
        low, high = min(linked), max(linked)
        is_short = high - low < longest
        is_theirs = all(first <= of_tgt.get(t, first) <= last for t in range(low, high + 1))
        if is_short and is_theirs and all(word.is_one for word in tgt[low : high + 1]):
            yield (first, last), (low, high)


def find_runs(sentence: Sentence, *, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of single words, as (first, last)."""
    for first in range(len(sentence)):
        for last in range(first, min(first + longest, len(sentence))):
            if not sentence[last].is_one:
                break
            yield first, last


def make_phrase_book(
    pairs: Sequence[tuple[str, str]],
    *,
    longest: int = LONGEST,
    min_count: int = MIN_COUNT,
    min_share: float = MIN_SHARE,
) -> list[Phrase]:
    """Make a phrase book of sentence pairs, the most frequent phrases first.

    Args:
        pairs: texts with their translations.
        longest: words in a phrase, and in its translation.
        min_count: sentences that must translate it alike.
        min_share: part of all its occurrences that must be translated like that.
    """
    words = [tuple(map(find_words, pair)) for pair in pairs]
    sides = [[[word.text.casefold() for word in each[side]] for each in words] for side in (0, 1)]
    with tqdm(total=PASSES * len(pairs), unit="pair", desc="linking words") as bar:
        links = align(*sides, tell=bar.update)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for (src, tgt), (src_words, tgt_words), found in zip(pairs, words, links, strict=True):
        for here, there in find_phrases(src_words, tgt_words, found, longest=longest):
            counts[_cut(src, src_words, here)][_cut(tgt, tgt_words, there)] += 1
    best = {src: _most_common(each) for src, each in counts.items()}
    best = {src: (tgt, count) for src, (tgt, count) in best.items() if count >= min_count}
    met: Counter[str] = Counter()
    for (src, _), (src_words, _) in zip(pairs, words, strict=True):
        runs = (_cut(src, src_words, run) for run in find_runs(src_words, longest=longest))
        met.update(run for run in runs if run in best)
    whole = _short_sentences(pairs)
    known = {comparable(phrase.src) for phrase in whole}
    phrases = [
        Phrase(src, tgt, count)
        for src, (tgt, count) in best.items()
        if count >= min_share * met[src] and comparable(src) not in known
    ]
    return sorted([*phrases, *whole], key=lambda phrase: (-phrase.n_times, phrase))


def add_lowercase(phrases: Iterable[Phrase]) -> list[Phrase]:
    """Add each phrase in small letters, with the same translation, unless it is there already.

    Of several that differ in capitals only ("Weg", "WEG") the first gives the translation.
    """
    book = {phrase.src: phrase for phrase in phrases}
    for phrase in list(book.values()):
        small = phrase._replace(src=phrase.src.lower())
        book.setdefault(small.src, small)
    return list(book.values())


def _most_common(counts: Counter[str]) -> tuple[str, int]:
    """Return the same one of several in every process."""
    return max(counts.items(), key=lambda item: (item[1], item[0]))


def _short_sentences(pairs: Iterable[tuple[str, str]]) -> list[Phrase]:
    """Find the sentences that are typed like phrases; they lose the mark at their end."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        if len(pair[0].split()) <= LONGEST_SENTENCE:
            src, tgt = as_typed(*pair, drop_final_mark=1.0, lowercase_src=0.0)
            counts[src][tgt] += 1
    return [Phrase(src, *_most_common(each)) for src, each in counts.items()]


def _cut(text: str, words: Sentence, run: tuple[int, int]) -> str:
    return text[words[run[0]].start : words[run[1]].end]


def read_pairs(config: DataConfig, *, output: Path, limit: int) -> list[tuple[str, str]]:
    """Read what a recipe trains on, cleaned, as it was written, without the phrases themselves.

    Raises:
        InputError: if nothing is there, or a file cannot be read.
    """
    corpora = {
        name: values
        for name, values in config.corpora.items()
        if [Path(file) for file in values.get("files", ())] != [output]
    }
    plain = dataclasses.replace(
        config, corpora=corpora, drop_final_mark=0.0, lowercase_src=0.0, vary_names=0.0
    )
    report = CleaningReport()
    clean = read_clean(plain, report)
    pairs = [
        (pair.plain_src, pair.tgt) for pair in tqdm(itertools.islice(clean, limit), unit="pair")
    ]
    if not pairs:
        raise InputError(f"no pairs to make phrases of: {report}")
    if len(pairs) == limit:
        log.info("the first %s pairs are taken; --limit takes more", f"{limit:,}")
    return pairs


def write_phrases(path: Path, phrases: Iterable[Phrase], *, src_lang: str, tgt_lang: str) -> None:
    """Write the table: a column for each language, and one for how often it was seen.

    Raises:
        InputError: if it cannot be written; then no part of it is there.
    """
    rows = [(src_lang, tgt_lang, "count"), *phrases]
    draft = path.with_name(f".{path.name}.draft")
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    with _writing(path):
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); try another") from None


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.augment.phrase_table", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("recipe", type=Path, help="a .toml, as for training.train")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="a .tsv")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--longest", type=int, default=LONGEST, metavar="N", help="words in one")
    parser.add_argument("--min-count", type=int, default=MIN_COUNT, metavar="N")
    parser.add_argument("--min-share", type=float, default=MIN_SHARE, metavar="P")
    parser.add_argument("--lowercase", action="store_true", help="small letters, too")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help="pairs to read")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        the exit status: 0 done, 2 the request was wrong, 130 interrupted.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse_arguments(arguments)
    try:
        _check(options)
        config = load_recipe(options.recipe, options.set).data
        pairs = read_pairs(config, output=options.output, limit=options.limit)
        phrases = make_phrase_book(
            pairs,
            longest=options.longest,
            min_count=options.min_count,
            min_share=options.min_share,
        )
        if not phrases:
            raise InputError(f"{len(pairs):,} pairs gave no phrase; try a lower --min-count")
        if options.lowercase:
            phrases = add_lowercase(phrases)
        write_phrases(options.output, phrases, src_lang=config.src_lang, tgt_lang=config.tgt_lang)
    except HubNMTError as error:
        log.error("error: %s", " ".join(str(error).split()))
        return 2
    except KeyboardInterrupt:
        log.error("interrupted; nothing was written")
        return 130
    n_words = sum(" " not in phrase.src for phrase in phrases)
    log.info(
        "%s: %s phrases, %s of them single words",
        options.output,
        f"{len(phrases):,}",
        f"{n_words:,}",
    )
    return 0


def _check(options: argparse.Namespace) -> None:
    for name in ("longest", "min_count", "limit"):
        if getattr(options, name) < 1:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} {getattr(options, name)} must be at least 1")
    if not 0 <= options.min_share <= 1:
        raise ConfigError(f"--min-share {options.min_share} must be 0 to 1")
    if options.output.suffix != ".tsv":
        raise ConfigError(f"--output {options.output} must end in .tsv, as what is in it")
    if options.output.exists():
        raise InputError(f"{options.output} is there already; name another file, or remove it")
    with _writing(options.output):  # found out before minutes of work, not after
        options.output.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=options.output.parent).close()


if __name__ == "__main__":
    sys.exit(main())
