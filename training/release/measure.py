"""Contents of a model card that are measured: examples, test scores, and trivial translations."""

import collections
import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hubnmt.checkpoint.card import CardFacts, TestResult
from hubnmt.text.metrics import score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.data.corpora import NamedSet
from training.data.sources import TextPair
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")

N_SAMPLES = 5


def add_measured(
    facts: CardFacts,
    translator: Translator,
    pairs: HeldOutPairs,
    texts: Sequence[str],
    tests: Iterable[NamedSet],
) -> CardFacts:
    """Add examples of the validation set, the mean tokens per word, and scores of the test sets.

    `texts` are the translations of the validation pairs. Good examples are those from the 90th
    percentile of sentence chrF on, because the very best are trivial; bad ones those from the 5th.
    Each test set is translated once, with the decoding settings of the model.
    """
    # 1. Examples.
    rows = list(zip(pairs.sources, pairs.references, texts, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    # 2. Tokens per word.
    languages = (translator.config.src_lang, translator.config.tgt_lang)
    sides = zip(languages, pairs[:2], zip(*pairs.ids, strict=True), strict=True)
    pieces = {
        language: sum(map(len, ids)) / max(1, sum(len(text.split()) for text in texts))
        for language, texts, ids in sides
    }
    # 3. Scores.
    results = []
    for test in tests:
        held_out = encode_pairs(translator, test.sources, test.references)
        phase = f"measuring {test.name}"
        found = decode_pairs(translator, held_out, translator.decoding, phase=phase)
        scores = score_corpus(found, held_out.references, bootstrap=True)
        log.info(
            "%s: BLEU %.2f  chrF %.2f  (%s)",
            *(test.name, scores.bleu, scores.chrf, scores.bleu_signature),
        )
        dataset = test.dataset or next(iter(facts.datasets), "local")
        results.append(
            TestResult(name=test.name, dataset=dataset, scores=scores, decoding=translator.decoding)
        )
    return dataclasses.replace(
        facts,
        good=rows[high : high + N_SAMPLES],
        bad=rows[low : low + N_SAMPLES],
        pieces_per_word=pieces,
        results=results,
    )


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
