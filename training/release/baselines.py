"""Compare a model with translations that need no model."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from hubnmt.text.metrics import Scores, score_corpus
from training.data.sources import TextPair


def trivial_scores(valid: Sequence[TextPair], *, with_copies: bool = True) -> dict[str, Scores]:
    """Score trivial translations of the validation set.

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
