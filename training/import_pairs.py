"""Turn a table of sentences into training and validation files, with a report of the cleaning.

    python -m training.import_pairs DEST FILE [FILE] [--languages de en] [--columns A B]
    python -m training.import_pairs DEST --dataset USER/NAME [--config C] [--columns A B]
    python -m training.import_pairs --describe --dataset USER/NAME [--config C]

FILE is a table (.csv, .tsv, .jsonl or .parquet), two aligned text files, or a zip of these;
languages and columns are found in the text unless they are given. DEST receives `train.tsv`,
`valid.tsv` and `report.json`.
`--describe` prints the configurations of a dataset and the columns of one.
"""

import collections
import itertools
import json
import random
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError
from hubnmt.text.languages import NAMES, detect_languages
from hubnmt.text.metrics import score_corpus
from training.command import make_parser, run_command
from training.config.data import CorpusConfig, DataConfig
from training.data import cleaning
from training.data.sources import TextPair, flatten, open_library, read_sources

TRAIN, VALID, REPORT = "train.tsv", "valid.tsv", "report.json"
N_EXAMPLES = 3
"""Examples of what is kept, and of each reason to drop a pair."""
N_DETECTED = 300
"""Rows from which columns and languages are determined."""
FEW_PAIRS = 1_000
"""Fewer pairs rarely give a model that translates new sentences."""
MAX_VALID, VALID_SHARE = 500, 0.1
MAX_ZIP_MIB = 2048
"""Limit of the unpacked size of a zip file."""
HEADER = {*NAMES, *map(str.casefold, NAMES.values()), "src", "tgt", "source", "target", "text"}


def import_pairs(
    dest: Path, pairs: Sequence[TextPair], languages: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """Clean and split pairs, write the files, and return the report, with `more` values in it.

    Raises:
        InputError: if no pairs are left, or the languages cannot be determined.
    """
    src_lang, tgt_lang = languages or [_detect([pair[side] for pair in pairs]) for side in (0, 1)]
    if src_lang == tgt_lang:
        raise InputError(f"both sides are {src_lang}: name two columns, or the two languages")
    kept, dropped = clean(pairs, src_lang, tgt_lang)
    train, valid = split_pairs(kept)
    if not train or not valid:
        raise InputError(f"nothing to train on: {len(kept)} of {len(pairs)} pairs are usable")
    for name, part in ((TRAIN, train), (VALID, valid)):
        lines = ["\t".join(pair) for pair in ((src_lang, tgt_lang), *part)]
        (dest / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    copies = score_corpus(*([pair[side] for pair in valid] for side in (0, 1)))
    few = f" Fewer than {FEW_PAIRS:,} pairs: the model will learn little beyond these sentences."
    found = {"kept": train}
    found |= {f"{len(gone):,} dropped: {reason}": gone for reason, gone in dropped.items()}
    report = {
        "summary": f"{len(kept):,} of {len(pairs):,} pairs are usable: {len(train):,} to learn "
        f"from and {len(valid):,} to measure with, which share no sentence."
        f"{few if len(kept) < FEW_PAIRS else ''}",
        "examples": [(why, *pair) for why, part in found.items() for pair in part[:N_EXAMPLES]],
        "languages": [src_lang, tgt_lang],
        "n_train": len(train),
        "copying": {"bleu": copies.bleu, "chrf": copies.chrf},
        **more,
    }
    (dest / REPORT).write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
    return report


# --- tables ---


def read_table(corpus: CorpusConfig, chosen: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return the columns of tables, two text files or a dataset, and the rows.

    The columns of a file without a header are 1, 2 and so on.
    """
    sources = read_sources(corpus, chosen or ("1", "2"))
    rows = [flatten(row) for _, found in sources for row in found] or [{}]
    names = [name for name in rows[0] if not name.startswith("translation.")]  # has a short name
    cells = [[str(row.get(name) or "") for name in names] for row in rows]
    if names[:1] == ["1"] and any(cell.strip().casefold() in HEADER for cell in cells[0]):
        names, *cells = cells
    return names, cells


def pick_columns(names: list[str], rows: list[list[str]], chosen: Sequence[str]) -> list[TextPair]:
    """Return the cells of the chosen columns, by default of the two with the most letters."""
    if len(names) < 2 or not {*chosen} <= {*names}:
        raise InputError(f"two columns of text are needed; there are: {', '.join(names)}")
    letters = [
        sum(char.isalpha() for row in rows[:N_DETECTED] for char in row[n])
        for n in range(len(names))
    ]
    wordiest = sorted(sorted(range(len(names)), key=lambda n: -letters[n])[:2])
    a, b = map(names.index, chosen) if chosen else wordiest
    return [(row[a], row[b]) for row in rows]


def describe(dataset: str, config: str | None) -> dict[str, list[str]]:
    """Return the configurations of a Hub dataset, and the columns of one, by default the first."""
    with open_library(f"dataset {dataset!r}") as datasets:
        configs = datasets.get_dataset_config_names(dataset)
    config = config or configs[0]
    first = CorpusConfig(dataset=dataset, config=config, split="train[0:1]", streaming=True)
    return {"configs": configs, "columns": read_table(first, ())[0]}


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


def _detect(texts: Sequence[str]) -> str:
    found = detect_languages(" ".join(" ".join(texts[:N_DETECTED]).split()), 1)
    if not found:
        raise InputError("the languages cannot be detected: name them")
    return found[0].language


# --- cleaning and splitting ---


def clean(
    pairs: Sequence[TextPair], src_lang: str, tgt_lang: str
) -> tuple[list[TextPair], dict[str, list[TextPair]]]:
    """Clean pairs as a run does; return the kept ones, and the dropped ones by reason."""
    config = DataConfig(src_lang=src_lang, tgt_lang=tgt_lang, train=(TRAIN,), valid=(VALID,))
    kept, dropped = dict[int, TextPair](), collections.defaultdict[str, list[TextPair]](list)
    for src, tgt in pairs:
        pair = cleaning.tidy(src), cleaning.tidy(tgt)
        key, reason = cleaning.fingerprint_pair(*pair), cleaning.why_drop(*pair, config)
        if reason or key in kept:
            dropped[reason or cleaning.DUPLICATE].append(pair)
        else:
            kept[key] = pair
    return list(kept.values()), dropped


def split_pairs(pairs: Sequence[TextPair], seed: int = 1) -> tuple[list[TextPair], list[TextPair]]:
    """Split into training and validation pairs that share no sentence on either side.

    Pairs with one source are held out together; others that share a sentence with held-out pairs
    are in neither part. Sentences are compared ignoring case, spaces and punctuation.
    """
    keys = [((0, cleaning.comparable(src)), (1, cleaning.comparable(tgt))) for src, tgt in pairs]
    groups = collections.defaultdict[tuple[int, str], list[int]](list)
    for number, (src_key, _) in enumerate(keys):
        groups[src_key].append(number)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    n_valid = min(MAX_VALID, max(1, int(VALID_SHARE * len(pairs))))
    held_out = sorted(itertools.islice(itertools.chain.from_iterable(order), n_valid))
    known = {key for number in held_out for key in keys[number]}
    train = [pair for pair, sides in zip(pairs, keys, strict=True) if known.isdisjoint(sides)]
    return train, [pairs[number] for number in held_out]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("import_pairs", __doc__)
    parser.add_argument("dest", type=Path, nargs="?")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--dataset", help="Hub dataset in place of files")
    parser.add_argument("--config", help="configuration of the dataset")
    parser.add_argument("--describe", action="store_true", help="only print what a dataset has")
    parser.add_argument("--languages", nargs=2, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--columns", nargs=2, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--note", help="where the pairs come from, for the card of a model")
    options = parser.parse_args(arguments)
    dest, files, dataset, config = options.dest, options.files, options.dataset, options.config
    if bool(files) == bool(dataset) or bool(dest) == options.describe:
        parser.error("name DEST and files or a dataset, or a dataset to describe")

    def work() -> None:
        if options.describe:
            sys.stdout.write(json.dumps(describe(dataset, config)))
            return
        dest.mkdir(parents=True, exist_ok=True)
        is_zip = bool(files) and files[0].suffix.lower() == ".zip"
        paths = _unpack(dest, files[0]) if is_zip else files
        corpus = CorpusConfig(files=tuple(map(str, paths)), dataset=dataset, config=config)
        names, rows = read_table(corpus, options.columns)
        pairs = pick_columns(names, rows, options.columns)
        note = options.note or " ".join(filter(None, [dataset, config])) or files[0].name
        report = import_pairs(dest, pairs, options.languages, columns=names, note=note)
        sys.stdout.write(f"{report['summary']}\n")

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
