"""Turn a table of sentences into training and validation files, a report, and a recipe.

    python -m training.import_pairs DEST FILE [FILE] [--languages de en] [--columns A B]
    python -m training.import_pairs DEST --dataset USER/NAME[:CONFIG] [--columns A B]
    python -m training.import_pairs DEST [--minutes 10] [--start MODEL]
    python -m training.import_pairs --describe --dataset USER/NAME[:CONFIG]

FILE is a table (.csv, .tsv, .jsonl or .parquet), two aligned text files, or a zip of these;
languages and columns are found in the text unless they are given. DEST receives `train.tsv`,
`valid.tsv`, `report.json`, and `recipe.toml` for `training.train`; without files, only the recipe
is written anew. `--describe` prints the configurations of a dataset and the columns of one.
"""

import dataclasses
import itertools
import json
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.card import escape_cell
from hubnmt.checkpoint.files import read_json, write_json
from hubnmt.errors import InputError
from hubnmt.text.languages import NAMES, detect_languages
from hubnmt.text.metrics import score_corpus
from training.command import make_parser, run_command
from training.config.data import MAIN, TABLE_SUFFIXES, DataConfig, suffix_of
from training.data.cleaning import N_EXAMPLES, CleaningReport, HeldOutSentences, comparable
from training.data.corpora import read_clean
from training.data.sources import TextPair, flatten, open_library, read_sources
from training.suggest import PARTS, suggest

TRAIN, VALID, REPORT, RECIPE = "train.tsv", "valid.tsv", "report.json", "recipe.toml"
N_DETECTED = 300
"""Rows from which columns and languages are determined."""
FEW_PAIRS = 1_000
"""Fewer pairs rarely give a model that translates new sentences."""
MAX_VALID, VALID_SHARE = 500, 0.1
MAX_ZIP_MIB = 2048
"""Limit of the unpacked size of a zip file."""
HEADER = {*NAMES, *map(str.casefold, NAMES.values()), "src", "tgt", "source", "target", "text"}


def import_pairs(dest: Path, config: DataConfig, **more: Any) -> None:
    """Clean and split pairs, and write the files and the report, with `more` values in it.

    Raises:
        InputError: if no pairs are left.
    """
    cleaned = CleaningReport()
    kept = [(src, tgt) for _, src, tgt in read_clean(config, cleaned, valid=())]
    train, valid = split_pairs(kept)
    if not train or not valid:
        raise InputError(f"nothing to train on: {cleaned.describe()}")
    languages = config.src_lang, config.tgt_lang
    for name, part in ((TRAIN, train), (VALID, valid)):
        lines = ["\t".join(pair) for pair in (languages, *part)]
        (dest / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    copies = score_corpus(*zip(*valid, strict=True))
    few = f" Fewer than {FEW_PAIRS:,} pairs: the model will learn little beyond these sentences."
    shown: list[tuple[str, ...]] = [("pairs", *languages), ("---",) * 3]
    shown += [("kept", *pair) for pair in train[:N_EXAMPLES]]
    for reason, pairs in cleaned.examples.items():
        shown += [(f"{cleaned.dropped[reason]:,} dropped: {reason}", *pair) for pair in pairs]
    table = [" | ".join(["", *map(escape_cell, row), ""]).strip() for row in shown]
    report = {
        "summary": f"{len(kept):,} of {cleaned.read.total():,} pairs are usable: {len(train):,} to "
        f"learn from and {len(valid):,} to measure with, which share no sentence."
        f"{few if len(kept) < FEW_PAIRS else ''}\n\n" + "\n".join(table),
        "languages": languages,
        "n_train": len(train),
        "copying": {"bleu": copies.bleu, "chrf": copies.chrf},
    }
    write_json(dest / REPORT, report | more)


def split_pairs(pairs: Sequence[TextPair]) -> tuple[list[TextPair], list[TextPair]]:
    """Split into training and validation pairs that share no sentence on either side.

    Pairs of one source stay together; others that share a sentence with held-out pairs are in
    neither part.
    """
    n_valid = min(MAX_VALID, max(1, int(VALID_SHARE * len(pairs))))
    by_source = sorted(pairs, key=_source_key)
    while n_valid > 1 and _source_key(by_source[n_valid - 1]) == _source_key(by_source[n_valid]):
        n_valid -= 1
    held_out = HeldOutSentences()
    held_out.update(valid := by_source[:n_valid])
    return [pair for pair in pairs if not held_out.shares_a_side(*pair)], valid


def _source_key(pair: TextPair) -> int:
    return zlib.crc32(comparable(pair[0]).encode())


# --- tables ---


def find_columns(
    source: DataConfig, columns: Sequence[str], languages: Sequence[str]
) -> tuple[list[str], DataConfig]:
    """Return all columns of a table, two text files or a dataset, and the source with two chosen.

    By default these are the two columns with the most letters, in the order of the languages if
    they are given; otherwise the languages are detected.
    """
    names, rows = read_rows(source, columns)
    if len(names) < 2 or not {*columns} <= {*names}:
        raise InputError(f"two columns of text are needed; there are: {', '.join(names)}")
    texts = {name: " ".join(row[n] for row in rows) for n, name in enumerate(names)}
    n_letters = {name: sum(map(str.isalpha, text)) for name, text in texts.items()}
    wordiest = sorted(names, key=lambda name: -n_letters[name])[:2]
    chosen = [*columns] or sorted(wordiest, key=names.index)
    found = [_detect(texts[name]) for name in chosen]
    if not columns and [*languages] == found[::-1]:
        chosen.reverse()
    src_lang, tgt_lang = languages or found
    if not src_lang or not tgt_lang or src_lang == tgt_lang:
        problem = f"both sides are {src_lang}" if src_lang else "the languages cannot be detected"
        raise InputError(f"{problem}: name two columns, or the two languages")
    files = source.train
    if files and suffix_of(files[0]) not in TABLE_SUFFIXES and names.index(chosen[0]) == 1:
        files = files[::-1]  # text files have no names: the first is the source
    sides: dict[str, Any] = {"src_column": chosen[0], "tgt_column": chosen[1], "train": files}
    return names, dataclasses.replace(source, src_lang=src_lang, tgt_lang=tgt_lang, **sides)


def read_rows(source: DataConfig, chosen: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return columns and first rows; the columns of a file without a header are 1, 2 and so on."""
    sources = read_sources(source.training_corpora()[MAIN], chosen or ("1", "2"))
    found = itertools.chain.from_iterable(rows for _, rows in sources)
    rows = [flatten(row) for row in itertools.islice(found, N_DETECTED)] or [{}]
    names = [name for name in rows[0] if not name.startswith("translation.")]  # has a short name
    cells = [[str(row.get(name) or "") for name in names] for row in rows]
    if names[:1] == ["1"] and any(cell.strip().casefold() in HEADER for cell in cells[0]):
        names, *cells = cells
    return names, cells


def describe(dataset: str) -> dict[str, list[str]]:
    """Return `NAME:CONFIG` of a Hub dataset, the given one first, and the columns of the first."""
    name, _, config = dataset.partition(":")
    with open_library(f"dataset {name!r}") as datasets:
        configs = [config] * bool(config) + datasets.get_dataset_config_names(name)
    names = [f"{name}:{each}" for each in dict.fromkeys(configs)]
    first = open_source(names[0], split="train[0:1]", streaming=True)
    return {"names": names, "columns": read_rows(first, ())[0]}


def open_source(dataset: str = "", files: Sequence[Path] = (), **options: Any) -> DataConfig:
    """Return files or a dataset `NAME:CONFIG` as a corpus whose languages are not known yet."""
    name, _, config = dataset.partition(":")
    options |= {"dataset": name or None, "config": config or None, "train": tuple(map(str, files))}
    return DataConfig(src_lang="", tgt_lang="", valid=(VALID,), drop_held_out=False, **options)


def _unpack(dest: Path, path: Path) -> list[Path]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.filename.startswith("__MACOSX")]
            if sum(member.file_size for member in members) > MAX_ZIP_MIB * 2**20:
                raise InputError(f"the zip file holds more than {MAX_ZIP_MIB} MiB")
            # `extract` leaves out what would lead out of `dest`.
            return [Path(archive.extract(m, dest / "zip")) for m in members if not m.is_dir()]
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise InputError(f"{path.name}: not a zip file that can be read ({error})") from None


def _detect(text: str) -> str:
    found = detect_languages(" ".join(text.split()), 1)
    return found[0].language if found else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("import_pairs", __doc__)
    parser.add_argument("dest", type=Path, nargs="?")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--dataset", default="", help="Hub dataset in place of files")
    parser.add_argument("--describe", action="store_true", help="only print what a dataset has")
    parser.add_argument("--languages", nargs=2, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--columns", nargs=2, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--note", help="where the pairs come from, for the card of a model")
    parser.add_argument("--minutes", type=float, default=10, help="time limit of the run")
    parser.add_argument("--start", default="", help="model to start from")
    parser.add_argument("--part", choices=PARTS, default="model", help="what to take of it")
    options = parser.parse_args(arguments)
    dest, files, dataset = options.dest, options.files, options.dataset
    if (files and dataset) or bool(dest) == options.describe:
        parser.error("name DEST and files or a dataset, or a dataset to describe")

    def work() -> None:
        if options.describe:
            sys.stdout.write(json.dumps(describe(dataset)))
            return
        if files or dataset:
            dest.mkdir(parents=True, exist_ok=True)
            is_zip = files and suffix_of(files[0].name) == ".zip"
            paths = _unpack(dest, files[0]) if is_zip else files
            source = open_source(dataset, paths)
            names, config = find_columns(source, options.columns, options.languages)
            note = options.note or dataset or files[0].name
            import_pairs(dest, config, columns=names, note=note)
        report = read_json(dest / REPORT)
        chosen = {name: getattr(options, name) for name in ("minutes", "start", "part")}
        (dest / RECIPE).write_text(suggest(dest, report, **chosen), encoding="utf-8")
        sys.stdout.write(f"{report['summary']}\n")

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
