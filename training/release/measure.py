"""Contents of a model card that are measured: examples, test scores, and trivial translations."""

import collections
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from hubnmt.checkpoint.card import CardFacts, TestResult
from hubnmt.config import DecodingConfig
from hubnmt.text.metrics import score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.data.sources import TextPair
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")

N_SAMPLES = 5


def add_test(
    facts: CardFacts,
    translator: Translator,
    sides: tuple[Sequence[str], Sequence[str]],
    *,
    name: str,
    dataset: str | None,
    decoding: DecodingConfig,
) -> CardFacts:
    """Translate the sources of a test set once, and add its scores."""
    pairs = encode_pairs(translator, *sides)
    texts = decode_pairs(translator, pairs, decoding, phase=f"measuring {name}")
    scores = score_corpus(texts, pairs.references, bootstrap=True)
    dataset = dataset or next(iter(facts.datasets), "local")
    result = TestResult(name=name, dataset=dataset, scores=scores, decoding=decoding)
    log.info(
        "%s: BLEU %.2f  chrF %.2f  (%s)", name, scores.bleu, scores.chrf, scores.bleu_signature
    )
    return dataclasses.replace(facts, results=[*facts.results, result])


def add_examples(
    facts: CardFacts, translator: Translator, pairs: HeldOutPairs, *, decoding: DecodingConfig
) -> CardFacts:
    """Add translations of the validation set, good and bad, and the mean tokens per word.

    Good ones are those from the 90th percentile of sentence chrF on, because the very best are
    trivial; bad ones are those from the 5th on.
    """
    texts = decode_pairs(translator, pairs, decoding)
    rows = list(zip(pairs.sources, pairs.references, texts, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    languages = (translator.config.src_lang, translator.config.tgt_lang)
    sides = zip(languages, pairs[:2], zip(*pairs.ids, strict=True), strict=True)
    pieces = {
        language: sum(map(len, ids)) / max(1, sum(len(text.split()) for text in texts))
        for language, texts, ids in sides
    }
    good, bad = rows[high : high + N_SAMPLES], rows[low : low + N_SAMPLES]
    return dataclasses.replace(facts, good=good, bad=bad, pieces_per_word=pieces)


def explain_failure(
    record: Mapping[str, Any], valid: Sequence[TextPair], *, with_copies: bool
) -> str:
    """Return which trivial translation the model does not surpass; empty if there is none.

    `record` has its `bleu` and `chrf`. Copies count if `with_copies`: they may be the task itself.
    """
    sources, references = ([pair[side] for pair in valid] for side in (0, 1))
    ((commonest, _),) = collections.Counter(references).most_common(1)
    trivial = {f"{commonest!r} each time": [commonest] * len(references)}
    if with_copies:
        trivial["copying the source"] = sources
    for name, texts in trivial.items():
        scores = score_corpus(texts, references)
        if record["bleu"] <= scores.bleu or record["chrf"] <= scores.chrf:
            return (
                f"This model has learned nothing yet: on the validation set it has BLEU "
                f"{record['bleu']:.2f} and chrF {record['chrf']:.2f}, and {name} gives BLEU "
                f"{scores.bleu:.2f} and chrF {scores.chrf:.2f}."
            )
    return ""
