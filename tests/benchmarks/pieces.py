"""Word pattern and vocabulary size: what they make of a text, and of a little training.

    python tests/benchmarks/pieces.py RECIPE --valid SRC,REF --folder DIR
        [--sizes 503 2000 8000 16000] [--steps 1000] [--set SECTION.KEY=VALUE ...]

Learns each vocabulary on the recipe's training texts, once with our word pattern and once with
GPT-2's, and counts on the validation texts, for both languages: pieces per word between spaces,
words that are a single piece, and pieces that end inside a character. With `--steps` it also trains
that many steps of the recipe from the same seed with each, and scores greedy translations. A step
has the same number of tokens for all, so smaller pieces see less text in it. Asserts nothing.
"""

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import tokenizers
from tokenizers import pre_tokenizers
from tqdm import tqdm

import hubnmt.text.tokenizer
from hubnmt import Translator
from hubnmt.text.metrics import score_corpus
from hubnmt.text.textfile import read_aligned
from hubnmt.text.tokenizer import WORD_PATTERN, Tokenizer
from training.config.recipe import load_recipe
from training.data.prepare import prepare_corpus
from training.train import run, set_up_log

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""https://github.com/openai/gpt-2/blob/master/src/encoder.py"""
PATTERNS = {"ours": WORD_PATTERN, "GPT-2": GPT2_PATTERN}
MAX_NEW_TOKENS = 300
"""The default cap follows the source's length, which would cut the side with the smaller pieces."""


@contextlib.contextmanager
def words_cut_by(pattern: str) -> Iterator[None]:
    """Put another word pattern into every tokenizer made or loaded meanwhile."""
    splitter = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated")
    with mock.patch.object(hubnmt.text.tokenizer, "_SPLITTER", splitter):
        yield


def count_pieces(tokenizer: Tokenizer, lines: Sequence[str]) -> str:
    """Three cells: pieces per word, share of words in one piece, of pieces torn in a character."""
    words = [word for line in lines for word in line.split()]
    pieces = [tokenizer.encode(word) for word in words]
    n_pieces = sum(map(len, pieces))
    n_whole = sum(len(each) == 1 for each in pieces)
    n_torn = sum(_is_torn(tokenizer.piece_bytes(i)) for each in pieces for i in each)
    return f"{n_pieces / len(words):.2f} | {n_whole / len(words):.1%} | {n_torn / n_pieces:.1%}"


def _is_torn(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False


def train_and_score(recipe: Path, overrides: list[str], valid: list[list[str]]) -> str:
    """Four cells: minutes of training, BLEU, chrF and chrF++ of greedy translations."""
    started = time.perf_counter()
    folder = run(recipe, overrides=overrides, resume=None).folder
    minutes = (time.perf_counter() - started) / 60
    translator = Translator.from_pretrained(folder / "last")
    options = {"beam_size": 1, "max_new_tokens": MAX_NEW_TOKENS}
    outputs = translator.translate(valid[0], guard=False, split=False, **options)
    scores = score_corpus([each.text for each in outputs], valid[1])
    return f"{minutes:.1f} | {scores.bleu:.2f} | {scores.chrf:.2f} | {scores.chrf_plus_plus:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--valid", required=True, metavar="SRC,REF")
    parser.add_argument("--folder", type=Path, required=True, help="for runs and prepared texts")
    parser.add_argument("--sizes", nargs="+", type=int, default=[503, 2000, 8000, 16000])
    parser.add_argument("--patterns", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    set_up_log(is_leader=False)
    valid = read_aligned(*map(Path, options.valid.split(",")))
    rows = []
    choices = [(name, size) for size in options.sizes for name in options.patterns]
    for name, size in tqdm(choices, unit="vocabulary"):
        overrides = [
            *options.set,
            f"data.valid={options.valid}",
            f"tokenizer.vocab_size={size}",
            f"run.folder={options.folder / name}",
            f"run.name={size}",
        ]
        if options.steps:
            overrides += [f"run.max_steps={options.steps}", f"run.eval_every={options.steps}"]
        with words_cut_by(PATTERNS[name]):
            corpus = prepare_corpus(load_recipe(options.recipe, overrides), None)
            both = zip((corpus.tokenizers.src, corpus.tokenizers.tgt), valid, strict=True)
            cells = [count_pieces(tokenizer, lines) for tokenizer, lines in both]
            if options.steps:
                cells.append(train_and_score(options.recipe, overrides, valid))
        rows.append(f"| {size} | {name} | {' | '.join(cells)} |")
        tqdm.write(rows[-1])
    counted = ["pieces a word", "one piece", "torn"]
    titles = ["size", "pattern", *(f"{side} {each}" for side in ("src", "tgt") for each in counted)]
    titles += ["minutes", "BLEU", "chrF", "chrF++"] if options.steps else []
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", *rows, sep="\n")


if __name__ == "__main__":
    main()
