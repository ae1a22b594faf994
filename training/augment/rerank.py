"""Translate sentences, and keep the translations that a model of the opposite direction confirms.

    python -m training.augment.rerank TEXT.txt --model MODEL --back MODEL --output FOLDER/new.tsv

Of the n best translations of each line the one with the highest sum of its score and `--weight`
times the mean log-probability of the line given the translation is chosen, and written if this mean
is at least `--least`. Add the table to a recipe as another corpus, for either direction.

Source: noisy channel reranking (Yee et al. 2019, https://arxiv.org/abs/1908.05731), here for data
in place of decoding.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hubnmt import Translator
from hubnmt.errors import InputError
from training.augment.tables import check_output, write_table
from training.command import make_parser, progress_bar, run_command
from training.data.sources import TextPair, read_lines

N_TOGETHER = 256
"""Lines translated at once."""


def rerank(
    lines: Sequence[str],
    translator: Translator,
    back: Translator,
    *,
    n_best: int = 6,
    weight: float = 0.15,
    least: float = -1.25,
) -> Iterator[TextPair]:
    """Yield lines with their best translations, without those below `least` nats per token."""
    found = translator.translate(lines, guard=False, split=False, beam_size=n_best, n_best=n_best)
    candidates = [[each for each in one.n_best if each.text.strip()] for one in found]
    texts = [each.text for row in candidates for each in row]
    sources = [line for line, row in zip(lines, candidates, strict=True) for _ in row]
    scored = iter(back.score(texts, sources, split=False))
    for line, row in zip(lines, candidates, strict=True):
        ranked = []
        for candidate in row:
            log_probs = next(scored).tgt_log_probs
            mean = sum(log_probs) / len(log_probs)
            ranked.append((candidate.score + weight * mean, mean, candidate.text))
        if ranked and max(ranked)[1] >= least:
            yield line, max(ranked)[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("augment.rerank", __doc__)
    parser.add_argument("sentences", type=Path, metavar="TEXT.txt", help="one sentence a line")
    parser.add_argument("--model", required=True, help="translates the sentences")
    parser.add_argument("--back", required=True, help="of the opposite direction")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.tsv")
    parser.add_argument("--n-best", type=int, default=6, help="translations compared (6)")
    parser.add_argument("--weight", type=float, default=0.15, help="of the way back (0.15)")
    parser.add_argument("--least", type=float, default=-1.25, help="nats per token (-1.25)")
    parser.add_argument("--engine", default="torch", help="torch or ctranslate2, of the search")
    options = parser.parse_args(arguments)

    def work() -> None:
        check_output(options.output)
        lines = [line for line in read_lines(options.sentences) if line.strip()]
        translator = Translator.from_pretrained(options.model, engine=options.engine)
        back = Translator.from_pretrained(options.back)
        languages = (translator.config.src_lang, translator.config.tgt_lang)
        if languages != (back.config.tgt_lang, back.config.src_lang):
            raise InputError(f"--back {options.back} is not of the opposite direction")
        rows = [languages]
        with progress_bar("translating", total=len(lines), unit=" lines") as bar:
            for start in range(0, len(lines), N_TOGETHER):
                chunk = lines[start : start + N_TOGETHER]
                rows += rerank(
                    chunk,
                    translator,
                    back,
                    n_best=options.n_best,
                    weight=options.weight,
                    least=options.least,
                )
                bar.update(len(chunk))
        write_table(options.output, rows)

    return run_command(work)


if __name__ == "__main__":
    sys.exit(main())
