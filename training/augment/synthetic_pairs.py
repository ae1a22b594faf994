"""Make synthetic pairs from frames: sentence pairs with fields for names and numbers.

    python -m training.augment.synthetic_pairs FRAMES.tsv --output FOLDER/frames.tsv

A frame is a row such as "{name} wohnt in {city}.", "{name} lives in {city}."; the fields are
`name`, `surname`, `city`, `firm`, `number`, `date`, `time` (a full hour) and `weekday`, and the
header names the languages. Each frame is filled `--times` times, with names of the library `faker`
in several languages and with synthetic ones, so that a model learns to copy names instead of known
ones only; dates and weekdays are written by the library `babel` in the language of each side. In a
share of the pairs (`--protect`) numbers are replaced by placeholders (see
`training.data.augmentation`). Languages of different scripts spell names differently: with
`--spellings` names come from tables of two columns, and each side gets its own spelling. `--words`
adds fields: a table with the columns `field` (one or several fields, separated by spaces), one for
each language, and others for forms, such as `en.plural` for {animal.plural} on the English side.
{animal2} is another animal than {animal}. Add the table to a recipe as another corpus:

    [data.corpora.frames]
    files = ["FOLDER/frames.tsv"]
"""

import datetime
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hubnmt.errors import InputError
from hubnmt.schema import require
from training.augment.tables import PairTable, check_output, read_table, write_table
from training.command import make_parser, run_command
from training.data.augmentation import make_name, protect_pair
from training.data.sources import TextPair, read_lines

LOCALES: Final = (
    "de_DE",
    "en_US",
    "en_GB",
    "fr_FR",
    "tr_TR",
    "pl_PL",
    "es_ES",
    "it_IT",
    "en_IN",
    "nl_NL",
    "sv_SE",
    "hr_HR",
)
"""Locales of `faker` for first names, surnames and cities."""
FIRM_LOCALES: Final = ("de_DE", "en_US", "fr_FR", "it_IT")
DRAWS: Final = 1000
"""Values drawn from each locale."""
PROTECTED_SHARE: Final = 0.15
_KNOWN_NAMES, _KNOWN_PLACES = 0.8, 0.6
"""Shares of values from `faker`, for names, and for cities and firms; the others are synthetic."""
_SPELLED: Final = ("name", "surname", "city", "firm")
_NAME: Final = re.compile(r"[^\W\d_]{3,14}")
_LAST_LATIN: Final = "\u024f"
_CONJUNCTION: Final = re.compile(r"&|\b(?:und|and|et|e)\b")
_LONGEST_FIRM: Final = 29
_FIRM_ENDINGS: Final = ("", " AG", " GmbH", " Ltd", " Inc.", "tec", "soft")
_YEAR: Final = re.compile(r"\b(?:in|since) \{number\}(?! \w)")
"""A number that is a year; every list of frames has English on one side."""

_DATES: Final = {"en": ("d MMMM", "MMMM d"), "de": ("d. MMMM",), "ml": ("MMMM d",)}
"""Patterns of `babel` for a day of the year; other languages: `d MMMM`."""
_CLOCKS: Final = {"de": "{} Uhr", "fr": "{} heures"}
"""Full hours of a day of 24; English has twice 12, other languages: `15:00`."""


class Values(NamedTuple):
    """Known values of the fields; `names` serves first names and surnames."""

    names: Sequence[str]
    cities: Sequence[str]
    firms: Sequence[str]


class _Word(str):
    """A word whose other forms are attributes."""


Words = Mapping[str, Sequence[tuple[str, str]]]
"""For each field its words, (source, target), each of which may have forms as attributes."""


def read_words(path: Path, frames: PairTable) -> Words:
    """Read the words of a table whose columns the module describes, or say what is missing."""
    header, *rows = (line.split("\t") for line in read_lines(path))
    words = defaultdict[str, list[tuple[str, str]]](list)
    for number, row in enumerate(rows, start=2):
        cells = dict(zip(header, row, strict=False))
        sides = [cells.get(language) for language in (frames.src_lang, frames.tgt_lang)]
        if len(row) != len(header) or not all((cells.get("field"), *sides)):
            raise InputError(f"{path}:{number}: a field or a word is missing")
        pair = _Word(sides[0]), _Word(sides[1])
        for column, text in cells.items():
            language, _, form = column.partition(".")
            if form and text:
                setattr(pair[language == frames.tgt_lang], form, text)
        for field in cells["field"].split():
            words[field].append(pair)
    if alone := [field for field, pairs in words.items() if len(pairs) < 2]:
        raise InputError(f"{path}: {alone[0]} needs two words at least")
    return words


def load_values() -> Values:
    """Draw values from `faker`, always the same ones for the same version of it."""
    try:
        import babel.dates  # noqa: F401  # read by `_write_day`
        from faker import Faker  # needed by this command alone
    except ImportError:
        raise InputError(
            "synthetic pairs require faker and babel: pip install 'hubnmt[train]'"
        ) from None
    names, cities, firms = set[str](), set[str](), set[str]()
    for locale in LOCALES:
        fake = Faker(locale)
        fake.seed_instance(1)
        for provider in fake.get_providers():
            if isinstance(getattr(provider, "cities", None), list):
                provider.cities.sort()  # those of Italy come from a set, in any order
        for _ in range(DRAWS):
            names.update((fake.first_name(), fake.last_name()))
            cities.add(fake.city())
            if locale in FIRM_LOCALES:
                firms.add(fake.company())
    return Values(
        sorted(filter(_is_name, names)),
        sorted(filter(_is_name, cities)),
        sorted(filter(_is_firm, firms)),
    )


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and text.istitle() and max(text) <= _LAST_LATIN


def _is_firm(text: str) -> bool:
    return len(text) <= _LONGEST_FIRM and not _CONJUNCTION.search(text)


def fill_frames(
    frames: PairTable,
    values: Values,
    rng: random.Random,
    *,
    times: int,
    protected_share: float = PROTECTED_SHARE,
    spellings: Sequence[TextPair] = (),
    words: Words | None = None,
) -> Iterator[TextPair]:
    """Yield pairs: all frames, filled with other values each time.

    Names of people, places and firms are drawn from `spellings`, (source, target) each, instead
    of `values`, if there are any.

    Raises:
        InputError: if a frame has an unknown field, a form that a word lacks, or a single brace.
    """
    for _ in range(times):
        for src, tgt in frames.pairs:
            is_year = bool(_YEAR.search(f"{src}\n{tgt}"))
            shared = _draw_fields(values, rng, is_year=is_year)
            day = datetime.datetime(2024, 1, 1, rng.randint(2, 23))
            day += datetime.timedelta(days=rng.randrange(366))
            day += datetime.timedelta(days=day.day == 1)  # French and others write the first apart
            drawn = {field: rng.choice(spellings) for field in _SPELLED if spellings}
            for field, choices in (words or {}).items():
                drawn[field], drawn[f"{field}2"] = rng.sample(choices, 2)
            both = (
                shared
                | {field: pair[side] for field, pair in drawn.items()}
                | _write_day(day, language, rng)
                for side, language in enumerate((frames.src_lang, frames.tgt_lang))
            )
            try:
                pair = (
                    src.format_map(next(both)).replace(".m..", ".m."),
                    tgt.format_map(next(both)).replace(".m..", ".m."),
                )
            except (LookupError, ValueError, AttributeError):
                names = ", ".join((*shared, "date", "time", "weekday", *(words or ())))
                raise InputError(
                    f"frame {src!r}, {tgt!r}: its fields must be among {names}, with their forms"
                ) from None
            yield protect_pair(*pair, rng) if rng.random() < protected_share else pair


def _write_day(day: datetime.datetime, language: str, rng: random.Random) -> dict[str, str]:
    """Return date, hour and weekday as the language writes them."""
    from babel.dates import format_date  # needed by this command alone

    pattern = rng.choice(_DATES.get(language, ("d MMMM",)))
    hour = day.hour
    if language == "en":
        time = f"{hour % 12 or 12} {'a.m.' if hour < 12 else 'p.m.'}"
    else:
        time = _CLOCKS.get(language, "{}:00").format(hour)
    return {
        "date": format_date(day, pattern, locale=language),
        "time": time,
        "weekday": format_date(day, "EEEE", locale=language),
    }


def _draw_fields(values: Values, rng: random.Random, *, is_year: bool) -> dict[str, str]:
    return {
        "name": _draw_name(values.names, rng, known=_KNOWN_NAMES),
        "surname": _draw_name(values.names, rng, known=_KNOWN_NAMES),
        "city": _draw_name(values.cities, rng, known=_KNOWN_PLACES),
        "firm": rng.choice(values.firms)
        if rng.random() < _KNOWN_PLACES
        else make_name(rng) + rng.choice(_FIRM_ENDINGS),
        "number": str(_draw_number(rng, is_year=is_year)),
    }


def _draw_name(known_names: Sequence[str], rng: random.Random, *, known: float) -> str:
    return rng.choice(known_names) if rng.random() < known else make_name(rng)


def _draw_number(rng: random.Random, *, is_year: bool) -> int:
    if is_year:
        return rng.randint(1850, 2030)
    return rng.choice((rng.randint(2, 99), rng.randint(100, 9999)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.synthetic_pairs", __doc__)
    parser.add_argument("frames", type=Path, metavar="FRAMES.tsv", help="table of frames")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.tsv")
    parser.add_argument(
        "--times", type=int, default=60, metavar="N", help="pairs per frame (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default: 1")
    share_help = f"share of pairs with placeholders (default: {PROTECTED_SHARE})"
    parser.add_argument(
        "--protect", type=float, default=PROTECTED_SHARE, metavar="SHARE", help=share_help
    )
    names_help = "tables of names with their spelling in both languages"
    parser.add_argument(
        "--spellings", type=Path, nargs="+", default=[], metavar="FILE.tsv", help=names_help
    )
    parser.add_argument("--words", type=Path, metavar="FILE.tsv", help="words of more fields")
    options = parser.parse_args(arguments)

    def work() -> None:
        require(
            (options.times >= 1, f"--times {options.times} must be at least 1"),
            (0 <= options.protect <= 1, f"--protect {options.protect} must be 0 to 1"),
        )
        check_output(options.output)
        frames = read_table(options.frames)
        pairs = fill_frames(
            frames,
            load_values(),
            random.Random(options.seed),
            times=options.times,
            protected_share=options.protect,
            spellings=[pair for path in options.spellings for pair in read_table(path).pairs],
            words=read_words(options.words, frames) if options.words else None,
        )
        write_table(options.output, [(frames.src_lang, frames.tgt_lang), *pairs])

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
