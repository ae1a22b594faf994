"""Extract a phrase table from parallel text: words and short sentences with their translations.

    python -m training.augment.phrase_table RECIPE --output FOLDER/phrases.tsv [--lowercase]
        [--set SECTION.KEY=VALUE ...]

The pairs are the training pairs of the recipe. Add the table to a recipe as another corpus:

    [data.corpora.phrases]
    files = ["FOLDER/phrases.tsv"]

A model trained on full sentences tends to answer a single word with half a sentence, because such
inputs are rare in its corpus. A phrase is a sequence of words without punctuation and contractions;
its translation is the span of words aligned with it and with no other word, as in phrase-based
translation (Koehn et al. 2003, section 3.1, https://aclanthology.org/N03-1017), except that words
at both ends of either side must be aligned. The most frequent translation is kept if it is frequent
enough. Short sentences, such as "Danke!", are added without their final punctuation. With
`--lowercase`, entries with capitals are added in lower case, too. Words are separated by spaces, so
scripts without spaces give few phrases.
"""

import argparse
import dataclasses
import itertools
import logging
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tqdm import tqdm

from hubnmt.errors import InputError
from hubnmt.schema import require
from training.augment.tables import check_output, write_table
from training.augment.word_alignment import Link, align
from training.command import make_parser, run_command
from training.config.data import DataConfig
from training.config.recipe import load_recipe
from training.data.augmentation import as_typed
from training.data.cleaning import CleaningReport, comparable
from training.data.corpora import read_clean

log = logging.getLogger("training")

_TOKEN: Final = re.compile(r"\S+")
_APOSTROPHE: Final = re.compile(r"['’]")

LONGEST = 1
"""Default of `--longest`: words in a phrase, and in its translation. With two, fragments such as
"wohnst du" and "you live" taught a model to drop the ends of short questions."""
LONGEST_SENTENCE = 3
"""Words in a sentence that is added as a whole."""
MIN_COUNT = 3
"""Default of `--min-count`: least number of sentences with the same translation."""
MIN_SHARE = 0.3
"""Default of `--min-share`: least share of the occurrences with the same translation."""
LIMIT = 300_000
"""Default of `--limit`: pairs to read, whose words are kept in memory."""


class Word(NamedTuple):
    """A word of a sentence, and its character span."""

    text: str
    start: int
    end: int

    @property
    def is_one(self) -> bool:
        """Whether it is a single word: neither punctuation nor a contraction such as "can't"."""
        return not all(map(_is_mark, self.text)) and not _APOSTROPHE.search(self.text)


Sentence = Sequence[Word]


class Phrase(NamedTuple):
    """A row of the phrase table."""

    src: str
    tgt: str
    n_times: int


def find_words(text: str) -> list[Word]:
    """Split a text into words and surrounding punctuation; "don't" and "T-shirt" are words."""
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
    """Yield the phrase pairs of a sentence pair, as (first, last) word of each side."""
    of_src = {s: t for t, s in links}
    of_tgt = {t: s for s, t in of_src.items()}
    for first, last in find_runs(src, longest=longest):
        if first not in of_src or last not in of_src:
            continue
        linked = [of_src[place] for place in range(first, last + 1) if place in of_src]
        low, high = min(linked), max(linked)
        is_short = high - low < longest
        is_consistent = all(first <= of_tgt.get(t, first) <= last for t in range(low, high + 1))
        if is_short and is_consistent and all(word.is_one for word in tgt[low : high + 1]):
            yield (first, last), (low, high)


def find_runs(sentence: Sentence, *, longest: int) -> Iterator[tuple[int, int]]:
    """Yield all spans of single words, as (first, last)."""
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
    """Extract a phrase table from sentence pairs, most frequent phrases first; see the options."""
    words = [tuple(map(find_words, pair)) for pair in pairs]
    sides = [[[word.text.casefold() for word in each[side]] for each in words] for side in (0, 1)]
    links = align(*sides)
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
    """Add each phrase in lower case with the same translation, unless it exists already.

    Of several phrases that differ only in case ("Weg", "WEG") the first one is used.
    """
    book = {phrase.src: phrase for phrase in phrases}
    for phrase in list(book.values()):
        small = phrase._replace(src=phrase.src.lower())
        book.setdefault(small.src, small)
    return list(book.values())


def _most_common(counts: Counter[str]) -> tuple[str, int]:
    """Return the most common item and its count; ties are broken deterministically."""
    return max(counts.items(), key=lambda item: (item[1], item[0]))


def _short_sentences(pairs: Iterable[tuple[str, str]]) -> list[Phrase]:
    """Return short sentences as phrases, without their final punctuation."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        if len(pair[0].split()) <= LONGEST_SENTENCE:
            src, tgt = as_typed(*pair, drop_final_mark=1.0, lowercase_src=0.0)
            counts[src][tgt] += 1
    return [Phrase(src, *_most_common(each)) for src, each in counts.items()]


def _cut(text: str, words: Sentence, run: tuple[int, int]) -> str:
    return text[words[run[0]].start : words[run[1]].end]


def read_pairs(config: DataConfig, *, output: Path, limit: int) -> list[tuple[str, str]]:
    """Read the cleaned training pairs of a recipe, without `output` and without augmentation.

    Raises:
        InputError: if there are no pairs, or a file cannot be read.
    """
    corpora = {
        name: {**values, "tag": ""}
        for name, values in config.corpora.items()
        if [Path(file) for file in values.get("files", ())] != [output]
    }
    names = (
        *("drop_final_mark", "lowercase_src", "vary_names"),
        *("protect_spans", "protect_names"),
    )
    plain: dict[str, Any] = dict.fromkeys(names, 0.0)
    config = dataclasses.replace(config, corpora=corpora, drop_duplicates=False, **plain)
    report = CleaningReport()
    clean = itertools.islice(read_clean(config, report), limit)
    pairs = [(pair.src, pair.tgt) for pair in tqdm(clean, unit="pair")]
    if not pairs:
        raise InputError(f"no pairs to extract phrases from: {report}")
    if len(pairs) == limit:
        log.info("using the first %s pairs; raise --limit to use more", f"{limit:,}")
    return pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.phrase_table", __doc__)
    parser.add_argument("recipe", type=Path, help="recipe (.toml), as for training.train")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.tsv")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument(
        "--longest", type=int, default=LONGEST, metavar="N", help="words in a phrase"
    )
    parser.add_argument("--min-count", type=int, default=MIN_COUNT, metavar="N")
    parser.add_argument("--min-share", type=float, default=MIN_SHARE, metavar="P")
    parser.add_argument("--lowercase", action="store_true", help="add lower-case variants")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help="pairs to read")
    options = parser.parse_args(arguments)
    return run_command(lambda: extract(options))


def extract(options: argparse.Namespace) -> None:
    """Extract a phrase table from the pairs of a recipe and write it.

    Raises:
        HubNMTError: if an option, the recipe or a file cannot be used.
    """
    counts = {"--longest": options.longest, "--limit": options.limit}
    counts["--min-count"] = options.min_count
    require(
        *((n >= 1, f"{name} {n} must be at least 1") for name, n in counts.items()),
        (0 <= options.min_share <= 1, f"--min-share {options.min_share} must be 0 to 1"),
    )
    check_output(options.output)
    config = load_recipe(options.recipe, options.set).data
    pairs = read_pairs(config, output=options.output, limit=options.limit)
    phrases = make_phrase_book(
        pairs, longest=options.longest, min_count=options.min_count, min_share=options.min_share
    )
    if not phrases:
        raise InputError(f"{len(pairs):,} pairs gave no phrase; lower --min-count")
    if options.lowercase:
        phrases = add_lowercase(phrases)
    write_table(options.output, [(config.src_lang, config.tgt_lang, "count"), *phrases])
    log.info("%s: %s phrases", options.output, f"{len(phrases):,}")


if __name__ == "__main__":
    sys.exit(main())
