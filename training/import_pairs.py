"""Turn a table of sentences into training and validation files, with a report of the cleaning.

    python -m training.import_pairs DEST FILE [FILE] [--languages de en] [--columns A B]
    python -m training.import_pairs DEST --dataset USER/NAME [--config C] --languages de en

FILE is a .csv or .tsv table, two aligned text files, or a zip of these; languages and columns are
found in the text unless they are given. DEST receives `train.tsv`, `valid.tsv` and `report.json`.
"""

import collections
import csv
import itertools
import json
import random
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError
from hubnmt.text.detection import detect_languages
from hubnmt.text.languages import NAMES
from hubnmt.text.metrics import score_corpus
from training.command import make_parser, run_command
from training.config.data import CorpusConfig, DataConfig
from training.data import cleaning
from training.data.sources import TextPair, read_corpus, read_lines

TRAIN, VALID, REPORT = "train.tsv", "valid.tsv", "report.json"
N_EXAMPLES = 3
"""Examples of each reason to drop a pair."""
N_DETECTED = 300
"""Rows from which columns and languages are determined."""
MAX_VALID, VALID_SHARE = 500, 0.1
MAX_ZIP_MIB = 2048
"""Limit of the unpacked size of a zip file."""
HEADER = {*NAMES, *map(str.casefold, NAMES.values()), "src", "tgt", "source", "target", "text"}


def import_pairs(
    dest: Path, columns: Sequence[str], rows: Sequence[Sequence[str]], languages: Sequence[str]
) -> dict[str, Any]:
    """Clean and split the first and last cells of rows, write the files, and return the report.

    Raises:
        InputError: if no pairs are left, or the languages cannot be determined.
    """
    pairs = [(row[0], row[-1]) for row in rows]
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
    report = {
        "n_read": len(pairs),
        "n_kept": len(kept),
        "dropped": {reason: len(pairs) for reason, pairs in dropped.items()},
        "examples": {reason: pairs[:N_EXAMPLES] for reason, pairs in dropped.items()},
        "kept_examples": train[:N_EXAMPLES],
        "columns": columns,
        "languages": [src_lang, tgt_lang],
        "n_train": len(train),
        "n_valid": len(valid),
        "copying": {"bleu": copies.bleu, "chrf": copies.chrf},
    }
    (dest / REPORT).write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
    return report


def read_table(
    dest: Path, files: Sequence[Path], chosen: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return the column names of a file or of two text files, and the rows of two columns.

    A zip is unpacked into `dest` under names of our own.

    Raises:
        InputError: if a file or a column cannot be used.
    """
    files = _unpack(dest, files[0]) if files[0].suffix.lower() == ".zip" else files
    if len(files) == 2:
        corpus = CorpusConfig(files=tuple(map(str, files)))
        pairs = read_corpus(corpus, src_lang="", tgt_lang="")
        return [path.name for path in files], [list(pair) for pair in pairs]
    if len(files) != 1 or files[0].suffix.lower() not in (".csv", ".tsv"):
        raise InputError(
            "give one .csv or .tsv table (Excel and Sheets save it as CSV), two text files, or a "
            "zip of these"
        )
    rows = list(_read_cells(files[0]))
    has_header = bool(rows) and any(cell.strip().casefold() in HEADER for cell in rows[0])
    numbered = [f"column {n}" for n in range(1, len(rows[0]) + 1)] if rows else []
    names = rows[0] if has_header or {*chosen} - {*numbered} else numbered
    rows = rows[1:] if names is not numbered else rows
    missing = [name for name in chosen if name not in names]
    if missing or len(names) < 2:
        raise InputError(f"two columns of text are needed; the file has: {', '.join(names)}")
    a, b = map(names.index, chosen) if chosen else _wordiest(rows, len(names))
    return names, [[row[a], row[b]] for row in rows if len(row) > max(a, b)]


def _unpack(dest: Path, path: Path) -> list[Path]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                member
                for member in archive.infolist()
                if not member.is_dir() and not member.filename.startswith("__MACOSX")
            ]
            if sum(member.file_size for member in members) > MAX_ZIP_MIB * 2**20:
                raise InputError(f"the zip file holds more than {MAX_ZIP_MIB} MiB")
            files = [dest / f"{n}{Path(m.filename).suffix.lower()}" for n, m in enumerate(members)]
            for member, file in zip(members[:2], files, strict=False):
                file.write_bytes(archive.read(member))
            return files
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise InputError(f"{path.name}: not a zip file that can be read ({error})") from None


def _read_cells(path: Path) -> Iterator[list[str]]:
    lines = read_lines(path)
    if path.suffix.lower() == ".tsv":  # quotes are plain text
        return (line.split("\t") for line in lines)
    first = next(lines, "")
    delimiter = max(",;\t", key=first.count)
    all_lines = itertools.chain([first], lines)
    return csv.reader((f"{line}\n" for line in all_lines), delimiter=delimiter)


def _wordiest(rows: Sequence[Sequence[str]], n_columns: int) -> list[int]:
    """Return the two columns with the most letters, in their order."""
    letters = [
        sum(char.isalpha() for row in rows[:N_DETECTED] for char in "".join(row[n : n + 1]))
        for n in range(n_columns)
    ]
    return sorted(sorted(range(n_columns), key=lambda n: -letters[n])[:2])


def _detect(texts: Sequence[str]) -> str:
    found = detect_languages(" ".join(" ".join(texts[:N_DETECTED]).split()), 1)
    if not found:
        raise InputError("the languages cannot be detected: name them")
    return found[0].language


def clean(
    pairs: Sequence[TextPair], src_lang: str, tgt_lang: str
) -> tuple[list[TextPair], dict[str, list[TextPair]]]:
    """Clean pairs as a run does; return the kept ones, and the dropped ones by reason."""
    config = DataConfig(src_lang=src_lang, tgt_lang=tgt_lang, train=(TRAIN,), valid=(VALID,))
    cleaner = cleaning.Cleaner(config)
    kept, dropped = dict[int, TextPair](), collections.defaultdict[str, list[TextPair]](list)
    for src, tgt in pairs:
        pair = cleaning.tidy(src), cleaning.tidy(tgt)
        key, reason = cleaning.fingerprint_pair(*pair), cleaner.why_drop(*pair)
        if reason or key in kept:
            dropped[reason or cleaning.DUPLICATE].append(pair)
        else:
            kept[key] = pair
    return list(kept.values()), dropped


def split_pairs(pairs: Sequence[TextPair], seed: int = 1) -> tuple[list[TextPair], list[TextPair]]:
    """Split into training and validation pairs that share no sentence on either side.

    Sentences are compared ignoring case, spaces and punctuation.
    """
    parents: dict[tuple[int, str], tuple[int, str]] = {}

    def root(key: tuple[int, str]) -> tuple[int, str]:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = key = parents[parent]
        return key

    # 1. Join all pairs that share a side, also through others.
    keys = [((0, cleaning.comparable(src)), (1, cleaning.comparable(tgt))) for src, tgt in pairs]
    for src_key, tgt_key in keys:
        parents[root(src_key)] = root(tgt_key)
    groups = collections.defaultdict[tuple[int, str], list[int]](list)
    for number, (src_key, _) in enumerate(keys):
        groups[root(src_key)].append(number)
    # 2. Hold out whole groups, in random order.
    wanted = min(MAX_VALID, max(1, int(VALID_SHARE * len(pairs))))
    order, held_out = list(groups.values()), set[int]()
    random.Random(seed).shuffle(order)
    for group in order:
        if len(held_out) + len(group) <= wanted:
            held_out.update(group)
    train = [pair for number, pair in enumerate(pairs) if number not in held_out]
    return train, [pairs[number] for number in sorted(held_out)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("import_pairs", __doc__)
    parser.add_argument("dest", type=Path)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--dataset", help="Hub dataset in place of files")
    parser.add_argument("--config", help="configuration of the dataset")
    parser.add_argument("--languages", nargs=2, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--columns", nargs=2, default=[], metavar=("SRC", "TGT"))
    options = parser.parse_args(arguments)
    if bool(options.files) == bool(options.dataset):
        parser.error("name files or a dataset")

    def work() -> None:
        options.dest.mkdir(parents=True, exist_ok=True)
        if options.files:
            names, rows = read_table(options.dest, options.files, options.columns)
        else:
            names = options.columns or options.languages
            if not names:
                raise InputError("name the languages of the dataset, or its columns")
            corpus = CorpusConfig(dataset=options.dataset, config=options.config)
            rows = list(map(list, read_corpus(corpus, src_lang=names[0], tgt_lang=names[1])))
        import_pairs(options.dest, names, rows, options.languages)

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
