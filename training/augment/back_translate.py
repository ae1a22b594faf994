"""Back-translation: synthetic pairs from monolingual text of the target language.

    python -m training.augment.back_translate --model REVERSE --input captions.en --output FOLDER

The reverse model translates from target to source (en to de, to train de to en). The output,
`FOLDER/pairs.tsv`, has a column for each language; add it to a recipe as another corpus:

    [data.corpora.back]
    files = ["FOLDER/pairs.tsv"]
    weight = 0.5
    tag = "<bt>"

The tag is plain text, set in the recipe, so that cleaning sees the text alone and tags and weights
can be changed without translating again. A stopped run continues when it is started again.

Sources: Sennrich et al. 2016 (https://arxiv.org/abs/1511.06709); Edunov et al. 2018 on sampling
instead of beam search (https://arxiv.org/abs/1808.09381); Caswell et al. 2019 on tags
(https://arxiv.org/abs/1906.06442).
"""

import hashlib
import itertools
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hubnmt.checkpoint.files import read_json, write_json
from hubnmt.errors import ConfigError, InputError
from hubnmt.inference.dtypes import AUTO, DTYPES
from hubnmt.text.textfile import append_lines, can_be_read_twice, count_lines, read_lines
from hubnmt.translator import Translator
from training.command import make_parser, run_command

log = logging.getLogger("training")

CHUNK_LINES = 512
"""Lines translated and written together; at most this many are lost when the run is stopped."""
PAIRS_FILE = "pairs.tsv"
SETTINGS_FILE = "back_translate.json"


def back_translate(
    translator: Translator,
    source: Path,
    folder: Path,
    *,
    model: str,
    settings: dict[str, Any],
    batch_tokens: int,
    limit: int | None = None,
) -> Path:
    """Translate a file and write the pairs, or continue an earlier call; return the file of pairs.

    Args:
        translator: the reverse model.
        source: text in the target language of the new model, one sentence per line.
        folder: output folder for the pairs and the settings they were made with.
        model: the name of the reverse model, for the record.
        settings: decoding options that override the model's.
        batch_tokens: source tokens times hypotheses per batch.
        limit: number of lines to translate; None for all.

    Raises:
        InputError: if the input is a pipe, or the folder holds pairs made with other settings.
    """
    translator.translate([], max_batch_tokens=batch_tokens, **settings)  # validates the options
    if not can_be_read_twice(source):
        raise InputError(f"{source}: a pipe, which can be read only once; save it as a file first")
    n_lines = min(count_lines(source), limit or sys.maxsize)
    folder.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    _claim(folder, {"model": model, "input": digest, "options": settings, "limit": limit})
    path = folder / PAIRS_FILE
    file, n_written = append_lines(path)
    with file:
        if not n_written:
            file.write(f"{translator.config.tgt_lang}\t{translator.config.src_lang}\n".encode())
        n_done = max(0, n_written - 1)
        lines = itertools.islice(read_lines(source), n_done, n_lines)
        with tqdm(total=n_lines, initial=n_done, unit="line", file=sys.stderr) as bar:
            while chunk := list(itertools.islice(lines, CHUNK_LINES)):
                file.write(_translate(translator, chunk, int(bar.n), settings, batch_tokens))
                file.flush()
                bar.update(len(chunk))
    return path


def _claim(folder: Path, facts: dict[str, Any]) -> None:
    """Store the settings that the pairs are made with, or compare them with the stored ones."""
    path = folder / SETTINGS_FILE
    if not (folder / PAIRS_FILE).exists():
        write_json(path, facts)
    known = read_json(path)
    differences = [
        f"{key} was {known.get(key)!r}, is {value!r}"
        for key, value in facts.items()
        if known.get(key) != value
    ]
    if differences:
        raise InputError(
            f"{folder} holds pairs made with other settings: {'; '.join(differences)}; "
            "choose another --output"
        )


def _translate(
    translator: Translator,
    chunk: list[str],
    start: int,
    settings: dict[str, Any],
    batch_tokens: int,
) -> bytes:
    """Translate a chunk into lines of the table; when sampling, each has its own seed."""
    options = dict(settings)
    if options.get("sample"):
        options["seed"] = options.get("seed", 0) + start
    found = translator.translate(chunk, max_batch_tokens=batch_tokens, guard=False, **options)
    pairs = zip((translation.text for translation in found), chunk, strict=True)
    rows = ("\t".join(" ".join(text.split()) for text in pair) for pair in pairs)
    return "".join(f"{row}\n" for row in rows).encode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.back_translate", __doc__)
    parser.add_argument("--model", required=True, help="the reverse model: bundled name or folder")
    parser.add_argument(
        "--input", required=True, type=Path, metavar="FILE", help="text file, one sentence per line"
    )
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--limit", type=int, metavar="N", help="translate only the first N lines")
    parser.add_argument("--beam-size", type=int, metavar="N", help="1 is greedy search")
    parser.add_argument(
        "--sample", action="store_true", default=None, help="sample instead of searching"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="sampling temperature")
    parser.add_argument("--top-k", type=int, metavar="K", help="sample from the best K tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="... from those of probability P")
    parser.add_argument("--seed", type=int, metavar="N", help="sampling seed")
    parser.add_argument("--batch-tokens", type=int, default=8192, metavar="N")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument("--dtype", default="float32", choices=sorted({*DTYPES, AUTO}))
    options = parser.parse_args(arguments)

    def work() -> None:
        if options.limit is not None and options.limit < 1:
            raise ConfigError(f"--limit {options.limit} must be at least 1")
        names = ("beam_size", "sample", "temperature", "top_k", "top_p", "seed")
        given = {name: getattr(options, name) for name in names}
        path = back_translate(
            Translator.from_pretrained(options.model, device=options.device, dtype=options.dtype),
            options.input,
            options.output,
            model=options.model,
            settings={name: value for name, value in given.items() if value is not None},
            batch_tokens=options.batch_tokens,
            limit=options.limit,
        )
        log.info("%s: see the recipe in --help", path)

    return run_command(work, interrupted="run the same command again to continue")


if __name__ == "__main__":
    sys.exit(main())
