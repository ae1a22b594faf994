"""BLEU and chrF with their sacreBLEU signatures.

Sources: Post 2018, https://aclanthology.org/W18-6319/; Popović 2015,
https://aclanthology.org/W15-3049/
"""

import dataclasses
from collections.abc import Sequence

from sacrebleu.metrics import BLEU, CHRF

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

    With `bootstrap` also compute a confidence interval from 1,000 resamples, which takes seconds.

    Raises:
        InputError: if the two differ in length or are empty.
    """
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"{len(hypotheses)} translations for {len(references)} references; "
            "the two need the same number of lines, at least one"
        )
    texts = list(hypotheses), [list(references)]
    bleu, chrf, plus = BLEU(), CHRF(), CHRF(word_order=2)
    result = bleu.corpus_score(*texts, n_bootstrap=1000 if bootstrap else 1)
    return Scores(
        n=len(references),
        bleu=result.score,
        chrf=chrf.corpus_score(*texts).score,
        chrf_plus_plus=plus.corpus_score(*texts).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        chrf_plus_plus_signature=str(plus.get_signature()),
        bleu_interval=getattr(result, "_ci", None) if bootstrap else None,
    )


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Return the sentence-level chrF2, 0 to 100, for ranking examples rather than reporting."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)
