"""Contents of a model card that are measured: examples, test scores, and trivial translations."""

import collections
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hubnmt.checkpoint.card import CardFacts, TestResult
from hubnmt.config import DecodingConfig
from hubnmt.text.metrics import Scores, score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.config.data import CorpusConfig, DataConfig, group_files
from training.data.corpora import read_sides
from training.data.sources import TextPair
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")


class NamedTest(NamedTuple):
    """A test set of a recipe."""

    name: str
    """Name on the card."""
    dataset: str
    """Dataset name on the Hub, or empty."""
    corpus: CorpusConfig

    def read(self, data: DataConfig) -> tuple[list[str], list[str]]:
        """Return sources and references, see `read_sides`."""
        return read_sides(self.corpus, src_lang=data.src_lang, tgt_lang=data.tgt_lang)


def name_tests(data: DataConfig) -> Iterator[NamedTest]:
    """Yield the test sets of a recipe; each group of files is one test set."""
    corpus = data.held_out_corpus("test")
    if corpus is None:
        return
    if not corpus.files:
        yield NamedTest(f"{corpus.dataset} {corpus.split}", corpus.dataset or "", corpus)
    groups = group_files(corpus.files)
    for files in groups:
        path = Path(files[0])
        name = path.name.partition(".")[0]
        name = f"{path.parent.name}/{name}" if len(groups) > 1 and path.parent.name else name
        yield NamedTest(name, "", dataclasses.replace(corpus, files=files))


def add_test(
    facts: CardFacts,
    translator: Translator,
    test: NamedTest,
    sides: tuple[Sequence[str], Sequence[str]],
    *,
    decoding: DecodingConfig,
) -> CardFacts:
    """Translate the sources of a test set once, and add its scores."""
    pairs = encode_pairs(translator, *sides)
    texts = decode_pairs(translator, pairs, decoding, phase=f"measuring {test.name}")
    scores = score_corpus(texts, pairs.references, bootstrap=True)
    dataset = test.dataset or (facts.datasets[0] if facts.datasets else "local")
    result = TestResult(name=test.name, dataset=dataset, scores=scores, decoding=decoding)
    log.info(
        "%s: BLEU %.2f  chrF %.2f  (%s)", test.name, scores.bleu, scores.chrf, scores.bleu_signature
    )
    return dataclasses.replace(facts, results=[*facts.results, result])


def pick_samples(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str], *, n: int = 5
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Pick good and bad examples by sentence chrF, without the trivial best ones.

    Returns:
        `n` from the 90th percentile on, and `n` from the 5th.
    """
    rows = list(zip(sources, references, translations, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    return rows[high : high + n], rows[low : low + n]


def add_examples(
    facts: CardFacts, translator: Translator, pairs: HeldOutPairs, *, decoding: DecodingConfig
) -> CardFacts:
    """Add example translations of the validation set and the mean number of tokens per word."""
    texts = decode_pairs(translator, pairs, decoding)
    good, bad = pick_samples(pairs.sources, pairs.references, texts)
    languages = (translator.config.src_lang, translator.config.tgt_lang)
    sides = zip(languages, pairs[:2], zip(*pairs.ids, strict=True), strict=True)
    pieces = {
        language: sum(map(len, ids)) / max(1, sum(len(text.split()) for text in texts))
        for language, texts, ids in sides
    }
    return dataclasses.replace(facts, good=good, bad=bad, pieces_per_word=pieces)


def trivial_scores(valid: Sequence[TextPair], *, with_copies: bool = True) -> dict[str, Scores]:
    """Score trivial translations of the validation set, by name.

    Args:
        valid: source and reference.
        with_copies: whether to include copying the source, which may be the task itself.
    """
    sources, references = ([pair[side] for pair in valid] for side in (0, 1))
    ((commonest, _),) = collections.Counter(references).most_common(1)
    trivial = {f"{commonest!r} each time": [commonest] * len(references)}
    if with_copies:
        trivial["copying the source"] = sources
    return {name: score_corpus(texts, references) for name, texts in trivial.items()}


def explain_failure(record: Mapping[str, Any], trivial: Mapping[str, Scores]) -> str:
    """Return which trivial translation the model does not surpass; empty if there is none.

    Args:
        record: `bleu` and `chrf` of the model on the validation set.
        trivial: name to scores, from `trivial_scores`.
    """
    for name, scores in trivial.items():
        if record["bleu"] <= scores.bleu or record["chrf"] <= scores.chrf:
            return (
                f"This model has learned nothing yet: on the validation set it has BLEU "
                f"{record['bleu']:.2f} and chrF {record['chrf']:.2f}, and {name} gives BLEU "
                f"{scores.bleu:.2f} and chrF {scores.chrf:.2f}."
            )
    return ""
