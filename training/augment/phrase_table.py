"""Extract a phrase table from parallel text: words and short sentences with their translations.

    python -m training.augment.phrase_table RECIPE --output FOLDER/phrases.tsv
        [--set SECTION.KEY=VALUE ...]

The pairs are the training pairs of the recipe. Add the table to a recipe as another corpus:

    [data.corpora.phrases]
    files = ["FOLDER/phrases.tsv"]

A model trained on full sentences tends to answer a single word with half a sentence. Each pair is
aligned word by word; the most frequent translation of a word is kept if it has it often enough
(`--min-count` times, and in a share `--min-share` of the word's occurrences).
Short sentences, such as "Danke!", are added without their final punctuation. Longer phrases taught
a model to drop the ends of short questions. Scripts without spaces give few entries.
"""

import dataclasses
import itertools
import logging
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tqdm import tqdm

from hubnmt.errors import InputError
from hubnmt.schema import require
from training.augment.tables import check_output, write_table
from training.augment.word_alignment import align
from training.command import make_parser, run_command
from training.config.data import AUGMENTATION, DataConfig
from training.config.recipe import load_recipe
from training.data.augmentation import as_typed
from training.data.cleaning import CleaningReport, comparable
from training.data.corpora import read_clean

log = logging.getLogger("training")

_APOSTROPHE: Final = re.compile(r"['’]")

LONGEST_SENTENCE = 3
"""Words in a sentence that is added as a whole."""


class Phrase(NamedTuple):
    """A row of the phrase table."""

    src: str
    tgt: str
    n_times: int


def find_words(text: str) -> list[str]:
    """Split a text into words and surrounding punctuation; "don't" and "T-shirt" are words."""
    words = []
    for token in text.split():
        core = token.strip("".join(filter(_is_mark, token)))
        start = token.find(core)
        parts = (token[:start], core, token[start + len(core) :])
        words += [part for part in parts if part]
    return words


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"


def _is_single(word: str) -> bool:
    return not all(map(_is_mark, word)) and not _APOSTROPHE.search(word)


def make_phrase_table(
    pairs: Sequence[tuple[str, str]], min_count: int = 3, min_share: float = 0.3
) -> list[Phrase]:
    """Extract a phrase table from sentence pairs, most frequent entries first.

    Words need the same translation `min_count` times, and in a share `min_share` of all times.
    """
    sources, targets = ([find_words(pair[side]) for pair in pairs] for side in (0, 1))
    folded = (
        [[word.casefold() for word in words] for words in side] for side in (sources, targets)
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for src, tgt, links in zip(sources, targets, align(*folded), strict=True):
        for t, s in links:
            if _is_single(src[s]) and _is_single(tgt[t]):
                counts[src[s]][tgt[t]] += 1
    occurrences = Counter(itertools.chain.from_iterable(sources))
    sentences = _short_sentences(pairs)
    known = {comparable(phrase.src) for phrase in sentences}
    words = (Phrase(src, *_most_common(translations)) for src, translations in counts.items())
    phrases = [
        phrase
        for phrase in words
        if phrase.n_times >= max(min_count, min_share * occurrences[phrase.src])
        and comparable(phrase.src) not in known
    ]
    return sorted([*phrases, *sentences], key=lambda phrase: (-phrase.n_times, phrase))


def _most_common(counts: Counter[str]) -> tuple[str, int]:
    return max(counts.items(), key=lambda item: (item[1], item[0]))


def _short_sentences(pairs: Iterable[tuple[str, str]]) -> list[Phrase]:
    """Return short sentences as phrases, without their final punctuation."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        if len(pair[0].split()) <= LONGEST_SENTENCE:
            src, tgt = as_typed(*pair, drop_final_mark=1.0, lowercase_src=0.0)
            counts[src][tgt] += 1
    return [Phrase(src, *_most_common(found)) for src, found in counts.items()]


def read_pairs(config: DataConfig, *, output: Path, limit: int) -> list[tuple[str, str]]:
    """Read the cleaned training pairs of a recipe, without `output` and without augmentation."""
    corpora = {
        name: {**values, "tag": ""}
        for name, values in config.corpora.items()
        if [Path(file) for file in values.get("files", ())] != [output]
    }
    plain: dict[str, Any] = dict.fromkeys(AUGMENTATION, 0.0)
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
    parser.add_argument("--min-count", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--min-share", type=float, default=0.3, metavar="P", help="default: 0.3")
    parser.add_argument("--limit", type=int, default=300_000, metavar="N", help="pairs to read")
    options = parser.parse_args(arguments)

    def work() -> None:
        require(
            (options.limit >= 1, f"--limit {options.limit} must be at least 1"),
            (options.min_count >= 1, f"--min-count {options.min_count} must be at least 1"),
            (0 <= options.min_share <= 1, f"--min-share {options.min_share} must be 0 to 1"),
        )
        check_output(options.output)
        config = load_recipe(options.recipe, options.set).data
        pairs = read_pairs(config, output=options.output, limit=options.limit)
        phrases = make_phrase_table(pairs, options.min_count, options.min_share)
        if not phrases:
            raise InputError(f"{len(pairs):,} pairs gave no phrase; lower --min-count")
        write_table(options.output, [(config.src_lang, config.tgt_lang, "count"), *phrases])
        log.info("%s: %s phrases", options.output, f"{len(phrases):,}")

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
