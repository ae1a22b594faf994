"""BLEU and chrF with their sacreBLEU signatures.

Sources: Post 2018, https://aclanthology.org/W18-6319/; Popović 2015,
https://aclanthology.org/W15-3049/
"""

import dataclasses
from collections.abc import Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from hubnmt.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Corpus scores, 0 to 100."""

    n: int
    """Sentences scored."""
    bleu: float
    bleu_signature: str
    chrf: float
    """chrF2: character n-grams only."""
    chrf_signature: str
    chrf_plus_plus: float
    """chrF++: characters and word pairs."""
    chrf_plus_plus_signature: str = ""
    bleu_interval: float | None = None
    """Half the width of the 95 % bootstrap confidence interval, if requested."""


def score_corpus(
    hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: bool = False
) -> Scores:
    """Score raw, cased, detokenised text with sacreBLEU's 13a tokenisation.

    Args:
        hypotheses: one translation per reference.
        references: one reference per hypothesis.
        bootstrap: also compute a confidence interval from 1,000 resamples (takes seconds).

    Raises:
        InputError: if the two differ in length or are empty.
    """
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"{len(hypotheses)} translations for {len(references)} references; "
            "the two need the same number of lines, at least one"
        )
    bleu, interval = _score(BLEU(), hypotheses, references, bootstrap=bootstrap)
    chrf, _ = _score(CHRF(), hypotheses, references)
    plus, _ = _score(CHRF(word_order=2), hypotheses, references)
    return Scores(
        n=len(references),
        bleu=bleu[0],
        bleu_signature=bleu[1],
        chrf=chrf[0],
        chrf_signature=chrf[1],
        chrf_plus_plus=plus[0],
        chrf_plus_plus_signature=plus[1],
        bleu_interval=interval,
    )


def _score(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: bool = False
) -> tuple[tuple[float, str], float | None]:
    result = metric.corpus_score(
        list(hypotheses), [list(references)], n_bootstrap=1000 if bootstrap else 1
    )
    interval = getattr(result, "_ci", None) if bootstrap else None
    return (result.score, str(metric.get_signature())), interval


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Return the sentence-level chrF2, 0 to 100, for ranking examples rather than reporting."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)
