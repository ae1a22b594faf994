"""Make synthetic pairs from frames: sentence pairs with fields for names and numbers.

    python -m training.augment.synthetic_pairs training/phrasebook/frames-de-en.tsv \
        --output FOLDER/frames.tsv --times 60 --seed 17

A frame is a row such as "{name} wohnt in {city}.", "{name} lives in {city}."; the fields are
`name`, `surname`, `city`, `firm` and `number`, and the header names the languages. Each frame is
filled `--times` times, with names of the library `faker` in several languages and with synthetic
ones, so that a model learns to copy names instead of known ones only. In a share of the pairs
(`--protect`) numbers are replaced by placeholders (see `training.data.placeholders`). Add the
table to a recipe as another corpus:

    [data.corpora.frames]
    files = ["FOLDER/frames.tsv"]
"""

import argparse
import logging
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hubnmt.errors import ConfigError, HubNMTError, InputError
from training.augment.tables import check_output, read_table, write_table
from training.data.placeholders import protect_pair
from training.data.sources import TextPair
from training.data.synthetic_names import make_name

log = logging.getLogger("training")

LOCALES: Final = (
    *("de_DE", "en_US", "en_GB", "fr_FR", "tr_TR", "pl_PL"),
    *("es_ES", "it_IT", "en_IN", "nl_NL", "sv_SE", "hr_HR"),
)
"""Locales of `faker` for first names, surnames and cities."""
FIRM_LOCALES: Final = ("de_DE", "en_US", "fr_FR", "it_IT")
DRAWS: Final = 1000
"""Values drawn from each locale."""
PROTECTED_SHARE: Final = 0.15
"""Default of `--protect`."""
_KNOWN_SHARES: Final = {"name": 0.8, "city": 0.6, "firm": 0.6}
"""Shares of values from `faker`; the others are synthetic."""
_NAME: Final = re.compile(r"[^\W\d_]{3,14}")
_LAST_LATIN: Final = "\u024f"
_CONJUNCTION: Final = re.compile(r"&|\b(?:und|and|et|e)\b")
_LONGEST_FIRM: Final = 29
_FIRM_ENDINGS: Final = ("", " AG", " GmbH", " Ltd", " Inc.", "tec", "soft")
_YEAR: Final = re.compile(r"\b(?:in|since) \{number\}(?! \w)")
"""A number that is a year; every list of frames has English on one side."""


class Values(NamedTuple):
    """Known values of the fields; `names` serves first names and surnames."""

    names: Sequence[str]
    cities: Sequence[str]
    firms: Sequence[str]


def load_values() -> Values:
    """Draw values from `faker`, always the same ones for the same version of it.

    Raises:
        InputError: if it is not installed.
    """
    try:
        from faker import Faker  # needed by this command alone
    except ImportError:
        raise InputError("synthetic pairs require faker: pip install 'hubnmt[train]'") from None
    names: set[str] = set()
    cities: set[str] = set()
    firms: set[str] = set()
    for locale in LOCALES:
        fake = Faker(locale)
        fake.seed_instance(1)
        for _ in range(DRAWS):
            names.update((fake.first_name(), fake.last_name()))
            cities.add(fake.city())
            if locale in FIRM_LOCALES:
                firms.add(fake.company())
    return Values(
        names=sorted(filter(_is_name, names)),
        cities=sorted(filter(_is_name, cities)),
        firms=sorted(filter(_is_firm, firms)),
    )


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and text.istitle() and max(text) <= _LAST_LATIN


def _is_firm(text: str) -> bool:
    """Return whether a firm is short and without a conjunction, which might be translated."""
    return len(text) <= _LONGEST_FIRM and not _CONJUNCTION.search(text)


def fill_frames(
    frames: Iterable[TextPair],
    values: Values,
    rng: random.Random,
    *,
    times: int,
    protected_share: float = PROTECTED_SHARE,
) -> Iterator[TextPair]:
    """Yield pairs: all frames, filled with other values each time.

    Args:
        frames: pairs of texts with fields.
        values: known values of the fields.
        rng: chooses the values.
        times: number of pairs from each frame.
        protected_share: share of pairs whose numbers are replaced by placeholders.

    Raises:
        InputError: if a frame has an unknown field or a single brace.
    """
    frames = list(frames)
    for _ in range(times):
        for src, tgt in frames:
            fields = _draw_fields(values, rng, is_year=bool(_YEAR.search(f"{src}\n{tgt}")))
            try:
                pair = src.format_map(fields), tgt.format_map(fields)
            except (LookupError, ValueError, AttributeError):
                raise InputError(
                    f"frame {src!r}, {tgt!r}: its fields must be among {', '.join(fields)}"
                ) from None
            yield protect_pair(*pair, rng) if rng.random() < protected_share else pair


def _draw_fields(values: Values, rng: random.Random, *, is_year: bool) -> dict[str, str]:
    return {
        "name": _draw_name(values.names, rng, known=_KNOWN_SHARES["name"]),
        "surname": _draw_name(values.names, rng, known=_KNOWN_SHARES["name"]),
        "city": _draw_name(values.cities, rng, known=_KNOWN_SHARES["city"]),
        "firm": _draw_firm(values.firms, rng),
        "number": str(_draw_number(rng, is_year=is_year)),
    }


def _draw_name(known_names: Sequence[str], rng: random.Random, *, known: float) -> str:
    return rng.choice(known_names) if rng.random() < known else make_name(rng)


def _draw_firm(firms: Sequence[str], rng: random.Random) -> str:
    if rng.random() < _KNOWN_SHARES["firm"]:
        return rng.choice(firms)
    return make_name(rng) + rng.choice(_FIRM_ENDINGS)


def _draw_number(rng: random.Random, *, is_year: bool) -> int:
    """Return a year, or a number that is not 1, because 1 determines the grammatical number."""
    if is_year:
        return rng.randint(1850, 2030)
    return rng.choice((rng.randint(2, 99), rng.randint(100, 9999)))


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.augment.synthetic_pairs", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("frames", type=Path, metavar="FRAMES.tsv", help="table of frames")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.tsv")
    parser.add_argument(
        "--times", type=int, default=60, metavar="N", help="pairs per frame (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default: 1")
    parser.add_argument(
        "--protect",
        type=float,
        default=PROTECTED_SHARE,
        metavar="SHARE",
        help=f"share of pairs with placeholders (default: {PROTECTED_SHARE})",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        exit status: 0 success, 2 invalid request, 130 interrupted.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse_arguments(arguments)
    try:
        _check(options)
        frames = read_table(options.frames)
        pairs = list(
            fill_frames(
                frames.pairs,
                load_values(),
                random.Random(options.seed),
                times=options.times,
                protected_share=options.protect,
            )
        )
        write_table(options.output, [(frames.src_lang, frames.tgt_lang), *pairs])
    except HubNMTError as error:
        log.error("error: %s", " ".join(str(error).split()))
        return 2
    except KeyboardInterrupt:
        log.error("interrupted; nothing was written")
        return 130
    log.info("%s: %s pairs", options.output, f"{len(pairs):,}")
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.times < 1:
        raise ConfigError(f"--times {options.times} must be at least 1")
    if not 0 <= options.protect <= 1:
        raise ConfigError(f"--protect {options.protect} must be 0 to 1")
    check_output(options.output)


if __name__ == "__main__":
    sys.exit(main())
