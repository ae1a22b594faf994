"""Contents of a model card that are measured: example translations and test scores."""

import dataclasses
import logging
from collections.abc import Sequence

from hubnmt.checkpoint.card import CardFacts, TestResult
from hubnmt.config import DecodingConfig
from hubnmt.text.metrics import score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.run.validation import HeldOutPairs, decode_pairs

log = logging.getLogger("training")


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


def add_test(
    facts: CardFacts,
    translator: Translator,
    pairs: HeldOutPairs,
    *,
    name: str,
    dataset: str,
    decoding: DecodingConfig,
) -> CardFacts:
    """Evaluate on one test set and add the result, named as on the card.

    `dataset` is its origin, preferably a Hub dataset name; empty means the recipe's first dataset.
    """
    texts = decode_pairs(translator, pairs, decoding, phase=f"measuring {name}")
    scores = score_corpus(texts, pairs.references, bootstrap=True)
    dataset = dataset or (facts.datasets[0] if facts.datasets else "local")
    result = TestResult(name=name, dataset=dataset, scores=scores, decoding=decoding)
    log.info(
        "%s: BLEU %.2f  chrF %.2f  (%s)", name, scores.bleu, scores.chrf, scores.bleu_signature
    )
    return dataclasses.replace(facts, results=[*facts.results, result])
