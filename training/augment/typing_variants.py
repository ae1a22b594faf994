"""Add informal spelling variants to a phrase table.

    python -m training.augment.typing_variants PHRASES.tsv --output FOLDER/phrasebook.tsv

The sources are added without their final mark, without commas, in lower case, and all of these;
German sources also with ae, oe, ue and ss for umlauts and ß, French sources also without accents. A
source without its mark has a target without one, and an entry in lower case is added with a
capital on both sides, as phones write it. The header of the phrase book names the languages.
"""

import logging
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from hubnmt.text.languages import main_tag
from training.augment.tables import check_output, read_table, write_table
from training.command import make_parser, run_command
from training.data.augmentation import FINAL_MARK
from training.data.sources import TextPair

log = logging.getLogger("training")

_UMLAUTS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"}
)


_LIGATURES: Final = str.maketrans({"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"})


def _to_ascii_letters(text: str, language: str) -> str:
    """Return the text as typed on a keyboard without the language's own letters."""
    if language == "de":
        return text.translate(_UMLAUTS)
    if language == "fr":
        decomposed = unicodedata.normalize("NFD", text.translate(_LIGATURES))
        return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return text


def add_variants(pairs: Iterable[TextPair], *, src_lang: str) -> list[TextPair]:
    """Return the pairs of a phrase book and their variants.

    A variant whose source is an entry already, or a variant of an earlier entry, is left out: the
    phrase book may translate "sie" and "Sie" differently.
    """
    entries = list(pairs)
    known = {src for src, _ in entries}
    variants: dict[str, str] = {}
    for src, tgt in entries:
        for variant, target in _make_variants(src, tgt, language=main_tag(src_lang)):
            if variant not in known:
                variants.setdefault(variant, target)
    return [*entries, *variants.items()]


def _make_variants(src: str, tgt: str, *, language: str) -> Iterator[TextPair]:
    bare_src, bare_tgt = (FINAL_MARK.sub("", text) for text in (src, tgt))
    spelled = [(src, tgt)]
    if bare_src and bare_tgt and bare_src != src:
        spelled.append((bare_src, bare_tgt))
    for text, target in spelled:
        for typed in (text, text.replace(",", "")):
            for cased, answer in (
                (typed, target),
                (typed.lower(), target),
                _capitalize(typed, target),
            ):
                yield cased, answer
                yield _to_ascii_letters(cased, language), answer


def _capitalize(*texts: str) -> tuple[str, ...]:
    return tuple(text[:1].upper() + text[1:] for text in texts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.typing_variants", __doc__)
    parser.add_argument("phrases", type=Path, metavar="PHRASES.tsv", help="the phrase book")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.tsv")
    options = parser.parse_args(arguments)

    def work() -> None:
        check_output(options.output)
        book = read_table(options.phrases)
        pairs = add_variants(book.pairs, src_lang=book.src_lang)
        write_table(options.output, [(book.src_lang, book.tgt_lang), *pairs])
        log.info("%s: %s pairs, %s from the book", options.output, len(pairs), len(book.pairs))

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
